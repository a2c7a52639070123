"""Whether a container's first program is there: what runc says where it is not (recordings 07, 07b, 07c)."""

from __future__ import annotations

from posixpath import join, normpath

from killcheck.embedded.nodes.execution import Launch, StartError
from killcheck.embedded.nodes.volumes import Mount

__all__ = ["check", "not_executable", "not_found", "not_there"]

_HEAD = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: exec: "
)


def check(launch: Launch) -> None:
    """Look the first program up in the modelled image, as runc would. Raises StartError; an unknown image passes."""
    if not launch.argv or not launch.contents.known:
        return
    program = launch.argv[0]
    path = normpath(join(launch.working_dir or "/", program))  # runc looks a relative one up from there
    if "/" not in program:
        if launch.contents.find(program, launch.env.get("PATH", "")) is None:
            raise not_found(program)
    elif not launch.contents.has(path):
        mode = _mounted(launch.mounts, path)
        if mode is None:
            raise not_there(program)
        if not mode & 0o111:
            raise not_executable(program)


def not_found(name: str) -> StartError:
    """A bare word that is nowhere on PATH."""
    return StartError(f'{_HEAD}"{name}": executable file not found in $PATH: unknown')


def not_there(path: str) -> StartError:
    """A path with nothing there."""
    return StartError(f'{_HEAD}"{path}": stat {path}: no such file or directory: unknown')


def not_executable(path: str) -> StartError:
    """A file without the execute bit, or a directory."""
    return StartError(f'{_HEAD}"{path}": permission denied: unknown')


def _mounted(mounts: list[Mount], path: str) -> int | None:
    """The mode of a file that a volume puts there; None: no volume does."""
    for mount in sorted(mounts, key=lambda m: -len(m.path)):
        base = mount.path.rstrip("/")
        if path == base and mount.sub_path in mount.volume.files:
            return mount.volume.files[mount.sub_path].mode
        if path.startswith(base + "/"):
            inner = "/".join(part for part in (mount.sub_path.strip("/"), path[len(base) + 1 :]) if part)
            found = mount.volume.files.get(inner)
            return None if found is None else found.mode
    return None
