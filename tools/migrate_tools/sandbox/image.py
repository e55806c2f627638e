"""The Docker image of the sandbox: made from this host's own Python, or by the Dockerfile beside this module.

The first needs no registry and takes seconds: interpreter, standard library, the shared libraries of both, bash and
the usual commands are packed and imported; third-party packages are mounted from the running environment, so that a
job meets the versions that the rest of the tool meets. The second is for engines that reach a registry:
`MIGRATE_AGENT_SANDBOX_BASE=python:3.12-slim` selects it, and hosts other than Linux always use it.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from migrate_tools.errors import MachineError
from migrate_tools.sandbox import layout, owner

REPOSITORY = "migrate-agent-sandbox"
BASE = "MIGRATE_AGENT_SANDBOX_BASE"
SITE_LABEL = "migrate-agent.site"
"""Image label: `own` libraries, or those of the `host` through a mount."""
USER = 10001
COMMANDS = (
    *("sh", "bash", "env", "sed", "grep", "egrep", "fgrep", "awk", "tr", "cut", "head", "tail", "sort", "uniq", "date"),
    *("dirname", "basename", "realpath", "readlink", "tee", "mkdir", "cp", "mv", "rm", "ln", "ls", "cat", "wc", "seq"),
    *("xargs", "find", "timeout", "sleep", "id", "whoami", "uname", "hostname", "expr", "test", "[", "printf", "echo"),
    *(
        "pwd",
        "true",
        "false",
        "touch",
        "chmod",
        "stat",
        "mktemp",
        "nproc",
        "paste",
        "comm",
        "diff",
        "cmp",
        "tac",
        "rev",
    ),
    *("nl", "od", "split", "md5sum", "sha256sum", "base64", "du", "df", "ps", "kill", "getopt", "which", "setsid"),
    *("nohup", "rmdir", "printenv", "tty", "yes", "gzip", "tar", "numfmt", "shuf", "fold", "join", "arch", "sync"),
)
PACKAGES = ("numpy", "pandas", "pyarrow", "pydantic", "PyYAML")
SCORERS = ("math-verify", "mathruler", "pylatexenc", "sympy", "tqdm")
_SKIPPED = {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "__pycache__"}
_SKIPPED |= {"site-packages", "dist-packages"}
_WHEELS_NEED = re.compile(
    r"/(libstdc\+\+|libgcc_s|libgomp|libpthread|libdl|librt|libutil|libm|libz|libresolv|libnsl|libnss_files|libexpat)"
    r"\.so\.\d+$"
)
"""Libraries that binary wheels expect of any Linux and that no program in the image needs itself."""


def ensure(client: Any, *, rebuild: bool = False) -> str:
    """The tag of the image for this host and these inputs; makes it when the engine does not have it.

    Raises:
        MachineError: the image cannot be made.
    """
    from docker.errors import DockerException, ImageNotFound

    name = tag()
    try:
        if not rebuild:
            with suppress(ImageNotFound):
                client.images.get(name)
                return name
        if base_image():
            _build(client, name, base_image())
        else:
            _import_host(client, name)
    except (DockerException, OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"the sandbox image cannot be made: {_reason(error)}", "use --sandbox bubblewrap") from error
    return name


def _reason(error: Exception) -> str:
    """The last error that a build's log names: it says more than the exception."""
    text = "".join(entry.get("stream", "") for entry in getattr(error, "build_log", ()))
    named = [line.strip() for line in text.splitlines() if "error" in line.lower()]
    return named[-1] if named else str(error)


def tag() -> str:
    """Name of the image for this host; it carries a hash of what goes into it."""
    return f"{REPOSITORY}:{_key(base_image())}"


def base_image() -> str:
    """The base for the Dockerfile; empty where the image is made from the host's Python."""
    base = os.environ.get(BASE, "")
    if base or sys.platform == "linux":
        return base
    return f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"


def _key(base: str) -> str:
    """A hash of everything that decides what is in the image."""
    here = Path(__file__)
    parts = [platform.machine(), base, here.read_text(), layout.PYTHON]
    if base:
        parts += [here.with_name("Dockerfile").read_text(), _requirements()]
    else:
        python = layout.base_python()
        parts += [sys.version, str(python), repr(python.stat().st_size), sys.base_prefix]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _requirements() -> str:
    """Our versions of what jobs import, as pip reads them; packages that are not here are left out."""
    lines = []
    for name in (*PACKAGES, *SCORERS):
        try:
            lines.append(f"{name}=={metadata.version(name)}\n")
        except metadata.PackageNotFoundError:
            continue
    return "".join(lines)


def _build(client: Any, name: str, base: str) -> None:
    with tempfile.TemporaryDirectory(prefix=owner.prefix()) as folder:
        shutil.copy(Path(__file__).with_name("Dockerfile"), folder)
        Path(folder, "requirements.txt").write_text(_requirements(), encoding="utf-8")
        index = {name: os.environ[name] for name in ("PIP_INDEX_URL", "PIP_TRUSTED_HOST") if name in os.environ}
        client.images.build(path=folder, tag=name, buildargs={"BASE": base, **index}, rm=True, forcerm=True)


def _import_host(client: Any, name: str) -> None:
    changes = [f"USER {USER}:{USER}", "WORKDIR /work", f"ENV PATH={layout.PATH}", f"LABEL {SITE_LABEL}=host"]
    repository, _, version = name.partition(":")
    with tempfile.TemporaryDirectory(prefix=owner.prefix()) as folder:
        path = Path(folder, "image.tar")
        with tarfile.open(path, "w") as archive:
            _pack(archive)
        client.api.import_image_from_file(str(path), repository=repository, tag=version, changes=changes)


def _pack(archive: tarfile.TarFile) -> None:
    files = _collect()
    for name in ("usr", "usr/bin", "usr/lib", "usr/lib64", "etc", "opt", layout.BIN[1:], "proc", "dev", "sys"):
        _folder(archive, name, 0o755)
    for name in ("bin", "lib", "lib64", "sbin"):
        _link(archive, name, "usr/bin" if name == "sbin" else f"usr/{name}")
    for name in ("tmp", "work"):  # the engine gives a tmpfs the mode of the folder that it covers
        _folder(archive, name, 0o1777)
    _text(archive, "etc/passwd", layout.PASSWD.format(uid=USER, gid=USER))
    _text(archive, "etc/group", layout.GROUP.format(gid=USER))
    _link(archive, layout.PYTHON[1:], str(layout.base_python()))
    _link(archive, f"{layout.BIN[1:]}/python", "python3")
    for name, path in sorted(files.items()):
        archive.add(path, arcname=name, recursive=False, filter=_plain)


def _collect() -> dict[str, Path]:
    """Name in the archive -> file of this host, links followed."""
    folder = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    files: dict[str, Path] = {}
    binaries = [layout.base_python()]
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("config-"))
        for name in names:
            path = Path(place, name)
            files[_inside(path)] = path.resolve()
            if name.endswith(".so"):
                binaries.append(path)
    for command in COMMANDS:
        found = shutil.which(command, path="/usr/bin:/bin:/usr/sbin:/sbin")
        if found:
            files[f"usr/bin/{command}"] = Path(found).resolve()
            binaries.append(Path(found).resolve())
    files[_inside(binaries[0])] = binaries[0]
    for library in _libraries(binaries) | _wheel_libraries():
        files[_inside(Path(library))] = Path(library).resolve()
    return files


def _inside(path: Path) -> str:
    return re.sub(r"^/(lib64|lib|bin|sbin)/", r"/usr/\1/", str(path))[1:]


def _libraries(binaries: Iterable[Path]) -> set[str]:
    """Shared libraries of all the files; scripts among them have none."""
    done = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False)
    return {name for name in re.findall(r"(?m)^\s+(?:\S+ => )?(/\S+\.so\S*) \(", done.stdout) if Path(name).exists()}


def _wheel_libraries() -> set[str]:
    program = shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        return set()
    done = subprocess.run([program, "-p"], capture_output=True, text=True, check=False)
    known = platform.machine().replace("_", "-")
    lines = [line for line in done.stdout.splitlines() if known in line.replace("_", "-") or known == "aarch64"]
    return {line.split()[-1] for line in lines if _WHEELS_NEED.search(line) and Path(line.split()[-1]).exists()}


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = "root"
    info.mode = 0o755 if info.mode & 0o111 else 0o644
    return info


def _folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    archive.addfile(info)


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    archive.addfile(info)


def _text(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
