"""Changing containers and images: a merge patch on what is asked for becomes calls of the engine.

Every change can be made again without harm: each looks first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from killcheck.engine.connection import answered, inspected
from killcheck.engine.projection import SPARE, container_of, creation, image_of
from killcheck.engine.refusal import Refusal
from killcheck.kube.errors import NotFound
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of

if TYPE_CHECKING:
    from docker import APIClient

__all__ = ["copied", "make", "make_so", "patch_container", "patch_image"]

_FIELDS = ("replicas", "paused", "networks")


def patch_container(api: APIClient, inspect: Obj, patch: Obj) -> None:
    """Bring a container to what ``patch`` asks for. Raises Refusal (422) for a field that nobody can change."""
    spec = patch.get("spec") or {}
    unknown = [name for name in spec if name not in _FIELDS]
    if unknown:
        raise Refusal(422, "Invalid", f"a container's spec.{unknown[0]} cannot be changed")
    now = container_of(inspect)["spec"]
    identity = inspect["Id"]
    with answered():
        if now["paused"] and (spec.get("paused") is False or spec.get("replicas") == 0):
            api.unpause(identity)
        for name, wanted in (spec.get("networks") or {}).items():
            _network(api, identity, name, wanted, now["networks"].get(name))
        if spec.get("replicas") is not None and spec["replicas"] != now["replicas"]:
            if spec["replicas"]:
                api.start(identity)
            else:
                api.stop(identity)
        if spec.get("paused") and not now["paused"]:
            api.pause(identity)


def _network(api: APIClient, container: str, network: str, wanted: Obj | None, now: Obj | None) -> None:
    if wanted is None and now is not None:
        api.disconnect_container_from_network(container, network)
    elif wanted is not None and now is None:
        fixed = wanted.get("ipam") or {}
        api.connect_container_to_network(
            container,
            network,
            aliases=wanted.get("aliases") or None,
            ipv4_address=fixed.get("IPv4Address"),
            ipv6_address=fixed.get("IPv6Address"),
            link_local_ips=fixed.get("LinkLocalIPs"),
        )


def copied(api: APIClient, name: str, obj: Obj) -> Obj:
    """A container like another one, with ``spec.command`` in place of its own; started if ``spec.replicas`` says so.

    Never started it is what that one is made from again should it be removed: nothing of its environment has to be
    written down anywhere. ``spec.instead``: it takes its place, network aliases and ports included, without its
    volumes. Raises Refusal (422) without a source.
    """
    source = dig(obj, "spec", "copyOf", default="")
    if not source:
        raise Refusal(422, "Invalid", "a container can only be created as a copy of another one (spec.copyOf)")
    with answered():
        how = creation(api.inspect_container(source))
    changed: Obj = {"Labels": labels_of(obj)}
    if dig(obj, "spec", "instead"):
        host = {k: v for k, v in how["config"]["HostConfig"].items() if k not in ("Binds", "Mounts", "VolumesFrom")}
        changed |= {"HostConfig": host, "Volumes": None, "Healthcheck": None}
    else:
        for network in how["networks"].values():
            network.pop("aliases", None)
    if dig(obj, "spec", "command"):
        changed |= {"Entrypoint": dig(obj, "spec", "command"), "Cmd": []}
    identity = make(api, name, how, **changed)
    with answered():
        if dig(obj, "spec", "replicas"):
            api.start(identity)
        return container_of(api.inspect_container(identity))


def make_so(api: APIClient, name: str, wanted: Obj) -> None:
    """A container of that name is on: started where it is there, made again from its spare where it is gone."""
    with answered():
        found = inspected(api, name) or {}
        identity = found["Id"] if found else _again(api, name, wanted)
        if dig(found, "State", "Paused"):
            api.unpause(identity)
        if not dig(found, "State", "Running"):
            api.start(identity)


def _again(api: APIClient, name: str, wanted: Obj) -> str:
    how = creation(api.inspect_container(annotations_of(wanted).get(SPARE, "")))
    how["networks"] = dig(wanted, "spec", "networks", default=how["networks"])
    return make(api, name, how, Labels=labels_of(wanted))


def make(api: APIClient, name: str, how: Obj, **changed: Any) -> str:
    """Create a container (:func:`~killcheck.engine.projection.creation`); returns its id.

    ``changed``: fields of its config that differ. Raises KubeError, and removes what it could not finish.
    """
    config = {**how.get("config", {}), **changed}
    networks = dict(how.get("networks") or {})
    mode = str(dig(config, "HostConfig", "NetworkMode", default="default"))
    first = next((n for n in networks if n == mode), next(iter(networks), ""))
    if first and first not in ("host", "none") and not mode.startswith("container:"):
        config["NetworkingConfig"] = {"EndpointsConfig": {first: _endpoint_config(networks[first])}}
    with answered():
        made = str(api.create_container_from_config(config, name)["Id"])  # type: ignore[no-untyped-call]
        try:
            for network, wanted in networks.items():
                if network not in (first, "host", "none"):
                    _network(api, made, network, wanted, None)
        except BaseException:  # also an interrupt: half a container is nobody's
            api.remove_container(made, force=True, v=True)
            raise
    return made


def _endpoint_config(wanted: Obj) -> Obj:
    return {"Aliases": wanted.get("aliases") or None, "IPAMConfig": wanted.get("ipam") or None}


def patch_image(api: APIClient, inspect: Obj, patch: Obj) -> Obj:
    """Give an image tags and take some away: first given, so that it always has one. Returns it as it is then."""
    wanted = dig(patch, "spec", "tags", default={})
    now = image_of(inspect)["spec"]["tags"]
    for reference, there in sorted(wanted.items(), key=lambda item: not item[1]):
        repository, _, tag = reference.rpartition(":")
        with answered():
            if there and reference not in now:
                api.tag(inspect["Id"], repository, tag)
            elif not there and reference in now:
                try:
                    api.remove_image(reference, noprune=True)
                except NotFound:
                    continue
    with answered():
        return image_of(api.inspect_image(inspect["Id"]))  # type: ignore[no-untyped-call]
