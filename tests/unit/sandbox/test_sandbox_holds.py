"""Jobs that try to get out, or to take more than they may."""

from __future__ import annotations

import resource
import socket
import threading
from pathlib import Path

import pytest
from migrate_tools.sandbox import PYTHON, Job, Limits, Mount, Sandbox

pytestmark = pytest.mark.jail

FORKS = """
import os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except OSError:
    print(count, flush=True)
os._exit(3)
"""
CHILDREN = """
import os, sys, time
for _ in range(6):
    if os.fork() == 0:
        block = b"x" * 80_000_000
        time.sleep(20)
        os._exit(0)
for _ in range(6):
    if os.wait()[1]:
        sys.exit(9)
"""
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
print("parent ends")
"""


def python(code: str, *args: str, **rest: object) -> Job:
    return Job((PYTHON, "-c", code, *args), **rest)  # type: ignore[arg-type]


def test_fork_bomb_stops_at_the_limit(box: Sandbox, marker) -> None:
    outcome = box.run(python(FORKS, marker.word, limits=Limits(seconds=20, processes=40)))
    assert outcome.returncode == 3
    assert 30 <= int(outcome.stdout) <= 46
    assert marker.gone()


def test_recursive_fork_bomb_ends_with_its_time(box: Sandbox, marker) -> None:
    job = Job(("bash", "-c", "f() { f | f & }; f; while :; do :; done", marker.word), limits=Limits(1.5, processes=40))
    outcome = box.run(job)
    assert outcome.timed_out
    assert outcome.returncode is None
    assert outcome.seconds < 20
    assert marker.gone()


def test_memory_hog_is_stopped(box: Sandbox) -> None:
    code = "blocks = []\nwhile True: blocks.append(b'x' * 10_000_000)"
    outcome = box.run(python(code, limits=Limits(seconds=20, memory_mb=200)))
    assert outcome.out_of_memory
    assert outcome.returncode not in (0, None)
    assert not outcome.timed_out


def test_memory_of_children_counts_together(box: Sandbox) -> None:
    outcome = box.run(python(CHILDREN, limits=Limits(seconds=15, memory_mb=200)))
    assert outcome.out_of_memory
    assert not outcome.timed_out


def test_endless_loop_is_killed(box: Sandbox, marker) -> None:
    code = "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass"
    outcome = box.run(python(code, marker.word, limits=Limits(seconds=1)))
    assert outcome.timed_out
    assert outcome.returncode is None
    assert 1 <= outcome.seconds < 20
    assert marker.gone()


def test_processor_time_is_limited(box: Sandbox) -> None:
    outcome = box.run(python("while True: pass", limits=Limits(seconds=50, cpu_seconds=1)))
    assert outcome.returncode == 128 + 9
    assert not outcome.timed_out


def test_silent_job_does_not_outlive_its_time(box: Sandbox, marker) -> None:
    code = "import os, time\nos.close(0); os.close(1); os.close(2)\ntime.sleep(60)"
    outcome = box.run(python(code, marker.word, limits=Limits(seconds=1)))
    assert outcome.timed_out
    assert outcome.seconds < 20
    assert marker.gone()


def test_daemon_does_not_outlive_its_parent(box: Sandbox, marker) -> None:
    outcome = box.run(python(DAEMON, marker.word, limits=Limits(seconds=20)))
    assert outcome.stdout == b"parent ends\n"
    assert outcome.returncode == 0
    assert outcome.seconds < 20
    assert marker.gone()


def test_flood_of_output_is_cut_in_bounded_memory(box: Sandbox) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    command = "head -c 200000000 /dev/zero; echo no >&2; exit 5"
    outcome = box.run(Job(("bash", "-c", command), limits=Limits(seconds=30, output_bytes=100_000)))
    assert outcome.stdout == bytes(100_000)
    assert outcome.stderr == b"no\n"
    assert outcome.truncated
    assert outcome.returncode == 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_endless_output_ends_with_its_time(box: Sandbox) -> None:
    outcome = box.run(Job(("yes",), limits=Limits(seconds=1, output_bytes=1000)))
    assert outcome.timed_out
    assert outcome.truncated
    assert outcome.stdout == b"y\n" * 500
    assert outcome.seconds < 20


def test_no_network(box: Sandbox) -> None:
    reached = threading.Event()
    with socket.create_server(("0.0.0.0", 0)) as server:
        threading.Thread(target=_accept, args=(server, reached), daemon=True).start()
        port = server.getsockname()[1]
        code = f"""
import socket
for host, port in (("127.0.0.1", {port}), ("{_address()}", {port}), ("192.0.2.1", 80), ("example.org", 80)):
    try:
        socket.create_connection((host, port), timeout=3)
        print("connected", host)
    except OSError:
        print("refused")
print(sorted(name for _, name in socket.if_nameindex()))
"""
        outcome = box.run(python(code, limits=Limits(seconds=20)))
    assert outcome.stdout.decode().splitlines() == ["refused"] * 4 + ["['lo']"]
    assert not reached.is_set()


def _accept(server: socket.socket, reached: threading.Event) -> None:
    try:
        server.accept()[0].close()
    except OSError:
        return
    reached.set()


def _address() -> str:
    """An address of this machine beside its loopback; the loopback where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def test_writes_outside_the_work_folder_fail(box: Sandbox, tmp_path: Path) -> None:
    recipe, work = tmp_path / "recipe", tmp_path / "work"
    recipe.mkdir()
    work.mkdir()
    (recipe / "reward.py").write_text("1")
    code = """
import os, sys
places = ["/x", "/usr/x", "/usr/bin/x", "/etc/x", "/etc/passwd", "/opt/x", "/dev/x", "/root/x", "/project/x",
          "/project/reward.py", "/proc/sys/kernel/hostname", os.path.dirname(os.__file__) + "/x", "/work/x", "/tmp/x"]
for place in places:
    try:
        open(place, "a").write("x")
        print("wrote", place)
    except OSError:
        pass
for place in ("/project/reward.py", "/usr/bin/bash"):
    try:
        os.remove(place)
        print("removed", place)
    except OSError:
        pass
"""
    mounts = (Mount(recipe, "/project"), Mount(work, "/work", writable=True))
    outcome = box.run(python(code, mounts=mounts))
    written = [line for line in outcome.stdout.decode().splitlines() if not line.startswith("wrote /dev/")]
    assert written == ["wrote /work/x", "wrote /tmp/x"], outcome.stderr
    assert [path.name for path in recipe.iterdir()] == ["reward.py"]
    assert (recipe / "reward.py").read_text() == "1"
    assert (work / "x").read_text() == "x"


def test_size_of_a_file_is_limited(box: Sandbox, tmp_path: Path) -> None:
    command = "head -c 30000000 /dev/zero > /work/big; head -c 30000000 /dev/zero > /tmp/big; echo end"
    mounts = (Mount(tmp_path, "/work", writable=True),)
    outcome = box.run(Job(("bash", "-c", command), mounts=mounts, limits=Limits(seconds=20, file_mb=10)))
    assert outcome.stdout == b"end\n"
    assert (tmp_path / "big").stat().st_size == 10 << 20


def test_our_secrets_are_not_inside(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-4711-very-secret"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    code = """
import glob, os
print(dict(os.environ), os.environ.get("OPENAI_API_KEY"))
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        print(path, open(path, "rb").read())
    except OSError as error:
        print(path, error)
"""
    outcome = box.run(python(code, env={"SEEN": "yes"}))
    assert outcome.returncode == 0
    assert b"/proc/1/" in outcome.stdout
    assert b"'SEEN': 'yes'" in outcome.stdout
    assert secret.encode() not in outcome.stdout + outcome.stderr
    assert b"OPENAI_API_KEY'" not in outcome.stdout


def test_links_out_of_a_mounted_folder_lead_nowhere(box: Sandbox, tmp_path: Path) -> None:
    outside, recipe = tmp_path / "outside", tmp_path / "recipe"
    outside.mkdir()
    recipe.mkdir()
    (outside / "secret.txt").write_text("very secret")
    (recipe / "file").symlink_to(outside / "secret.txt")
    (recipe / "up").symlink_to("../outside/secret.txt")
    (recipe / "folder").symlink_to(outside)
    (recipe / "root").symlink_to("/")
    names = ["file", "up", "folder/secret.txt", f"root{outside}/secret.txt", f"root/proc/1/root{outside}/secret.txt"]
    names += [f"root/proc/self/cwd/../../{outside}/secret.txt"]
    command = 'for name in "$@"; do cat "/project/$name" && echo "read $name"; done; echo end'
    outcome = box.run(Job(("bash", "-c", command, "bash", *names), mounts=(Mount(recipe, "/project"),)))
    assert outcome.stdout == b"end\n"


def test_no_privileges(box: Sandbox) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(os.getuid() != 0, os.geteuid() != 0, int(status["CapEff"], 16), int(status["CapBnd"], 16),
      status["NoNewPrivs"].strip())
print(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None), libc.unshare(0x10000000), libc.unshare(0x20000))
try:
    os.setuid(0)
    print("root")
except OSError:
    print("no root")
print(os.path.exists("/var/run/docker.sock"), [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 99])
"""
    outcome = box.run(python(code))
    assert outcome.stdout.decode().splitlines() == [
        "True True 0 0 1",
        "-1 -1 -1",
        "no root",
        "False []",
    ], outcome.stderr
