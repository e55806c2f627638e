"""Stand-in for relax.utils.logging_utils."""

import logging


def get_logger(name: str) -> logging.Logger:
    """A logger of the standard library."""
    return logging.getLogger(name)
