"""Takes a reward function out of a recipe with exactly what it needs, as one module that imports nothing from verl."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from migrate_tools.model import Conserved, DataSpec, Frozen, Note, RewardSpec, SourceRef, VerlRef
from migrate_tools.verl.conserve import conserve
from migrate_tools.verl.extract_graph import Definition, Graph, GraphBuilder, NotExtractable
from migrate_tools.verl.extract_rewrite import Flattener, Names
from migrate_tools.verl.module_finder import Memo, ModuleFinder
from migrate_tools.verl.prune import DROPPED, Known
from migrate_tools.verl.signature import is_selector, returns_awaitable
from migrate_tools.verl.specialise import specialise
from migrate_tools.verl.traits import GPU_PACKAGES, file_writes, find_traits, third_party_imports

__all__ = ["Extracted", "NotExtractable", "extract_function", "extract_reward"]


class Extracted(Frozen):
    """A reward as one self-contained module."""

    code: str
    """Module text: imports from the standard library and `third_party` only."""
    entry: str
    """The function to call, with the keywords of the original."""
    is_async: bool
    header: str = ""
    """Licence comments of the copied files, each once; empty when they have none."""
    origins: tuple[SourceRef, ...] = ()
    """Where the copied definitions come from."""
    third_party: tuple[str, ...] = ()
    """Root packages outside the standard library, also those imported inside functions."""
    traits: tuple[str, ...] = ()
    """As RewardSpec.traits, of the code that was really taken."""
    dropped: tuple[Note, ...] = ()
    """Branches of a dispatch by data_source that no row of the data selects."""
    notes: tuple[Note, ...] = ()
    tools: Extracted | None = None
    """The tools of a multi-turn launch, as a module of their own."""
    conserved: tuple[Conserved, ...] = ()
    """Every branch of the original functions and every import they use, each with its state."""


_made: Memo[Extracted] = Memo()


def extract_reward(spec: RewardSpec, data: DataSpec, *, project_root: Path, verl: VerlRef) -> Extracted:
    """The reward of a launch as one module.

    Launches with the same function and the same knowledge about its arguments share the result, while no file changes.

    Raises:
        NotExtractable: there is no function to extract, or it uses something that one module cannot hold.
    """
    if spec.path is None or spec.function is None:
        raise NotExtractable(f"the reward is of kind {spec.kind!r}: there is no function to extract")
    path = locate(spec.path, project_root, verl)
    finder = ModuleFinder(project_root, Path(verl.root), (path.parent,))
    known = known_values(spec, data)
    key = (path, spec.function, spec.required, tuple(sorted(known.items())), project_root, verl.root)
    return _made.get(key, finder, lambda: _extracted(finder, path, spec, known))


def taken_traits(spec: RewardSpec, data: DataSpec, *, project_root: Path, verl: VerlRef) -> tuple[str, ...]:
    """Traits of the scorer that the data selects from a dispatch by data_source; else those of the spec."""
    if spec.kind != "builtin" or spec.traits or "data_source" not in known_values(spec, data):
        return spec.traits
    try:
        return extract_reward(spec, data, project_root=project_root, verl=verl).traits
    except NotExtractable:  # said where the reward is written
        return spec.traits


def _extracted(finder: ModuleFinder, path: Path, spec: RewardSpec, known: Known) -> Extracted:
    entry = spec.function or ""
    if is_selector(finder.load(path).code, entry):
        entry = add_selector_entry(finder, path, spec)
    return extract_function(finder, path, entry, pruned=specialise(finder, path, entry, known))


def add_selector_entry(finder: ModuleFinder, path: Path, spec: RewardSpec) -> str:
    """Give the file of a fork's manager the function that the manager is: select a scorer, then call it."""
    module = finder.load(path)
    passed = [name for name in spec.required if name not in ("data_source", "extra_info")]
    arguments = ", ".join(f"{name}={name}" for name in passed or ("solution_str", "ground_truth"))
    body = (
        "\n\ndef compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        f"    return {spec.function}(data_source)({arguments})\n"
    )
    finder.edit(path, module.code.rstrip("\n") + body)
    return "compute_score"


def known_values(spec: RewardSpec, data: DataSpec) -> dict[str, tuple[object, ...]]:
    """What is known about the arguments of the entry: its possible data_source values, and unset sandbox settings."""
    known: dict[str, tuple[object, ...]] = {}
    files = [item.text for item in (*data.train, *data.val)]
    covered = {source.file for source in data.sources}
    sure = data.known_from in ("files", "prep_script", "known_dataset")
    if sure and data.sources and all(text in covered for text in files):
        known["data_source"] = tuple(sorted({source.name for source in data.sources}))
    if spec.kind == "builtin" and "sandbox_fusion_url" not in spec.kwargs:
        known["sandbox_fusion_url"] = (None,)
    return known


def locate(path: str, project_root: Path, verl: VerlRef) -> Path:
    """The file that RewardSpec.path names.

    Raises:
        NotExtractable: it is not there.
    """
    candidates = [project_root / path]
    if path.startswith("verl/"):
        candidates.insert(0, Path(verl.root) / path)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise NotExtractable(f"{path}: the reward file is missing", "restore the file or correct the path in the script")


def extract_function(finder: ModuleFinder, path: Path, function: str, *, pruned: Iterable[Note] = ()) -> Extracted:
    """One function of a file with all that it needs; `pruned` are the notes of a specialisation before it.

    Raises:
        NotExtractable: the function is not there, or uses something that one module cannot hold.
    """
    builder = GraphBuilder(finder)
    graph, root = builder.build(path, function)
    names = Names(finder, graph, root)
    flattener = Flattener(builder, names, root[0])
    bodies = [flattener.module_code(item).strip("\n") for item in graph.order]
    imports = "\n".join(flattener.import_lines())
    code = "\n\n\n".join(part for part in (imports, *bodies) if part) + "\n"
    pruned = tuple(pruned)
    compile(code, "<extracted>", "exec", dont_inherit=True)
    third_party = third_party_imports(code)
    entry = names.definitions[root]
    return Extracted(
        code=code,
        entry=entry,
        is_async=returns_awaitable(code, entry),
        header="\n#\n".join(headers(finder, graph)),
        origins=tuple(origins(finder, graph)),
        third_party=third_party,
        traits=find_traits(code),
        dropped=tuple(note for note in pruned if note.code == DROPPED),
        conserved=conserve(finder, graph, code, pruned),
        notes=tuple(notes(finder, graph, root, third_party, code)),
    )


def headers(finder: ModuleFinder, graph: Graph) -> list[str]:
    """Licence comments at the head of the copied files, each once."""
    found: list[str] = []
    for path in reversed(graph.order):
        block = licence_block(finder.load(path).code)
        if block and block not in found:
            found.append(block)
    return found


def licence_block(code: str) -> str:
    """The first comment block of a file when it is about licence or copyright, else an empty text."""
    lines: list[str] = []
    for line in code.splitlines():
        if line.startswith("#!") or (not line.strip() and not lines):
            continue
        if not line.startswith("#"):
            break
        lines.append(line.rstrip())
    block = "\n".join(lines)
    return block if re.search(r"licen[sc]e|copyright", block, re.IGNORECASE) else ""


def origins(finder: ModuleFinder, graph: Graph) -> list[SourceRef]:
    """File and line of every function and class that was taken."""
    return [
        SourceRef(file=module.shown, line=module.statements[index].line)
        for module in (finder.load(path) for path in graph.order)
        for index in sorted(graph.needed[module.path])
        if module.statements[index].is_definition
    ]


def notes(finder: ModuleFinder, graph: Graph, root: Definition, third_party: tuple[str, ...], code: str) -> list[Note]:
    """What a reviewer should know about the extracted code."""
    shown = finder.load(root[0]).shown
    found = [
        Note(
            code="reward-needs-gpu-package",
            text=f"the reward needs {package}, which Relax's reward processes may not have",
            source=SourceRef(file=shown),
        )
        for package in third_party
        if package in GPU_PACKAGES
    ]
    found += [
        Note(
            code="reward-undefined-name",
            text=f"{name} is used in {file} and defined nowhere; the original fails there too",
            source=SourceRef(file=file),
        )
        for file, name in sorted(graph.unresolved)
    ]
    if calls := file_writes(code):
        found.append(
            Note(
                code="reward-writes-files",
                text=f"the reward makes files or folders of its own ({', '.join(calls)}); in Relax every process that "
                "rewards does so, on the machine it runs on",
                source=SourceRef(file=shown),
            )
        )
    if re.search(r"\b__file__\b", code):
        found.append(
            Note(
                code="reward-file-relative",
                text="the reward finds files relative to its own place; copy them next to the generated module",
                source=SourceRef(file=shown),
            )
        )
    return found
