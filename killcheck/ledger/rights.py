"""Whether a ServiceAccount may turn a target on again: RBAC as its objects say it, asked right by right.

Kubernetes checks the verbs ``update`` and ``patch`` of an object or its ``scale`` where replicas are written, and
``create`` where pods come into being; who may impersonate another account, have a token made for it or run pods as it
has its rights too, and who may ``bind`` or ``escalate`` roles has all of them (kubernetes.io, Authorization overview;
RBAC; RBAC Good Practices).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from killcheck.executor import ApiCall
from killcheck.kube.objects import annotations_of, name_of, namespace_of, ref_of
from killcheck.kube.permissions import Permissions
from killcheck.kube.secret_text import OWNER, TOKEN
from killcheck.ledger import kinds
from killcheck.ledger.stakes import Held, Stakes, group_of, home_of, plural_of

__all__ = ["CUTS_OFF", "LEANT_ON", "MAKERS", "STARTS", "may_create", "may_write", "of_target"]

_ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_WRITES = ("patch", "update")
#: What makes pods, by group and resource.
STARTS = (
    ("", "pods"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "replicasets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
)

#: Custom resources whose controllers make pods, by group and resource.
MAKERS = (
    ("jobset.x-k8s.io", "jobsets"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("ray.io", "rayclusters"),
    ("ray.io", "rayjobs"),
    ("ray.io", "rayservices"),
    ("kubeflow.org", "notebooks"),
    ("kubeflow.org", "pytorchjobs"),
    ("kubeflow.org", "mpijobs"),
    ("trainer.kubeflow.org", "trainjobs"),
    ("serving.kserve.io", "inferenceservices"),
    ("serving.knative.dev", "services"),
    ("argoproj.io", "workflows"),
    ("batch.volcano.sh", "jobs"),
    ("sparkoperator.k8s.io", "sparkapplications"),
    ("kubevirt.io", "virtualmachines"),
)
_READS = ("get", "list", "watch")
#: What keeps a switch's pods from being made or heard, wherever one more of it is; what it leans on, and may lose.
CUTS_OFF = frozenset({"networkpolicies", "resourcequotas", "limitranges"})
LEANT_ON = frozenset({"rolebindings", "roles", "serviceaccounts"})
_GROUPS = {"networkpolicies": "networking.k8s.io", "rolebindings": _RBAC, "roles": _RBAC}


def may_write(stakes: Stakes, account: str, namespace: str) -> str | None:
    """What it may write that turns a target on, keeps it on or stops its switch, in a phrase; None where nothing."""
    if (account, namespace) not in stakes.written:
        own = _may_itself(stakes, account, namespace)
        stakes.written[account, namespace] = own or next(_borrowed(stakes, account, namespace), None)
    return stakes.written[account, namespace]


def _may_itself(stakes: Stakes, account: str, namespace: str) -> str | None:
    return next(_writes(stakes, account, namespace), None)


def _borrowed(stakes: Stakes, account: str, namespace: str) -> Iterator[str]:
    """The rights of others that it may take."""
    allows = partial(stakes.permissions.allows, account, namespace)
    for who in ("users", "groups"):
        if allows(verb="impersonate", group="", resource=who, everywhere=True):
            yield f"impersonate {who}"
    for verb, roles, home in product(("bind", "escalate"), ("clusterroles", "roles"), sorted(stakes.namespaces)):
        if allows(verb=verb, group=_RBAC, resource=roles, namespace=home):
            yield f"{verb} {roles} in {home}: it may give itself any right there"
    for home, other in sorted(stakes.permissions.accounts - {(namespace, account)}):
        about = partial(allows, group="", resource="serviceaccounts", name=other, namespace=home)
        how = "impersonate" if about(verb="impersonate") else ""
        how = how or ("have a token made for" if about(verb="create", subresource="token") else "")
        may = _may_itself(stakes, other, home) if how else ""
        if may:
            yield f"{how} ServiceAccount {home}/{other}, which may {may}"


def _writes(stakes: Stakes, account: str, namespace: str) -> Iterator[str]:
    for held in stakes.targets:
        yield from of_target(stakes.permissions, account, namespace, held)
    for obj, home in (*((one, home_of(one)) for one in stakes.scalers), *((q, namespace_of(q)) for q in stakes.queues)):
        group, plural = group_of(obj), plural_of(str(obj.get("apiVersion")), str(obj.get("kind")))
        for verb in _WRITES:
            if stakes.permissions.allows(
                account, namespace, verb=verb, group=group, resource=plural, name=name_of(obj), namespace=home
            ):
                yield f"{verb} {ref_of(obj)}"
    yield from _of_switches(stakes, account, namespace)
    for pool in sorted(stakes.pools):
        for verb, resource, name in (*((v, "nodepools", pool) for v in _WRITES), ("create", "nodeclaims", "")):
            if stakes.permissions.allows(
                account, namespace, verb=verb, group="karpenter.sh", resource=resource, name=name, everywhere=True
            ):
                yield f"{verb} {resource}" + (f" {pool}" if name else "")


def _of_switches(stakes: Stakes, account: str, namespace: str) -> Iterator[str]:
    """What is written to the switch itself may keep it from ever turning anything off."""
    for ref in stakes.switches:
        group, plural = ref.api_version.rpartition("/")[0], plural_of(ref.api_version, ref.kind)
        for subresource in ("", "scale"):
            for verb in (*_WRITES, "delete", "deletecollection"):
                if stakes.permissions.allows(
                    account,
                    namespace,
                    verb=verb,
                    group=group,
                    resource=plural,
                    subresource=subresource,
                    name="" if verb == "deletecollection" else ref.name,
                    namespace=ref.namespace,
                ):
                    yield f"{verb} {ref}, which turns them off"


def of_target(permissions: Permissions, account: str, namespace: str, held: Held) -> Iterator[str]:
    """How an account may write a target, or its scale, in a phrase each."""
    for subresource in ("scale", ""):
        for verb in _WRITES:
            if permissions.allows(
                account,
                namespace,
                verb=verb,
                group=held.group,
                resource=held.plural,
                subresource=subresource,
                name=held.name,
                namespace=held.namespace,
            ):
                yield f"{verb} {held.plural}{'/' + subresource if subresource else ''} ({held})"


def may_create(stakes: Stakes, account: str, namespace: str) -> str | None:
    """What it may create that makes pods in a target's namespace, or pods that act as who may; None where nothing."""
    key = f"create {account}", namespace
    if key not in stakes.written:
        stakes.written[key] = next(_creates(stakes, account, namespace), None)
    return stakes.written[key]


def _creates(stakes: Stakes, account: str, namespace: str) -> Iterator[str]:
    allows = partial(stakes.permissions.allows, account, namespace)
    own = ((held.group, held.plural) for held in stakes.targets)
    for group, resource in dict.fromkeys((*STARTS, *MAKERS, *own)):
        for where in sorted(stakes.namespaces):
            if allows(verb="create", group=group, resource=resource, namespace=where):
                yield f"create {resource} in {where}"
    if allows(verb="create", group=_ADMISSION, resource="mutatingwebhookconfigurations", everywhere=True):
        yield "create mutatingwebhookconfigurations, and change what is written to a target"
    homes = {ref.namespace for ref in stakes.switches}
    leans = [("create", one, homes) for one in sorted(CUTS_OFF)]
    leans += [("delete", one, homes | stakes.namespaces if homes else set()) for one in sorted(LEANT_ON)]
    # Fewer rights in a role are no escalation, and need none (kubernetes, registry/rbac/role/policybased).
    leans += [(one, "roles", stakes.namespaces if homes else set()) for one in _WRITES]
    for verb, resource, spaces in leans:
        for space in sorted(spaces):
            if allows(verb=verb, group=_GROUPS.get(resource, ""), resource=resource, namespace=space):
                yield f"{verb} {resource} in {space}, on which {stakes.switches[0]} hangs, which turns them off"
    for space in sorted(homes):
        if allows(verb="delete", group="", resource="namespaces", name=space, everywhere=True):
            yield f"delete namespace {space}, where {stakes.switches[0]} is, which turns them off"
    for (resource, space, name), verb in product(sorted(stakes.read_by_switches), (*_WRITES, "delete")):
        if allows(verb=verb, group="", resource=resource, name=name, namespace=space):
            yield f"{verb} {resource} {space}/{name}, which {stakes.switches[0]} reads, which turns them off"
    yield from _unheard_of(stakes, account, namespace)
    for call, verb in product(stakes.leaned_on, (*_WRITES, "delete", "create")):
        if _may_do_to(call, verb, allows):
            yield f"{verb} {call.about_what}, by which {stakes.switches[0]} goes, which turns them off"
    for home, other in sorted(stakes.permissions.accounts - {(namespace, account)}):
        how = next(_acting_as(stakes, allows, home, other), "")
        may = _may_itself(stakes, other, home) if how else ""
        if may:
            yield f"{how} ServiceAccount {home}/{other}, which may {may}"


def _unheard_of(stakes: Stakes, account: str, namespace: str) -> Iterator[str]:
    """Custom resources that it may make where it matters, and that are not known to turn nothing on.

    One that it may write the status or the finalizers of is its own: what comes of it, it does itself.
    """
    given = list(stakes.permissions.granted(account, namespace))
    own = {
        (group, resource.partition("/")[0])
        for _, rule in given
        for group, resource in product(rule.get("apiGroups") or (), rule.get("resources") or ())
        if resource.endswith(("/status", "/finalizers"))
    }
    homes = {None, *stakes.namespaces, *(ref.namespace for ref in stakes.switches)}
    for where, rule in given:
        if where not in homes or not _MAKING & set(rule.get("verbs") or ()):
            continue
        for group, resource in product(rule.get("apiGroups") or (), rule.get("resources") or ()):
            if _is_strange(group) and "/" not in resource and not {(group, resource), (group, "*")} & own:
                spot = "anywhere" if where is None else f"in {where}"
                yield f"make or change {resource}.{group} {spot}, and what acts on them may turn one on"


_MAKING = frozenset({"create", "patch", "update", "*"})


def _is_strange(group: str) -> bool:
    """Whether a custom group is not known to be inert: what is made of it may make pods, or scale them."""
    kubernetes = "." not in group or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))
    return not kubernetes and group != "*" and not kinds.is_inert_group(group)


def _may_do_to(call: ApiCall, verb: str, allows: Callable[..., bool]) -> bool:
    """Whether somebody may do something to what another one's request is about. What is there alone can be changed."""
    name = "" if verb == "create" else call.name
    return allows(
        verb=verb,
        group=call.group,
        resource=call.resource,
        subresource=call.subresource,
        name=name,
        namespace=call.namespace,
        everywhere=call.everywhere,
    )


#: By what one gets into pods that are there, and the verbs of each (kubernetes.io, RBAC Good Practices).
_INTO_PODS = {"exec": ("create",), "attach": ("create",), "ephemeralcontainers": _WRITES}
_CERTIFICATES = "certificates.k8s.io"
_CLIENTS = "kubernetes.io/kube-apiserver-client"


def _signs(allows: Callable[..., bool]) -> bool:
    """Whether somebody may approve what he asks for himself, and be anybody by it."""
    about = partial(allows, group=_CERTIFICATES, everywhere=True)
    asks = about(verb="create", resource="certificatesigningrequests")
    approves = about(verb="update", resource="certificatesigningrequests", subresource="approval")
    return asks and approves and about(verb="approve", resource="signers", name=_CLIENTS)


def _acting_as(stakes: Stakes, allows: Callable[..., bool], home: str, account: str) -> Iterator[str]:
    """How somebody may act as an account without a word of the API server's about it."""
    tokens = [
        name_of(obj)
        for obj in stakes.objects
        if obj.get("type") == TOKEN and home_of(obj) == home and annotations_of(obj).get(OWNER) == account
    ]
    if any(allows(verb=v, group="", resource="secrets", name=n, namespace=home) for n in tokens for v in _READS):
        yield "read the token of"
    standing = stakes.run_as(home, account)
    for subresource, verbs in _INTO_PODS.items():
        if any(allows(verb=v, group="", resource="pods", subresource=subresource, namespace=home) for v in verbs):
            yield "run commands in pods of"
    if standing and allows(verb="create", group="", resource="nodes", subresource="proxy", everywhere=True):
        yield "ask a kubelet to run commands in pods of"
    if _signs(allows):
        yield "have a certificate signed for whoever it likes, as"
    for obj in standing:
        plural = plural_of(str(obj.get("apiVersion")), str(obj.get("kind")))
        about = partial(allows, group=group_of(obj), resource=plural, name=name_of(obj), namespace=home)
        if any(about(verb=verb) for verb in _WRITES):
            yield f"change {ref_of(obj)}, which runs as"
    for group, resource in STARTS:
        if allows(verb="create", group=group, resource=resource, namespace=home):
            yield "run pods as"
