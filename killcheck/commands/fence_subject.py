"""What ``killcheck fence`` judges: objects of manifests or of a cluster, and an account beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from killcheck.commands import named
from killcheck.commands.saying import say
from killcheck.text.values import replace

if TYPE_CHECKING:
    from killcheck.cloud.session import Aws
    from killcheck.cluster.kubeconfig import KubeconfigCluster
    from killcheck.fence import Account, Ceiling, FenceReport
    from killcheck.instances.catalogue import Catalogue
    from killcheck.kube.objects import Obj
    from killcheck.spec.killpath import KillPath

__all__ = ["Subject", "chosen", "report_on"]


class Subject(Struct):
    """What is judged: objects of manifests or of a cluster, by the ceiling and prices of a spec, if there is one."""

    kill_path: KillPath | None
    objects: list[Obj]
    ceiling: Ceiling
    catalogue: Catalogue
    account: Account | None = None
    cluster: KubeconfigCluster | None = None
    #: Places of manifests that were not read.
    unread: tuple[str, ...] = ()
    #: ...and of what makes machines without GPUs.
    costing: tuple[str, ...] = ()
    #: What a live cluster has and keeps to itself, a sentence each, and the nodes that stand there.
    doubts: tuple[str, ...] = ()
    nodes: tuple[Obj, ...] = ()


def report_on(subject: Subject, options: dict[str, Any]) -> FenceReport:
    """The evaluation. Raises AccountError where an account cannot be asked."""
    from killcheck import fence
    from killcheck.cloud.ask import AskError

    doors = []
    if options.get("aws"):
        from killcheck.fence.account_answers import account_of, own_door

        aws = _aws(subject.kill_path, options)
        try:
            subject.account = account_of(aws, options["eks"] or "")
        except AskError as error:
            raise fence.AccountError(str(error)) from error
        if options["dry_run_launch"]:
            image, subnet = options["dry_run_launch"]
            doors.append(own_door(aws, image, subnet, subject.catalogue, subject.ceiling))
    named = subject.kill_path.nodes if subject.kill_path is not None and subject.kill_path.in_kubernetes else ()
    return fence.evaluate(
        subject.objects,
        subject.ceiling,
        subject.catalogue,
        account=subject.account,
        doors=doors,
        named=named,
        unread=subject.unread,
        costing=subject.costing,
        doubts=subject.doubts,
        nodes=subject.nodes,
    )


def _aws(kill_path: KillPath | None, options: dict[str, Any]) -> Aws:
    from killcheck.cloud.session import Aws

    said = kill_path.cloud if kill_path else None
    return Aws(
        region=options["region"] or (said.region if said else ""),
        profile=options["profile"] or (said.profile if said else ""),
        endpoint_url=said.endpoint if said else "",
    )


def _ceiling(kill_path: KillPath | None, options: dict[str, Any]) -> Ceiling:
    from killcheck import fence

    ceiling = fence.Ceiling.of(kill_path.fences) if kill_path else fence.Ceiling()
    said = {
        "max_devices_per_node": options["max_devices"],
        "max_usd_per_hour": options["max_usd"],
        "max_devices": options["max_devices_in_all"],
        "forbidden_types": (*ceiling.forbidden_types, *options["forbid"]) if options["forbid"] else None,
    }
    return replace(ceiling, **{key: value for key, value in said.items() if value is not None})


@contextmanager
def chosen(options: dict[str, Any]) -> Iterator[Subject]:
    """What to judge, from files or from a cluster."""
    from killcheck import fence
    from killcheck.run.chosen import source
    from killcheck.run.reading import catalogue_for, known_catalogues

    account = fence.Account.load(list(options["account"])) if options["account"] else None
    session = named.session(options)
    kill_path = (
        session.kill_path if session.spec or session.fixture or not (session.manifests or session.real) else None
    )
    if kill_path is not None:
        named.headline(session, aside=options["as_json"])
    else:
        say(f"killcheck: {source(session)}, no spec", err=options["as_json"])
    if options["on"]:
        from killcheck.cluster.kubeconfig import KubeconfigCluster
        from killcheck.fence.gathered import gather

        cluster = KubeconfigCluster(options["on"], kubeconfig=options["kubeconfig"])
        try:
            found = gather(cluster.kube)
            yield Subject(
                kill_path,
                found.objects,
                _ceiling(kill_path, options),
                catalogue_for(kill_path, options["catalogues"]),
                account,
                cluster,
                doubts=tuple(found.unread),
                nodes=tuple(found.nodes),
            )
        finally:
            cluster.close()
        return
    session = named.beside(session)
    with session.reading():
        yield Subject(
            kill_path,
            [*session.objects, *session.configured],
            _ceiling(kill_path, options),
            catalogue_for(kill_path, options["catalogues"]),
            account,
            unread=tuple(session.unevaluated(known_catalogues(kill_path, options["catalogues"]))),
            costing=tuple(session.costing),
        )
