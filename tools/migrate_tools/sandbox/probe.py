"""What `doctor` says of the sandbox."""

from __future__ import annotations

from migrate_tools.errors import MachineError
from migrate_tools.sandbox import bubblewrap, docker_engine, groups, image


def answers() -> dict[str, str]:
    """One line a provider: its version, and how it holds memory; or why it does not work."""
    return {docker_engine.NAME: _docker(), bubblewrap.NAME: _bubblewrap()}


def _docker() -> str:
    from docker.errors import DockerException, ImageNotFound

    try:
        engine = docker_engine.client()
        version = f"engine {engine.version()['Version']}"
        tag = image.tag()
        engine.images.get(tag)
    except ImageNotFound:
        return f"{version}, image {tag} made on first use"
    except MachineError as error:
        return error.message
    except DockerException as error:
        return f"the engine failed: {error}"
    return f"{version}, image {tag}"


def _bubblewrap() -> str:
    try:
        found = bubblewrap.find()
    except MachineError as error:
        return error.message
    memory = "a control group" if groups.control_groups_work() else "a watch from outside"
    version = ".".join(map(str, bubblewrap.version(found.program)))
    return f"{version} at {found.program}, memory held by {memory}"
