"""What a data set class of a recipe (data.custom_cls) does to the rows of verl's own, read from its syntax tree.

Two things can be done once, when the data is converted: a function given to `.map(...)` while the files are read, and
assignments to the row in `__getitem__`. Both become one function of the recipe's own code that takes a row. All else is
named, so that nobody takes it for migrated.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from migrate_tools.errors import MigrateError
from migrate_tools.verl.extract import extract_function
from migrate_tools.verl.module_finder import ModuleFinder
from migrate_tools.verl.traits import FRAMEWORKS

ENTRY = "recipe_row"
ROW_KEYS = frozenset({"prompt", "agent_name", "ability", "tools_kwargs", "interaction_kwargs"})
"""Columns that a row function may set without changing what the reward sees."""
INTERNAL = frozenset(
    ("input_ids", "attention_mask", "position_ids", "raw_prompt_ids", "raw_prompt", "full_prompts", "multi_modal_data",
     "multi_modal_inputs", "index", "dummy_tensor")
)  # fmt: skip
"""Keys that verl's trainer needs and Relax makes itself."""
METHODS = {
    "__init__": "its constructor",
    "__len__": "its length",
    "__getitem__": "how a row is made",
    "_read_files_and_tokenize": "how files are read",
    "maybe_filter_out_long_prompts": "which prompts are too long",
    "_build_messages": "how messages are built",
    "on_batch_end": "what happens after a batch",
}


@dataclass
class DatasetFacts:
    """What a class does."""

    code: str = ""
    """Module text with the function `recipe_row(row)`; empty when nothing is done offline."""
    moved: list[str] = field(default_factory=list)
    """What that function does, a line each."""
    left: list[str] = field(default_factory=list)
    """What is not migrated, a line each."""
    tool_images: dict[str, dict[str, int | None]] = field(default_factory=dict)
    """Tool -> argument of its create -> number of the row's image that it gets; None: all of them."""


def read_dataset_class(path: Path, name: str, finder: ModuleFinder, prompt_key: str) -> DatasetFacts:
    """What the class `name` of a file does; problems of reading it end in `left`."""
    facts = DatasetFacts()
    try:
        text = finder.load(path).code
        tree = ast.parse(text)
    except (MigrateError, SyntaxError) as error:
        facts.left.append(f"{path.name} cannot be read ({error})")
        return facts
    found = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)
    if found is None:
        facts.left.append(f"{path.name} has no class {name}")
        return facts
    _Reader(found, prompt_key, facts).read(path, text, finder)
    facts.left = list(dict.fromkeys(facts.left))
    return facts


class _Reader:
    def __init__(self, node: ast.ClassDef, prompt_key: str, facts: DatasetFacts) -> None:
        self.node = node
        self.keys = {"prompt_key": prompt_key}
        self.facts = facts
        self.methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        self.helpers: set[str] = set()
        self.imported: set[str] = set()
        self.body: list[str] = []

    def read(self, path: Path, text: str, finder: ModuleFinder) -> None:
        defined = self._mapped()
        self._assigned()
        known = {"__getitem__", "_read_files_and_tokenize"} | self.helpers
        for name in self.methods:
            if name not in known:
                self.facts.left.append(f"{self.node.name}.{name} is its own ({METHODS.get(name, 'a method')})")
        if not self.body:
            return
        lines = "\n".join(f"    {line}" for text in self.body for line in text.splitlines())
        added = f"{defined}\n\n\ndef {ENTRY}(row):\n{lines}\n    return row\n"
        finder.edit(path, text.rstrip("\n") + "\n\n\n" + added)
        try:
            extracted = extract_function(finder, path, ENTRY)
        except (MigrateError, SyntaxError) as error:
            self.facts.left += [f"{line}, which cannot be taken out ({error})" for line in self.facts.moved]
            self.facts.moved.clear()
            return
        finally:
            finder.edit(path, text)
        heavy = sorted({*extracted.third_party} & (FRAMEWORKS | {"PIL"}))
        if heavy:
            self.facts.left += [f"{line}, which needs {', '.join(heavy)}" for line in self.facts.moved]
            self.facts.moved.clear()
            return
        strange = self._strange(extracted.code)
        if strange:
            self.facts.left += [f"{line}, which sets {', '.join(strange)}" for line in self.facts.moved]
            self.facts.moved.clear()
            return
        self.facts.code = "\n".join(part for part in (extracted.header, extracted.code) if part)

    def _strange(self, code: str) -> list[str]:
        """Keys that imported row functions set and the reward may read."""
        found: set[str] = set()
        for node in ast.parse(code).body:
            if isinstance(node, ast.FunctionDef) and node.name in self.imported:
                found |= _keys_set(node)
        return sorted(found - ROW_KEYS - set(self.keys.values()))

    # ------------------------------------------------------------ .map(function)

    def _mapped(self) -> str:
        """Text of the methods that are mapped over the rows, as functions."""
        reader = self.methods.get("_read_files_and_tokenize")
        if reader is None:
            return ""
        calls = [node for node in ast.walk(reader) if _is_map(node)]
        self.helpers.update(_name(call) for call in calls)
        plain = {_name(call) for call in calls if not _has(call, "fn_kwargs")}
        for call in calls:
            if _has(call, "fn_kwargs"):
                text = f"{_name(call)} with arguments of its own, for data from a hub: convert such data yourself"
                self.facts.left.append(text)
        if not calls:
            self.facts.left.append(f"{self.node.name}._read_files_and_tokenize is its own (how files are read)")
        if len(plain) != 1:
            self.facts.left += [f"{name} is one of several functions over the rows" for name in sorted(plain)]
            return ""
        name = plain.pop()
        method = self.methods.get(name)
        changed = _keys_set(method) if method is not None else ROW_KEYS
        if not changed <= ROW_KEYS | set(self.keys.values()):
            self.facts.left.append(f"{name} sets {', '.join(sorted(changed - ROW_KEYS))}, which the reward may read")
            return ""
        state = sorted(_own_state(method, self.keys)) if method is not None else []
        if state:
            self.facts.left.append(f"{name} over every row, which uses {', '.join(state)}")
            return ""
        self.body.append(f"row = {{**row, **{name}(row)}}")
        self.facts.moved.append(f"{name} over every row")
        if method is None:
            self.imported.add(name)
            return ""
        return self._as_function(method)

    def _as_function(self, method: ast.FunctionDef) -> str:
        free = ast.parse(ast.unparse(method)).body[0]
        assert isinstance(free, ast.FunctionDef)
        static = any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in free.decorator_list)
        if not static:
            free.args.args = free.args.args[1:]
        free.decorator_list = []
        return ast.unparse(_Keys(self.keys).visit(free))

    # ------------------------------------------------------------ __getitem__

    def _assigned(self) -> None:
        """Assignments to the row that need nothing but the row."""
        getter = self.methods.get("__getitem__")
        if getter is None:
            return
        row = _row_name(getter)
        for statement in getter.body:
            for node in ast.walk(statement):
                target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
                if not (isinstance(node, ast.Assign) and isinstance(target, ast.Subscript)):
                    continue
                if not (isinstance(target.value, ast.Name) and target.value.id == row):
                    continue
                key = _key(target.slice, self.keys)
                if key is None or key in INTERNAL:
                    continue
                value = _Keys(self.keys).visit(ast.parse(ast.unparse(node.value), mode="eval").body)
                names = {item.id for item in ast.walk(value) if isinstance(item, ast.Name)}
                if node is statement and names <= {row} and key in ROW_KEYS | set(self.keys.values()):
                    value = ast.unparse(_Rename(row).visit(value))
                    self.body.append(f"row[{key!r}] = {value}")
                    self.facts.moved.append(f"{self.node.name}.__getitem__ rewrites {key}")
                elif key == "tools_kwargs" and (found := tool_images(getter, node.value)):
                    self.facts.tool_images = found
                    self.facts.moved.append("tools get the images of their row")
                else:
                    self.facts.left.append(f"{self.node.name}.__getitem__ computes {key}")


def tool_images(getter: ast.FunctionDef, value: ast.expr) -> dict[str, dict[str, int | None]]:
    """`{tool: {"create_kwargs": {argument: images[0]}}}` where `images` are the row's; empty for anything else."""
    names = {
        target.id: node.value
        for node in ast.walk(getter)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    value = names.get(value.id, value) if isinstance(value, ast.Name) else value
    found: dict[str, dict[str, int | None]] = {}
    for tool, parts in _items(value):
        for part, arguments in _items(parts):
            wanted = {name: _number_of_image(item, names) for name, item in _items(arguments)}
            if part != "create_kwargs" or not wanted or any(item == () for item in wanted.values()):
                return {}
            found[tool] = {name: item for name, item in wanted.items() if not isinstance(item, tuple)}
    return found


def _items(node: ast.expr) -> list[tuple[str, ast.expr]]:
    if not isinstance(node, ast.Dict):
        return []
    pairs = zip(node.keys, node.values, strict=True)
    return [(key.value, value) for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def _number_of_image(node: ast.expr, names: dict[str, ast.expr]) -> int | None | tuple[()]:
    """The number in `images[0]`, None for `images`, () for anything else."""
    number: int | None = None
    place = node.slice if isinstance(node, ast.Subscript) else None
    if isinstance(node, ast.Subscript) and isinstance(place, ast.Constant) and isinstance(place.value, int):
        node, number = node.value, place.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ()
    return number if "image" in node.id and "row" in ast.unparse(names[node.id]) else ()


class _Keys(ast.NodeTransformer):
    """`self.prompt_key` as the text that it is."""

    def __init__(self, keys: dict[str, str]) -> None:
        self.keys = keys

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        return ast.Constant(self.keys[node.attr]) if own and node.attr in self.keys else node


class _Rename(ast.NodeTransformer):
    def __init__(self, row: str) -> None:
        self.row = row

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("row", node.ctx) if node.id == self.row else node


def _is_map(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) and node.args else None
    return isinstance(called, ast.Attribute) and called.attr == "map"


def _name(call: ast.AST) -> str:
    assert isinstance(call, ast.Call)
    function = call.args[0]
    return function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)


def _has(call: ast.AST, keyword: str) -> bool:
    return isinstance(call, ast.Call) and any(item.arg == keyword for item in call.keywords)


def _row_name(getter: ast.FunctionDef) -> str:
    for node in getter.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and "dataframe[" in ast.unparse(node.value):
                return target.id
    return "row_dict"


def _key(node: ast.expr, keys: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Attribute):
        return keys.get(node.attr)
    return None


def _keys_set(function: ast.FunctionDef) -> set[str]:
    """First-level keys that a function sets in the row it takes, or in a dictionary that it returns."""
    row = function.args.args[-1].arg if function.args.args else ""
    found: set[str] = set()
    for node in ast.walk(function):
        targets: list[ast.expr] = [node.target] if isinstance(node, ast.AugAssign) else []
        for target in node.targets if isinstance(node, ast.Assign) else targets:
            while isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == row:
                found.add(str(target.slice.value) if isinstance(target.slice, ast.Constant) else "a computed key")
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else "a computed key" for key in node.value.keys if key]
            found.update(map(str, keys))
    return found


def _own_state(function: ast.FunctionDef, keys: dict[str, str]) -> set[str]:
    """Attributes of `self` that a method uses and that are not known here."""
    found = {
        f"self.{node.attr}"
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return found - {f"self.{name}" for name in keys}
