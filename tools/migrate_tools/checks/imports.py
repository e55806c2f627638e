"""Rung 2: every hook imports by its dotted path, without torch, verl, ray, vllm or sglang."""

from __future__ import annotations

import json
import re

from migrate_tools.checks.base import CheckContext, finding
from migrate_tools.model import CheckResult
from migrate_tools.rehearsal.stage import build_tree, fresh
from migrate_tools.rehearsal.words import complaint, said
from migrate_tools.relax.contract import load_contract
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, python_env, python_mounts

HOOK_DESTS = (
    "custom_rm_path",
    "custom_generate_function_path",
    "rollout_function_path",
    "eval_function_path",
    "data_source_path",
    "custom_prompt_path",
    "dynamic_sampling_filter_path",
    "buffer_filter_path",
    "custom_reward_post_process_path",
    "custom_convert_samples_to_train_data_path",
    "custom_rollout_log_function_path",
    "custom_eval_rollout_log_function_path",
    "agentic_custom_advantage_path",
    "custom_loss_function_path",
    "custom_pg_loss_reducer_function_path",
    "custom_tis_function_path",
)
"""Arguments that name a function of the example."""
TRAINING_HOOKS = frozenset(
    {"custom_loss_function_path", "custom_pg_loss_reducer_function_path", "custom_tis_function_path"}
)
"""Hooks that run in a Megatron worker. A module that imports torch at its top is only checked for their presence."""


class ImportCheck:
    """Each hook in a fresh process of its own."""

    name = "import"
    rung = 2

    def run(self, context: CheckContext) -> tuple[CheckResult, ...]:
        with finding(self.name, self.rung) as found:
            hooks = self._hooks(context)
            place = fresh(context.work / "imports")
            build_tree(place / "relax", context.example)
            for path, dest in sorted(hooks.items()):
                light = dest not in TRAINING_HOOKS or not self._imports_torch(context, path)
                problem = self._import(context, path) if light else self._defined(context, path)
                if problem:
                    found.problems.append(f"{path}: {problem}")
            found.evidence["hooks"] = sorted(hooks)
            found.summary = f"{len(hooks)} hooks import without torch, verl and ray"
            if not hooks:
                found.skip("skipped", "the example names no hook of its own")
        return (found.result(),)

    def _hooks(self, context: CheckContext) -> dict[str, str]:
        """Dotted path -> argument, from the script's own command line and the example's reward module."""
        hooks: dict[str, str] = {}
        contract = load_contract(context.relax_version)
        for translation in context.translations:
            parsed = contract.parse(context.argv(translation, "sync"))
            for dest in HOOK_DESTS:
                value = parsed.get(dest)
                if isinstance(value, str) and parsed.is_given(dest) and value.startswith("examples."):
                    hooks[value] = dest
        return hooks

    def _import(self, context: CheckContext, path: str) -> str | None:
        tape = next((tape for item in context.translations if (tape := context.tape(item))), None)
        outcome = context.sandbox.run(
            Job(
                argv=(PYTHON, "-m", "migrate_tools.rehearsal.runtime.probe_import", path),
                mounts=(*python_mounts(), Mount(context.work / "imports" / "relax", "/relax", writable=True)),
                env={
                    **python_env(),
                    "PYTHONPATH": f"/relax:{python_env()['PYTHONPATH']}",
                    **({"MIGRATE_REHEARSAL_TAPE": json.dumps(tape)} if tape else {}),
                },
                limits=Limits(seconds=60),
            )
        )
        if outcome.timed_out:
            return "the import did not end in 60 s"
        try:
            answer = json.loads(said(outcome).splitlines()[-1])
        except (IndexError, ValueError):
            return f"the import ended the process: {complaint(outcome, 300)}"
        return str(answer["problem"]) if answer["problem"] else None

    def _imports_torch(self, context: CheckContext, path: str) -> bool:
        file = path.rpartition(".")[0].replace(".", "/") + ".py"
        text = next((item.text for item in context.example.files if item.path == file), "")
        return re.search(r"^(?:import|from) torch\b", text, re.MULTILINE) is not None

    def _defined(self, context: CheckContext, path: str) -> str | None:
        """Whether the module of a training hook defines the function, by its text."""
        module, _, function = path.rpartition(".")
        file = module.replace(".", "/") + ".py"
        text = next((item.text for item in context.example.files if item.path == file), None)
        if text is None:
            return f"{file} is not part of the example"
        return None if f"def {function}(" in text else f"{file} defines no {function}"
