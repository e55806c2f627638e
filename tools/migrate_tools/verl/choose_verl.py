"""Chooses the verl source of a recipe, and changes to a nearer release when its settings do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from migrate_tools.errors import MachineError
from migrate_tools.model import VerlRef
from migrate_tools.verl.source import installed, is_verl_tree, tree, wheel
from migrate_tools.verl.versions import Hint, neighbours, pin_of, style_of

MAX_TRIES = 4


@dataclass(frozen=True)
class Choice:
    """The source to read against; `hint` is set when another release may be tried."""

    verl: VerlRef
    hint: Hint | None = None


def enclosing_tree(recipe: Path, project: Path) -> Path | None:
    """A verl source tree around the recipe or brought along in its checkout."""
    folder = recipe
    while True:
        if is_verl_tree(folder):
            return folder
        if folder == project or folder.parent == folder:
            break
        folder = folder.parent
    for base in dict.fromkeys((recipe, project)):
        for name in ("verl", "third_party/verl", "src", "libs/verl", "external/verl", "submodules/verl"):
            if is_verl_tree(base / name):
                return base / name
    return None


def find_verl(
    recipe: Path,
    project: Path,
    keys: Iterable[str],
    *,
    verl_root: Path | None = None,
    verl_version: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Choice:
    """The verl source: as told, the enclosing checkout, a pin, the style of the keys, or the installed package.

    Raises:
        MachineError: the release that is needed is neither cached nor downloadable, and no verl is installed.
        UsageError: `verl_root` is no verl tree, or `verl_version` no version.
    """
    if verl_root is not None:
        return Choice(tree(verl_root, f"given with --verl-root {verl_root}"))
    if verl_version is not None:
        return Choice(wheel(verl_version, f"release {verl_version}, given with --verl-version", progress))
    own = enclosing_tree(recipe, project)
    if own is not None:
        return Choice(tree(own, "the verl source tree that the recipe belongs to"))
    folders = [recipe, *(parent for parent in recipe.parents if parent.is_relative_to(project))]
    hint = pin_of(folders, project) or style_of(keys)
    try:
        return Choice(wheel(hint.version, describe(hint), progress), hint)
    except MachineError:
        found = installed()
        if found is None:
            raise
        how = f"the installed package verl; release {hint.version} ({hint.reason}) could not be downloaded"
        return Choice(found.model_copy(update={"how": how}))


def describe(hint: Hint) -> str:
    """How a version was found, in one sentence."""
    return f"release {hint.version}: {hint.reason}"


def best_fit(
    choice: Choice, misfits: Callable[[VerlRef], Sequence[str]], progress: Callable[[str], None] = lambda text: None
) -> VerlRef:
    """The release that fits the settings best: the hinted one unless a near one takes more of them.

    `misfits` gives the settings that a version's schema refuses.
    """
    if choice.hint is None:
        return choice.verl
    first = list(misfits(choice.verl))
    best, fewest = choice.verl, len(first)
    for version in neighbours(choice.hint.version)[:MAX_TRIES]:
        if fewest == 0:
            break
        try:
            other = wheel(version, progress=progress)
        except MachineError:
            continue
        count = len(misfits(other))
        if count < fewest:
            how = f"{describe(choice.hint)}; but {first[0]}, so release {version}, which fits better, is used"
            best, fewest = other.model_copy(update={"how": how}), count
    return best
