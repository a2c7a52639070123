"""``killcheck nodes``: hollow GPU nodes on a real cluster, for drills where there are no GPUs to spare."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands import completing, named
from killcheck.commands.errors import guarded
from killcheck.commands.saying import say

if TYPE_CHECKING:
    from datetime import datetime

    from killcheck.clock import WallLoop
    from killcheck.cluster.hollow_nodes import Shape
    from killcheck.cluster.kubeconfig import KubeconfigCluster
    from killcheck.kube.client import Kube
    from killcheck.kube.objects import Obj
    from killcheck.run.session import Session
    from killcheck.safety.orphans import Orphan
    from killcheck.safety.written import Header
    from killcheck.spec.killpath import KillPath, NodePool

__all__ = ["command"]

_SETTINGS = {"help_option_names": ["-h", "--help"]}
#: Most nodes that one process keeps.
MOST = 500
#: How often it is looked whether the run is still its own, and how long ``down`` waits for a process, in seconds.
LOOK_S, PATIENCE_S = 1.0, 60.0
_EFFECTS = ("NoSchedule", "NoExecute")


@click.group("nodes", context_settings=_SETTINGS)
def command() -> None:
    """Put hollow GPU nodes on a real cluster, and take them away again.

    A hollow node is a Node without a machine: killcheck's own kubelet registers it, keeps its Lease, and runs the pods
    that the cluster's own scheduler puts there as models. The API server, controllers, webhooks, policies and
    autoscalers that a drill meets are the cluster's own; GPUs it needs none.

    \b
      killcheck nodes up --on staging --type g6e.48xlarge --count 4 --yes &
      killcheck drill --on staging
      killcheck nodes down
    """


@command.command("up", context_settings=_SETTINGS)
@named.spec
@click.option(
    "--on", required=True, shell_complete=completing.contexts, metavar="CONTEXT", help="The cluster, by its context."
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file (default: KUBECONFIG, ~/.kube/config)."
)
@click.option("--count", type=click.IntRange(1, MOST), default=1, show_default=True, help="How many nodes.")
@click.option("--gpus", type=click.IntRange(0), help="GPUs that each advertises (default: its type's, or 8).")
@click.option("--type", "instance_type", metavar="TYPE", help="The machine type that each is: p5.48xlarge.")
@click.option(
    "--pool",
    metavar="NAME",
    help="The spec's node pool that they are of (default: its only one; with --gpus 0: none).",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label more (repeatable).")
@click.option(
    "--taint",
    "taints",
    multiple=True,
    metavar="KEY[=VALUE]:EFFECT",
    help="Instead of killcheck.dev/hollow=true:NoSchedule: what your GPU pods tolerate (repeatable).",
)
@click.option(
    "--exec",
    "exec_mode",
    type=click.Choice(["none", "host"]),
    default="none",
    show_default=True,
    help="How commands of executors that land there run: not at all, or in a sandbox of this host.",
)
@click.option("--namespace", "-n", metavar="NAME", help="Where the journal is kept (default: the spec's first).")
@click.option("--yes", is_flag=True, help="Do not ask before the nodes are made.")
@guarded
def up(**options: Any) -> None:
    """Register hollow GPU nodes and keep them alive, until Ctrl-C or 'killcheck nodes down'.

    Nothing is scheduled there that does not tolerate their taint. The spec's consent: must name the context, and the
    namespace that keeps the journal must have opted in, as for a drill.

    \b
    Examples:
      killcheck nodes up --on staging --type g6e.48xlarge --count 4 --yes
      killcheck nodes up --on staging --taint nvidia.com/gpu:NoSchedule --yes

    Exit code 0: they are gone again; 5: something could not be taken away.
    """
    from killcheck.cluster.kubeconfig import KubeconfigCluster
    from killcheck.safety import consent

    session = named.session({**options, "example": ""})
    named.headline(session, aside=True)
    kill_path = _spec(session)
    consent.check_context(options["on"], kill_path)
    shape = _shape(kill_path, options)
    home = options["namespace"] or _home(kill_path)
    cluster = KubeconfigCluster(options["on"], kubeconfig=options["kubeconfig"])
    try:
        _agree(cluster, kill_path, shape, home, yes=options["yes"])
        _keep(cluster, shape, home, options)
    finally:
        cluster.close()


@command.command("down", context_settings=_SETTINGS)
@click.option(
    "--on",
    shell_complete=completing.contexts,
    metavar="CONTEXT",
    help="The cluster (default: those of the journals in .killcheck/).",
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="A kubeconfig file (default: KUBECONFIG, ~/.kube/config)."
)
@guarded
def down(on: str | None, kubeconfig: Path | None) -> None:
    """Take hollow nodes away: end the process that keeps them, or put back what a dead one left.

    Those that a process of another folder, or of another machine, keeps alive are told and left alone.

    Exit code 5 says that something could not be taken away, and how to do it by hand.
    """
    from killcheck.clock import WallLoop
    from killcheck.cluster.kubeconfig import on_its_clock
    from killcheck.kube.config import connect
    from killcheck.safety.journal import Dirty

    ended = [run for run in map(_end, _here(on)) if run]
    for run in ended:
        say(f"the hollow nodes of run {run} are gone")
    problems: list[str] = []
    found = len(ended)
    left = {(header.context, kubeconfig or _file(header)) for header in _here(on)}
    for context, file in [(on, kubeconfig)] if on else sorted(left, key=str):
        loop = WallLoop()
        kube = connect(context, kubeconfig=file, loop=loop)
        on_its_clock(kube, loop)
        for orphan in _orphans(kube, loop, context):
            found += 1
            if orphan.alive(loop.now()):  # somebody drills on them, who is not of this folder
                say(_left_alone(orphan, context, loop.now()))
            else:
                problems += _put_back(kube, loop, orphan)
    if problems:
        raise Dirty(problems)
    if not found:
        say("there are no hollow nodes" + (f" on {on}" if on else " of this folder: name a cluster with --on"))


# -- up ----------------------------------------------------------------------------------------------------
def _spec(session: Session) -> KillPath:
    """The spec: consent is given there. Raises UsageError where there is none."""
    if session.spec is None:
        raise click.UsageError("there is no killcheck.yaml that consents: killcheck init writes one (consent.contexts)")
    return session.kill_path


def _home(kill_path: KillPath) -> str:
    found = (*kill_path.consent.namespaces, *(t.namespace for t in kill_path.targets if t.namespace))
    if not found:
        raise click.UsageError("the spec names no namespace: say --namespace NAME, where the journal is kept")
    return found[0]


def _shape(kill_path: KillPath, options: dict[str, Any]) -> Shape:
    """What each node is to be. Raises UsageError."""
    from killcheck.cluster.hollow_nodes import Shape, pool_labels
    from killcheck.instances.catalogue import shipped
    from killcheck.text.suggestions import did_you_mean

    asked = options["pool"] is not None or options["gpus"] != 0  # a node without GPUs is of no GPU pool
    pool = _pool(kill_path, options["pool"]) if asked else None
    wanted = options["instance_type"] or (pool.instance_type if pool else "")
    instance = shipped().get(wanted) if wanted else None
    if wanted and instance is None:
        raise click.UsageError(f"no machine type {wanted} is known{did_you_mean(wanted, shipped().types)}")
    gpus = options["gpus"] if options["gpus"] is not None else (instance.device_count if instance else 8)
    labels = pool_labels(pool, dict(_label(text) for text in options["labels"]))
    taints = [_taint(text) for text in options["taints"]]
    said = {"taints": taints} if taints else {}
    return Shape(options["count"], gpus, instance, labels, **said)


def _pool(kill_path: KillPath, name: str | None) -> NodePool | None:
    from killcheck.text.suggestions import did_you_mean

    names = [pool.name for pool in kill_path.nodes]
    if name is None:
        if len(names) > 1:
            raise click.UsageError(f"the spec has several node pools ({', '.join(names)}): say --pool NAME")
        return kill_path.nodes[0] if names else None
    if name not in names:
        raise click.UsageError(f"the spec has no node pool {name}{did_you_mean(name, names)}")
    return kill_path.nodes[names.index(name)]


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--label takes KEY=VALUE, not {text!r}")
    return key, value


def _taint(text: str) -> Obj:
    said, colon, effect = text.rpartition(":")
    key, _, value = said.partition("=")
    if not colon or not key or effect not in _EFFECTS:
        raise click.UsageError(
            f"--taint takes KEY[=VALUE]:EFFECT with effect {' or '.join(_EFFECTS)}, not {text!r}: hollow nodes take "
            "nothing that does not tolerate them"
        )
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _agree(cluster: KubeconfigCluster, kill_path: KillPath, shape: Shape, home: str, *, yes: bool) -> None:
    """Raises ConsentError for what has not consented, Declined where a person says no."""
    from killcheck.cluster.hollow_nodes import permissions
    from killcheck.commands.drill import go_on
    from killcheck.run.runner import Declined
    from killcheck.safety import consent

    what = f"register {shape.count} hollow node(s) with {shape.gpus} {shape.resource} each on {cluster.name}"
    taints = ", ".join(f"{t['key']}{'=' + t['value'] if t.get('value') else ''}:{t['effect']}" for t in shape.taints)
    plan = consent.Plan(
        cluster.name,
        (what,),
        (home,),
        tuple(permissions(home)),
        usd_per_hour=0.0,
        new_gpu_nodes=shape.count * (shape.gpus > 0),
    )
    consent.check(cluster, kill_path, plan)
    say(f"killcheck: this will {what}; pods land there that tolerate {taints}; journal in {home}", err=True)
    if not yes:
        if not os.isatty(0):
            raise Declined("not a terminal: say --yes to change a real cluster; nothing was changed")
        if not go_on():
            raise Declined("the plan was not approved: nothing was changed")


def _keep(cluster: KubeconfigCluster, shape: Shape, home: str, options: dict[str, Any]) -> None:
    """Until somebody ends it. Raises Dirty where something is left."""
    from killcheck.cluster.hollow_nodes import HollowNodes
    from killcheck.safety.journal import Dirty, state_dir

    hollow = HollowNodes(
        cluster.kube,
        cluster.loop,
        shape,
        home=home,
        context=options["on"],
        kubeconfig=str(options["kubeconfig"] or _named_by_environment() or ""),
        folder=state_dir() / "runs",
        exec_mode=options["exec_mode"],
        version=cluster.kubernetes,
        say=lambda said: say(f"killcheck: {said}", err=True),
    )
    try:
        names = hollow.up()
        shown = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
        say(f"{len(names)} hollow node(s) are up: {shown}; Ctrl-C or killcheck nodes down ends them")
        while True:
            cluster.loop.sleep(LOOK_S)
            hollow.check()
    except KeyboardInterrupt:
        say("killcheck: taking the hollow nodes away", err=True)
    finally:
        problems = hollow.down()
        if problems:
            raise Dirty(problems)
    say("the hollow nodes are gone")


def _named_by_environment() -> Path | None:
    """The one file that KUBECONFIG names: whoever ends the run may not have it in its environment."""
    said = os.environ.get("KUBECONFIG", "")
    return Path(said).resolve() if said and os.pathsep not in said else None


# -- down --------------------------------------------------------------------------------------------------
def _here(on: str | None) -> list[Header]:
    """The runs of this folder that have hollow nodes, alive or dead; ``on``: on that cluster alone."""
    from killcheck.cluster.hollow_nodes import RUN_PREFIX
    from killcheck.safety.journal import state_dir
    from killcheck.safety.orphans import local

    headers = [said.header for _, said in local(state_dir()) if said.signed and said.header is not None]
    return [one for one in headers if one.run.startswith(RUN_PREFIX) and one.context and on in (None, one.context)]


def _file(header: Header) -> Path | None:
    return Path(header.kubeconfig) if header.kubeconfig else None


def _end(header: Header) -> str | None:
    """Ask the process that keeps a run's nodes to end, which takes them away, and wait for it; the run where it did."""
    import platform

    from killcheck.clock import WallLoop
    from killcheck.safety.orphans import runs

    if header.host != platform.node() or header.pid == os.getpid() or not runs(header.pid, header.began):
        return None
    os.kill(header.pid, signal.SIGTERM)
    loop = WallLoop()
    while runs(header.pid, header.began) and loop.monotonic() < PATIENCE_S:
        loop.sleep(LOOK_S / 5)
    return None if any(one.run == header.run for one in _here(None)) else header.run


def _orphans(kube: Kube, loop: WallLoop, context: str) -> list[Orphan]:
    from killcheck.cluster.hollow_nodes import RUN_PREFIX
    from killcheck.safety.journal import state_dir
    from killcheck.safety.orphans import find

    found = find(kube, loop, context=context, folder=state_dir())
    return [orphan for orphan in found if orphan.run.startswith(RUN_PREFIX)]


def _left_alone(orphan: Orphan, context: str, now: datetime) -> str:
    ends = f"killcheck restore --on {context} --run {orphan.run}"
    wait_s = math.ceil(orphan.lapses_s(now))
    return (
        f"the hollow nodes of run {orphan.run} are kept by a process that is not of this folder, and left alone: end "
        f"it where it runs, or with {ends}" + (f"; if it died, ask again in {wait_s} s" if wait_s > 0 else "")
    )


def _put_back(kube: Kube, loop: WallLoop, orphan: Orphan) -> list[str]:
    """Take away what a run has left; what could not be, in words."""
    from killcheck.safety.orphans import restore

    outcome = restore(kube, loop, [orphan], named=orphan.run)
    for said in outcome.undone:
        say(said)
    problems = [*outcome.problems, *outcome.unknown]
    if not problems:
        say(f"the hollow nodes of run {orphan.run} are gone")
    return problems
