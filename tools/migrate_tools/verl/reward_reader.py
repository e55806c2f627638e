"""Which function is the reward of a launch, and what the reward manager adds to it.

Three generations of keys lead to it (verl 0.2-0.6, 0.7, main), from the command line or a recipe's YAML; forks of
0.0.2-0.1 have no key, their manager is a class in `verl/trainer/main_ppo.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from migrate_tools.errors import MachineError, RefusedInput
from migrate_tools.model import Note, RewardSpec, Setting, SourceRef, VerlRef
from migrate_tools.verl.builtin import NAMES, find_builtin
from migrate_tools.verl.config_view import ConfigView
from migrate_tools.verl.module_finder import Memo, ModuleFinder, module_file, parse, read_source
from migrate_tools.verl.overlong import read_overlong
from migrate_tools.verl.pymodule import ImportedName
from migrate_tools.verl.reward_manager import (
    MODULE_KEYS,
    ManagerFacts,
    manager_file,
    read_manager,
    registered_file,
)
from migrate_tools.verl.reward_traits import FunctionFacts, reward_traits
from migrate_tools.verl.signature import is_selector, is_selector_node, selector_name
from migrate_tools.verl.unused_reward import unused_scorers

FUNCTION_ROOTS = ("reward.custom_reward_function", "custom_reward_function")
MANAGER_KEYS = ("reward.reward_manager.name", "reward_model.reward_manager", "reward_manager.name")
ROUTER_KEYWORDS = ("reward_router_address", "reward_model_tokenizer")
"""Passed in addition when a reward model runs beside the function."""
KNOWN_MANAGERS = ("naive", "dapo", "batch", "prime", "rate_limited", "remote", "gdpo")
DEFAULT_NAME = "compute_score"


def read_reward(
    config: Mapping[str, Any],
    settings: Sequence[Setting],
    *,
    project_root: Path,
    recipe_root: Path,
    verl: VerlRef,
    environment: Mapping[str, str],
    module: str,
    resolve: Callable[[str], Path | None],
) -> tuple[RewardSpec, tuple[Note, ...]]:
    """The reward of one launch.

    Raises:
        RefusedInput: the named file or function is missing, is not valid Python, or verl could not call it.
    """
    reader = _Reader(ConfigView(config, settings), project_root, recipe_root, verl, environment, module, resolve)
    return reader.read()


_facts: Memo[FunctionFacts | None] = Memo()


class _Reader:
    def __init__(
        self,
        view: ConfigView,
        project_root: Path,
        recipe_root: Path,
        verl: VerlRef,
        environment: Mapping[str, str],
        module: str,
        resolve: Callable[[str], Path | None],
    ) -> None:
        self.view = view
        self.project_root = project_root.resolve()
        self.recipe_root = recipe_root.resolve()
        self.verl = verl
        self.verl_root = Path(verl.root).resolve()
        self.environment = environment
        self.module = module
        self.resolve = resolve
        self.only_by_name = ""
        """Path as the recipe writes it, when the file found shares nothing but its name."""
        self.notes: list[Note] = []
        self.entry_file = self._entry_file()

    def read(self) -> tuple[RewardSpec, tuple[Note, ...]]:
        manager, manager_source = self._manager()
        facts = self._facts_of(manager)
        overlong, notes = read_overlong(self.view, manager, self.verl_root, self.entry_file)
        self.notes += notes
        common: dict[str, Any] = {
            "manager": manager,
            "manager_source": manager_source,
            "manager_kwargs": self._manager_kwargs(),
            "overlong": overlong,
            "text": facts.text,
            "skip_special_tokens": facts.skip_special_tokens,
            "num_turns": self._num_turns(facts),
        }
        root = next((item for item in FUNCTION_ROOTS if self.view.get(f"{item}.path")), None)
        if root is not None:
            spec = self._custom(root, facts, common)
        elif self._uses_reward_model():
            spec = self._model(common)
        else:
            spec = self._builtin(facts, common)
        return spec, tuple(self.notes)

    # ------------------------------------------------------------ kinds

    def _custom(self, root: str, facts: ManagerFacts, common: dict[str, Any]) -> RewardSpec:
        text = str(self.view.get(f"{root}.path"))
        where = self.view.source(f"{root}.path")
        path = self._find(text, where)
        name = self.view.get(f"{root}.name")
        if name is None:
            name = DEFAULT_NAME
            if root == "custom_reward_function" and self.view.has("reward.custom_reward_function.name"):
                self.notes.append(
                    Note(
                        code="reward-name-missing",
                        text=f"no function name is given; verl {self.verl.version} stops on that for this old key, "
                        f"earlier ones took {DEFAULT_NAME}, which is used here",
                        source=where,
                    )
                )
        if self._uses_reward_model():
            self.notes.append(
                Note(
                    code="reward-model-router",
                    text="a reward model on GPU runs beside the function and its address is passed to it; "
                    "Relax passes neither reward_router_address nor reward_model_tokenizer",
                    source=self.view.source("reward.reward_model.enable") or self.view.source("reward_model.enable"),
                )
            )
        kwargs = self.view.section(f"{root}.reward_kwargs")
        return self._function("custom", path, str(name), where, facts, common, kwargs)

    def _builtin(self, facts: ManagerFacts, common: dict[str, Any]) -> RewardSpec:
        own = self._own_dispatch()
        if own is not None:
            path, name = own
        else:
            path, name = self._verl_dispatch()
            if unused := unused_scorers(self.recipe_root, self.verl_root):
                text = f"this launch passes no reward function, so verl's scorers run; {unused[0]} is not used by it"
                self.notes.append(Note(code="reward-not-passed", text=text))
        kwargs: dict[str, Any] = {}
        for key in ("reward.sandbox_fusion", "reward_model.sandbox_fusion", "sandbox_fusion"):
            if self.view.get(f"{key}.url"):
                kwargs = {"sandbox_fusion_url": self.view.get(f"{key}.url")}
                if self.view.get(f"{key}.memory_limit_mb") is not None:
                    kwargs["memory_limit_mb"] = self.view.get(f"{key}.memory_limit_mb")
                break
        return self._function("builtin", path, name, None, facts, common, kwargs)

    def _model(self, common: dict[str, Any]) -> RewardSpec:
        key = next(k for k in ("reward.reward_model.enable", "reward_model.enable") if self.view.get(k) is True)
        name = self.view.get("reward.reward_model.model_path") or self.view.get("reward_model.model.path")
        self.notes.append(
            Note(
                code="reward-model-gpu",
                text=f"the reward is a model on GPU ({name}); it can be named but not compared on this machine",
                source=self.view.source(key),
            )
        )
        return RewardSpec(kind="model", path=None, function=None, source=self.view.source(key), **common)

    def _function(
        self,
        kind: str,
        path: Path,
        name: str,
        where: SourceRef | None,
        facts: ManagerFacts,
        common: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> RewardSpec:
        shown = self._shown(path)
        finder = ModuleFinder(self.project_root, self.verl_root, (path.parent, self.recipe_root))
        code = read_source(path, shown)
        parse(code, shown)
        key = (path, name, self.project_root, self.verl_root, self.recipe_root)
        found = _facts.get(key, finder, lambda: reward_traits(finder, path, name))
        if found is None:
            at = f" ({where.file}:{where.line})" if where else ""
            if self.only_by_name:
                raise RefusedInput(
                    f"reward file {self.only_by_name} does not exist{at}; {shown} has its name but no function {name}",
                    "restore the file or correct the path",
                )
            raise RefusedInput(f"{shown}: no function {name}{at}", "correct the function name in the launch")
        signature = found.signature
        if is_selector(code, name):
            words = facts.keywords if facts.keywords else ("solution_str", "ground_truth")
            parameters = tuple(dict.fromkeys(("data_source", *words)))
            required = parameters
        else:
            parameters = signature.parameters if signature else ()
            required = signature.required if signature else ()
            if signature is not None and kind == "custom":
                self._check_call(shown, name, facts, kwargs, found, common["manager"])
        return RewardSpec.model_validate(
            {
                "kind": kind,
                "path": shown,
                "function": name,
                "source": where,
                "kwargs": kwargs,
                "is_async": found.is_async,
                "parameters": parameters,
                "required": required,
                "traits": found.traits,
                "environment": {key: value for key, value in self.environment.items() if f"env:{key}" in found.traits},
                **common,
            }
        )

    def _check_call(
        self, shown: str, name: str, facts: ManagerFacts, kwargs: dict[str, Any], found: Any, manager: str
    ) -> None:
        """Refuse a function that verl itself, or Relax, could not call with its keywords."""
        if not facts.keywords or found.signature is None:
            return
        router = ROUTER_KEYWORDS if self._uses_reward_model() else ()
        given = (*facts.keywords, *router, *kwargs)
        missing = found.signature.missing_for(given)
        unfilled = found.signature.unfilled_by(given)
        if missing or unfilled:
            parameters = ", ".join(found.signature.parameters)
            if self._own_manager(manager) is not None:
                problem = f"gets {', '.join(unfilled or missing)} from the recipe's own reward manager {manager}"
                text = f"{name}({parameters}) {problem}: Relax gives a reward the response and the row, nothing else"
                raise RefusedInput(f"{shown}:{found.line}: {text}", "write a reward of response and row")
            reason = f"it does not take {', '.join(missing)}" if missing else f"nothing fills {', '.join(unfilled)}"
            raise RefusedInput(
                f"{shown}:{found.line}: {name}({parameters}) does not run in verl either: the manager calls it with "
                f"{', '.join(given)}, and {reason}",
                "add the parameters (or **kwargs) to the function",
            )

    # ------------------------------------------------------------ places

    def _find(self, text: str, where: SourceRef | None) -> Path:
        plain = text.removeprefix("file://")
        if text.startswith("pkg://"):
            parts = text.removeprefix("pkg://").split(".")
            finder = ModuleFinder(self.project_root, self.verl_root, (self.recipe_root,))
            found = finder.find_absolute(parts, self.recipe_root / "x.py")
        else:
            found = self.resolve(plain)
            if found is None and "verl/" in plain:
                inside = self.verl_root / ("verl/" + plain.rsplit("verl/", 1)[1])
                found = inside if inside.is_file() else None
        if found is None or not found.is_file():
            at = f"{where.file}:{where.line}: " if where else ""
            raise RefusedInput(f"{at}reward file {text} does not exist", "restore the file or correct the path")
        parents = [part for part in Path(plain).parent.parts if part not in ("/", ".", "..")]
        self.only_by_name = text if parents and found.parent.name != parents[-1] else ""
        return found.resolve()

    def _shown(self, path: Path) -> str:
        path = path.resolve()
        if path.is_relative_to(self.project_root) or path.is_relative_to(self.verl_root):
            return ModuleFinder(self.project_root, self.verl_root).shown(path)
        return str(path)

    def _entry_file(self) -> Path | None:
        parts = self.module.split(".")
        roots = [self.verl_root] if parts[0] == "verl" else [self.project_root, self.verl_root, self.recipe_root]
        choices = [module_file(root, parts) for root in roots]
        if parts[0] == "recipe":
            choices.append(module_file(self.project_root, parts[1:]))
        elif parts[0] != "verl":
            choices.append(module_file(self.recipe_root, parts[-1:]))
        return next((item for item in choices if item is not None), None)

    def _own_dispatch(self) -> tuple[Path, str] | None:
        """The default scorer of a recipe's own entry module, or the selector inside a fork's entry file."""
        if self.entry_file is None or not self.entry_file.is_file():
            return None
        try:
            tree = ast.parse(self.entry_file.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            return None
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (is_selector_node(node) or node.name in NAMES):
                return self.entry_file, node.name
        if self.entry_file.is_relative_to(self.verl_root / "verl"):
            return None
        return self._imported_dispatch(self.entry_file, 2)

    def _verl_dispatch(self) -> tuple[Path, str]:
        """verl's own dispatch; in the 0.0.2-0.1 forks the selector of the ordinary trainer."""
        try:
            shown, name = find_builtin(self.verl_root)
        except MachineError as error:
            trainer = self.verl_root / "verl/trainer/main_ppo.py"
            text = trainer.read_text(encoding="utf-8", errors="replace") if trainer.is_file() else ""
            selector = selector_name(text) or next((name for name in NAMES if f"def {name}(" in text), None)
            if selector is None:
                raise RefusedInput(error.message, "name a custom_reward_function, or give --verl-root") from None
            return trainer, selector
        return self.verl_root / shown, name

    def _imported_dispatch(self, path: Path, depth: int) -> tuple[Path, str] | None:
        finder = ModuleFinder(self.project_root, self.verl_root, (self.recipe_root,))
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            return None
        inner: list[Path] = []
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] == "verl":
                continue
            found = finder.find(ImportedName(node.module or "", node.level, "x", "x", False), path)
            if found is None or not found.is_file():
                continue
            for alias in node.names:
                if alias.name in NAMES:
                    return found, alias.name
            inner.append(found)
        if depth:
            for item in inner:
                deeper = self._imported_dispatch(item, depth - 1)
                if deeper is not None:
                    return deeper
        return None

    # ------------------------------------------------------------ manager

    def _own_manager(self, name: str) -> Path | None:
        """The file of a manager class of the recipe's own: named by path, or registered in one of its files."""
        for key in MODULE_KEYS:
            if self.view.get(key):
                return self.resolve(str(self.view.get(key)).removeprefix("file://"))
        if name in KNOWN_MANAGERS or manager_file(self.verl_root, name, self.view.config):
            return None
        return registered_file((self.recipe_root, self.project_root), name)

    def _uses_reward_model(self) -> bool:
        return self.view.get("reward.reward_model.enable") is True or self.view.get("reward_model.enable") is True

    def _manager(self) -> tuple[str, SourceRef | None]:
        key = self.view.first(MANAGER_KEYS)
        name = str(self.view.get(key)) if key else "naive"
        where = self.view.source(key) if key else None
        source_key = self.view.first(
            ("reward.reward_manager.source", "reward_manager.source", "reward_model.reward_loop_source")
        )
        if source_key and self.view.get(source_key) == "importlib":
            path = self.view.first(
                (
                    "reward.reward_manager.module.path",
                    "reward_manager.module.path",
                    "reward_model.reward_loop_module_path",
                )
            )
            self.notes.append(
                Note(
                    code="reward-manager-custom",
                    text=f"the reward manager is the recipe's own class {name} in "
                    f"{self.view.get(path) if path else '?'}; "
                    "what it does around the scorer is not carried over; the comparison of the rewards runs it",
                    source=self.view.source(source_key) or where,
                )
            )
        elif name not in KNOWN_MANAGERS:
            self.notes.append(
                Note(
                    code="reward-manager-unknown",
                    text=f"reward manager {name} is not one of verl's; what it "
                    "does around the scorer is not carried over",
                    source=where,
                )
            )
        return name, where

    def _facts_of(self, manager: str) -> ManagerFacts:
        """How the manager calls the scorer; of one that is not at hand nothing is known, so nothing is checked."""
        own = self._own_manager(manager)
        facts = read_manager(self.verl_root, manager, self.view.config, own or self.entry_file)
        if facts.file is None and own is None and manager not in KNOWN_MANAGERS:
            return replace(facts, keywords=())
        return facts

    def _manager_kwargs(self) -> dict[str, Any]:
        kwargs = {**self.view.section("reward_model.reward_kwargs"), **self.view.section("reward.reward_kwargs")}
        return {key: value for key, value in kwargs.items() if not key.startswith("overlong_buffer_cfg")}

    def _num_turns(self, facts: ManagerFacts) -> int | None:
        """2 where an agent loop generates (one user and one assistant turn); the synchronous rollout has no count."""
        if not facts.adds_num_turns:
            return None
        mode = self.view.get("actor_rollout_ref.rollout.mode")
        has_loop = (self.verl_root / "verl/experimental/agent_loop/single_turn_agent_loop.py").is_file()
        return 2 if has_loop and (mode is None or mode == "async") else None
