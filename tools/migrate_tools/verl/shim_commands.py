"""The commands that a launch script finds on its PATH: recorders, and stand-ins with fixed answers.

Shell text only, written into a folder of the sandbox before a script runs; standard library only.
"""

from __future__ import annotations

from pathlib import Path

USER = "USER__"

BASH_ENV = r"""
exec 19>>"$SHIM_LOG/trace"
BASH_XTRACEFD=19
PS4=$'\x01${BASH_SOURCE:-}\x02${LINENO:-}\x02'
RANDOM=7
set -x
"""
FORGIVING = r"""
{ set +x; } 2>/dev/null
source() { builtin source "$@" 2>/dev/null || true; }
.() { builtin . "$@" 2>/dev/null || true; }
cd() { builtin cd "$@" 2>/dev/null || true; }
cp() { command cp "$@" 2>/dev/null || true; }
mv() { command mv "$@" 2>/dev/null || true; }
rm() { command rm "$@" 2>/dev/null || true; }
mkdir() { command mkdir "$@" 2>/dev/null || true; }
ln() { command ln "$@" 2>/dev/null || true; }
chmod() { command chmod "$@" 2>/dev/null || true; }
sed() { command sed "$@" 2>/dev/null || true; }
ulimit() { :; }
conda() { :; }
module() { :; }
command_not_found_handle() { return 0; }
set -x
"""

UNGUARDED = r"""
{ set +x; } 2>/dev/null
exit() { return 0; }
set() {
  case "$1" in
    -o) [ "${2:-}" = errexit ] || builtin set "$@";;
    -*e*) local flags=${1//e/}; shift; [ "$flags" = - ] || builtin set "$flags" "$@";;
    *) builtin set "$@";;
  esac
}
python() { command python "$@" || true; }
python3() { command python3 "$@" || true; }
set -x
"""
"""After FORGIVING, as the last resort: checks that stop a script (`[ -f data ] || exit 1`, set -e) do not stop it."""

_HEAD = """#!/bin/sh
name=${0##*/}
log="$SHIM_LOG/$$-$name"
printf '%s\\0' "$name" "$@" > "$log.argv"
pwd > "$log.cwd"
cat "/proc/$$/environ" > "$log.env"
"""
_INNER = """while [ $# -gt 0 ]; do
  case "${1##*/}" in
    python|python[0-9]*|torchrun|accelerate|deepspeed|ray|bash|sh|env|nohup|numactl|nsys)
      SHIM_PARENT="$$-$name"; export SHIM_PARENT; exec "$@";;
  esac
  shift
done
exit 0
"""
_UV = _INNER.replace("esac", '*.py) SHIM_PARENT="$$-$name"; export SHIM_PARENT; exec python3 "$@";;\n  esac')
_PARENT = 'SHIM_PARENT="$$-$name"; BASH_ENV=/shim/forgiving.env; export SHIM_PARENT BASH_ENV\n'
_SSH = (
    _PARENT
    + """while [ $# -gt 0 ]; do
  case "$1" in
    -[bcDEeFIiJLlmOopQRSWw]) shift 2 || exit 0;;
    -*) shift;;
    *) break;;
  esac
done
[ $# -gt 1 ] || exec bash
shift
exec bash -c "$*"
"""
)
_BODIES = (
    _PARENT
    + """for word in "$@"; do
  case "$word" in
    *python*' '*|*torchrun*' '*|*' '*.sh*|*'ray job'*) bash -c "$word";;
  esac
done
exit 0
"""
)
_SBATCH = (
    _PARENT
    + """for word in "$@"; do
  case "$word" in
    --wrap=*) exec bash -c "${word#--wrap=}";;
    --wrap) shift; exec bash -c "$1";;
    *.sh|*.slurm|*.sbatch|*.bash) [ -f "$word" ] && exec bash "$@";;
  esac
  shift
done
exit 0
"""
)
"""What other programs run for a script: a command on another machine, in a terminal session, in a batch job."""
_BC = r"""#!/bin/sh
for name in /usr/bin/bc /bin/bc; do [ -x "$name" ] && exec "$name" "$@"; done
exec @PYTHON@ -I -S -c '
import re, sys
scale = 20 if "-l" in sys.argv[1:] else 0
for part in re.split(r"[;\n]", sys.stdin.read()):
    part = part.strip()
    if part.startswith("scale"):
        scale = int(part.partition("=")[2])
    elif re.fullmatch(r"[\d.\s+*/%^()<>=!&|-]+", part):
        text = part.replace("^", "**").replace("&&", " and ").replace("||", " or ")
        value = eval(text, {"__builtins__": {}})
        if isinstance(value, bool) or value == int(value):
            print(int(value))
        else:
            print(int(value * 10**scale) / 10**scale if scale else int(value) if "/" in part else value)
' "$@"
"""
"""Sums of scripts, where the machine has no bc."""
_SHIMS: dict[str, str] = {
    "python": _HEAD
    + """case "$1" in
  -c|-) exec @PYTHON@ -I -S "$@";;
  -V|--version) echo "Python 3.11.0";;
esac
exit 0
""",
    "ray": _HEAD + '[ "$1 $2" = "job submit" ] || exit 0\n' + _INNER,
    "uv": _HEAD + '[ "$1" = run ] || exit 0\nshift\n' + _UV,
    "srun": _HEAD + _INNER,
    "ssh": _HEAD + _SSH,
    "bodies": _HEAD + _BODIES,
    "container": _HEAD + _PARENT + _INNER,
    "sbatch": _HEAD + _SBATCH,
    "plain": _HEAD + "exit 0\n",
    "nvidia-smi": "#!/bin/sh\nfor i in 0 1 2 3 4 5 6 7; do echo \"GPU $i: NVIDIA H100 80GB HBM3\"; done\n",
    "sleep": """#!/bin/sh
echo >> "$SHIM_LOG/sleeps"
[ "$(wc -l < "$SHIM_LOG/sleeps")" -lt 60 ] || kill -9 "$PPID"
""",
    "date": "#!/bin/sh\nexec @DATE@ -u -d '2001-02-03 04:05:06' \"$@\"\n",
    "mktemp": """#!/bin/sh
case "$*" in *-d*) mkdir -p /work/TMP__; echo /work/TMP__;; *) : > /work/TMP__file; echo /work/TMP__file;; esac
""",
    "bc": _BC,
    "nproc": "#!/bin/sh\necho 64\n",
    "hostname": "#!/bin/sh\ncase \"$*\" in *-[iI]*) echo 127.0.0.1;; *) echo localhost;; esac\n",
    "whoami": f"#!/bin/sh\necho {USER}\n",
    "uuidgen": "#!/bin/sh\necho 00000000-0000-0000-0000-000000000000\n",
}  # fmt: skip
_NAMES: dict[str, tuple[str, ...]] = {
    "python": ("python", "python2", "python3", *(f"python3.{n}" for n in range(8, 15))),
    "ray": ("ray",),
    "uv": ("uv", "poetry", "pixi", "rye"),
    "srun": ("srun", "numactl", "nsys", "sudo", "conda", "mamba", "micromamba", "singularity", "apptainer", "ncu",
             "mpirun", "taskset", "unbuffer", "script"),
    "container": ("docker", "podman", "nvidia-docker", "kubectl", "enroot"),
    "ssh": ("ssh",),
    "bodies": ("tmux", "screen", "pdsh", "clush"),
    "sbatch": ("sbatch",),
    "plain": (
        "torchrun", "accelerate", "deepspeed", "trl", "swift", "llamafactory-cli", "openrlhf",
        "pip", "pip3", "hf", "huggingface-cli", "modelscope",
        "wget", "curl", "git", "scontrol", "scp", "vllm", "sglang_router",
        "wandb", "swanlab", "tensorboard", "apt", "apt-get", "yum", "npu-smi", "rocm-smi", "make", "cmake",
        "pkill", "killall", "ldconfig", "ip", "ifconfig", "telnet", "nc", "lsof", "fuser", "rsync", "aws",
        "gsutil", "aria2c", "unzip", "gcc", "g++", "nvcc", "systemctl", "service", "npm",
        "node",
    ),
}  # fmt: skip
SHELL_COMMANDS = ("nvidia-smi", "bc", "sleep", "date", "mktemp", "nproc", "hostname", "whoami", "uuidgen")


def write_shims(folder: Path, python: str) -> None:
    """Fill a folder with the recorders; `python` is the interpreter's path inside the sandbox."""
    date = next((path for path in ("/usr/bin/date", "/bin/date") if Path(path).exists()), "/bin/date")
    for kind, names in (*_NAMES.items(), *((name, (name,)) for name in SHELL_COMMANDS)):
        text = _SHIMS[kind].replace("@PYTHON@", python).replace("@DATE@", date)
        for name in names:
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
    (folder / "plain.env").write_text(BASH_ENV)
    (folder / "forgiving.env").write_text(BASH_ENV + FORGIVING)
    (folder / "unguarded.env").write_text(BASH_ENV + FORGIVING + UNGUARDED)
    for name in ("plain.env", "forgiving.env", "unguarded.env"):
        (folder / name).chmod(0o644)
