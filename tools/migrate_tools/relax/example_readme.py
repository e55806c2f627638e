"""Writes README.md of an example: what it is, how to run it, what differs from verl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migrate_tools.mapping.environment import turns_environment
from migrate_tools.model import Launch, Recipe, Translation
from migrate_tools.relax.formatting import render_template
from migrate_tools.relax.reward_module import model_name
from migrate_tools.relax.run_script import data_steps, script_name
from migrate_tools.relax.special_tokens import is_known
from migrate_tools.verl.extract import Extracted

MOST = 25
"""Lines of differences that the README shows; the rest is in the report."""


def render_readme(
    recipe: Recipe,
    translations: Sequence[Translation],
    extracted: Mapping[str, Extracted | None],
    files: Sequence[tuple[str, str]],
    *,
    relax_version: str,
) -> str:
    """The text of the README; `files` are (path, what it is)."""
    launches = {launch.name: launch for launch in recipe.launches}
    first = translations[0]
    commit = f" at {recipe.commit[:12]}" if recipe.commit else ""
    versions = sorted({launches[item.launch].verl.version for item in translations})
    rewards = [found for found in extracted.values() if found is not None]
    environment: dict[str, str] = {}
    for item in translations:
        environment |= launches[item.launch].reward.environment | turns_environment(launches[item.launch])
    scripts = [
        {
            "name": script_name(item),
            "origin": launches[item.launch].script,
            "model": item.model_dir_name or "?",
            "launch": item.launch,
            "samples": item.batch.n_samples_per_prompt if item.batch else 1,
        }
        for item in translations
    ]
    return render_template(
        "readme.md.j2",
        algo=first.algo,
        intro=f"The verl recipe `{recipe.name}`{commit} (verl {', '.join(versions)}), moved to Relax.",
        relax_version=relax_version,
        data_steps=_command(data_steps(first.algo, launches[first.launch])),
        save=any("${SAVE_DIR}" in (flag.value or "") for item in translations for flag in item.flags),
        scripts=scripts,
        files=files,
        packages=", ".join(f"`{name}`" for name in sorted({name for found in rewards for name in found.third_party})),
        environment=sorted(environment.items()),
        differences=_differences(translations)[:MOST],
        review=_review(translations, rewards, [launches[item.launch] for item in translations])[:MOST],
    )


def _differences(translations: Sequence[Translation]) -> list[str]:
    """Effective-training rows that are not the same, and settings that are only approximated."""
    lines = [
        f"{row.name}: {row.verl} in verl, {row.relax} in Relax" + (f" ({row.why})" if row.why else "")
        for item in translations
        for row in item.effective
        if not row.same
    ]
    lines += [
        f"`{one.key}`: {one.reason}"
        for item in translations
        for one in item.settings
        if one.status == "approximate" and one.risk == "training"
    ]
    return _unique(lines)


def _review(translations: Sequence[Translation], rewards: Sequence[Extracted], launches: Sequence[Launch]) -> list[str]:
    lines = [
        f"`{one.key}` is {one.status}: {one.reason}"
        for item in translations
        for one in item.settings
        if one.status == "unknown" or (one.status == "unsupported" and one.risk == "training")
    ]
    lines += [note.text for item in translations for note in item.notes]
    lines += [note.text for found in rewards for note in found.notes]
    for launch in launches:
        model = model_name(launch)
        if not is_known(model):
            lines.append(f"the special tokens of {model or 'the model'} are not known; ChatML's are removed")
        if launch.reward.manager == "rate_limited":
            lines.append("verl's limits of requests and tokens a minute are not kept; Relax limits concurrency itself")
    return _unique(lines)


def _command(lines: Sequence[str]) -> list[str]:
    """The conversion command without the header's numbering."""
    first, *rest = lines
    return [first.removeprefix("1. Convert the data:").strip(), *(f"    {line.strip()}" for line in rest)]


def _unique(lines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(" ".join(line.split()) for line in lines if line.strip()))
