"""How long to train, when to save and what to resume. Cadences counted in verl steps become cadences in rollouts."""

from __future__ import annotations

from migrate_tools.mapping.draft import Draft
from migrate_tools.mapping.facts import Facts

STEPS, EPOCHS = "trainer.total_training_steps", "trainer.total_epochs"
SAVE, KEEP = "trainer.save_freq", "trainer.max_actor_ckpt_to_keep"
RESUME, LOCAL = "trainer.resume_mode", "trainer.default_local_dir"


def train_rows(facts: Facts) -> int | None:
    """Rows that are trained on, when every file is at hand."""
    counts = [item.rows for item in facts.launch.data.train]
    total = sum(count for count in counts if count) if counts and all(counts) else None
    limit = facts.integer("data.train_max_samples", default=-1) or -1
    return min(total, limit) if total is not None and limit > 0 else total


def verl_steps(facts: Facts, prompts: int) -> tuple[int | None, int | None]:
    """Steps that total_training_steps allows and steps that the epochs give (None: unknown)."""
    rows, epochs = train_rows(facts), facts.integer(EPOCHS, default=1)
    limit = facts.integer(STEPS)
    by_epochs = (rows // prompts) * epochs if rows and epochs else None
    return (limit if limit and limit > 0 else None), by_epochs


def total_steps(facts: Facts, prompts: int) -> int | None:
    """verl steps of the whole run, where the limit or the rows tell."""
    known = [count for count in verl_steps(facts, prompts) if count is not None]
    return min(known) if known else None


def place_schedule(draft: Draft, prompts: int, scale: int) -> None:
    """Write the length of training; `prompts` is verl's train batch, `scale` rollouts per verl step.

    Epochs are kept where they mean the same number of updates: smaller rollouts leave fewer rows over at the end of an
    epoch, and the run would be longer than verl's.
    """
    facts = draft.facts
    limit, by_epochs = verl_steps(facts, prompts)
    epochs = facts.integer(EPOCHS, default=1) or 1
    rows = train_rows(facts)
    if by_epochs == 0:
        draft.note(
            "too-few-rows",
            f"{rows} training rows do not fill one batch of {prompts} prompts: verl does not start with "
            "them, nor does Relax when they do not fill a rollout",
            "data.train_files",
        )
    if limit is None or (by_epochs is not None and by_epochs <= limit):
        reason = "not set: epochs decide" if limit is None else f"{by_epochs} steps of {epochs} epochs end earlier"
        draft.say(STEPS, "no_effect", (), reason)
        as_epochs = rows // (prompts // scale) * epochs if rows else 0
        if by_epochs and as_epochs != by_epochs * scale:
            draft.flag("--num-rollout", by_epochs * scale, "ROLLOUT", "rollouts")
            text = (
                f"{epochs} epochs of {rows} rows are {by_epochs} verl steps x {scale} rollouts; as epochs they would "
                f"be {as_epochs} rollouts, since smaller ones leave fewer rows over"
            )
            draft.say(EPOCHS, "derived", "--num-rollout", text)
            draft.note("epochs-as-rollouts", text, EPOCHS)
            return
        draft.flag("--num-epoch", epochs, "ROLLOUT", "epochs")
        draft.say(EPOCHS, "exact", "--num-epoch", "passes over the data")
        return
    draft.flag("--num-rollout", limit * scale, "ROLLOUT", "rollouts")
    draft.say(STEPS, "derived", "--num-rollout", f"{limit} verl steps x {scale} rollouts a step")
    known = by_epochs is not None
    draft.say(
        EPOCHS,
        "no_effect" if known else "approximate",
        (),
        "total_training_steps ends first"
        if known
        else f"verl also stops after {epochs} epochs; total_training_steps is taken, as the row count is not at hand",
    )


def place_checkpoints(draft: Draft, scale: int) -> None:
    """Write saving, keeping and resuming."""
    facts = draft.facts
    every = facts.integer(SAVE, default=-1) or -1
    folder = f'"${{SAVE_DIR}}/{draft.algo}{"-" + draft.variant if draft.variant else ""}"'
    if every <= 0:
        draft.say(SAVE, "exact", (), "no checkpoints are saved")
        draft.say((LOCAL, KEEP, "trainer.default_hdfs_dir"), "no_effect", (), "no checkpoints are saved")
    else:
        draft.flag("--save", folder, "CKPT")
        draft.flag("--save-interval", every * scale, "CKPT", "rollouts")
        draft.say(SAVE, "derived", ("--save", "--save-interval"), f"every {every} verl steps x {scale} rollouts a step")
        draft.say(LOCAL, "derived", "--save", "checkpoints go below ${SAVE_DIR}")
        draft.say("trainer.default_hdfs_dir", "approximate", (), "Relax saves to ${SAVE_DIR} only")
        _keep(draft)
    _resume(draft, folder, saving=every > 0)


def _keep(draft: Draft) -> None:
    count = draft.facts.integer(KEEP)
    if not count or count < 1:
        draft.say(KEEP, "automatic", (), "all checkpoints are kept")
        return
    # --rotate-ckpt would save after every rollout besides (redai-studio/Relax relax/components/actor.py 0d7808fb).
    draft.flag("--max-actor-ckpt-to-keep", count, "CKPT")
    draft.say(KEEP, "exact", "--max-actor-ckpt-to-keep", "older checkpoints are deleted")


def _resume(draft: Draft, folder: str, saving: bool) -> None:
    mode = draft.facts.text(RESUME, default="auto")
    path = "trainer.resume_from_path"
    if mode == "resume_path" and draft.facts.get(path):
        draft.say(
            (RESUME, path), "unsupported", (), "a verl checkpoint cannot be loaded by Relax; start from the model"
        )
        draft.note("resume-path", "resume_mode=resume_path: a verl checkpoint cannot be loaded by Relax")
        return
    draft.say(path, "no_effect", (), "only read with resume_mode=resume_path")
    if mode == "auto" and saving:
        draft.flag("--load", folder, "CKPT", "resumes when it holds a checkpoint")
        draft.say(RESUME, "derived", "--load", "the save folder is loaded when it holds a checkpoint")
    else:
        draft.say(RESUME, "automatic", (), "training starts from the model")
