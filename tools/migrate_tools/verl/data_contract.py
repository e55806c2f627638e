"""Data whose files are not at hand: preparation scripts, well-known data sets and the reward say what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from migrate_tools.errors import MigrateError
from migrate_tools.model import DataSpec, Note, RewardSpec, SourceCount, VerlRef
from migrate_tools.verl.example_rows import extra_info_maker, make_rows, truth_maker
from migrate_tools.verl.known_data import KnownDataset, TruthKind, dataset_for, scorer_for
from migrate_tools.verl.prep_reader import PrepFacts, match_score, prep_scripts, read_prep
from migrate_tools.verl.usage import Usage, compared_constants, read_usage

MANAGER_KEYS = frozenset(
    {"num_turns", "rollout_reward_scores", "reward_scores", "turn_scores", "tool_rewards", "experiment_name"}
)
"""extra_info keys that managers add; data never has them."""
Split = Literal["train", "val"]
Missing = Sequence[tuple[Split, str]]


class ContractReader:
    """Completes a DataSpec for the files that are not at hand."""

    def __init__(self, project_root: Path, recipe_root: Path, verl: VerlRef, reward: RewardSpec) -> None:
        self.project_root = project_root
        self.recipe_root = recipe_root
        self.verl = verl
        self.reward = reward

    def complete(self, spec: DataSpec, missing: Missing) -> tuple[DataSpec, list[Note]]:
        """The spec with the sources of the missing files; everything else too when no file is at hand."""
        found = [(split, text, self._prep(text), dataset_for(text)) for split, text in missing]
        if spec.custom_class is None:
            sources = self._plausible([source for item in found for source in _sources(*item)])
        else:
            sources = []
        if spec.known_from == "files":
            return spec.model_copy(update={"sources": (*spec.sources, *sources)}), [_note(text) for _, text in missing]
        prep = next((item[2] for item in found if item[2] is not None), None)
        known = next((item[3] for item in found if item[3] is not None), None)
        dispatched = [] if sources else self._dispatch_names(spec)
        own = dispatched if not any(scorer_for(name) for name in dispatched) else []
        usage = _uses(self._code(spec, sources or [SourceCount(name=name, split="train") for name in own]))
        return self._spec(spec, sources, dispatched, prep, known, usage), [_note(text) for _, text in missing]

    # ------------------------------------------------------------ where facts come from

    def _prep(self, text: str) -> PrepFacts | None:
        own = [facts for path in prep_scripts([self.recipe_root]) if (facts := read_prep(path))]
        shared = [self.project_root / "examples/data_preprocess", Path(self.verl.root) / "examples/data_preprocess"]
        best = _best(own, text)
        if best is not None:
            return best
        others = [facts for path in prep_scripts(shared) if (facts := read_prep(path))]
        best = _best(others, text)
        if best is not None:
            return best
        return own[0] if len(own) == 1 and dataset_for(text) is None else None

    def _code(self, spec: DataSpec, sources: Sequence[SourceCount]) -> str:
        """Text of the reward, as far as the known sources reach; empty when there is none to read."""
        if self.reward.path is None or (self.reward.path.startswith("verl/") and not sources):
            return ""
        from migrate_tools.verl.extract import extract_reward

        known = spec.model_copy(
            update={"known_from": "prep_script" if sources else "nothing", "sources": tuple(sources)}
        )
        try:
            return extract_reward(self.reward, known, project_root=self.project_root, verl=self.verl).code
        except MigrateError:
            path = self.project_root / self.reward.path
            return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def _dispatch_names(self, spec: DataSpec) -> list[str]:
        """Names that verl's dispatch knows, when nothing says which of them the data has; in a fork its own ones."""
        if self.reward.kind != "builtin" or self.reward.path is None or spec.custom_class is not None:
            return []
        path = Path(self.verl.root) / self.reward.path
        try:
            names = compared_constants(path.read_text(encoding="utf-8", errors="replace"), "data_source")
        except (OSError, SyntaxError):
            return []
        return [name for name in names if scorer_for(name) is not None] or list(names)

    def _plausible(self, sources: list[SourceCount]) -> list[SourceCount]:
        """Sources that the recipe's own reward knows; when it names others only, they narrow nothing down."""
        if self.reward.kind != "custom" or self.reward.path is None:
            return sources
        path = self.project_root / self.reward.path
        try:
            named = compared_constants(path.read_text(encoding="utf-8", errors="replace"), "data_source")
        except (OSError, SyntaxError):
            return sources
        if not named or any(word.lower() in source.name.lower() for word in named for source in sources):
            return sources
        return [source.model_copy(update={"file": ""}) for source in sources]

    # ------------------------------------------------------------ the spec

    def _spec(
        self,
        spec: DataSpec,
        sources: list[SourceCount],
        dispatched: list[str],
        prep: PrepFacts | None,
        known: KnownDataset | None,
        uses: _Uses,
    ) -> DataSpec:
        named = [] if sources else list(uses.sources) or dispatched
        all_sources = sources or [SourceCount(name=name, split="train") for name in named]
        truth = self._truth(all_sources, prep, known, uses)
        extra_keys = tuple(
            key
            for key in dict.fromkeys(
                (*(prep.extra_info_keys if prep else known.extra_info if known else ()), *uses.extra.keys())
            )
            if key not in MANAGER_KEYS
        )
        has_extra = bool(extra_keys) or (prep is not None and prep.has_extra_info)
        images = prep.images if prep else ((spec.image_key,) if known and known.images else ())
        form = prep.prompt_form if prep and prep.prompt_form != "unknown" else "chat"
        splits = sorted({source.split for source in all_sources}) or ["train"]
        rows = make_rows(
            sources=sorted({source.name for source in all_sources}),
            truth=truth_maker(uses.truth, known.example if known else "", spec.custom_class is None),
            extra_info=extra_info_maker(_without(uses.extra, MANAGER_KEYS), extra_keys) if has_extra else None,
            prompt_key=spec.prompt_key,
            source_key=spec.reward_fn_key,
            as_text=form == "string",
            images=images,
            splits=["train" if split == "train" else "test" for split in splits],
        )
        origin = "prep_script" if prep else "known_dataset" if known else "reward" if uses.code or named else "nothing"
        return spec.model_copy(
            update={
                "known_from": origin,
                "columns": {name: "" for name in (prep.columns if prep else rows[0])},
                "prompt_form": form,
                "multimodal": tuple(images),
                "sources": tuple(all_sources),
                "truth": truth,
                "extra_info_keys": extra_keys,
                "prep_script": self._shown(prep.path) if prep else (known.script or None) if known else None,
                "example_rows": rows if uses.code or named or prep or known else (),
            }
        )

    def _truth(
        self, sources: Sequence[SourceCount], prep: PrepFacts | None, known: KnownDataset | None, uses: _Uses
    ) -> TruthKind:
        """Kind of the ground truth."""
        scorers = [scorer for source in sources if (scorer := scorer_for(source.name)) is not None]
        kind: TruthKind = "unknown"
        if prep and prep.truth != "unknown":
            kind = prep.truth
        elif known:
            kind = known.truth
        elif uses.code:
            kind = _kind(uses.truth, scorers[0].truth if scorers else "string")
        elif scorers:
            kind = scorers[0].truth
        if _kind(uses.truth, "unknown") not in ("unknown", "string") and kind == "string":
            kind = _kind(uses.truth, "unknown")
        return kind

    def _shown(self, path: Path) -> str:
        for root in (self.project_root, Path(self.verl.root)):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return path.name


class _Uses:
    """What a reward text says about its arguments."""

    def __init__(self, code: str) -> None:
        self.code = code
        names = ("ground_truth", "ground_truths")
        self.truth = next((u for n in names if (u := read_usage(code, n)).facts), Usage()) if code else Usage()
        self.extra = read_usage(code, "extra_info") if code else Usage()
        self.sources = compared_constants(code, "data_source") if code else ()


@lru_cache(maxsize=64)
def _uses(code: str) -> _Uses:
    return _Uses(code)


def _sources(split: Split, text: str, prep: PrepFacts | None, known: KnownDataset | None) -> list[SourceCount]:
    if prep is not None and prep.data_sources:
        # A source that the script computes leaves the list open: without a file it narrows nothing down.
        file = "" if prep.open_sources else text
        return [SourceCount(name=name, split=split, file=file) for name in prep.data_sources]
    return [SourceCount(name=known.data_source, split=split, file=text)] if known is not None else []


def _best(facts: Sequence[PrepFacts], text: str) -> PrepFacts | None:
    scored = sorted(((match_score(item, text), -number) for number, item in enumerate(facts)), reverse=True)
    return facts[-scored[0][1]] if scored and scored[0][0] >= 1 else None


def _without(usage: Usage, keys: frozenset[str]) -> Usage:
    copy = Usage()
    copy.facts = {path: words for path, words in usage.facts.items() if not path or path[0] not in keys}
    return copy


def _kind(usage: Usage, default: TruthKind) -> TruthKind:
    words = usage.at()
    if "json" in words or usage.is_text():
        return "string"
    if usage.keys():
        return "dict"
    if words & {"list", "loop"} or any(word.startswith("unpack:") for word in words):
        return "list"
    if words & {"int", "number"}:
        return "number"
    values = [word[6:] for word in words if word.startswith("value:")]
    if values and all(value.lstrip("-").replace(".", "", 1).isdigit() for value in values):
        return "number"
    return "dict" if "dict" in words else default


def _note(text: str) -> Note:
    return Note(
        code="data-not-at-hand", text=f"{text} is not at hand; its content is taken from what the recipe says about it"
    )
