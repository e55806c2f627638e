"""What a piece of reward code does besides computing: found in its syntax tree, without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

HTTP = frozenset({"requests", "aiohttp", "httpx", "urllib3", "http"})
JUDGE = frozenset({"openai", "litellm", "anthropic", "zhipuai", "dashscope", "cohere", "together", "google"})
PROCESS = frozenset({"subprocess", "multiprocessing", "pebble", "billiard", "pexpect"})
SIGNAL = frozenset({"signal", "func_timeout", "timeout_decorator", "wrapt_timeout_decorator", "math_verify"})
RANDOM = frozenset({"random", "secrets", "uuid"})
JUDGE_WORDS = ("chat/completions", "v1/completions", "/generate", "judge", "chat.completions")
GPU_PACKAGES = frozenset({"torch", "tensordict", "ray", "vllm", "sglang", "flash_attn", "megatron"})
"""Packages that a reward module must not need (Relax imports rewards in processes that may lack them)."""
FRAMEWORKS = GPU_PACKAGES | {"transformers", "datasets"}
"""Packages that take long to load and may be missing where a reward is loaded."""
RUNNERS = frozenset({"exec", "eval", "compile", "__import__"})
FILE_CALLS = frozenset({"open", "read_text", "write_text", "read_bytes", "write_bytes", "makedirs", "mkdir", "unlink"})
WRITING_CALLS = frozenset(
    {"makedirs", "mkdir", "touch", "write_text", "write_bytes", "FileHandler", "RotatingFileHandler"}
)
TIME_CALLS = frozenset(
    {"time.time", "time.sleep", "time.perf_counter", "time.monotonic", "datetime.now", "asyncio.sleep"}
)


def find_traits(code: str) -> tuple[str, ...]:
    """Sorted traits of a module text (the words are listed at RewardSpec.traits)."""
    tree = ast.parse(code)
    found: set[str] = set()
    for name in imported_modules(tree):
        found |= _import_traits(name)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found |= _call_traits(node)
        elif isinstance(node, ast.Subscript) and _text(node.value) in ("os.environ", "environ"):
            found |= _environment(node.slice)
        elif isinstance(node, ast.Constant) and "http" in found and _names_a_judge(node.value):
            found.add("judge")
    if "sleep" in used:
        found.add("time")
    return tuple(sorted(found))


def file_writes(code: str) -> tuple[str, ...]:
    """Calls by which a module text makes files or folders (`mkdir`, `open` for writing ...), each name once."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    return tuple(sorted({name for call in calls if (name := _writing(call))}))


def _writing(call: ast.Call) -> str:
    name = _text(call.func).rsplit(".", 1)[-1] or (call.func.attr if isinstance(call.func, ast.Attribute) else "")
    if name != "open":
        return name if name in WRITING_CALLS else ""
    first = 1 if len(call.args) > 1 or not isinstance(call.func, ast.Attribute) else 0  # path.open(mode)
    modes = [*call.args[first : first + 1], *(word.value for word in call.keywords if word.arg == "mode")]
    if call.args and _text(call.args[0]).endswith("devnull"):
        return ""
    texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    return name if any(len(text) <= 3 and set(text) & set("wax+") for text in texts) else ""


def third_party_imports(code: str) -> tuple[str, ...]:
    """Root packages that a module text imports, at any depth, outside the standard library."""
    roots = {name.split(".")[0] for name in imported_modules(ast.parse(code))}
    return tuple(sorted(root for root in roots if root and root not in sys.stdlib_module_names))


def imported_modules(tree: ast.AST, *, loading: bool = False) -> Iterator[str]:
    """Dotted names of the imported modules; relative imports and those for type checkers are left out.

    Args:
        loading: only those that are imported while the module is loaded, not inside its functions.
    """
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.If) and _text(node.test).endswith("TYPE_CHECKING"):
            stack.extend(node.orelse)
            continue
        elif loading and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        stack.extend(ast.iter_child_nodes(node))


def _import_traits(name: str) -> set[str]:
    root = name.split(".")[0]
    found: set[str] = set()
    for trait, roots in (("http", HTTP | JUDGE), ("judge", JUDGE), ("process", PROCESS), ("signal", SIGNAL)):
        if root in roots or (root == "urllib" and name == "urllib.request" and trait == "http"):
            found.add(trait)
    if name == "concurrent.futures":
        found.discard("process")
    if "process" in found:
        found.add("children")  # it can end what runs too long; exec() in the own process cannot
    if root in RANDOM or name == "numpy.random":
        found.add("random")
    if root not in sys.stdlib_module_names:
        found.add(f"import:{root}")
    return found


def _call_traits(node: ast.Call) -> set[str]:
    text = _text(node.func)
    last = text.rsplit(".", 1)[-1]
    found: set[str] = set()
    if text in RUNNERS:
        found.add("process")
    if last in ("ProcessPoolExecutor", "Popen", "fork") or text == "os.system":
        found |= {"process", "children"}
    if text == "print":
        found.add("print")
    if last in FILE_CALLS and text != "re.compile":
        found.add("file")
    if text in TIME_CALLS or text.endswith(("datetime.now", ".perf_counter")):
        found.add("time")
    if text.startswith(("np.random.", "numpy.random.", "torch.rand")):
        found.add("random")
    if last in ("timeout", "timeout_limit", "exit_after") and "aiohttp" not in text and "." not in text:
        found.add("signal")
    if text in ("os.getenv", "getenv", "os.environ.get", "environ.get", "os.environ.setdefault") and node.args:
        found |= _environment(node.args[0])
    return found


def _names_a_judge(value: object) -> bool:
    return isinstance(value, str) and any(word in value for word in JUDGE_WORDS)


def _environment(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {f"env:{node.value}"}
    return set()


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        inner = _text(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    return node.id if isinstance(node, ast.Name) else ""
