"""What a job may do, and what comes back from it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from migrate_tools.errors import MachineError, UsageError
from migrate_tools.sandbox import (
    PYTHON,
    Job,
    Limits,
    Mount,
    Outcome,
    Sandbox,
    ensure_image,
    open_sandbox,
    probe,
    python_env,
    python_mounts,
)

pytestmark = pytest.mark.jail

COMMANDS = """sed grep awk tr cut head tail sort uniq date dirname basename realpath tee mkdir cp mv rm ls cat wc seq
xargs find env timeout sleep id uname hostname expr test printf bash sh python3 python"""


def shell(box: Sandbox, command: str, **rest: object) -> Outcome:
    return box.run(Job(("bash", "-c", command), **rest))  # type: ignore[arg-type]


def test_our_package_and_its_libraries_are_importable(box: Sandbox) -> None:
    code = (
        "import migrate_tools.model, pandas, pyarrow.parquet, numpy, pydantic, yaml, sympy, sys;"
        "print(migrate_tools.__file__, pandas.__file__.split('/')[1], sys.version_info[:3])"
    )
    outcome = box.run(Job((PYTHON, "-c", code), mounts=python_mounts(), env=python_env()))
    assert outcome.stderr == b""
    assert outcome.stdout.decode().split(" ", 1) == [
        "/tools/migrate_tools/__init__.py",
        f"site {tuple(sys.version_info[:3])}\n",
    ]


def test_commands_of_launch_scripts_are_there(box: Sandbox) -> None:
    outcome = shell(
        box, f"for name in {' '.join(COMMANDS.split())}; do command -v $name >/dev/null || echo $name; done"
    )
    assert outcome.stdout == b""
    assert shell(box, "awk 'BEGIN { print 6 * 7 }' | sed s/4/5/").stdout == b"52\n"


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("nosuch", 127)])
def test_exit_status_comes_back(box: Sandbox, command: str, code: int) -> None:
    outcome = shell(box, command)
    assert outcome.returncode == code
    assert (outcome.timed_out, outcome.out_of_memory, outcome.truncated) == (False, False, False)
    assert outcome.provider == box.name


def test_missing_program_is_status_127(box: Sandbox) -> None:
    outcome = box.run(Job(("no-such-program",)))
    assert outcome.returncode == 127
    assert b"no-such-program" in outcome.stderr


def test_standard_input_arrives_whole(box: Sandbox) -> None:
    data = bytes(range(256)) * 8000
    assert shell(box, "cat", stdin=data).stdout == data
    assert shell(box, "cat; echo end").stdout == b"end\n"


def test_standard_input_may_stay_unread(box: Sandbox) -> None:
    assert shell(box, "exec <&-; echo done", stdin=b"x" * 3_000_000).stdout == b"done\n"


def test_output_need_not_be_text(box: Sandbox) -> None:
    outcome = shell(box, r"printf '\xff\x00\xfe'; printf '\x80' >&2")
    assert (outcome.stdout, outcome.stderr) == (b"\xff\x00\xfe", b"\x80")


def test_results_can_be_read_and_removed(box: Sandbox, tmp_path: Path) -> None:
    work = tmp_path / "job"
    work.mkdir(mode=0o700)
    (work / "in.txt").write_text("in")
    command = "cat in.txt > out.txt; mkdir -p deep/er; echo 1 > deep/er/x; ln -s /etc/shadow link; chmod 0 deep/er deep"
    outcome = shell(box, command, mounts=(Mount(work, "/work", writable=True),))
    assert (outcome.returncode, outcome.stderr) == (0, b"")
    assert (work / "out.txt").read_text() == "in"
    assert {path.lstat().st_uid for path in (work, *work.iterdir())} == {os.getuid()}
    again = shell(box, "echo more >> out.txt", mounts=(Mount(work, "/work", writable=True),))
    assert again.returncode == 0
    assert (work / "out.txt").read_text() == "inmore\n"
    shutil.rmtree(work)


def test_without_a_mount_the_work_folder_is_empty_and_writable(box: Sandbox) -> None:
    assert shell(box, "pwd; ls -A; echo 1 > x; cat x; cd /tmp; echo 2 > x; cat x").stdout == b"/work\n1\n2\n"


def test_folders_that_only_we_may_read_are_readable_inside(box: Sandbox, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe"
    (recipe / "sub").mkdir(parents=True, mode=0o700)
    (recipe / "sub" / "reward.py").write_text("secret = 1\n")
    (recipe / "sub" / "reward.py").chmod(0o600)
    (recipe / "link.py").symlink_to("sub/reward.py")
    recipe.chmod(0o700)
    single = tmp_path / "one.txt"
    single.write_text("one\n")
    single.chmod(0o600)
    mounts = (Mount(recipe, "/project"), Mount(single, "/one.txt"))
    outcome = shell(box, "cat /project/sub/reward.py /project/link.py /one.txt", mounts=mounts)
    assert outcome.stdout == b"secret = 1\nsecret = 1\none\n"
    assert (recipe.stat().st_mode & 0o777, single.stat().st_mode & 0o777) == (0o700, 0o600)


def test_mounts_may_lie_in_each_other(box: Sandbox, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    mounts = (Mount(tmp_path / "b", "/work/deep/b", writable=True), Mount(tmp_path / "a", "/project"))
    outcome = shell(box, "cat /work/deep/b/name /project/name; echo c > /work/deep/b/new", mounts=mounts)
    assert outcome.stdout == b"ab" or outcome.stdout == b"ba"
    assert (tmp_path / "b" / "new").read_text() == "c\n"


def test_loopback_works(box: Sandbox) -> None:
    code = """
    import http.server, threading, urllib.request
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    open("/work/index.html", "w").write("hello")
    print(urllib.request.urlopen(f"http://localhost:{server.server_port}/").read())
    """
    assert box.run(Job((PYTHON, "-c", textwrap.dedent(code)))).stdout == b"b'hello'\n"


def test_process_pools_work(box: Sandbox) -> None:
    code = """
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(abs, [-1, -2, -3])))
    """
    outcome = box.run(Job((PYTHON, "-c", textwrap.dedent(code))))
    assert (outcome.stdout, outcome.stderr) == (b"6\n", b"")


def test_jobs_run_side_by_side(box: Sandbox) -> None:
    jobs = [Job(("bash", "-c", f"sleep 0.2; echo {i}"), limits=Limits(processes=8)) for i in range(6)]
    with ThreadPoolExecutor(3) as pool:
        assert [outcome.stdout for outcome in pool.map(box.run, jobs)] == [f"{i}\n".encode() for i in range(6)]


def test_interrupt_leaves_nothing(box: Sandbox, marker) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored

    def interrupt() -> None:
        if marker.seen():
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            box.run(Job(("bash", "-c", "sleep 30; :", marker.word)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert marker.gone()


def test_bad_mounts_are_refused(box: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no such file"):
        box.run(Job(("true",), mounts=(Mount(tmp_path / "absent", "/project"),)))
    for target in ("/", "relative", "/work/../etc"):
        with pytest.raises(MachineError, match="no place"):
            box.run(Job(("true",), mounts=(Mount(tmp_path, target),)))
    with pytest.raises(MachineError, match="same target"):
        box.run(Job(("true",), mounts=(Mount(tmp_path, "/a"), Mount(tmp_path, "/a"))))


@pytest.mark.docker
def test_image_is_named_by_its_inputs_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from migrate_tools.sandbox import image

    try:
        first = ensure_image()
    except MachineError:
        if os.environ.get("CI"):
            raise
        pytest.skip("no Docker engine answers")
    assert ensure_image() == first
    assert first.startswith("migrate-agent-sandbox:")
    monkeypatch.setenv("MIGRATE_AGENT_SANDBOX_BASE", "python:3.12-slim")
    assert image.tag() != first


def test_probe_names_both_providers() -> None:
    assert set(probe()) == {"docker", "bubblewrap"}


def test_unknown_provider_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="podman"):
        open_sandbox("podman")  # type: ignore[arg-type]


def test_docker_without_an_engine_is_a_machine_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from migrate_tools.sandbox import docker_engine

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setattr(docker_engine, "_clients", threading.local())
    monkeypatch.setattr(docker_engine, "find", docker_engine.find.__wrapped__)
    with pytest.raises(MachineError, match="no Docker engine answers") as caught:
        open_sandbox("docker")
    assert caught.value.hint == "start a Docker engine, or use --sandbox bubblewrap"
    assert open_sandbox("auto").name == "bubblewrap"
