"""Recipe + Translations + extracted rewards -> Example: every file, the same bytes for the same input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

from migrate_tools import __version__
from migrate_tools.errors import RefusedInput
from migrate_tools.model import Example, ExampleFile, Launch, Mode, Recipe, Translation
from migrate_tools.relax.chat_template import template_files
from migrate_tools.relax.env_module import multi_turn_files, shared_limit
from migrate_tools.relax.example_readme import render_readme
from migrate_tools.relax.hooks import hook_module_names, render_hooks
from migrate_tools.relax.prepare_script import render_prepare
from migrate_tools.relax.process_script import render_process
from migrate_tools.relax.reward_module import identifier, render_reward, reward_module_names, row_columns
from migrate_tools.relax.run_script import ScriptFacts, render_script, script_name
from migrate_tools.verl.extract import Extracted
from migrate_tools.verl.tool_schemas import shown_schema, tools_by

__all__ = ["render_example", "reward_module_names"]


def render_example(
    recipe: Recipe,
    translations: Sequence[Translation],
    extracted: Mapping[str, Extracted | None],
    *,
    algo: str,
    relax_version: str,
    mode_default: Mode = "sync",
    base_env: str = "",
) -> Example:
    """All files of an example, relative to the Relax root.

    Args:
        extracted: launch name -> its reward; None or absent when it has no function to call.
        relax_version: name of the flag contract, for the README.
        mode_default: mode of the scripts when none is given.
        base_env: the base class of environments that the Relax checkout has; empty: ours.

    Raises:
        RefusedInput: there is no launch to write, or the launches cannot share one example.
    """
    if not translations:
        raise RefusedInput(f"{recipe.name}: no launch is left to write", "see the reasons of each launch")
    launches = {launch.name: launch for launch in recipe.launches}
    rewards = reward_module_names(translations, extracted, launches)
    configs = config_names(translations)
    files = [_init(algo)]
    files += _reward_files(translations, extracted, launches, rewards, configs)
    files += _hook_files(recipe, translations, launches)
    files += _config_files(translations, configs)
    files += template_files(translations, launches)
    files += _multi_turn_files(translations, extracted, launches, Path(recipe.project_root), base_env)
    described: set[str] = set()
    for item in translations:
        launch = launches[item.launch]
        reward, config = rewards.get(item.launch, ""), configs.get(item.launch, "")
        facts = ScriptFacts(launch, algo, reward, config, _origin(recipe, launch), mode_default)
        path = f"examples/{algo}/{script_name(item)}"
        if path in described:
            raise RefusedInput(f"two launches would be written to {path}", "give one of them with --launch")
        described.add(path)
        files.append(ExampleFile(path=path, text=render_script(item, facts), origin="rendered", executable=True))
    try:
        process = render_process(
            algo,
            [launches[item.launch].data for item in translations],
            _schemas(translations, extracted, launches),
            tools_by=_tools_by(translations, extracted, launches),
            prompt_in_metadata=_needs_prompt(translations, extracted, launches),
            row_columns=tuple(
                dict.fromkeys(name for item in translations for name in row_columns(launches[item.launch]))
            ),
        )
    except ValueError as error:
        raise RefusedInput(f"{recipe.name}: {error}", "migrate them one at a time with --launch") from error
    files.append(ExampleFile(path=f"scripts/tools/process_{algo}.py", text=process, origin="rendered"))
    roots = [Path(recipe.project_root), *(Path(launches[item.launch].verl.root) for item in translations)]
    prepare = render_prepare(algo, [launches[item.launch].data for item in translations], roots)
    if prepare is not None:
        files.append(ExampleFile(path=f"scripts/tools/prepare_{algo}.py", text=prepare, origin="extracted"))
    listed = [(file.path, _purpose(file.path)) for file in files]
    readme = render_readme(recipe, translations, extracted, listed, relax_version=relax_version)
    files.append(ExampleFile(path=f"examples/{algo}/README.md", text=readme, origin="rendered"))
    return Example(algo=algo, files=tuple(sorted(files, key=lambda file: file.path)))


def config_names(translations: Sequence[Translation]) -> dict[str, str]:
    """Launch name -> file name of its YAML configuration; launches without one are left out."""
    names: dict[str, str] = {}
    by_content: dict[str, str] = {}
    for item in translations:
        if not item.config_yaml:
            continue
        key = json.dumps(item.config_yaml, sort_keys=True, default=str)
        if key not in by_content:
            base = f"{item.algo}_config"
            extra = identifier(item.variant or item.launch)
            by_content[key] = f"{base}.yaml" if not by_content else f"{base}_{extra}.yaml"
        names[item.launch] = by_content[key]
    return names


def _init(algo: str) -> ExampleFile:
    text = f'"""{algo}, moved from verl by migrate-agent {__version__}."""\n'
    return ExampleFile(path=f"examples/{algo}/__init__.py", text=text, origin="rendered")


def _reward_files(
    translations: Sequence[Translation],
    extracted: Mapping[str, Extracted | None],
    launches: Mapping[str, Launch],
    names: Mapping[str, str],
    configs: Mapping[str, str],
) -> list[ExampleFile]:
    files: dict[str, ExampleFile] = {}
    for item in translations:
        found, name = extracted.get(item.launch), names.get(item.launch)
        if found is None or name is None or name in files:
            continue
        config = configs.get(item.launch, f"{item.algo}_config.yaml")
        text = render_reward(launches[item.launch], found, algo=item.algo, config_name=config)
        files[name] = ExampleFile(path=f"examples/{item.algo}/{name}.py", text=text, origin="extracted")
    return list(files.values())


def _hook_files(
    recipe: Recipe, translations: Sequence[Translation], launches: Mapping[str, Launch]
) -> list[ExampleFile]:
    names = hook_module_names(translations)
    files: dict[str, ExampleFile] = {}
    for item in translations:
        name = names.get(item.launch)
        if name is None or name in files:
            continue
        text = render_hooks(item.hooks, algo=item.algo, origin=_origin(recipe, launches[item.launch]))
        files[name] = ExampleFile(path=f"examples/{item.algo}/{name}.py", text=text, origin="rendered")
    return list(files.values())


def _schemas(
    translations: Sequence[Translation], extracted: Mapping[str, Extracted | None], launches: Mapping[str, Launch]
) -> list[dict[str, Any]]:
    """The tools that the rows show to the model; the launches of an example have the same."""
    for item in translations:
        found, turns = extracted.get(item.launch), launches[item.launch].multi_turn
        if found is not None and found.tools is not None and turns is not None:
            schemas = [tool.parameters for tool in turns.tools if tool.parameters is not None]
            return [shown_schema(schema, whole=turns.runner == "engine") for schema in schemas]
    return []


def _tools_by(
    translations: Sequence[Translation], extracted: Mapping[str, Extracted | None], launches: Mapping[str, Launch]
) -> str:
    """The key by which rows choose among the tools: verl's SGLang rollout shows those of tools_kwargs."""
    for item in translations:
        found, turns = extracted.get(item.launch), launches[item.launch].multi_turn
        if found is not None and found.tools is not None and turns is not None and turns.tools:
            return tools_by(turns, launches[item.launch].verl.version)
    return ""


def _needs_prompt(
    translations: Sequence[Translation], extracted: Mapping[str, Extracted | None], launches: Mapping[str, Launch]
) -> bool:
    """Whether an environment of the example reads the messages of the prompt."""
    return any(
        (found := extracted.get(item.launch)) is not None
        and found.tools is not None
        and (turns := launches[item.launch].multi_turn) is not None
        and turns.needs_prompt
        for item in translations
    )


def _multi_turn_files(
    translations: Sequence[Translation],
    extracted: Mapping[str, Extracted | None],
    launches: Mapping[str, Launch],
    project: Path,
    base_env: str,
) -> list[ExampleFile]:
    """Environment, rollout and tools, once for all launches; the limit of answers is in their configurations.

    Raises:
        RefusedInput: launches of one example need different ones.
    """
    served = [
        (launches[item.launch], found, item.algo)
        for item in translations
        if (found := extracted.get(item.launch)) is not None and found.tools is not None
    ]
    scripts = ", ".join(dict.fromkeys(launch.script for launch, *_ in served))
    limit = shared_limit([launch for launch, *_ in served])
    files: dict[str, ExampleFile] = {}
    for launch, found, algo in served:
        turns = launch.multi_turn
        if turns is not None and not turns.loops:
            turns = turns.model_copy(update={"max_assistant_turns": limit})
        alike = launch.model_copy(update={"multi_turn": turns})
        for file in multi_turn_files(alike, found, algo=algo, project=project, base_env=base_env, scripts=scripts):
            if files.setdefault(file.path, file) != file:
                raise RefusedInput(
                    f"the launches of {algo} use different tools or limits: {file.path} of {launch.script} has "
                    f"{_first_difference(files[file.path].text, file.text)}",
                    "migrate them one at a time with --launch",
                )
    return list(files.values())


def _first_difference(before: str, after: str) -> str:
    """The first line that two texts have differently."""
    lines = zip_longest(before.splitlines(), after.splitlines(), fillvalue="no line")
    old, new = next((pair for pair in lines if pair[0] != pair[1]), ("", ""))
    return f"{new.strip()[:120]!r} in place of {old.strip()[:120]!r}"


def _config_files(translations: Sequence[Translation], names: Mapping[str, str]) -> list[ExampleFile]:
    files: dict[str, ExampleFile] = {}
    for item in translations:
        name = names.get(item.launch)
        if name is None or name in files:
            continue
        files[name] = ExampleFile(path=f"examples/{item.algo}/{name}", text=_yaml(item.config_yaml), origin="rendered")
    return list(files.values())


def _yaml(values: Mapping[str, Any]) -> str:
    head = (
        f"# Generated by migrate-agent {__version__}. Read through --custom-config-path: every key becomes an\n"
        "# attribute of args, which is why all of them carry the name of this example.\n"
    )
    return head + str(yaml.safe_dump(dict(values), sort_keys=True, allow_unicode=True, default_flow_style=False))


def _origin(recipe: Recipe, launch: Launch) -> str:
    commit = f" at {recipe.commit[:12]}" if recipe.commit else ""
    return f"{launch.script}{commit} (verl {launch.verl.version})"


def _purpose(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    purposes = {
        "__init__.py": "makes the folder a package",
        "reward_": "the reward",
        "hooks_": "what the trainer calls for this algorithm",
        "run_agent_": "starts the agent",
        "run_": "a run script",
        "env_": "the environment: it runs the tools and answers",
        "base_env.py": "the base class of environments",
        "rollout_": "the rollout: answers of the model and what comes back, in turn",
        "tools_": "the recipe's tools and users",
        "loops_": "the recipe's agent loops",
        "agent_": "the agent's process",
        "chat_template": "the recipe's chat template, for the model folder",
    }
    if name.startswith("process_"):
        return "converts the data"
    if name.startswith("prepare_"):
        return "makes the data in the columns of Relax, from where the recipe takes it"
    if name.endswith(".yaml"):
        return "settings that the example's code reads from args"
    return next((what for start, what in purposes.items() if name.startswith(start)), "part of the example")
