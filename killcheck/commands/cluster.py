"""``killcheck cluster``: the embedded cluster by itself, for kubectl; a kind cluster to drill on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.errors import guarded
from killcheck.commands.named import kubernetes_version
from killcheck.commands.saying import say

if TYPE_CHECKING:
    from killcheck.cluster.kind import Kind
    from killcheck.kube.client import Kube

__all__ = ["command"]

#: Between two looks whether a cluster has started, in seconds.
LOOK_S = 0.2
#: Seconds that a cluster may take to end once it was told to.
END_S = 30.0
_SETTINGS = {"help_option_names": ["-h", "--help"]}


@click.group("cluster", context_settings=_SETTINGS)
def command() -> None:
    """Run the embedded cluster by itself, and play a night through by hand.

    \b
      killcheck cluster up --frozen &
      export KUBECONFIG=$(killcheck cluster kubeconfig --wait 30s)
      kubectl get pods -A
      killcheck cluster advance 8h
      killcheck cluster down
    """


def _folder() -> Path:
    """Where the cluster of this working folder is written down: outside of it, for a checkout is others' to write.

    A kubeconfig says which program to run for a credential. Raises ClusterError where the user has no home.
    """
    from killcheck.capabilities.cluster import ClusterError
    from killcheck.safety.keys import KeyProblem, key_path

    try:
        return key_path().parent / "clusters" / hashlib.sha256(os.fsencode(Path.cwd())).hexdigest()[:16]
    except KeyProblem as error:
        raise ClusterError(f"there is nowhere to write down which cluster runs: {error}") from error


@command.command("up", context_settings=_SETTINGS)
@click.option("--speed", type=float, default=1.0, show_default=True, help="Virtual seconds that pass in a second.")
@click.option("--frozen", is_flag=True, help="Time passes only by 'killcheck cluster advance'.")
@click.option(
    "--manifests",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="YAML to load (default: the example dead-man).",
)
@click.option("--empty", is_flag=True, help="Load nothing.")
@click.option(
    "--exec", "exec_mode", type=click.Choice(["host", "none", "unisolated"]), help="How executors' commands run."
)
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="A controller, model or kube-PROGRAM of ours that does not run: the real one can (repeatable).",
)
@kubernetes_version
@click.option("--on", default="embedded", show_default=True, metavar="embedded|kind[:NAME]", help="Which cluster.")
@click.option("--gpu-nodes", type=click.IntRange(1), default=1, show_default=True, help="kind: GPU stand-in nodes.")
@click.option("--gpus", type=click.IntRange(1), default=8, show_default=True, help="kind: GPUs that each advertises.")
@click.option("--image", default="", metavar="IMAGE", help="kind: its node image (default: the kind command's own).")
@guarded
def up(**options: Any) -> None:
    """Start a cluster in this process and serve it until Ctrl-C or 'killcheck cluster down'.

    With --on kind: create a kind cluster with GPU stand-in nodes, a local registry and the reference kill path, or
    bring one that is there to that.

    \b
    Examples:
      killcheck cluster up --without kube-scheduler    the real one, or yours
      killcheck cluster up --on kind && killcheck drill --on kind
    """
    if options["on"] != "embedded":
        if options["without"]:
            raise click.UsageError("--without is for the embedded cluster: on kind the controllers are the real ones")
        if options["kubernetes_version"]:
            raise click.UsageError("--kubernetes-version is of the embedded cluster: on kind --image says which it is")
        _kind(options["on"]).up(gpu_nodes=options["gpu_nodes"], gpus=options["gpus"], image=options["image"])
        return
    _serve(
        **{name: options[name] for name in ("speed", "frozen", "manifests", "empty", "exec_mode")},
        version=_modelled(options["kubernetes_version"]),
        disabled=_known(options["without"]),
    )


def _modelled(version: str) -> str:
    """The same. Raises UsageError for a version that is not modelled."""
    from killcheck.kube import releases

    try:
        releases.parse(version)
    except releases.ReleaseError as error:
        raise click.UsageError(f"--kubernetes-version: {error}") from None
    return version


def _known(names: tuple[str, ...]) -> frozenset[str]:
    """What these names stand for. Raises UsageError for one that is none."""
    from killcheck.embedded import Cluster
    from killcheck.text.suggestions import did_you_mean

    known = Cluster.components()
    for name in names:
        if name not in known:
            raise click.UsageError(
                f"--without {name}: there is none{did_you_mean(name, known)}; there are {', '.join(sorted(known))}"
            )
    return frozenset(part for name in names for part in known[name])


def _serve(
    *,
    speed: float,
    frozen: bool,
    manifests: tuple[Path, ...],
    empty: bool,
    exec_mode: str | None,
    disabled: frozenset[str],
    version: str,
) -> None:
    """The embedded cluster, in this process."""
    from killcheck.capabilities.cluster import ClusterError
    from killcheck.clock import wall_now
    from killcheck.embedded import Cluster, Control
    from killcheck.run.session import Session
    from killcheck.safety.journal import process_began

    if _there() is not None:
        raise ClusterError("an embedded cluster runs in this folder already: killcheck cluster down ends it")
    session = Session(manifests=manifests, fixture="" if manifests else "dead-man")
    stopped: list[bool] = []
    # It begins now: kubectl reckons the ages that it describes by this machine's clock.
    cluster = Cluster(
        start=wall_now().replace(microsecond=0),
        speed=0.0 if frozen else speed,
        exec_mode=exec_mode or ("none" if manifests else "host"),
        disabled=disabled,
        kubernetes_version=version,
    )
    cluster.nodes.on_unknown = lambda said: say(f"not run, and shown as Running: {said}", err=True)
    try:
        if not empty:
            cluster.load(session.objects)
        cluster.wire.server = Control(cluster.server, cluster.loop, lambda: stopped.append(True))
        path = _folder() / "kubeconfig"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        cluster.wire.start()
        cluster.wire.write_kubeconfig(path)
        told = {"pid": os.getpid(), "began": process_began(os.getpid()), "kubeconfig": str(path.resolve())}
        (path.parent / "cluster.json").write_text(json.dumps(told))
        say(f"the embedded cluster is up, Kubernetes {cluster.release.version}: export KUBECONFIG={path.resolve()}")
        cluster.loop.run_until(lambda: bool(stopped))
    finally:
        cluster.close()
        shutil.rmtree(_folder(), ignore_errors=True)


@command.command("kubeconfig", context_settings=_SETTINGS)
@click.option("--on", default="embedded", show_default=True, metavar="embedded|kind[:NAME]", help="Which cluster.")
@click.option(
    "--wait",
    "patience",
    metavar="DURATION",
    default="0s",
    show_default=True,
    help="How long to wait for an embedded cluster that is still starting.",
)
@guarded
def kubeconfig(on: str, patience: str) -> None:
    """Print the path of the running cluster's kubeconfig."""
    seconds = _seconds(patience)
    if on != "embedded":
        kind = _kind(on)
        kind.export()
        say(kind.kubeconfig.resolve())
        return
    from killcheck.clock import WallLoop

    loop = WallLoop()
    while _there() is None and loop.monotonic() < seconds:
        loop.sleep(LOOK_S)
    say(_running()["kubeconfig"])


@command.command("load", context_settings=_SETTINGS)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@guarded
def load(paths: tuple[Path, ...]) -> None:
    """Create what is in these files and folders."""
    from killcheck.kube import manifests
    from killcheck.kube.objects import ref_of

    kube = _kube()
    loaded = manifests.load(list(paths))
    for line in (*loaded.notes, *loaded.passed_over(spec=True)):
        say(f"killcheck: note: {line}", err=True)
    for obj in loaded.objects:
        resource = kube.resource_for(obj["apiVersion"], obj["kind"])
        namespace = obj["metadata"].get("namespace", "default") if resource.namespaced else None
        kube.create(resource, obj, namespace)
        say(f"{ref_of(obj)} created")


@command.command("advance", context_settings=_SETTINGS)
@click.argument("duration")
@guarded
def advance(duration: str) -> None:
    """Let DURATION (8h, 90s) pass as fast as it goes."""
    seconds = _seconds(duration)
    answer = _kube().call("POST", "/killcheck/advance", query={"seconds": str(seconds)})
    say(f"it is {answer.body['time']}")


@command.command("down", context_settings=_SETTINGS)
@click.option("--on", default="embedded", show_default=True, metavar="embedded|kind[:NAME]", help="Which cluster.")
@guarded
def down(on: str) -> None:
    """Stop the running cluster; of a kind cluster, take down what 'cluster up' made of it and no more."""
    if on != "embedded":
        say(_kind(on).down())
        return
    from killcheck.kube.errors import Unreachable

    kube = _kube()
    with suppress(Unreachable):  # it may be gone before it has answered
        kube.call("POST", "/killcheck/stop")
    _until_gone()
    say("the embedded cluster is down")


def _until_gone() -> None:
    """Raises ClusterError where it is still there after :data:`END_S`."""
    from killcheck.capabilities.cluster import ClusterError
    from killcheck.clock import WallLoop

    loop = WallLoop()
    while (there := _there()) is not None:
        if loop.monotonic() > END_S:
            raise ClusterError(
                f"the embedded cluster was told to stop and is there after {END_S:g} s: kill {there['pid']}"
            )
        loop.sleep(LOOK_S)


def _kind(on: str) -> Kind:
    from killcheck.cluster.kind import Kind
    from killcheck.cluster.naming import KIND_FOLDER, is_kind, kind_name

    if not is_kind(on):
        raise click.UsageError(f"--on {on}: expected embedded, kind or kind:NAME; only those can be made here")
    return Kind(kind_name(on), KIND_FOLDER, say=say)


def _seconds(duration: str) -> float:
    from killcheck.text.durations import parse_duration

    try:
        return parse_duration(duration)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _there() -> dict[str, Any] | None:
    """What the cluster of this folder wrote down; None where its process is gone, however it ended."""
    from killcheck.safety.orphans import runs

    try:
        found: dict[str, Any] = json.loads((_folder() / "cluster.json").read_text())
        return found if runs(int(found["pid"]), found["began"]) else None
    except (OSError, ValueError, KeyError):
        return None


def _running() -> dict[str, Any]:
    from killcheck.capabilities.cluster import ClusterError

    found = _there()
    if found is None:
        raise ClusterError("no embedded cluster runs in this folder: start one with 'killcheck cluster up'")
    return found


def _kube() -> Kube:
    from killcheck.clock import WallLoop
    from killcheck.kube.config import connect

    return connect("killcheck-embedded", kubeconfig=Path(_running()["kubeconfig"]), loop=WallLoop())
