"""Drills of a rollout: a sound one passes, and each thing that may go wrong is found and named."""

from __future__ import annotations

from pathlib import Path

import pytest
from drill_example import load_generate, run_drills, samples, standin_relax, write_example
from migrate_tools.rehearsal.runtime import leaks

Edits = dict[str, list[tuple[str, str]]]


@pytest.fixture(autouse=True)
def settle_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "SETTLE_SECONDS", 0.3)


def drill(
    folder: Path, edits: Edits | None = None, only: str = "", episodes: int = 64
) -> tuple[list[str], dict[str, object]]:
    write_example(folder, edits or {})
    with standin_relax(folder):
        return run_drills(load_generate(), samples(), only=only, episodes=episodes)


def test_a_sound_rollout_passes_every_drill(tmp_path: Path) -> None:
    problems, facts = drill(tmp_path)
    assert problems == []
    assert (facts["episodes"], facts["turns_without_end"]) == (64, 3)
    # two calls and an answer: each is cut at three places, with and without a mask, and stopped after it
    assert facts["aborts"] == 21
    assert "not_comparable" not in facts


IMPORT = "import importlib\n"
CLOSE = "        env.close()\n"
OBSERVE = 'observation.get("messages")'
RESUMED = "the resumed episode is not the one that was never stopped"
RAISES = "the exception leaves generate and ends the whole training step"
OTHER_TOKENS = "trained tokens are not those that the engine returned"
CONTEXT = "more tokens were asked for than the context has room for"


def rollout(*changes: tuple[str, str]) -> Edits:
    return {"rollout": list(changes)}


def env(*changes: tuple[str, str]) -> Edits:
    return {"env": list(changes)}


@pytest.mark.parametrize(
    ("only", "edits", "found"),
    [
        (
            "at once",
            env(
                ("self.tool_rewards: list[float] = []", "self.tool_rewards = _SHARED"),
                ("_TOOLS: dict", "_SHARED = []\n_TOOLS: dict"),
            ),
            "shared state",
        ),
        ("at once", rollout(("        _close(env)", "        pass")), "environments were not closed"),
        ("at once", rollout(("_close(env)", "_close(env)\n        _close(env)")), "closed more than once"),
        (
            "at once",
            rollout(
                (CLOSE, CLOSE + "        asyncio.ensure_future(asyncio.sleep(99))\n"),
                (IMPORT, "import asyncio\n" + IMPORT),
            ),
            "more tasks of the event loop",
        ),
        (
            "at once",
            rollout((CLOSE, CLOSE + "        os.open('/dev/null', 0)\n"), (IMPORT, IMPORT + "import os\n")),
            "more open files",
        ),
        (
            "at once",
            rollout((CLOSE, CLOSE + "        socket.socket().detach()\n"), (IMPORT, IMPORT + "import socket\n")),
            "more open sockets",
        ),
        ("abort", rollout(('"abort": "ABORTED"', '"abort": "COMPLETED"')), "the status is COMPLETED"),
        ("abort", rollout(("if state.aborted:", "if False:")), "the engine was asked again after the abort"),
        ("abort", rollout(('    env.restore(left["env"])\n', "")), RESUMED),
        ("abort", rollout(("episode.ids[episode.answer_at :]", "new")), RESUMED),
        ("abort", rollout(("sample.tokens[-length:]", "sample.tokens[-length:-1]")), "abort and resume"),
        ("limits", rollout(("limit - len(episode.ids))", "limit)")), "than the response has room for"),
        ("limits", rollout(("len(episode.ids) + len(seen) >= limit", "False")), "limits"),
        ("limits", rollout((" if context else most", " if False else most")), CONTEXT),
        ("limits", env(("if self.max_turns and", "if False and")), "answers where 3 are allowed"),
        ("broken", rollout(("        except Exception:\n", "        except KeyError:\n")), f"step raises: {RAISES}"),
        ("broken", rollout(("\n    except Exception:\n", "\n    except KeyError:\n")), f"close raises: {RAISES}"),
        ("limits", rollout(("loss_mask = episode.mask", "loss_mask = episode.mask[:-1]")), "a loss mask of"),
        (
            "limits",
            rollout(("[float(item[0]) for item in found]", "[float(item[0]) for item in found][1:]")),
            "log-probs for a response of",
        ),
        (
            "limits",
            rollout(("episode.add(new, 1", "episode.add(tokenizer.encode(tokenizer.decode(new)), 1")),
            OTHER_TOKENS,
        ),
        ("limits", rollout(("episode.add(seen, 0", "episode.add(seen, 1")), OTHER_TOKENS),
        ("limits", rollout(("rollout_tokens = list(sample.tokens)", "rollout_tokens = []")), "rollout_tokens and"),
        (
            "abort",
            rollout((OBSERVE, "[{'role': 'tool', 'content': ''}]")),
            "the text of an observation is not in the tokens",
        ),
    ],
)
def test_each_fault_is_found(tmp_path: Path, only: str, edits: Edits, found: str) -> None:
    problems, _ = drill(tmp_path, edits, only, episodes=6)
    assert any(found in text for text in problems), problems


def test_a_rollout_that_cannot_resume_starts_anew(tmp_path: Path) -> None:
    problems, facts = drill(tmp_path, env(("    def save(", "    def _save(")), "abort")
    assert (problems, facts["aborts"]) == ([], 21)


def test_tools_that_answer_differently_every_time_are_no_shared_state(tmp_path: Path) -> None:
    edits = env(
        ("messages = [_message(response) for response, _ in results]", "messages = [_noise()]"),
        ("_TOOLS: dict", "_noise = lambda: {'role': 'tool', 'content': uuid.uuid4().hex}\n_TOOLS: dict"),
    )
    problems, facts = drill(tmp_path, edits, "at once", episodes=4)
    assert (problems, facts["not_comparable"]) == ([], "4 episodes differ from run to run by themselves")
