"""verl's own function tools inside the sandbox, over schemas that were read from the functions' text.

transformers, which verl asks for the schemas, is not here: its one function gives what was read.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from migrate_tools.parity.moved import load_file

FILE = "verl/tools/function_tool.py"


class FunctionTools(NamedTuple):
    """The tools that verl registers, and the names of its module that its agent loop uses."""

    tools: list[Any]
    names: dict[str, Any]
    prefix: str = ""
    """What Python puts before the functions' names in its errors: verl's module name has the path of the machine."""


class NoFunctionTool:
    """Stands for verl's class where no tool is a function."""


def load(job: Mapping[str, Any]) -> FunctionTools:
    """Runs the recipe's file through verl's decorator and loader."""
    specs = [spec for spec in job["tools"] if spec["kind"] == "function"]
    if not specs:
        return FunctionTools([], {"FunctionTool": NoFunctionTool})
    _put_transformers({spec["class_name"]: spec["parameters"] for spec in specs})
    module: Any = load_file("verl.tools.function_tool", Path(job["loop_root"]) / FILE)
    names = ("FunctionTool", "normalize_function_tool_return")
    tools = module.load_function_tools_from_path(specs[0]["file"])
    prefix = f"{tools[0].fn.__module__}." if tools else ""
    return FunctionTools(tools, {name: getattr(module, name) for name in names}, prefix)


def _put_transformers(schemas: Mapping[str, Any]) -> None:
    package, utils = types.ModuleType("transformers"), types.ModuleType("transformers.utils")

    def get_json_schema(function: Callable[..., Any]) -> Any:
        return json.loads(json.dumps(schemas[function.__name__]))

    utils.get_json_schema = get_json_schema  # type: ignore[attr-defined]
    package.utils = utils  # type: ignore[attr-defined]
    sys.modules["transformers"], sys.modules["transformers.utils"] = package, utils
