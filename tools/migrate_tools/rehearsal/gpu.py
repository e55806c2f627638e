"""One real training step in the Relax image, where there is a GPU.

The step is the smallest of the Relax recipe contract, section 9: one GPU, colocate, two prompts x two samples.
Whatever the script sets is overridden through its trailing arguments. Never started without a GPU, Docker and image.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from migrate_tools.model import CheckResult, Example, Translation
from migrate_tools.rehearsal.rehearse import script_path

IMAGE = "ghcr.io/redai-studio/relaxrl:latest"
RELAX_ROOT = "/root/Relax"
"""Where the image expects the Relax checkout."""
STEP_SECONDS = 3600
OVERRIDES = (
    ("--resource", '{"actor":[1,1],"rollout":[1,1]}'),
    ("--num-gpus-per-node", "1"),
    ("--max-staleness", "0"),
    ("--num-rollout", "1"),
    ("--rollout-batch-size", "2"),
    ("--n-samples-per-prompt", "2"),
    ("--global-batch-size", "4"),
    ("--rollout-max-response-len", "64"),
    ("--tensor-model-parallel-size", "1"),
    ("--pipeline-model-parallel-size", "1"),
    ("--context-parallel-size", "1"),
    ("--rollout-num-gpus-per-engine", "1"),
    ("--sglang-mem-fraction-static", "0.4"),
    ("--no-use-metrics-service", None),
)
"""Flags of the step, in the order in which they follow the script's own."""
WHEN_SET = {
    "--eval-interval": "1000000",
    "--save-interval": "1000000",
    "--num-steps-per-rollout": "1",
    "--over-sampling-batch-size": "2",
}
"""Overrides of flags that not every script has: no evaluation, no checkpoint, sizes that fit the small batch."""
Runner = Callable[[Sequence[str], float], "subprocess.CompletedProcess[str]"]


def _run(argv: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(argv), capture_output=True, text=True, timeout=seconds, check=False)


def gpu_name(run: Runner = _run) -> str | None:
    """The first NVIDIA GPU that answers, or None."""
    if shutil.which("nvidia-smi") is None:
        return None
    try:
        answer = run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], 20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    names = answer.stdout.strip().splitlines() if answer.returncode == 0 else []
    return names[0].strip() if names else None


def obstacle(run: Runner = _run) -> str | None:
    """Why no training step can be run here, None when nothing is in the way."""
    if gpu_name(run) is None:
        return "there is no NVIDIA GPU on this machine (nvidia-smi finds none), so no real training step was run"
    if shutil.which("docker") is None:
        return f"there is a GPU, but no docker command to start {IMAGE} with"
    try:
        image = run(["docker", "image", "inspect", "--format", "{{.Id}}", IMAGE], 30)
    except (OSError, subprocess.TimeoutExpired):
        return "there is a GPU, but the Docker engine does not answer"
    if image.returncode != 0:
        return f"there is a GPU, but the image {IMAGE} is not here (docker pull {IMAGE})"
    return None


def smoke_command(
    example: Example,
    translation: Translation,
    *,
    tree: Path,
    data: Path,
    models: Path,
    save: Path,
    name: str = "migrate-agent-smoke",
) -> tuple[str, ...]:
    """The exact `docker run` of the step; the example lies over the image's own Relax checkout.

    Args:
        tree: folder with the example's files below it (examples/, scripts/tools/).
        data: DATA_DIR with the converted rows. models: MODEL_DIR. save: SAVE_DIR, writable.
    """
    inner = [f"examples/{example.algo}", f"scripts/tools/process_{example.algo}.py"]
    mounts = [f"{tree / path}:{RELAX_ROOT}/{path}:ro" for path in inner if (tree / path).exists()]
    mounts += [f"{data}:/data:ro", f"{models}:/models:ro", f"{save}:/save"]
    used = {flag.name for flag in translation.flags}
    overrides = (*OVERRIDES, *((flag, value) for flag, value in WHEN_SET.items() if flag in used))
    words = [word for flag, value in overrides for word in ((flag,) if value is None else (flag, value))]
    script = shlex.join(["bash", script_path(example, translation), "sync", *words])
    environment = {"MODEL_DIR": "/models", "DATA_DIR": "/data", "SAVE_DIR": "/save", "NUM_GPUS": "1"}
    return (
        "docker",
        "run",
        "--rm",
        "--name",
        name,
        "--gpus",
        "all",
        "--ipc=host",
        "--network",
        "none",
        *(word for mount in mounts for word in ("-v", mount)),
        *(word for key, value in environment.items() for word in ("-e", f"{key}={value}")),
        "-w",
        RELAX_ROOT,
        IMAGE,
        "bash",
        "-c",
        script,
    )


def run_smoke(
    example: Example,
    translation: Translation,
    *,
    tree: Path,
    data: Path,
    models: Path | None,
    place: Path,
    run: Runner = _run,
) -> CheckResult:
    """Rung 7: the step, or the reason why it was not run.

    Args:
        models: folder that holds the model's checkpoint, None when there is none at hand.
        place: folder for SAVE_DIR and the log.
    """
    began = time.monotonic()
    why = obstacle(run)
    model = models / translation.model_dir_name if models is not None else None
    if why is None and (model is None or not model.is_dir()):
        why = f"there is a GPU, but no checkpoint {translation.model_dir_name} in MODEL_DIR"
    if why is not None or models is None:
        return CheckResult(name="gpu_smoke", rung=7, status="skipped", summary=why or "")
    (place / "save").mkdir(parents=True, exist_ok=True)
    command = smoke_command(example, translation, tree=tree, data=data, models=models, save=place / "save")
    try:
        answer = run(command, STEP_SECONDS)
        code, text = answer.returncode, answer.stdout + answer.stderr
    except subprocess.TimeoutExpired:
        run(["docker", "kill", "migrate-agent-smoke"], 60)
        code, text = -1, f"stopped after {STEP_SECONDS} s"
    (place / "smoke.log").write_text(text, encoding="utf-8")
    last = [line for line in text.splitlines() if line.strip()][-5:]
    return CheckResult(
        name="gpu_smoke",
        rung=7,
        status="passed" if code == 0 else "failed",
        seconds=round(time.monotonic() - began, 3),
        summary="one rollout and one training step ended well" if code == 0 else f"the step ended with status {code}",
        evidence={"command": shlex.join(command), "returncode": code, "last_lines": last},
    )
