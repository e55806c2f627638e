"""The run script has the guide's form, keeps shell text intact and passes further flags through."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from migrate_tools.model import Flag
from migrate_tools.relax.formatting import format_shell, tool
from migrate_tools.relax.run_script import ScriptFacts, render_script, script_name
from writer_inputs import make_launch, make_translation

RECORDER = """#!/bin/bash
printf '%s\\n' "$@" >"${RECORD:?}"
"""


def script(
    translation: Any = None, *, config_name: str = "", reward_module: str = "reward_demo", launch: Any = None
) -> str:
    facts = ScriptFacts(launch or make_launch(), "demo", reward_module, config_name, "run_x.sh (verl 0.9.1)")
    return render_script(translation or make_translation(), facts)


def run(
    tmp_path: Path, text: str, *arguments: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Runs a script of ours with python3 replaced by a recorder; no entry point is ever sourced."""
    place = tmp_path / "relax" / "examples" / "demo" / "run_demo.sh"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    models = tmp_path / "models"
    models.mkdir(exist_ok=True)
    (models / "qwen3-0.6B.sh").write_text("MODEL_ARGS=(--num-layers 2)\n")
    fake = tmp_path / "bin"
    fake.mkdir(exist_ok=True)
    (fake / "python3").write_text(RECORDER)
    (fake / "python3").chmod(0o755)
    record = tmp_path / "argv"
    record.unlink(missing_ok=True)
    settings = {
        "PATH": f"{fake}:{os.environ['PATH']}",
        "RELAX_ENTRYPOINT_MODE": "test",
        "MODEL_CONFIG_DIR": str(models),
        "MODEL_DIR": "/m o d e l s",
        "DATA_DIR": "/data",
        "RECORD": str(record),
        **environment,
    }
    done = subprocess.run(["bash", str(place), *arguments], env=settings, capture_output=True, text=True, timeout=30)
    return done, record.read_text().splitlines() if record.exists() else []


def test_shellcheck_clean_and_stable_under_shfmt(tmp_path: Path) -> None:
    text = script(config_name="demo_config.yaml")
    assert format_shell(text) == text
    path = tmp_path / "run.sh"
    path.write_text(text)
    done = subprocess.run([tool("shellcheck"), "--norc", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_lines_of_the_guide() -> None:
    lines = script().splitlines()
    assert lines[0] == "#!/bin/bash"
    assert [line for line in lines if line.startswith("set -")] == ["set -ex", "set -o pipefail"]
    assert 'MODE=${1:-${MODE:-"sync"}} # Arg $1 > env $MODE > default "sync"' in lines
    assert 'source "${MODEL_CONFIG_DIR}/qwen3-0.6B.sh"' in lines
    assert "    # 8 prompts x 4 samples = 32 samples a rollout, 1 update(s) of 32 samples" in lines
    assert '#           --train "$HOME/a b/train.parquet" \\' in lines
    assert '#           --output-dir "${DATA_DIR}/demo"' in lines


@pytest.mark.parametrize(
    ("arguments", "environment", "wanted", "other"),
    [
        ((), {}, "--colocate", "--fully-async"),
        (("sync",), {"MODE": "async"}, "--colocate", "--fully-async"),
        (("async",), {}, "--fully-async", "--colocate"),
        ((), {"MODE": "async"}, "--fully-async", "--colocate"),
        (("--lr", "1 2"), {"MODE": "async"}, "--fully-async", "--colocate"),
    ],
)
def test_modes(tmp_path: Path, arguments: Any, environment: Any, wanted: str, other: str) -> None:
    done, argv = run(tmp_path, script(), *arguments, **environment)
    assert done.returncode == 0, done.stderr
    assert wanted in argv
    assert other not in argv


def test_further_flags_come_last_and_words_stay_whole(tmp_path: Path) -> None:
    _, argv = run(tmp_path, script(), "async", "--lr", "1 2")
    assert argv[-2:] == ["--lr", "1 2"]
    assert "/m o d e l s/Qwen3-0.6B" in argv
    assert "['/data/demo/train.parquet']" in argv
    assert argv[0] == "relax/entrypoints/train.py"
    assert "--num-layers" in argv


def test_unknown_mode_and_missing_folder_stop_before_anything_runs(tmp_path: Path) -> None:
    done, argv = run(tmp_path, script(), "hybrid")
    assert (done.returncode, argv) == (2, [])
    assert "unknown mode 'hybrid': use sync or async" in done.stderr
    done, argv = run(tmp_path, script(), DATA_DIR="")
    assert (done.returncode != 0, argv) == (True, [])
    assert "set DATA_DIR to the folder that holds the converted data" in done.stderr


def test_async_is_refused_with_the_reason(tmp_path: Path) -> None:
    text = script(make_translation(async_refusal='rloo can\'t run "fully async" for $5'))
    done, argv = run(tmp_path, text, "async")
    assert (done.returncode, argv) == (2, [])
    assert 'async is not possible here: rloo can\'t run "fully async" for $5. Use sync.' in done.stderr
    done, argv = run(tmp_path, text, "sync")
    assert "--colocate" in argv


def test_json_and_quotes_reach_the_trainer(tmp_path: Path) -> None:
    value = """'{"a b": "it'"'"'s $HOME"}'"""
    flag = Flag(name="--apply-chat-template-kwargs", value=value, group="ROLLOUT")
    _, argv = run(tmp_path, script(make_translation(flags=(flag,))))
    assert argv[argv.index("--apply-chat-template-kwargs") + 1] == '{"a b": "it\'s $HOME"}'


def test_save_folder_is_required_only_when_used() -> None:
    assert "SAVE_DIR" not in script()
    flag = Flag(name="--save", value='"${SAVE_DIR}/demo"', group="CKPT")
    assert ': "${SAVE_DIR:?' in script(make_translation(flags=(flag,)))


def test_generated_model_args_and_unknown_model(tmp_path: Path) -> None:
    known = make_translation(model_script="", model_args=("--num-layers 7", "--swiglu"))
    _, argv = run(tmp_path, script(known))
    assert argv[argv.index("--num-layers") + 1] == "7"
    sparse = make_translation(model_script="", model_args=("--moe-layer-freq '[0,1,1]'", "--swiglu"))
    _, argv = run(tmp_path, script(sparse))
    assert argv[argv.index("--moe-layer-freq") + 1] == "[0,1,1]"
    done, argv = run(tmp_path, script(make_translation(model_script="", model_args=())))
    assert (done.returncode != 0, argv) == (True, [])
    assert "set MODEL_CONFIG to the scripts/models/<name>.sh" in done.stderr


def test_hook_config_and_special_tokens_follow_the_launch(tmp_path: Path) -> None:
    text = script(
        reward_module="reward_demo_b", config_name="demo_config.yaml", launch=make_launch(skip_special_tokens=False)
    )
    _, argv = run(tmp_path, text)
    assert argv[argv.index("--custom-rm-path") + 1] == "examples.demo.reward_demo_b.reward_func"
    assert argv[argv.index("--custom-config-path") + 1] == str(tmp_path / "relax/examples/demo/demo_config.yaml")
    assert "--rollout-skip-special-tokens" not in argv
    assert "--custom-rm-path" not in script(reward_module="")


def test_names_of_the_recipe_cannot_run_commands(tmp_path: Path) -> None:
    config = {"trainer.project_name": 'a"; touch /tmp/x; $(id)', "trainer.experiment_name": "e`id`/x y"}
    text = script(launch=make_launch(config=config))
    assert 'PROJECT_NAME="${PROJECT_NAME:=a- touch /tmp/x- -id}"' in text
    assert 'EXP_NAME="${EXP_NAME:=e-id-x-y-${MODE}}"' in text.replace("-/", "-").replace("--", "-")


def test_script_names() -> None:
    assert script_name(make_translation()) == "run_demo.sh"
    assert script_name(make_translation(variant="7b ../x")) == "run_demo_7b_.._x.sh"


@pytest.mark.parametrize(("refusal", "default"), [("", "async"), ("Relax runs rloo in colocate mode only", "sync")])
def test_default_mode_is_async_only_where_async_works(refusal: str, default: str) -> None:
    translation = make_translation().model_copy(update={"async_refusal": refusal})
    facts = ScriptFacts(make_launch(), "demo", "reward_demo", "", "run_x.sh (verl 0.9.1)", "async")
    assert f'MODE=${{1:-${{MODE:-"{default}"}}}}' in render_script(translation, facts)
