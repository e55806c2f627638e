"""Processes of a scorer that run in the worker of a search."""

from __future__ import annotations

import queue
import subprocess
import sys

import pytest
from migrate_tools.parity import inline
from migrate_tools.parity.faults_wiring import scorer_part

LIMITED = """
import multiprocessing
import queue


def _work(found, function, args):
    try:
        found.put((True, function(*args)))
    except Exception as error:
        found.put((False, error))


def limited(function, *args):
    found = multiprocessing.Queue(maxsize=1)
    process = multiprocessing.Process(target=_work, args=(found, function, args))
    process.start()
    process.join(timeout=10)
    if process.is_alive():
        process.terminate()
        process.join(timeout=0.5)
        raise TimeoutError
    good, value = found.get(timeout=1.0)
    if not good:
        raise value
    return value


def score(data_source, solution_str, ground_truth, extra_info=None):
    return limited(float, solution_str)
"""


INSIDE = """
outside = [score("", "1.5", "")]
from migrate_tools.parity import inline
inline.install()
inside = [score("", "1.5", "")]
try:
    score("", "x", "")
except ValueError as error:
    print(outside == inside, error)
"""


def test_a_limit_by_a_process_gives_the_same_in_the_worker() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED + INSIDE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True could not convert string to float: 'x'"


@pytest.mark.parametrize(
    "line", ["exec(code)", "multiprocessing.Manager()", "os.system('ls')", "resource.setrlimit(1, 2)"]
)
def test_what_may_change_its_process_stays_in_one_of_its_own(line: str) -> None:
    assert inline.fits(LIMITED)
    assert not inline.fits(f"{LIMITED}\ndef more():\n    {line}\n")
    assert not inline.fits("def score(x):\n    return 1.0\n")


def test_a_process_that_fails_says_so_and_a_queue_does_not_wait() -> None:
    def leave(code: object) -> None:
        raise SystemExit(code)

    codes = []
    for target, args in ((leave, (3,)), (leave, (None,)), (leave, ("text",)), (int, ("x",)), (int, ("1",))):
        process = inline.Process(target=target, args=args)
        process.start()
        process.join(timeout=1)
        codes.append(process.exitcode)
    assert codes == [3, 0, 1, 1, 0]
    with pytest.raises(queue.Empty):
        inline.Queue().get(timeout=60)


ENDLESS = """
from migrate_tools.parity import inline
inline.install()
inline.SECONDS = 0.2


def spin():
    while True:
        pass


try:
    limited(spin)
except TimeoutError:
    print("ended", limited(float, "2"))
"""


def test_a_process_that_would_not_end_is_ended_by_the_scorer() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED + ENDLESS], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "ended 2.0", done.stderr


NESTED = """
import time
from migrate_tools.parity import hanging
hanging.install()


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


try:
    with hanging.within(0.4):
        for _ in range(20):
            with hanging.within(5.0):
                spin(0.1)
except hanging.Hanging:
    print("ended")
"""


def test_the_time_of_a_block_goes_on_after_one_inside() -> None:
    done = subprocess.run([sys.executable, "-c", NESTED], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "ended", done.stderr


def test_only_the_scorer_decides_whether_its_processes_can_run_inside() -> None:
    wrapped = f"{LIMITED}\n# --- reward manager\n\nworker = subprocess.Popen([])\n"
    assert not inline.fits(wrapped)
    assert inline.fits(scorer_part(wrapped))
