"""Where the migration guide and this Relax differ, as far as it matters for one launch."""

from __future__ import annotations

from migrate_tools.mapping.draft import Draft
from migrate_tools.model import Note


def guide_differences(draft: Draft) -> tuple[Note, ...]:
    """The differences that concern what this launch uses."""
    facts, batch, data = draft.facts, draft.batch, draft.facts.launch.data
    found = list(draft.guide)

    def add(code: str, text: str) -> None:
        found.append(Note(code=code, text=text))

    if batch is not None:
        add(
            "guide-batch",
            "the guide maps both verl batch sizes to --global-batch-size; Relax counts samples there: "
            f"--rollout-batch-size {batch.rollout_batch_size} prompts, --global-batch-size {batch.global_batch_size} "
            "samples",
        )
        if batch.updates_per_rollout > 1:
            add(
                "guide-global-batch",
                "the guide demands global = rollout x n; the faithful policy makes "
                f"{batch.updates_per_rollout} updates from a rollout, which this Relax allows",
            )
    if len({item.name for item in data.sources}) > 1:
        add(
            "guide-dispatch", "the guide drops the dispatch by data_source; the data has several sources, so it is kept"
        )
    add(
        "guide-data-source",
        "the guide takes extra_info as metadata and loses the top-level data_source; the converter puts it inside",
    )
    if data.truth in ("dict", "list", "mixed", "number"):
        add(
            "guide-label",
            f"the guide wants a plain string label; this Relax takes any type and the label stays a {data.truth}",
        )
    if draft.has("--save-interval"):
        add("guide-save", "the guide leaves --save out; --save-interval does not work without it")
    if draft.has("--rollout-num-gpus-per-engine"):
        add(
            "guide-rollout-tp",
            "the guide maps rollout.tensor_model_parallel_size to --tensor-model-parallel-size, which "
            "is the trainer's; the engine's size is --rollout-num-gpus-per-engine",
        )
    if not draft.has("--use-tis") or not facts.is_set("actor_rollout_ref.actor.clip_ratio_high"):
        add(
            "guide-template-values",
            "the guide's template has --eps-clip-high 0.28, --use-tis, --kl-loss-coef 0.001 and "
            "--adam-beta2 0.98; these change training, so the recipe's or verl's own values are written",
        )
    if draft.has("--ref-actor-config"):
        add(
            "guide-ref-tokens",
            "the guide caps tokens inside --ref-actor-config; newer Relax takes --log-probs-max-tokens-per-gpu instead",
        )
    if draft.async_refusals:
        add(
            "guide-async", f"the guide has both modes in every script; async is refused here: {draft.async_refusals[0]}"
        )
    return tuple(found)
