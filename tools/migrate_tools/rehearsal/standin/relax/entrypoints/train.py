"""Stand-in for relax/entrypoints/train.py: a rehearsal on the CPU, no training."""

import sys

from migrate_tools.rehearsal.runtime.train import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
