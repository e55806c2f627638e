"""What rung 1 asks of an example when the contract was read from a checkout."""

from __future__ import annotations

from pathlib import Path

from migrate_tools.checks.contract import foreign_fields, missing_scripts, unloaded_hooks
from migrate_tools.model import ExampleFile, Translation
from migrate_tools.relax.checkout import read_checkout
from migrate_tools.relax.contract import load_contract
from relax_trees import relax_checkout

REWARD = """\
async def reward_func(args, sample, **kwargs):
    sample.seen = 1
    print(sample.seen, sample.response, sample.messages)
    return sample.messages
"""


def python(text: str, path: str = "examples/a/reward_a.py") -> ExampleFile:
    return ExampleFile(path=path, text=text, origin="extracted")


def test_fields_that_sample_lacks_are_named_once() -> None:
    assert foreign_fields([python(REWARD)], {"response", "metadata"}) == [
        "examples/a/reward_a.py:3: Sample has no messages in this Relax"
    ]
    assert foreign_fields([python(REWARD)], {"response", "messages"}) == []
    assert foreign_fields([python(REWARD)], set()) == [], "nothing is said when the fields are not known"
    assert foreign_fields([python(REWARD, "scripts/tools/process_a.py")], {"response"}) == []


def test_model_scripts_that_are_not_there_are_named() -> None:
    translations = [Translation(launch=str(n), algo="a", model_script=name) for n, name in enumerate(["x", "y", ""])]
    assert missing_scripts(translations, {"y"}) == ["scripts/models/x.sh is not in this Relax checkout"]
    assert missing_scripts(translations, None) == []


def test_hooks_that_nothing_loads_and_unread_flags_are_doubtful(tmp_path: Path) -> None:
    loader = """\
        import importlib
        def load_function(path):
            return getattr(importlib.import_module(path), "f")
        def use(args):
            return load_function(args.custom_rm_path)
        """
    root = relax_checkout(
        tmp_path / "r", without=["--eps-clip"], extra="    parser.add_argument(*made())\n", relax__utils__misc=loader
    )
    file = tmp_path / "c.json"
    file.write_text(read_checkout(root).saved())
    flags = ["--custom-rm-path", "--eps-clip", "--custom-generate-function-path", "--lr"]
    assert unloaded_hooks(flags, load_contract(str(file))) == [
        "--eps-clip could not be confirmed: some flags of the checkout are computed",
        "--custom-generate-function-path exists, but no call in the checkout was found that loads its function",
    ]
    assert unloaded_hooks(flags, load_contract()) == []
