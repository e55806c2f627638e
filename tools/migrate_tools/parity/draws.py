"""Lets hypothesis draw the same values in every process, and leaves no files of it in the user's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from migrate_tools.verl.source import cache_root


@contextmanager
def reproducible() -> Iterator[None]:
    """Draws inside depend on the strategy and its settings alone.

    hypothesis mixes in constants of modules that are loaded from outside site-packages: the draws would depend
    on how this program is installed and on what the process has imported so far. Its older releases have
    nothing to leave out. Its tables of Unicode go to our cache, unless HYPOTHESIS_STORAGE_DIRECTORY names
    a place.
    """
    from hypothesis import configuration

    module: Any = None
    with suppress(ImportError):
        module = import_module("hypothesis.internal.conjecture.providers")
    collect = getattr(module, "_get_local_constants", None)
    home = vars(configuration).get("__hypothesis_home_directory")
    if collect is not None:
        none = module.Constants()
        module._get_local_constants = lambda: none
        module.CONSTANTS_CACHE.cache.clear()
    if "HYPOTHESIS_STORAGE_DIRECTORY" not in os.environ:
        configuration.set_hypothesis_home_dir(cache_root() / "hypothesis")
    try:
        yield
    finally:
        configuration.set_hypothesis_home_dir(home)
        if collect is not None:
            module._get_local_constants = collect
            module.CONSTANTS_CACHE.cache.clear()
