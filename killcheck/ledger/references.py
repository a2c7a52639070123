"""Whether an object that nobody here models has to do with a target: it names it, selects it, or owns its namespace.

Read by shape, for kinds never heard of: reference fields (``scaleTargetRef``, ``targetRef``, ``workloadRef``...), names
on their own, label selectors, lists of kinds as policy engines match them, namespaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from killcheck.kube.gitops_sources import is_furniture_chart
from killcheck.kube.gpus import is_device
from killcheck.kube.objects import Obj, annotations_of, labels_of, owners
from killcheck.kube.selectors import SelectorError, from_match_labels, parse_labels
from killcheck.kube.workloads import templates
from killcheck.ledger.kinds import INERT
from killcheck.ledger.stakes import Held, Stakes, home_of
from killcheck.text import lazy_re
from killcheck.text.shown import brief
from killcheck.text.yamlfile import Path, format_path

__all__ = ["bookkeeping", "concern", "gpus_in"]

#: Keys and kinds of what acts on a whole namespace by the clock, or turns things on and off.
_ACTS = lazy_re.compile(
    r"replica|scal(e|ing)|sleep|wak(e|ing)|uptime|downtime|schedul|suspend|resum|hibernat|power|warm|idle|night|gpu"
    r"|turn|start|stop",
    re.IGNORECASE,
)
_MUTATES = lazy_re.compile(r"mutat|assign|modifyset|generat|patch", re.IGNORECASE)
#: Keys by which an object says that it acts in other namespaces, or in other clusters, than its own.
_SPACES = lazy_re.compile(r"namespace|tenant|cluster|project", re.IGNORECASE)
#: Keys whose values are accounts, their roles and words for people: never a workload's name. Accounts are asked for
#: their rights by themselves.
_OF_OTHERS = lazy_re.compile(r"(?i)\w*service-?accounts?(names?|refs?)?|role(name|ref)?|displayname|title|description")
#: What joins the parts of a name that says whose it is: ``Deployment.ns.name``, ``apps/v1:Deployment:ns/name``.
_JOINED = lazy_re.compile(r"[/.:]")
#: By what a text is known for a program that asks something of a cluster.
_PROGRAM = lazy_re.compile(r"\b(kubectl|oc|helm|argocd|flux) |/apis?/|\bnamespaced_|_namespaced_")
#: A resource's name in a value, and keys whose values look like one and are none.
_RESOURCE = lazy_re.compile(r"(?=[^/]*[a-z])[a-z0-9-]+(\.[a-z0-9-]+)+/[\w.-]+")
#: Below these a key is a mark, or what is picked by one: never a resource that is asked for.
_MARKED = lazy_re.compile(
    r"(?i)(cluster|common|extra|job|label|match|namespace|node|object|pod|service|volume|workload)?(annotations|labels|selector)"
    r"|(node|pod|podanti)?affinity"
)
_NO_RESOURCE = lazy_re.compile(r"image|repo|registry|ref|path|ur[il]|source|version", re.IGNORECASE)
#: Where manifests lie that something applies: Flux's sources, which others refer to as well, and addresses.
_SOURCES = frozenset({"GitRepository", "OCIRepository", "Bucket", "HelmRepository", "HelmChart"})
_FETCHED = lazy_re.compile(r"(?i)(git|helm|chart|source|target)?_?(repo(sitory)?(url)?|url|uri)")
_ADDRESS = lazy_re.compile(r"(https?|ssh|git|oci)://|git@")
#: Words of what applies manifests, and kinds of what only fetches.
_APPLIES = lazy_re.compile(r"(?i)helm|chart|kustomiz|drift|self-?heal|prune|manifest|terraform|policyrefs|sourceref")
_BUILDS = lazy_re.compile(r"(?i)build|pipeline|task|image|workflow|func|notebook|push|repository$|runner")
_MOST_DEPTH = 16


def concern(obj: Obj, stakes: Stakes) -> str | None:
    """What an object has to do with a target, in a phrase; None where nothing."""
    return next(_concerns(obj, stakes), None)


def _concerns(obj: Obj, stakes: Stakes) -> Iterator[str]:
    body = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    home = home_of(obj) if (obj.get("metadata") or {}).get("namespace") else ""
    leaves = list(_leaves(body, ()))
    spoken = " ".join(text for _, text in leaves)
    for owner in owners(obj):
        if any((owner.get("kind"), owner.get("name")) == (held.kind, held.name) for held in stakes.targets):
            yield f"it belongs to {owner.get('kind')} {owner.get('name')}"
    for key, value in annotations_of(obj).items():  # a bare name there is a release's, or its own
        for held in stakes.targets if "/" in value else ():
            if _named(value, held):
                yield f"metadata.annotations[{key}] names {held}"
    for path, value in leaves:
        for held in stakes.targets:
            elsewhere = _elsewhere(body, path, held) or _at_home(body, path, held, home, spoken)
            if _named(value, held) and not elsewhere:
                yield f"{format_path(path)} names {held}"
        kept = stakes.config_maps.get((str(_around(body, path).get("namespace") or home), value))
        for held in stakes.targets if kept is not None else ():
            if _manifest_of(held, kept or {}):
                yield f"{format_path(path)} names ConfigMap {value}, which holds a manifest of {held}"
        if (home, value) in stakes.pod_templates:
            yield f"{format_path(path)} names PodTemplate {value}, which asks for GPUs"
        if value in stakes.pools:
            yield f"{format_path(path)} names node pool {value}"
    words = (str(obj.get("kind")), *(str(step) for path, _ in leaves for step in path))
    acts = next(filter(_ACTS.search, words), "")
    for ref in stakes.switches:
        switch = Held(ref.api_version, ref.kind, ref.namespace, ref.name)
        for path, value in leaves:
            elsewhere = _elsewhere(body, path, switch) or _at_home(body, path, switch, home, spoken)
            if _named(value, switch) and not elsewhere:
                yield f"{format_path(path)} names {switch}, which turns them off"
    for held in stakes.targets:
        yield from _chosen(body, held, stakes, home, acts=bool(acts))
    yield from _matched(leaves, stakes, str(obj.get("kind", "")))
    for path, value in leaves:
        spoken_of = "namespace" in str(_key(path)).lower() or _around(body, path).get("kind") == "Namespace"
        left_out = any(str(step).lower().startswith("exclude") for step in path)
        if spoken_of and not left_out and value in (*stakes.namespaces, "*") and not _of_something_inert(body, path):
            yield f"{format_path(path)} is {value}"
    for path, value in leaves:
        said = stakes.words.search(value) if _PROGRAM.search(value) else None
        if said:
            yield f"{format_path(path)} is a program that names {said[0]}"
    source = _source(str(obj.get("kind")), leaves)
    if source is not None:
        yield f"it applies what lies elsewhere ({source}), and may put {stakes.targets[0]} back"
    if templates(obj):
        return  # what it makes are pods, and they ask for no GPU
    if acts and (home in stakes.namespaces or not home):
        where = f"namespace {home}" if home else "every namespace"
        yield f"it speaks of '{acts}' in {where}"


def _source(kind: str, leaves: list[tuple[Path, str]]) -> str | None:
    """Where an object says that what it applies lies: a repository, a bucket, a chart; None: it says nothing of it.

    What builds images or runs tasks fetches from there, too, and applies nothing by itself.
    """
    spoken = (kind, *(str(step) for path, _ in leaves for step in path))
    if _BUILDS.search(kind) or not any(map(_APPLIES.search, spoken)):
        return None
    if any("chart" in _key(path).lower() or _key(path) == "name" for path, one in leaves if is_furniture_chart(one)):
        return None
    for path, value in leaves:
        key = _key(path)
        by_kind = key == "kind" and value in _SOURCES
        if by_kind or (_FETCHED.fullmatch(key) and _ADDRESS.match(value)):
            return f"{format_path(path)}: {brief(value)}"
    return None


def gpus_in(obj: Obj) -> str | None:
    """Which accelerators an object of an unknown kind speaks of, in a phrase; None where of none."""
    for path, value in _leaves(obj.get("spec"), ("spec",)):
        key = _key(path)
        if any(_MARKED.fullmatch(str(step)) for step in path):
            continue
        for text in (key, value if _RESOURCE.fullmatch(value) and not _NO_RESOURCE.search(key) else ""):
            if is_device(text):
                return f"it asks for {text} ({format_path(path)})"
    return None


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text below, with the path to it."""
    if len(path) > _MOST_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _leaves(inner, (*path, i))
    elif value is not None:
        yield path, str(value)


def _key(path: Path) -> str:
    """The last step of a path that is no index."""
    return next((str(step) for step in reversed(path) if not isinstance(step, int)), "")


def _named(text: str, held: Held) -> bool:
    """Whether a text is a target's name, or a list with it: alone, or after its kind, resource, group or namespace."""
    known = {held.kind.lower(), held.plural, held.namespace, *held.api_version.split("/"), *held.group.split(".")}
    for one in text.split(","):
        head = one.strip().removesuffix(held.name)
        if head != one.strip() and (not head or head[-1] in "/.:") and set(_JOINED.split(head.lower())[:-1]) <= known:
            return True
    return False


def _manifest_of(held: Held, config_map: Obj) -> bool:
    """Whether a ConfigMap's texts say a target's kind and its name, as its manifest would."""
    named = (rf"""\bkind["']?:\s*["']?{re.escape(held.kind)}\b""", rf"""\bname["']?:\s*["']?{re.escape(held.name)}\b""")
    texts = [str(text) for text in (config_map.get("data") or {}).values()]
    return any(all(re.search(one, text) for one in named) for text in texts)


def _elsewhere(body: Obj, path: Path, held: Held) -> bool:
    """Whether the reference that a name is in says another kind or another namespace, by its key or beside it."""
    node = _around(body, path)
    kind, namespace = node.get("kind"), node.get("namespace")
    if _OF_OTHERS.fullmatch(_key(path[:-1] if _key(path) == "name" else path)):
        return True
    others = isinstance(kind, str) and kind.lower() not in (held.kind.lower(), held.plural)
    return others or (isinstance(namespace, str) and namespace not in (held.namespace, "", "*"))


def _at_home(body: Obj, path: Path, held: Held, home: str, spoken: str) -> bool:
    """Whether a reference by kind and name means an object of its own namespace, which is not the target's.

    So ``scaleTargetRef`` and its like are read (API conventions, "Object references": without a namespace in the
    object's own). Not where the object speaks of the target's namespace, or of namespaces in its own way.
    """
    node = _around(body, path)
    by_kind = isinstance(node.get("kind"), str) and node.get("name") == held.name and "namespace" not in node
    told = held.namespace in spoken or _SPACES.search(" ".join(_all_keys(body, 0)))
    return bool(home) and home != held.namespace and by_kind and not told


def _all_keys(value: Any, depth: int) -> Iterator[str]:
    """Every key of every mapping below."""
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _all_keys(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _all_keys(inner, depth + 1)


def _of_something_inert(body: Obj, path: Path) -> bool:
    """Whether a namespace is part of a reference to what runs nothing and holds no manifests: a Service, a volume..."""
    node = _around(body, path)
    return "name" in node and node.get("kind") in INERT - {"Namespace", "ConfigMap", "Secret"}


def _around(body: Obj, path: Path) -> Mapping[str, Any]:
    """The mapping that a text is a value of; empty where it stands in a list."""
    node: Any = body
    for step in path[:-1]:
        node = node[step]
    return node if isinstance(node, Mapping) else {}


def _chosen(body: Obj, held: Held, stakes: Stakes, home: str, *, acts: bool) -> Iterator[str]:
    """How an object picks a target by labels: its own or its pods', those of its namespace, or both.

    ``home``: the object's namespace, in which its selectors look where it speaks of no other.
    """
    space = {"kubernetes.io/metadata.name": held.namespace, **labels_of(stakes.namespace(held.namespace))}
    spaces = [path for path, one in _selectors(body, (), _OF_SPACES) if (one or acts) and _selects(one, space)]
    pods = list(_selectors(body, (), _OF_PODS))
    picked = [path for path, one in pods if any(_selects(one, labels) for labels in held.labels)]
    if acts:
        picked += [p for p, one in _selectors(body, (), _PLAIN) if one and any(_selects(one, la) for la in held.labels)]
    if picked and (home in ("", held.namespace) or spaces or not pods):
        yield f"{format_path(picked[0])} selects {held}"
    elif spaces and not pods:
        yield f"{format_path(spaces[0])} selects namespace {held.namespace}"


#: By their names: selectors of pods or workloads, of namespaces, and maps of labels that are called nothing else.
_OF_PODS = lazy_re.compile(r"(?!namespace|node|service).*selector")
_OF_SPACES = lazy_re.compile(r"namespace.*selector")
_PLAIN = lazy_re.compile(r"(match|with)?-?labels")
#: What has labels or selectors of its own, and picks nothing by them.
_NOT_INTO = ("affinity", "metadata", "template")


def _selectors(value: Any, path: Path, named: re.Pattern[str]) -> Iterator[tuple[Path, Any]]:
    """Every label selector below of such a name: an object or a text."""
    if len(path) > _MOST_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            lower = str(key).lower()
            if named.fullmatch(lower):
                yield (*path, key), inner
            elif lower not in _NOT_INTO[: 1 if named is _OF_PODS else None] and not lower.endswith("selector"):
                yield from _selectors(inner, (*path, key), named)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _selectors(inner, (*path, i), named)


def _selects(selector: Any, labels: Mapping[str, str]) -> bool:
    try:
        if isinstance(selector, str):
            return parse_labels(selector).matches(labels)
        if not isinstance(selector, dict):
            return False
        if {"matchLabels", "matchExpressions"} & set(selector) or not selector:
            return from_match_labels(selector).matches(labels)
        flat = {k: v for k, v in selector.items() if isinstance(v, str)}
        return bool(flat) and from_match_labels({"matchLabels": flat}).matches(labels)
    except (SelectorError, ValueError, AttributeError, TypeError, KeyError):
        return True  # what cannot be read may select anything


def _matched(leaves: list[tuple[Path, str]], stakes: Stakes, kind: str) -> Iterator[str]:
    """Rules that match kinds or resources, as policy engines write them."""
    changes = bool(_MUTATES.search(kind)) or any(_MUTATES.search(str(step)) for path, _ in leaves for step in path)
    for path, value in leaves:
        if not {"kinds", "resources", "resourcerules", "match"} & {str(step).lower() for step in path}:
            continue
        if _key(path).lower() not in ("kinds", "kind", "resources", "resource"):
            continue
        wanted = value.rpartition("/")[2] if value.count("/") > 1 or value[:1] in "v*" else value
        for held in stakes.targets:
            names = {held.kind, held.plural, f"{held.kind}/scale", f"{held.plural}/scale", "*", f"{held.group}/*"}
            if {value, wanted} & names or (changes and {value, wanted} & {"Pod", "pods"}):
                yield f"{format_path(path)} matches {value}"


def bookkeeping(held: Held, space: Obj | None = None) -> Iterator[tuple[str, str, bool]]:
    """(mark, who, whether it is a GitOps source) of the controllers outside that a target's own marks say keep it.

    ``space``: its namespace, whose annotations turn on all that is in it by the clock.
    """
    notes = {**labels_of(held.obj or {}), **annotations_of(held.obj or {})}
    for key, who in _MARKS.items():
        if key in notes:
            yield f"{key}: {notes[key]}", who, True
    for key, who in _KEEPERS.items():
        if key in notes and notes[key] not in ("false", "EnsureExists"):
            yield f"{key}: {notes[key]}", who, False
    by = notes.get(_MANAGED_BY, "")
    if by and not _TOOLS.fullmatch(by):
        yield f"{_MANAGED_BY}: {by}", by, False
    for key, value in (notes | annotations_of(space or {"metadata": {}})).items():
        if _CLOCKED.search(key) and not key.startswith("killcheck.dev/"):
            yield f"{key}: {value}", "whatever acts on that", False


#: What GitOps sources write on the objects that they keep as they should be.
_MARKS = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "a Flux Kustomization",
    "helm.toolkit.fluxcd.io/name": "a Flux HelmRelease",
    "objectset.rio.cattle.io/id": "Fleet",
    "configmanagement.gke.io/managed": "Config Sync",
}
#: ...and others that apply what somebody else has. Sources: kubernetes/cluster/addons/addon-manager (Reconcile: every
#: minute; EnsureExists: where it is absent); karmada.io, pkg/util/constants.go; kubernetes-sigs/cli-utils, inventory;
#: operator-framework (OLM puts back a CSV's Deployments); carvel.dev/kapp-controller; crossplane.io.
_KEEPERS = {
    "addonmanager.kubernetes.io/mode": "the addon manager",
    "karmada.io/managed": "Karmada",
    "work.karmada.io/name": "Karmada",
    "resourcebinding.karmada.io/name": "Karmada",
    "kubefed.io/managed": "KubeFed",
    "config.k8s.io/owning-inventory": "whoever applies that inventory",
    "olm.owner": "the Operator Lifecycle Manager",
    "olm.managed": "the Operator Lifecycle Manager",
    "kapp.k14s.io/app": "kapp-controller",
    "crossplane.io/composite": "Crossplane",
    "fleet.cattle.io/bundle-id": "Fleet",
    "deploy.razee.io/parent": "Razee",
}
_MANAGED_BY = "app.kubernetes.io/managed-by"
#: What writes an object when somebody calls it, and then goes.
_TOOLS = lazy_re.compile(
    r"(?i)helm|helmfile|kustomize(-v[\d.]+)?|kubectl|kpt|terraform|tofu|opentofu|pulumi|ansible|tilt|skaffold|werf|cdk8s"
    r"|jsonnet|tanka|timoni|cue|hand|manual(ly)?|none|github-actions|gitlab|jenkins|ci"
)
#: Annotations by which downscalers and the like turn workloads on again by the clock.
_CLOCKED = lazy_re.compile(
    r"uptime(?!-?(monitor|robot|kuma|check))|upscale|wake-?up|scale-?up|start-?(at|time)|on-?schedule|auto-?start",
    re.IGNORECASE,
)
