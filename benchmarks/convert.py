"""Speed and peak memory of the converter, of a row-by-row pandas script, and of bare reading and writing.

    python benchmarks/convert_data.py FOLDER
    python benchmarks/convert.py FOLDER/text.parquet ... [--repeat 3] [--only ours,bare,template] [--out TABLE.md]

Every measurement is a process of its own; its time includes starting Python and importing. `bare` reads the file batch
by batch and writes the same columns with the same codec and row groups: the floor for a program that does one after the
other. `template` goes row by row through a data frame, as conversion scripts are often written.
The least time of the repeats counts, because other work on the machine only adds to it; the load is printed.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

OURS = """
import sys
from pathlib import Path
from migrate_tools.data.convert import ConvertPlan, convert
convert(ConvertPlan(), Path(sys.argv[1]), Path(sys.argv[2]))
"""
BARE = """
import sys
import pyarrow.parquet as pq
file = pq.ParquetFile(sys.argv[1], buffer_size=1 << 20, pre_buffer=False)
rows = file.metadata.num_rows
size = max(1, min(16384, (32 << 20) * rows // sum(file.metadata.row_group(i).total_byte_size
                                                  for i in range(file.metadata.num_row_groups))))
codec = {path: "none" if path.endswith("bytes") else "snappy"
         for path in (file.metadata.schema.column(i).path for i in range(file.metadata.num_columns))}
few = [path for path in codec if not path.endswith("bytes")]
with pq.ParquetWriter(sys.argv[2], file.schema_arrow, compression=codec, use_dictionary=few) as writer:
    for batch in file.iter_batches(size):
        writer.write_batch(batch)
"""
TEMPLATE = """
import sys
import pandas as pd
frame = pd.read_parquet(sys.argv[1])
converted = []
for _, row in frame.iterrows():
    new = {"prompt": row["prompt"], "label": row["reward_model"]["ground_truth"]}
    for name in ("images", "extra_info"):
        if name in row:
            new[name] = row[name]
    converted.append(new)
pd.DataFrame(converted).to_parquet(sys.argv[2], index=False)
"""
CONTESTANTS = {"ours": OURS, "bare": BARE, "template": TEMPLATE}


@dataclass(frozen=True)
class Measure:
    """The best of several runs of one contestant on one file."""

    seconds: float
    cpu: float
    peak_mib: float
    code: int


def main() -> None:
    """Measure every contestant on every file and print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="ours,bare,template")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = options.only.split(",")
    lines = [
        "| file | rows | MB | what | s | CPU s | rows/s | MB/s | peak MiB | of bare |",
        "|" + " --- |" * 10,
    ]
    for path in options.files:
        found = best_of(path, names, options.repeat)
        rows, size = pq.read_metadata(path).num_rows, path.stat().st_size / 1e6
        for name, item in found.items():
            ratio = f"{item.seconds / found['bare'].seconds:.2f}" if "bare" in found else ""
            ended = "" if item.code == 0 else f" (ended with {item.code})"
            lines.append(
                f"| {path.stem} | {rows:,} | {size:,.0f} | {name}{ended} | {item.seconds:.1f} | {item.cpu:.1f} | "
                f"{rows / item.seconds:,.0f} | {size / item.seconds:,.0f} | {item.peak_mib:,.0f} | {ratio} |"
            )
    lines += ["", f"{os.cpu_count()} cores, load {', '.join(f'{item:.1f}' for item in os.getloadavg())} at the end."]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def best_of(path: Path, names: list[str], repeat: int) -> dict[str, Measure]:
    """Contestants take turns, so that a busy minute hits all of them."""
    found: dict[str, Measure] = {}
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass  # the file is in the page cache for everybody
    for _ in range(repeat):
        for name in names:
            item = measure(CONTESTANTS[name], path)
            if name not in found or item.seconds < found[name].seconds:
                found[name] = item
    return found


def measure(code: str, path: Path) -> Measure:
    """Run one script on one file."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.monotonic()
        command = [sys.executable, "-c", PEAK.format(code=code), str(path), str(Path(folder) / "out.parquet")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
    peak = float(done.stdout.strip() or 0) if done.returncode == 0 else 0.0
    return Measure(seconds, cpu, peak, done.returncode)


PEAK = """{code}
from pathlib import Path
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) / 1024)
"""


if __name__ == "__main__":
    main()
