"""Chooses the provider for this machine."""

from __future__ import annotations

from typing import Literal

from migrate_tools.errors import MachineError, UsageError
from migrate_tools.sandbox.api import Sandbox

Kind = Literal["auto", "docker", "bubblewrap"]


def open_sandbox(kind: Kind = "auto") -> Sandbox:
    """The sandbox asked for; `auto` is Docker where an engine answers and the image can be made, else bubblewrap.

    The first call on a machine may make the image (seconds). What a killed run left behind is ended and removed.

    Raises:
        MachineError: it does not work on this machine; the hint says what to install or start.
    """
    from migrate_tools.sandbox import bubblewrap, groups, owner

    groups.sweep()
    owner.sweep_folders()
    if kind == "bubblewrap":
        return bubblewrap.find()
    if kind not in ("auto", "docker"):
        raise UsageError(f"there is no sandbox {kind!r}", "use auto, docker or bubblewrap")
    from migrate_tools.sandbox import docker_engine

    try:
        return docker_engine.find()
    except MachineError as first:
        if kind == "docker":
            raise
        try:
            return bubblewrap.find()
        except MachineError as second:
            raise MachineError(f"no sandbox works here: {second.message}; {first.message}", second.hint) from second


def ensure_image(rebuild: bool = False) -> str:
    """Name of the Docker image for jobs, made when it is not there yet or `rebuild` asks for it.

    Raises:
        MachineError: no engine answers, or the image cannot be made.
    """
    from migrate_tools.sandbox import docker_engine, image

    return image.ensure(docker_engine.client(), rebuild=rebuild)


def probe() -> dict[str, str]:
    """What this machine has, one line by provider; nothing is made or changed."""
    from migrate_tools.sandbox.probe import answers

    return answers()
