"""What plain bash really starts: a second opinion on the commands that the reader finds.

Each script runs once in the sandbox under bash, from the root of its checkout, with nothing set; programs that would
train, install, download or change files only write down how they were called. Nothing of the reader's own recorder is
used: no variables are guessed, no second try is made.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from migrate_tools.sandbox import Job, Limits, Mount, Sandbox
from migrate_tools.verl.commands import classify, parse

SECONDS = 8
RECORDED = (
    "python", "python3", "python3.10", "python3.11", "python3.12", "torchrun", "accelerate", "deepspeed", "ray", "srun",
    "sbatch", "uv", "swift", "trl",
)  # fmt: skip
QUIET = (
    "pip", "pip3", "conda", "mamba", "git", "wget", "curl", "docker", "nvidia-smi", "npu-smi", "ssh", "scp", "rsync",
    "sleep", "mkdir", "touch", "cp", "mv", "rm", "ln", "chmod", "chown", "tar", "unzip", "pkill", "kill", "killall",
    "apt", "apt-get", "huggingface-cli", "hf", "nsys", "hdfs", "aws", "gsutil", "systemctl", "sudo", "sysctl", "ulimit",
)  # fmt: skip
_RECORD = "#!/bin/bash\n{ printf '%s\\0' \"${0##*/}\" \"$@\"; printf '\\n\\0'; } >> /work/calls\nexit 0\n"
_QUIET = "#!/bin/bash\nexit 0\n"
_DRIVER = """
export PATH=/stubs:/usr/local/bin:/usr/bin:/bin HOME=/work/home
/bin/mkdir -p /work/home
cd /project
while IFS= read -r script; do
  : > /work/calls
  timeout -k 1 {seconds} bash "$script" </dev/null >/dev/null 2>&1
  printf '%s %s\\n' "$?" "$(base64 -w0 < /work/calls)"
done
"""


def witness(scripts: Sequence[Path], project: Path, sandbox: Sandbox) -> dict[Path, list[tuple[str, ...]]]:
    """Script -> the RL training commands that bash started, in order, as words.

    Raises:
        RuntimeError: the job gave another number of answers than scripts.
    """
    found: dict[Path, list[tuple[str, ...]]] = {}
    for start in range(0, len(scripts), 40):
        batch = scripts[start : start + 40]
        for script, (_, calls) in zip(batch, _run(batch, project, sandbox), strict=True):
            found[script] = [argv for call in calls if (argv := _training(call))]
    return found


def _run(scripts: Sequence[Path], project: Path, sandbox: Sandbox) -> list[tuple[int, list[tuple[str, ...]]]]:
    import base64

    with tempfile.TemporaryDirectory(prefix="witness-") as folder:
        stubs = Path(folder) / "stubs"
        stubs.mkdir()
        for name, text in (*((name, _RECORD) for name in RECORDED), *((name, _QUIET) for name in QUIET)):
            (stubs / name).write_text(text)
            (stubs / name).chmod(0o755)
        Path(folder).chmod(0o755)
        outcome = sandbox.run(
            Job(
                argv=("/bin/bash", "-c", _DRIVER.format(seconds=SECONDS)),
                mounts=(Mount(project, "/project"), Mount(stubs, "/stubs")),
                stdin="".join(f"{script.relative_to(project)}\n" for script in scripts).encode(),
                limits=Limits(seconds=30 + (SECONDS + 2) * len(scripts), output_bytes=32 << 20),
            )
        )
    lines = outcome.stdout.decode("ascii", "replace").splitlines()
    if len(lines) != len(scripts):
        raise RuntimeError(f"{len(scripts)} scripts, {len(lines)} answers: {outcome.stderr.decode()[-500:]}")
    answers = []
    for line in lines:
        code, _, data = line.partition(" ")
        words = base64.b64decode(data).decode("utf-8", "replace").split("\0")
        calls: list[tuple[str, ...]] = []
        call: list[str] = []
        for word in words[:-1]:
            if word == "\n":
                calls.append(tuple(call))
                call = []
            else:
                call.append(word)
        answers.append((int(code), calls))
    return answers


def _training(call: Sequence[str]) -> tuple[str, ...]:
    """The RL training command inside a call (`ray job submit ... -- python3 -m ...`); empty when there is none."""
    words = list(call)
    if words[:3] == ["ray", "job", "submit"]:
        words = words[words.index("--") + 1 :] if "--" in words else []
        if len(words) == 1:
            words = shlex.split(words[0])
        if words[:2] == ["bash", "-c"] and len(words) > 2:
            words = shlex.split(words[2])
    elif words[:1] in (["srun"], ["uv"]):
        start = next((i for i, word in enumerate(words[1:], 1) if word.startswith(("python", "torchrun"))), len(words))
        words = words[start:]
    while words and "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    command = parse(words) if words else None
    return tuple(words) if command is not None and classify(command).name == "rl" else ()
