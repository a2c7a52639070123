"""What a container sees of this host: a root of its own, or - without namespaces - a folder that stands in for it.

The root holds the commands that the modelled image has and no others (links to this host's programs, or shims), the
pod's volumes at their paths, a scrubbed /etc, and nothing of the host's homes. Without namespaces the same things lie
in a folder, and the paths of mounts are rewritten in the command line, the environment and the mounted texts.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from killcheck.embedded.nodes import applets, shells, shims
from killcheck.embedded.nodes.execution import Launch
from killcheck.embedded.nodes.hostfiles import HIDDEN, Step, base, of_root, thinned
from killcheck.embedded.nodes.hostprograms import BINARY_DIRS, HostPrograms, clouds_by_path, python
from killcheck.embedded.nodes.shims import Wiring
from killcheck.embedded.nodes.volumes import File, Mount, Volume
from killcheck.executor.proxies import API_NAMES
from killcheck.kube.objects import Obj, dig, namespace_of

__all__ = ["Plan", "Scratch", "isolated", "moved_command", "moves", "relocated", "rewritten"]

#: The module by which a Python keeps the cluster's time.
SITE = "killcheck_clock"
#: Where a pod finds its ServiceAccount's token, CA and namespace.
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
#: What the API server is called inside a cluster.
#: Programs that cannot be shown the way to the API server without a network namespace.
_UNREACHING = frozenset({"wget", "nc", "telnet", "ftp"})
#: Where volumes are that outlive their pods, beside the pods' folders (whose names are uids).
KEPT = "kept"
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"


class Plan(Struct):
    """What the spawner is told: the program, its environment and directory, and the steps that make its root."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    steps: list[Step] = field(default_factory=list)
    #: Absolute paths that were moved elsewhere on this host, longest first.
    moved: list[list[str]] = field(default_factory=list)
    #: The folder that stands in for the root; None: it has one.
    root: Path | None = None


class Scratch(Struct, frozen=True):
    """Folders of this host for one container: ``pod`` outlives it (emptyDirs), ``own`` does not."""

    pod: Path
    own: Path

    def volume(self, volume: Volume) -> Path:
        """The folder of a writable volume."""
        folder = self.pod.parent / self.of(volume)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def of(self, volume: Volume) -> str:
        """What the spawner calls the folder of a writable volume: one that outlives its pod is in no pod's."""
        return f"{KEPT}/{volume.kept}" if volume.kept else self.seen("volumes", volume.name)

    def seen(self, *below: str) -> str:
        """What the spawner calls a file or folder of the pod's."""
        return "/".join((self.pod.name, *below))


# -- with namespaces ---------------------------------------------------------------------------------------
def isolated(launch: Launch, wiring: Wiring, host: HostPrograms, scratch: Scratch, dns_ip: str) -> Plan:
    """A root of its own: every path as the manifest has it."""
    steps = list(base([mount.path for mount in launch.mounts], zones=launch.contents.zones))
    steps += _etc(launch, dns_ip)
    steps += _programs(launch, wiring, host)
    steps += _python(launch, wiring)
    for mount in sorted(launch.mounts, key=lambda m: m.path):
        steps += _mount(mount, scratch, launch)
    steps += _working_dir(launch)
    log = scratch.own / "termination-log"
    log.touch()
    log.chmod(0o666)
    steps.append(["pod", launch.termination_path, scratch.seen(scratch.own.name, log.name)])
    # Last: until then no path of a manifest leads to a process's open files.
    steps.append(["proc", "/proc"])
    if launch.run_as and launch.contents.known:  # nothing is known of what another image gives its user
        steps += of_root({mount.path.rstrip("/") for mount in launch.mounts})
    if dig(_container(launch), "securityContext", "readOnlyRootFilesystem"):
        steps.append(["seal", "/"])
    return Plan(launch.argv, _environment(launch), launch.working_dir or "/", steps)


def _working_dir(launch: Launch) -> Iterator[Step]:
    """The directory that a container starts in: runc makes it where it is not there.

    Source: libcontainer/rootfs_linux.go, prepareRootfs. What an image that nobody knows has in it is not known either,
    and no link in a volume is followed.
    """
    path = posixpath.normpath(launch.working_dir or "/")
    mounted = any(f"{path}/".startswith(f"{mount.path.rstrip('/')}/") for mount in launch.mounts)
    if launch.contents.known and path.startswith("/") and path != "/" and not mounted:
        yield ["dir", path]


def _etc(launch: Launch, dns_ip: str) -> Iterator[Step]:
    user = launch.run_as or 0
    known = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"
    if user not in (0, 65534):
        known += f"user:x:{user}:{user}::/:/sbin/nologin\n"
    own = f"{launch.pod_ip}\t{launch.hostname}\n" if launch.pod_ip else ""  # as a kubelet has it
    hosts = f"127.0.0.1\tlocalhost\n{own}" + "".join(f"{ip}\t{name}\n" for name, ip in launch.hosts.items())
    resolv = f"nameserver {dns_ip}\n"
    if launch.cluster_dns:
        namespace = namespace_of(launch.pod)
        resolv = f"search {namespace}.svc.cluster.local svc.cluster.local cluster.local\n{resolv}options ndots:5\n"
    for name, text in (
        ("passwd", known),
        ("group", "root:x:0:\nnogroup:x:65534:\n"),
        ("hostname", f"{launch.hostname}\n"),
        ("hosts", hosts),
        ("resolv.conf", resolv),
        ("nsswitch.conf", _NSSWITCH),
    ):
        yield ["file", f"/etc/{name}", text, 0o644]


def _programs(launch: Launch, wiring: Wiring, host: HostPrograms) -> Iterator[Step]:
    yield from _link(wiring.bash, host.find("bash"))
    yield from _link(wiring.python, python())
    contents = launch.contents
    if contents.commands is None:
        by_path = clouds_by_path(launch.texts(), contents.without)
        for directory in BINARY_DIRS:
            instead = {name for folder, name in by_path if folder == directory}
            yield from thinned(directory, contents.without | instead, adding=bool(instead))
        shimmed = [name for name in (*shims.SHIMMED, "python", "python3") if name not in contents.without]
        yield from _shims((*shimmed, *host.lacks(contents.without)), launch, wiring, host)
        yield from (["link", f"{folder}/{name}", f"{HIDDEN}/shims/{name}"] for folder, name in sorted(by_path))
        return
    if contents.merged:
        for directory in ("bin", "sbin"):
            yield ["dir", f"/usr/{directory}"]
            yield ["link", f"/{directory}", f"usr/{directory}"]
    yield from _shims(sorted(set(contents.commands.values())), launch, wiring, host)
    guarded = applets.called(launch, (contents.commands[path] for path in contents.applets))
    yield from _guards(sorted(guarded), launch, wiring, host)
    for path, name in contents.commands.items():
        if contents.merged and path.startswith(("/bin/", "/sbin/")):
            path = f"/usr{path}"  # where the link leads: the way to a shim is reckoned from there
        real = shells.program(name, launch, host)
        if path in contents.applets and name in guarded and real is not None:
            yield ["link", path, f"{HIDDEN}/applets/{name}"]
        elif shim_for(name, real):
            yield ["link", path, f"{HIDDEN}/shims/{name}"]
        else:
            yield from _link(path, real)
    for path, text in contents.scripts:
        yield ["file", path, text, 0o755]


def shim_for(name: str, real: str | None) -> str:
    """The shim that takes a command's place; empty where the host's program is as good as any."""
    if real is None and name not in shims.STANDINS and name not in shims.WHOLE:
        return shims.LACKING
    return shims.PYTHON if name.startswith("python") else shims.SHIMMED.get(name, "")


def _shims(names: Iterable[str], launch: Launch, wiring: Wiring, host: HostPrograms) -> Iterator[Step]:
    lacking = f"{HIDDEN}/lacking"
    yield ["file", lacking, shims.program(shims.LACKING, wiring), 0o755]
    for name in names:
        real = shells.program(name, launch, host)
        file = shim_for(name, real)
        if file == shims.LACKING:  # one for all of them: it goes by the name that it is called by
            yield ["link", f"{HIDDEN}/shims/{name}", lacking]
        elif file:
            yield from _shim(name, file, real, wiring)


def _guards(names: Iterable[str], launch: Launch, wiring: Wiring, host: HostPrograms) -> Iterator[Step]:
    """What refuses, before a program of this host is asked, what the applet that it stands for does not know."""
    yield ["link", f"{HIDDEN}/lacks/date", f"{HIDDEN}/lacking"]
    for name in names:
        real = shells.program(name, launch, host)
        if real is None:
            continue
        seen = f"{HIDDEN}/shims/{name}" if shim_for(name, real) else _visible(real)
        yield ["file", f"{HIDDEN}/applets/{name}", shims.applet(name, wiring, seen, f"{HIDDEN}/lacks"), 0o755]
        if seen == f"{HIDDEN}/host/files/{name}":
            yield ["bind", seen, real, True]


def _shim(name: str, file: str, real: str | None, wiring: Wiring) -> Iterator[Step]:
    before = f"{HIDDEN}/py/bin/python3" if file == shims.PYTHON else _visible(real or "")
    if real is None and name in shims.STANDINS:
        before = f"{HIDDEN}/standins/{name}"
        yield ["file", before, shims.program(shims.STANDINS[name], wiring), 0o755]
    beside = f"{HIDDEN}/beside/{name}"
    yield ["file", f"{HIDDEN}/shims/{name}", shims.program(file, wiring, before, beside), 0o755]
    if file in shims.BESIDE:
        yield ["file", beside, shims.program(shims.BESIDE[file], wiring, before), 0o755]
    if real and before == f"{HIDDEN}/host/files/{name}":
        yield ["bind", before, real, True]


def _visible(real: str) -> str:
    """Where a program of this host is seen in the container."""
    if real.startswith(("/usr/", "/bin/", "/sbin/")):
        return f"{HIDDEN}/host{real}"
    if real.startswith(f"{sys.base_prefix}/"):
        return real
    return f"{HIDDEN}/host/files/{os.path.basename(real)}"  # noqa: PTH119


def _link(path: str, real: str | None) -> Iterator[Step]:
    if real is None:
        return
    seen = _visible(real)
    if seen.startswith(f"{HIDDEN}/host/files/"):
        yield ["bind", path, real, True]
    else:
        yield ["link", path, seen]


def _python(launch: Launch, wiring: Wiring, root: str = HIDDEN) -> Iterator[Step]:
    """A virtual environment in the cluster's time, with killcheck's own packages where the image is not known."""
    real = python() if root != HIDDEN else _visible(python())
    home = os.path.dirname(real)  # noqa: PTH120
    library = f"{root}/py/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    yield ["link", f"{root}/py/bin/python3", real]
    yield ["file", f"{root}/py/pyvenv.cfg", f"home = {home}\ninclude-system-site-packages = false\n", 0o644]
    # No sitecustomize: a distribution may have one, which would come first.
    yield ["file", f"{library}/{SITE}.pyc", shims.site(), 0o644]
    yield ["file", f"{library}/{SITE}.pth", shims.site_line(SITE, wiring), 0o644]
    fetches = launch.contents.find("pip") if launch.contents.known else None
    if fetches:  # python -m pip
        place = f"{HIDDEN}/shims/pip" if root == HIDDEN else f"{root}{fetches}"
        yield [
            "file",
            f"{library}/pip/__main__.py",
            f"import os, sys\nos.execv({place!r}, ['pip', *sys.argv[1:]])\n",
            0o644,
        ]
    if launch.contents.python_packages:
        packages = sysconfig.get_path("purelib")
        seen = packages if root != HIDDEN else f"{HIDDEN}/packages"
        if root == HIDDEN:
            yield ["bind", seen, packages, True]
        yield ["file", f"{library}/host.pth", f"{seen}\n", 0o644]


def _mode(mount: Mount, file: File, launch: Launch) -> int:
    """What a file's mode comes to for whom a container runs as: it is root's, and ``fsGroup``'s where there is one.

    Source: pkg/volume/volume_linux.go (SetVolumeOwnership: group, and ``r--`` for it). A projected volume has the
    kubelet's own modes for a token.
    """
    if not launch.run_as or mount.volume.kind == "projected":
        return file.mode
    group = dig(launch.pod, "spec", "securityContext", "fsGroup") is not None
    mine = ((file.mode | 0o440) >> 3 if group else file.mode) & 0o7
    return mine * 0o111


def _mount(mount: Mount, scratch: Scratch, launch: Launch) -> Iterator[Step]:
    if mount.volume.writable:
        yield [
            "volume",
            mount.path,
            scratch.of(mount.volume),
            mount.sub_path,
            mount.read_only,
            mount.full,
            mount.volume.size_bytes,
        ]
        return
    single = mount.volume.files.get(mount.sub_path) if mount.sub_path else None
    if single is not None:
        yield ["file", mount.path, _text(single.content), _mode(mount, single, launch)]
        return
    yield ["tmpfs", mount.path, "mode=755,size=16m"]
    for name, file in _below(mount):
        yield ["file", f"{mount.path.rstrip('/')}/{name}", _text(file.content), _mode(mount, file, launch)]
    yield ["seal", mount.path]


def _below(mount: Mount) -> Iterator[tuple[str, File]]:
    prefix = f"{mount.sub_path.strip('/')}/" if mount.sub_path else ""
    for name, file in mount.volume.files.items():
        if name.startswith(prefix):
            yield name[len(prefix) :], file


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _container(launch: Launch) -> Obj:
    spec = launch.pod["spec"]
    kinds = ("containers", "initContainers", "ephemeralContainers")
    return next(c for kind in kinds for c in spec.get(kind) or () if c["name"] == launch.container)


def _environment(launch: Launch) -> dict[str, str]:
    """The manifest's variables and what every runtime adds; nothing of this process's own."""
    home = "/root" if not launch.run_as else "/"
    env = {"PATH": launch.contents.path, "HOSTNAME": launch.hostname, "HOME": home} | launch.env
    if launch.contents.commands is None:
        env["PATH"] = _shimmed(env["PATH"], f"{HIDDEN}/shims")
    return env


def _shimmed(path: str, folder: str) -> str:
    """A PATH with the shims right before the first directory whose programs they stand for."""
    directories = path.split(":")
    first = next((i for i, directory in enumerate(directories) if directory in BINARY_DIRS), None)
    return path if first is None else ":".join([*directories[:first], folder, *directories[first:]])


# -- without namespaces ------------------------------------------------------------------------------------
def relocated(launch: Launch, wiring: Wiring, host: HostPrograms, scratch: Scratch) -> Plan:
    """A folder that stands in for the root; ``wiring.moved`` must be what :func:`moves` answers."""
    root = scratch.own / "root"
    (scratch.own / "termination-log").touch()
    for mount in launch.mounts:
        _fill(mount, Path(_target(mount, root, scratch)), wiring.moved)
    _links(launch, wiring, host, root)
    for step in _python(launch, wiring, str(root)):
        _make(step)
    env = {name: rewritten(value, wiring.moved) for name, value in launch.env.items() if name != "PATH"}
    path = launch.env.get("PATH", launch.contents.path)
    if launch.contents.commands is None:
        path = rewritten(_shimmed(path, str(root / "shims")), wiring.moved)
    else:
        path = ":".join(f"{root}{directory}" for directory in path.split(":"))
    home = root / "home"
    home.mkdir(parents=True, exist_ok=True)
    nowhere = "http://127.0.0.1:1"  # what a proxy would be asked for is not in the cluster
    direct = ",".join((*API_NAMES, wiring.service_ip, "127.0.0.1", "localhost"))
    own = {
        "HOSTNAME": launch.hostname,
        "HOME": str(home),
        "TMPDIR": str(home),
        "http_proxy": nowhere,
        "https_proxy": nowhere,
        "no_proxy": direct,
    }
    if not launch.contents.zones:
        own |= {"TZDIR": str(root), "PYTHONTZPATH": str(root)}
    env = own | env | {"PATH": path}
    argv = _moved_argv(launch, launch.argv, wiring.moved, root)
    moved_to = dict(wiring.moved)
    cwd = moved_to.get(launch.working_dir.rstrip("/"), str(home))
    return Plan(argv, env, cwd, moved=wiring.moved, root=root)


def _moved_argv(launch: Launch, argv: list[str], moved: list[list[str]], root: Path) -> list[str]:
    argv = [rewritten(word, moved) for word in argv]
    inside = Path(f"{root}{argv[0]}")
    if launch.contents.known and argv[0].startswith("/") and inside.exists():
        argv[0] = str(inside)
    return argv


def moved_command(launch: Launch, argv: list[str], plan: Plan) -> list[str]:
    """A command for a container that :func:`relocated` made."""
    return _moved_argv(launch, argv, plan.moved, plan.root or Path("/"))


def moves(launch: Launch, scratch: Scratch) -> list[list[str]]:
    """[path in the manifest, path on this host] of every mount and of the termination log, longest first."""
    root = scratch.own / "root"
    found = [[launch.termination_path, str(scratch.own / "termination-log")]]
    for mount in launch.mounts:
        target = _target(mount, root, scratch)
        path = mount.path.rstrip("/")
        found.append([path, target])
        if path.startswith("/var/run/"):
            found.append([path.removeprefix("/var"), target])
    return sorted(found, key=lambda pair: -len(pair[0]))


def rewritten(text: str, moved: list[list[str]]) -> str:
    """Text with the paths of mounts replaced, whole path components only."""
    for before, after in moved:
        text = re.sub(rf"(?<![\w./-]){re.escape(before)}(?![\w-])", lambda _, after=after: after, text)  # type: ignore[misc]
    return text


def _target(mount: Mount, root: Path, scratch: Scratch) -> str:
    if mount.volume.writable:
        folder = scratch.volume(mount.volume) / mount.sub_path
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)
    return f"{root}{mount.path.rstrip('/')}"


def _fill(mount: Mount, target: Path, moved: list[list[str]]) -> None:
    if mount.volume.writable:
        return
    single = mount.volume.files.get(mount.sub_path) if mount.sub_path else None
    files = [("", single)] if single is not None else list(_below(mount))
    for name, file in files:
        path = target / name if name else target
        text = rewritten(_text(file.content), moved)
        _make(["file", str(path), text, file.mode])
    if single is None:
        target.mkdir(parents=True, exist_ok=True)


def _links(launch: Launch, wiring: Wiring, host: HostPrograms, root: Path) -> None:
    contents = launch.contents
    named = contents.commands
    if named is None:
        # What is on this host's own PATH cannot be left out here: whoever calls it is not run to its end.
        left_out = {name for name in contents.without if not any((Path(d) / name).exists() for d in BINARY_DIRS)}
        named = {
            f"/shims/{name}": name
            for name in (*shims.SHIMMED, "python", "python3", "wget", *host.lacks(frozenset(left_out)))
        }
    for path, name in named.items():
        real = shells.program(name, launch, host) if name not in _UNREACHING else None
        file = shim_for(name, real)
        places = [path]
        if contents.merged and path.startswith("/usr/"):
            places.append(path.removeprefix("/usr"))
        for place in places:
            if file:
                before, beside = _wrapped(name, real, launch, wiring, root), f"{root}/beside/{name}"
                _make(["file", f"{root}{place}", shims.program(file, wiring, before, beside), 0o755])
                if file in shims.BESIDE:
                    _make(["file", beside, shims.program(shims.BESIDE[file], wiring, before), 0o755])
            elif real:
                _make(["link", f"{root}{place}", real])
    for path, text in contents.scripts:
        _make(["file", f"{root}{path}", rewritten(text, wiring.moved), 0o755])


def _wrapped(name: str, real: str | None, launch: Launch, wiring: Wiring, root: Path) -> str:
    """The program behind a shim, told where the API server is on this host."""
    if real is None and name not in shims.STANDINS:
        return ""
    if real is None:
        real = f"{root}/standins/{name}"
        _make(["file", real, shims.program(shims.STANDINS[name], wiring), 0o755])
    if name.startswith("python"):
        return f"{root}/py/bin/python3"
    address, port = wiring.api_address
    extra = ""
    if name == "curl":
        extra = " ".join(f"--connect-to {n}:443:{address}:{port}" for n in (*API_NAMES, wiring.service_ip))
    elif name == "kubectl":
        _make(["file", f"{root}/kubeconfig", _kubeconfig(launch, wiring), 0o600])
        extra = f"--kubeconfig={root}/kubeconfig"
    else:
        return real
    wrapper = f"{root}/real/{name}"
    _make(["file", wrapper, f'#!/bin/sh\nexec {real} {extra} "$@"\n', 0o755])
    return wrapper


def _kubeconfig(launch: Launch, wiring: Wiring) -> str:
    account = next((after for before, after in wiring.moved if before == ACCOUNT), "")
    address, port = wiring.api_address
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pod",
            "clusters": [
                {
                    "name": "pod",
                    "cluster": {"server": f"https://{address}:{port}", "certificate-authority": f"{account}/ca.crt"},
                }
            ],
            "users": [{"name": "pod", "user": {"tokenFile": f"{account}/token"}}],
            "contexts": [
                {"name": "pod", "context": {"cluster": "pod", "user": "pod", "namespace": namespace_of(launch.pod)}}
            ],
        }
    )


def _make(step: Step) -> None:
    """A link or a file on this host."""
    what, path, *rest = step
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if what == "link":
        if not target.is_symlink():
            target.symlink_to(rest[0])
    else:
        target.write_bytes(rest[0].encode("utf-8", "surrogateescape"))
        target.chmod(rest[1])
