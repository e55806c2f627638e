"""What is read from Relax checkouts of several shapes, and that the result works as a contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from migrate_tools.errors import RefusedInput, UsageError
from migrate_tools.relax.checkout import read_checkout
from migrate_tools.relax.contract import load_contract
from relax_trees import relax_checkout, write_tree


def flags_of(root: Path, **files: str) -> dict[str, dict[str, object]]:
    """Name -> entry."""
    return {str(entry["flag"]): entry for entry in read_checkout(write_tree(root, **files)).flags}


def test_types_choices_and_defaults_of_literal_calls(tmp_path: Path) -> None:
    flags = flags_of(
        tmp_path,
        arguments="""\
            import argparse, json
            def add(parser):
                group = parser.add_argument_group("rollout")
                group.add_argument("-n", "--num-rollout", "--rollouts", type=int, default="3")
                group.add_argument("--eps-clip", type=float, default=0.2, help="x")
                group.add_argument("--mode", choices=["a", "b"], default="a")
                group.add_argument("--use-x", action="store_true")
                group.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True)
                group.add_argument("--resource", type=json.loads)
                group.add_argument("--stops", nargs="+", dest="stop_words")
                group.add_argument("positional")
            """,
    )
    at = "relax/utils/arguments.py"
    assert flags == {
        "--num-rollout": {
            "flag": "--num-rollout", "family": "relax", "type": "int", "default": 3,
            "aliases": ["--rollouts"], "at": f"{at}:4",
        },
        "--eps-clip": {"flag": "--eps-clip", "family": "relax", "type": "float", "default": 0.2, "at": f"{at}:5"},
        "--mode": {"flag": "--mode", "family": "relax", "choices": ["a", "b"], "default": "a", "at": f"{at}:6"},
        "--use-x": {"flag": "--use-x", "family": "relax", "action": "store_true", "default": False, "at": f"{at}:7"},
        "--keep": {"flag": "--keep", "family": "relax", "action": "boolean_optional", "default": True, "at": f"{at}:8"},
        "--resource": {"flag": "--resource", "family": "relax", "type": "json", "at": f"{at}:9"},
        "--stops": {"flag": "--stops", "family": "relax", "dest": "stop_words", "nargs": "+", "at": f"{at}:10"},
    }  # fmt: skip


def test_values_follow_constants_enums_and_imports(tmp_path: Path) -> None:
    flags = flags_of(
        tmp_path,
        arguments="""\
            from .names import ESTIMATORS, Kind as K
            from relax.utils import names
            LIMIT = 2 * 1024
            def add(parser):
                parser.add_argument("--advantage-estimator", choices=list(ESTIMATORS), default=names.FIRST)
                parser.add_argument("--kind", choices=[k.value for k in K], default=K.SLOW.value)
                parser.add_argument("--limit", type=int, default=LIMIT)
                parser.add_argument("--low", type=float, default=-1.5)
                parser.add_argument("--port", type=int, default=find_port())
            """,
        relax__utils__names="""\
            from enum import Enum
            ESTIMATORS = ("grpo", "gspo")
            FIRST = ESTIMATORS_FIRST = "grpo"
            class Kind(Enum):
                FAST = "fast"
                SLOW = "slow"
            """,
    )
    assert flags["--advantage-estimator"]["choices"] == ["grpo", "gspo"]
    assert flags["--advantage-estimator"]["default"] == "grpo"
    assert flags["--kind"]["choices"] == ["fast", "slow"]
    assert flags["--kind"]["default"] == "slow"
    assert flags["--limit"]["default"] == 2048
    assert flags["--low"]["default"] == -1.5
    assert flags["--port"]["computed"] == ["default"]
    assert "default" not in flags["--port"]


def test_names_made_in_loops_and_helpers(tmp_path: Path) -> None:
    flags = flags_of(
        tmp_path,
        arguments="""\
            ROLES = ["actor", "critic"]
            TABLE = [(("--first", "--one"), {"type": int, "default": 1}), (("--second",), {"action": "store_true"})]

            def switch(parser, name, default=False, *, help=""):
                parser.add_argument(f"--use-{name}", action="store_true", default=default)

            def reset(parser, name, **kwargs):
                for action in parser._actions:
                    if name in action.option_strings:
                        action.default = kwargs["default"]
                        break
                else:
                    parser.add_argument(name, **kwargs)

            class Group:
                def put(self, parser, name, kind=str, value=None):
                    parser.add_argument("--" + name, type=kind, default=value)

                def all(self, parser):
                    self.put(parser, "depth", int, 4)
                    self.put(parser, name="title")

            def add(parser):
                for role in ROLES:
                    parser.add_argument(f"--{role}-lr", type=float, default=1e-6)
                for names, spec in TABLE:
                    parser.add_argument(*names, **spec)
                switch(parser, "kl-loss")
                switch(parser, "tis", default=True)
                reset(parser, "--seed", type=int, default=42)
                parser.set_defaults(actor_lr=2e-6)
            """,
    )
    assert sorted(flags) == [
        "--actor-lr", "--critic-lr", "--depth", "--first", "--second", "--seed", "--title",
        "--use-kl-loss", "--use-tis",
    ]  # fmt: skip
    assert (flags["--actor-lr"]["default"], flags["--critic-lr"]["default"]) == (2e-6, 1e-6)
    assert (flags["--first"]["type"], flags["--first"]["aliases"]) == ("int", ["--one"])
    assert flags["--second"]["action"] == "store_true"
    assert (flags["--use-kl-loss"]["default"], flags["--use-tis"]["default"]) == (False, True)
    assert (flags["--depth"]["type"], flags["--depth"]["default"]) == ("int", 4)
    assert flags["--seed"]["default"] == 42
    assert str(flags["--use-tis"]["at"]).endswith(":29"), "the place of a helped flag is the call, not the helper"


def test_only_the_trainer_counts(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        arguments="""\
            def add(parser):
                parser.add_argument('--lr', type=float)
                parser.add_argument(make())
            def main():
                parser.add_argument('--own-program')
            if __name__ == '__main__':
                parser.add_argument('--x')
            """,
        relax__tools__convert="parser.add_argument('--from-tool')\n",
        relax__broken="def (:\n",
    )
    checkout = read_checkout(root)
    assert [entry["flag"] for entry in checkout.flags] == ["--lr"]
    assert [(item.line, item.why) for item in checkout.unread] == [(3, "its name is computed")]
    assert checkout.unparsed == ("relax/broken.py",)


def test_a_tree_without_the_known_entry_is_read_whole(tmp_path: Path) -> None:
    package = tmp_path / "relax"
    package.mkdir()
    (package / "options.py").write_text("def f(p):\n    p.add_argument('--a')\n")
    (package / "more.py").write_text("def g(p):\n    p.add_argument('--b')\n")
    assert [entry["flag"] for entry in read_checkout(tmp_path).flags] == ["--b", "--a"]


@pytest.mark.parametrize(("made", "why"), [(False, "no folder relax/"), (True, "no flag is added")])
def test_other_folders_are_refused(tmp_path: Path, made: bool, why: str) -> None:
    if made:
        (tmp_path / "relax").mkdir()
    with pytest.raises(RefusedInput, match=why):
        read_checkout(tmp_path)


def test_hooks_model_scripts_and_sample(tmp_path: Path) -> None:
    checkout = read_checkout(
        write_tree(
            tmp_path,
            arguments="def add(parser):\n    parser.add_argument('--custom-rm-path')\n",
            relax__utils__misc="""\
                import importlib
                def load_function(path):
                    module, _, name = path.rpartition(".")
                    return getattr(importlib.import_module(module), name)
                """,
            relax__engine__rewards="""\
                from relax.utils.misc import load_function
                async def reward(args, sample):
                    return await load_function(args.custom_rm_path)(args, sample)
                class Manager:
                    def __init__(self):
                        self.post = load_function(self.args.custom_reward_post_process_path)
                        self.other = load_function(getattr(args, "data_source_path", None))
                """,
            relax__utils__types="""\
                @dataclass
                class Sample:
                    class Status(Enum):
                        PENDING = "pending"
                    prompt: str | list = ""
                    metadata: dict = field(default_factory=dict)
                    def get_reward_value(self, args): ...
                """,
            **{
                "scripts__models__qwen3-4B.sh": "MODEL_ARGS=(--num-layers 36)\n",
                "scripts__models__common.sh": "set -e\n",
            },
        )
    )
    assert checkout.hooks == {
        "custom_rm_path": "relax/engine/rewards.py:3",
        "custom_reward_post_process_path": "relax/engine/rewards.py:6",
        "data_source_path": "relax/engine/rewards.py:7",
    }
    assert checkout.model_scripts == ("qwen3-4B",)
    assert checkout.sample_fields == {
        "prompt": "str | list",
        "metadata": "dict",
        "get_reward_value": "method",
        "Status": "class",
    }


def test_an_equal_checkout_differs_in_nothing(tmp_path: Path) -> None:
    checkout = read_checkout(relax_checkout(tmp_path, "studio"))
    assert checkout.base == "studio"
    assert (checkout.only_here, checkout.only_built_in, checkout.differences, checkout.unread) == ((), (), (), ())


def test_a_saved_contract_is_used_like_a_built_in_one(tmp_path: Path) -> None:
    extra = "    parser.add_argument('--brand-new', type=int)\n    parser.add_argument('--clip-grad', default=0.5)\n"
    checkout = read_checkout(relax_checkout(tmp_path / "relax-x", "studio", without=["--eps-clip"], extra=extra))
    assert checkout.only_here == ("--brand-new",)
    assert checkout.only_built_in == ("--eps-clip",)
    assert [(item.flag, item.built_in, item.checkout) for item in checkout.differences] == [("--clip-grad", 1.0, 0.5)]
    file = tmp_path / "contract.json"
    file.write_text(checkout.saved())
    contract = load_contract(str(file))
    assert contract.title == "checkout relax-x no commit"
    parsed = contract.parse(["--brand-new", "3", "--eps-clip", "0.2", "--tensor-model-parallel-size", "2"])
    assert [problem.text for problem in parsed.problems] == [
        "--eps-clip does not exist in this version (only in the built-in contract studio)"
    ]
    assert (parsed.get("brand_new"), parsed.get("clip_grad"), parsed.get("tensor_model_parallel_size")) == (3, 0.5, 2)
    assert contract.unconfirmed == frozenset()


def test_flags_that_may_be_among_the_computed_ones_stay(tmp_path: Path) -> None:
    checkout = read_checkout(
        relax_checkout(tmp_path / "r", "studio", without=["--eps-clip"], extra="    parser.add_argument(*made())\n")
    )
    file = tmp_path / "c.json"
    file.write_text(checkout.saved())
    contract = load_contract(str(file))
    assert contract.unconfirmed == {"--eps-clip"}
    assert contract.parse(["--eps-clip", "0.3"]).get("eps_clip") == 0.3


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "other", "schema": 1}', json.dumps({"kind": "relax-contract"})])
def test_other_files_are_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "c.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="is not a saved Relax contract"):
        load_contract(str(file))
