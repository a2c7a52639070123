"""Sequences of API requests, drawn from a seed: what a stranger might ask, by area.

A sequence is a list of steps, played in order in a namespace of its own. A step is (method and path, body, headers).
``{ns}`` is the namespace; ``{3:metadata.uid}`` is that field of the answer to step 3. ``WAIT n`` lets controllers work
for n seconds; ``GONE path`` until there is nothing, for a minute at most. ``WATCH path`` shows what a watch from a
resourceVersion on has said by now.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from further import FURTHER, SETTLED_FURTHER
from steps import TABLE, Sequence, Step, content, create
from vocabulary import (
    APPLY,
    APPS,
    BESIDE,
    CORE,
    JSON_PATCH,
    MERGE,
    RBAC,
    SORTS,
    STRATEGIC,
    drawn,
    kept_fields,
    named,
    put,
    value_for,
)


def sequences(seed: int, requests: int, areas: tuple[str, ...] = ()) -> list[Sequence]:
    """At least so many requests, one sequence of each area after the other."""
    found: list[Sequence] = []
    number = count = 0
    while count < requests:
        area = (areas or tuple(AREAS))[number % len(areas or AREAS)]
        rng = random.Random(f"{seed}/{number}")
        steps = list(AREAS[area](rng))
        found.append(Sequence(area, steps, area in SETTLED))
        count += sum(not step.do.startswith(("WAIT", "GONE")) for step in steps)
        number += 1
    return found


_QUIET = (
    "configmaps",
    "secrets",
    "leases",
    "roles",
    "limitranges",
    "networkpolicies",
    "deployments",
    "jobs",
    "cronjobs",
)


def validation(rng) -> Iterator[Step]:
    """Objects with fields that may be wrong, as a dry run."""
    for _ in range(14):
        sort = rng.choice([*SORTS, "pods", "deployments", "jobs", "cronjobs"])
        query = rng.choice(
            ["?dryRun=All"] * 4 + ["?dryRun=All&fieldValidation=Strict", "?dryRun=All&fieldValidation=Ignore"]
        )
        yield create(sort, drawn(rng, sort, "v", rng.choice([1, 1, 1, 2])), query)


def beside(rng) -> Iterator[Step]:
    """Kinds beside the workloads: tried, and those of a namespace made, changed and shown as well."""
    for _ in range(8):
        sort = rng.choice([*BESIDE])
        query = rng.choice(["?dryRun=All"] * 4 + ["?dryRun=All&fieldValidation=Strict"])
        yield Step(f"POST {BESIDE[sort].url}{query}", drawn(rng, sort, "v", rng.choice([1, 1, 1, 2])))
    sort = rng.choice([name for name, one in BESIDE.items() if "{ns}" in one.url])
    url = BESIDE[sort].url
    yield Step(f"POST {url}", named(sort, "a", p="q"))
    for _ in range(5):
        obj = named(sort, "a")
        path = rng.choice([f for f in kept_fields(sort) if not f.startswith(("kind", "apiVersion", "metadata.name"))])
        put(obj, path, value_for(rng, path))
        part = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
        manager = rng.choice(["me", "you", "kubectl"])
        yield rng.choice(
            [
                Step(f"PUT {url}/a", obj),
                Step(f"PATCH {url}/a?fieldManager={manager}", part, content(MERGE)),
                Step(f"PATCH {url}/a?fieldManager={manager}", part, content(STRATEGIC)),
                Step(f"PATCH {url}/a?fieldManager={manager}{rng.choice(['', '&force=true'])}", obj, content(APPLY)),
                Step(f"GET {url}{rng.choice(['', '/a'])}", None, {"Accept": TABLE}),
            ]
        )
    yield Step(f"GET {url}/a")


def crud(rng) -> Iterator[Step]:
    """Create, read, replace and delete, with preconditions that hold or do not."""
    sort = rng.choice(_QUIET)
    url = SORTS[sort].url
    yield create(sort, named(sort, "a"), rng.choice(["", "?dryRun=All", "?fieldManager=me", "?pretty=true"]))
    yield create(sort, named(sort, "a"))
    body = named(sort, "x")
    body["metadata"] = {"generateName": rng.choice(["g-", "G-", "", "g" * 60])}
    yield create(sort, body)
    for _ in range(8):
        name = rng.choice(["a", "a", "a", "b"])
        obj = named(sort, rng.choice([name, name, name, "c"]))
        path = rng.choice(kept_fields(sort))
        put(obj, path, value_for(rng, path))
        if isinstance(obj.get("metadata"), dict):
            for field, value in (
                ("resourceVersion", rng.choice([None, "1", "{1:metadata.resourceVersion}", "x", ""])),
                ("uid", rng.choice([None, None, "u"])),
            ):
                if value is not None:
                    obj["metadata"][field] = value
        yield rng.choice(
            [
                Step(f"PUT {url}/{name}{rng.choice(['', '?dryRun=All', '?fieldValidation=Strict'])}", obj),
                Step(f"PUT {url}/{name}", obj),
                Step(
                    f"GET {url}/{name}{rng.choice(['', '?resourceVersion=0', '?resourceVersion=999999999', '?exact=true'])}"
                ),
                Step(f"DELETE {url}/{name}", rng.choice(_DELETES)),
                Step(f"DELETE {url}/{name}?{rng.choice(_DELETE_QUERIES)}"),
                create(sort, named(sort, name)),
            ]
        )
        yield Step("WAIT 0.5")  # what was deleted in the foreground is the collector's, which has its own time


_DELETES = [
    None,
    {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"}},
    {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}},
    {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"},
    {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "No"},
    {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
    {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["Some"]},
    {"gracePeriodSeconds": 0},
    {"gracePeriodSeconds": -5},
    {"gracePeriodSeconds": "x"},
    {"orphanDependents": True, "propagationPolicy": "Background"},
    {"kind": "Pod", "apiVersion": "v1"},
    {"unknown": 1},
]
#: Without what waits for the collector, which learns of a new kind at a moment of its own.
_AT_ONCE = [one for one in _DELETES if "propagationPolicy" not in (one or {})]
_DELETE_QUERIES = [
    "dryRun=All",
    "gracePeriodSeconds=0",
    "gracePeriodSeconds=x",
    "propagationPolicy=Foreground",
    "propagationPolicy=x",
    "orphanDependents=true",
    "dryRun=x",
    "gracePeriodSeconds=-1",
]


def patches(rng) -> Iterator[Step]:
    """Each sort of patch over one object, well made and badly."""
    sort = rng.choice(["deployments", "deployments", "jobs", "configmaps", "cronjobs", "services", "roles"])
    url = SORTS[sort].url
    obj = named(sort, "a", p="q", r="s")
    if sort == "deployments":
        obj["spec"]["paused"] = True
    yield create(sort, obj)
    for _ in range(11):
        kind, body = rng.choice([_merge, _strategic, _json_patch])(rng, sort)
        query = rng.choice(["", "", "", "?dryRun=All", "?fieldValidation=Strict", "?fieldManager=me", "?force=true"])
        yield Step(f"PATCH {url}/a{query}", body, content(kind))


def _merge(rng, sort: str) -> tuple[str, Any]:
    body: dict = {}
    for _ in range(rng.choice([1, 1, 2])):
        path = rng.choice([f for f in kept_fields(sort) if not any(p.isdigit() for p in f.split("."))])
        put(body, path, value_for(rng, path))
    return MERGE, rng.choice(
        [body] * 8 + [[], "x", {}, {"metadata": {"resourceVersion": "1"}}, {"metadata": {"labels": {"p": None}}}]
    )


def _strategic(rng, sort: str) -> tuple[str, Any]:
    directives = [
        {"metadata": {"labels": {"p": None}}},
        {"metadata": {"labels": {"$patch": "replace", "n": "m"}}},
        {"$patch": "delete"},
        {"$patch": "no"},
        {"metadata": {"$retainKeys": ["name"], "name": "a"}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}},
        {"metadata": {"finalizers": ["a.b/c"]}},
        {"metadata": {"$setElementOrder/finalizers": ["d.e/f", "a.b/c"], "finalizers": ["d.e/f"]}},
    ]
    pod = "spec.template.spec" if sort in ("deployments", "jobs") else "spec.jobTemplate.spec.template.spec"
    containers = [
        [{"name": "c", "image": "y"}],
        [{"name": "d", "image": "z"}],
        [{"name": "c", "$patch": "delete"}],
        [{"$patch": "replace"}, {"name": "e", "image": "w"}],
        [{"name": "c", "env": [{"name": "A", "$patch": "delete"}]}],
        [{"name": "c", "env": [{"name": "C", "value": "3"}], "$setElementOrder/env": [{"name": "C"}, {"name": "B"}]}],
        [{"name": "c", "ports": [{"containerPort": 80, "protocol": "UDP"}]}],
        [{"name": "c", "ports": [{"containerPort": 81}]}],
        [{"image": "y"}],
        [{"name": "c", "resources": {"limits": None}}],
        [{"name": "c", "command": ["a"]}, {"name": "c", "args": ["b"]}],
        {"name": "c"},
    ]
    if sort in ("deployments", "jobs", "cronjobs") and rng.random() < 0.7:
        body: dict = {}
        put(body, f"{pod}.containers", copy.deepcopy(rng.choice(containers)))
        if rng.random() < 0.3:
            put(body, f"{pod}.$setElementOrder/containers", [{"name": "d"}, {"name": "c"}])
        return STRATEGIC, body
    if sort == "services" and rng.random() < 0.5:
        return STRATEGIC, {
            "spec": {
                "ports": [
                    rng.choice(
                        [{"port": 80, "protocol": "UDP"}, {"port": 81, "name": "x"}, {"port": 80, "$patch": "delete"}]
                    )
                ]
            }
        }
    if sort == "deployments" and rng.random() < 0.5:
        return STRATEGIC, {
            "spec": {
                "strategy": rng.choice(
                    [
                        {"type": "Recreate"},
                        {"$retainKeys": ["type"], "type": "Recreate"},
                        {"rollingUpdate": None, "type": "Recreate"},
                    ]
                )
            }
        }
    return STRATEGIC, copy.deepcopy(rng.choice(directives))


def _json_patch(rng, sort: str) -> tuple[str, Any]:
    paths = [
        "/metadata/labels/p",
        "/metadata/labels/new",
        "/metadata/labels",
        "/metadata/annotations/a~1b",
        "/spec/replicas",
        "/spec/none/deep",
        "/metadata/finalizers/-",
        "/metadata/finalizers",
        "/spec/template/spec/containers/0/image",
        "/spec/template/spec/containers/5",
        "/data/x",
        "/data/none",
        "",
        "/",
        "metadata",
        "/metadata/name",
        "/kind",
        "/spec/suspend",
    ]
    ops = []
    for _ in range(rng.choice([1, 1, 2])):
        op = rng.choice(["add", "replace", "remove", "test", "move", "copy", "no"])
        entry: dict = {"op": op, "path": rng.choice(paths)}
        if op in ("move", "copy") and rng.random() < 0.9:
            entry["from"] = rng.choice(paths)
        elif op in ("add", "replace", "test") and rng.random() < 0.9:
            entry["value"] = rng.choice(["1", 1, 0, None, {}, ["a.b/c"], {"p": "q"}, True, "x y"])
        ops.append(entry)
    return JSON_PATCH, rng.choice([ops] * 9 + [{"op": "add"}, [], [{}]])


def applies(rng) -> Iterator[Step]:
    """Server-side apply by several managers, over what others wrote in other ways."""
    sort = rng.choice(["configmaps", "deployments", "deployments", "services", "cronjobs", "secrets", "roles", "jobs"])
    url = SORTS[sort].url
    first = named(sort, "a", p="q")
    if sort == "deployments":
        first["spec"]["paused"] = True
    if rng.random() < 0.4:
        first["metadata"]["annotations"] = {
            "kubectl.kubernetes.io/last-applied-configuration": rng.choice(["{}", '{"metadata":{}}'])
        }
    if rng.random() < 0.7:
        yield create(
            sort,
            first,
            rng.choice(
                ["", "?fieldManager=kubectl-client-side-apply", "?fieldManager=kubectl-create", "?fieldManager=kubectl"]
            ),
        )
    for _ in range(10):
        manager = rng.choice(["kubectl", "kubectl", "me", "you", "argocd"])
        name = "a"
        if rng.random() < 0.15:
            kind, body = rng.choice([_merge, _strategic])(rng, sort)
            yield Step(f"PATCH {url}/a?fieldManager={manager}", body, content(kind))
            continue
        body = _applied(rng, sort, first)
        query = f"fieldManager={manager}" + rng.choice(
            ["", "", "", "&force=true", "&force=true", "&dryRun=All", "&fieldValidation=Strict", "&force=false"]
        )
        if rng.random() < 0.06:
            query = rng.choice(["", "force=true", "fieldManager=", "fieldManager=" + "m" * 129])
        yield Step(f"PATCH {url}/{name}?{query}", body, content(APPLY))
    yield Step(f"GET {url}/a")


def _applied(rng, sort: str, first: dict) -> dict:
    """A part of an object, at times with a field of another value, or of the same in another spelling."""
    body = copy.deepcopy(first)
    body["metadata"].pop("annotations", None)
    for key in rng.sample(sorted(body), k=len(body)):
        if key not in ("apiVersion", "kind", "metadata") and rng.random() < 0.3:
            body.pop(key)
    if rng.random() < 0.3:
        body["metadata"].pop("labels", None)
    if sort == "deployments" and "spec" in body:
        for key in rng.sample(sorted(body["spec"]), k=rng.choice([0, 1, 2])):
            body["spec"].pop(key)
        if "template" in body["spec"]:
            put(
                body, "spec.template.spec.containers.0.resources.requests.cpu", rng.choice(["100m", "0.1", 0.1, "200m"])
            )
        if rng.random() < 0.5:
            body["spec"]["replicas"] = rng.choice([0, 1, 2, "1", None])
    for _ in range(rng.choice([0, 1, 1])):
        path = rng.choice([f for f in kept_fields(sort) if not f.startswith(("kind", "apiVersion", "metadata.name"))])
        put(body, path, value_for(rng, path))
    if rng.random() < 0.1:
        body["status"] = {"replicas": 1}
    return body


def lists(rng) -> Iterator[Step]:
    """Lists by selectors, in pages, at revisions, as tables; and what a watch shows."""
    sort = rng.choice(["secrets", "secrets", "leases", "roles", "limitranges"])
    url = SORTS[sort].url
    yield Step(f"GET {url}?labelSelector=tier")
    for name, labels in zip(
        "abcd",
        rng.sample([{"tier": "x"}, {"tier": "y", "z": ""}, {"tier": "x", "n": "3"}, {}, {"n": "12"}], k=4),
        strict=True,
    ):
        yield create(sort, named(sort, name, **labels))
    selectors = [
        "tier",
        "!tier",
        "tier=x",
        "tier==x",
        "tier!=x",
        "tier in (x,y)",
        "tier notin (x)",
        "z=",
        "n>2",
        "n<5",
        "tier in ()",
        "tier=",
        "tier=x,n",
        "=x",
        "tier=x y",
        "a b",
        "tier in (x",
        "tier,,n",
        "x" * 64,
        ",",
        "tier exists",
        "n>x",
        "!tier,!n",
    ]
    fields = [
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.name==a,metadata.name!=b",
        "metadata.namespace={ns}",
        "metadata.labels=x",
        "metadata.name",
        "type=Opaque",
        "metadata.name in (a)",
        "spec.nodeName=x",
        "metadata.name=\\,",
    ]
    from urllib.parse import quote

    for _ in range(9):
        query = "&".join(
            rng.choice(
                [
                    "labelSelector=" + quote(rng.choice(selectors)),
                    "fieldSelector=" + quote(rng.choice(fields), safe="{}"),
                    f"limit={rng.choice([1, 2, 3, 500, -1, 'x', 0])}",
                    f"resourceVersion={rng.choice(['0', '', '{2:metadata.resourceVersion}', 'x', '999999999', '-1'])}",
                    f"resourceVersionMatch={rng.choice(['Exact', 'NotOlderThan', 'x'])}",
                    "continue=" + rng.choice(["x", "{5:metadata.continue}", ""]),
                    "sendInitialEvents=true",
                ]
            )
            for _ in range(rng.choice([1, 1, 1, 2]))
        )
        accept = rng.choice(
            [
                {},
                {},
                {},
                {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"},
                {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
            ]
        )
        yield Step(f"GET {url}?{query}", None, accept)
    yield Step(f"GET {url}?limit=2")
    yield Step(f"GET {url}?limit=2&continue={{14:metadata.continue}}")
    yield Step(f"PATCH {url}/b", {"metadata": {"labels": {"tier": "x"}}}, content(MERGE))
    yield Step(f"DELETE {url}/c")
    yield Step(f"DELETE {url}?labelSelector=" + quote(rng.choice(["tier=x", "n", "none"])))
    watched = rng.choice(
        ["", "&labelSelector=tier%3Dx", "&allowWatchBookmarks=true", "&fieldSelector=metadata.name%3Db"]
    )
    yield Step(f"WATCH {url}?watch=true&resourceVersion={{0:metadata.resourceVersion}}{watched}&timeoutSeconds=1")
    yield Step(
        f"GET {url}?watch=true&resourceVersion={rng.choice(['x', '-1', '1'])}&timeoutSeconds=1&{rng.choice(['fieldSelector=a%3Db', 'resourceVersionMatch=Exact', 'sendInitialEvents=true', 'labelSelector=a%20b'])}"
    )


def scales(rng) -> Iterator[Step]:
    """The scale and status subresources, asked in every way."""
    sort = rng.choice(["deployments", "deployments", "statefulsets", "replicasets", "replicationcontrollers"])
    url = f"{SORTS[sort].url}/a"
    obj = named(sort, "a")
    if sort == "deployments":
        obj["spec"]["paused"] = True
    yield create(sort, obj)
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a", "namespace": "{ns}"},
        "spec": {"replicas": 0},
    }
    for _ in range(11):
        body = copy.deepcopy(scale)
        path = rng.choice(
            [
                "spec.replicas",
                "spec.replicas",
                "spec",
                "metadata.resourceVersion",
                "metadata.name",
                "metadata.uid",
                "kind",
                "spec.Replicas",
                "status",
                "metadata.labels",
                "metadata",
            ]
        )
        put(body, path, rng.choice([0, 0, 1, -1, "0", None, 1.0, 1.5, {}, "1", 2147483648, True]))
        query = rng.choice(["", "", "?dryRun=All", "?fieldValidation=Strict", "?fieldManager=me", "?dryRun=x"])
        part = {k: v for k, v in body.items() if k in ("spec", "metadata") and rng.random() < 0.8}
        yield rng.choice(
            [
                Step(f"PUT {url}/scale{query}", body),
                Step(f"PATCH {url}/scale{query}", part, content(MERGE)),
                Step(f"PATCH {url}/scale{query}", part, content(rng.choice([STRATEGIC, MERGE]))),
                Step(
                    f"PATCH {url}/scale{query}",
                    [
                        {
                            "op": rng.choice(["replace", "add", "test", "remove"]),
                            "path": "/spec/replicas",
                            "value": rng.choice([0, 1, "0", -1, None]),
                        }
                    ],
                    content(JSON_PATCH),
                ),
                Step(
                    f"PATCH {url}/scale?fieldManager={rng.choice(['me', 'you', ''])}&force={rng.choice(['true', 'false'])}",
                    body,
                    content(APPLY),
                ),
                Step(f"GET {url}/scale"),
                Step(f"GET {url}"),
                Step(f"GET {url}"),
                Step(
                    f"PATCH {url}/scale?fieldManager={rng.choice(['me', 'you'])}",
                    {"spec": {"replicas": rng.choice([0, 1, 2])}},
                    content(MERGE),
                ),
                Step(
                    f"PATCH {url}?fieldManager={rng.choice(['me', 'you'])}",
                    {"spec": {"replicas": rng.choice([0, 1, 2])}},
                    content(MERGE),
                ),
                Step(rng.choice([f"DELETE {url}/scale", f"POST {url}/scale"]), body),
                Step(
                    f"PATCH {url}/status{query}",
                    {"status": {"replicas": rng.choice([1, -1, "x", 0])}, "spec": {"replicas": 3}},
                    content(MERGE),
                ),
                Step(f"GET {url}/{rng.choice(['status', 'none', 'scale/more'])}"),
                Step(f"PATCH {url}/scale", rng.choice(["", "x", "[]", "null", "{}"]), content(MERGE)),
            ]
        )
        if sort != "deployments":  # paused; the others' controllers tell of what they did
            yield Step("WAIT 0.5")
    yield Step(f"GET {url}/scale")
    yield Step(f"GET {url}")


def statuses(rng) -> Iterator[Step]:
    """The status subresource, by several managers in several ways; whose fields these are shows afterwards."""
    sort = rng.choice(
        ["deployments", "jobs", "services", "pods", "persistentvolumeclaims", "resourcequotas", "cronjobs"]
    )
    url = f"{SORTS[sort].url}/a"
    obj = named(sort, "a", p="q")
    if sort == "deployments":
        obj["spec"]["paused"] = True
    if sort == "pods":
        obj["spec"]["nodeSelector"] = {"nowhere": "at-all"}
    yield create(sort, obj | {"status": {"phase": "Running", "replicas": 4}}, "?fieldManager=maker")
    yield Step("WAIT 0.5")
    conditions = [
        {"type": "a.b/Own", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {
            "type": "Ready",
            "status": "False",
            "reason": "R",
            "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
        {"type": "Available", "status": "Maybe"},
        {"status": "True"},
    ]
    for _ in range(9):
        manager = rng.choice(["me", "you", "kubelet"])
        state = rng.choice(
            [
                {"conditions": [rng.choice(conditions)]},
                {"conditions": [rng.choice(conditions)]},
                {"conditions": rng.sample(conditions, k=2)},
                {"conditions": []},
                {"observedGeneration": rng.choice([1, 3, "1"])},
                {"phase": rng.choice(["Running", "Bound", "Odd"])},
                {"loadBalancer": {"ingress": [{"ip": rng.choice(["10.1.2.3", "x"])}]}},
                {"hard": {"pods": "3"}, "used": {"pods": rng.choice(["1", "x", 1])}},
                {"unknown": 1},
                None,
            ]
        )
        body = {"status": state} | rng.choice(
            [{}, {}, {"metadata": {"labels": {"z": "y"}}}, {"spec": {"paused": False}}]
        )
        whole = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {"name": "a"}} | body
        query = f"?fieldManager={manager}" + rng.choice(["", "", "&dryRun=All", "&fieldValidation=Strict"])
        force = rng.choice(["", "&force=true"])
        yield rng.choice(
            [
                Step(f"PATCH {url}/status{query}", body, content(MERGE)),
                Step(f"PATCH {url}/status{query}", body, content(STRATEGIC)),
                Step(f"PATCH {url}/status{query}{force}", whole, content(APPLY)),
                Step(f"PATCH {url}{query}{force}", whole, content(APPLY)),
                Step(f"PUT {url}/status{query}", copy.deepcopy(obj) | body),
                Step(f"PATCH {url}{query}", body, content(MERGE)),
                Step(
                    f"PATCH {url}/status{query}",
                    [{"op": rng.choice(["add", "replace", "remove"]), "path": "/status/conditions", "value": []}],
                    content(JSON_PATCH),
                ),
                Step(f"GET {url}/status"),
            ]
        )
        yield Step("WAIT 0.5")
    yield Step(f"GET {url}")


def watches(rng) -> Iterator[Step]:
    """What watches show: from when on, of what, in which form, with bookmarks."""
    sort = rng.choice(["secrets", "configmaps", "leases", "roles", "limitranges"])
    url = SORTS[sort].url
    yield Step(f"GET {url}")
    yield create(sort, named(sort, "a", tier="x"))
    yield create(sort, named(sort, "b", tier="y"))
    acts = [
        Step(f"PATCH {url}/a", {"metadata": {"labels": {"tier": "y"}}}, content(MERGE)),
        Step(f"PATCH {url}/b", {"metadata": {"labels": {"tier": "x"}}}, content(MERGE)),
        Step(f"PATCH {url}/b", {"metadata": {"labels": {"tier": None}}}, content(MERGE)),
        Step(f"PATCH {url}/a", {"metadata": {"annotations": {"k": "v"}}}, content(MERGE)),
        Step(f"PATCH {url}/a", {"metadata": {"finalizers": ["a.b/c"]}}, content(MERGE)),
        Step(f"DELETE {url}/a"),
        Step(f"DELETE {url}/b"),
        create(sort, named(sort, "a", tier="x")),
        create(sort, named(sort, "c")),
    ]
    for _ in range(5):
        yield rng.choice(acts)
    since = ["{0:metadata.resourceVersion}", "{1:metadata.resourceVersion}", "{2:metadata.resourceVersion}", "0", ""]
    accepts = [
        {},
        {},
        {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
        {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
    ]
    for _ in range(6):
        query = rng.choice(
            [
                f"&resourceVersion={rng.choice(since)}",
                f"&resourceVersion={rng.choice(since[:3])}&labelSelector=tier%3Dx",
                f"&resourceVersion={rng.choice(since[:3])}&fieldSelector=metadata.name%3Da",
                "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
                "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                "&sendInitialEvents=true&allowWatchBookmarks=true&labelSelector=tier&resourceVersionMatch=NotOlderThan",
                "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={2:metadata.resourceVersion}",
                f"&resourceVersion={rng.choice(since[:3])}&allowWatchBookmarks=true&limit=1",
            ]
        )
        path = rng.choice([url, url, f"{url}/a", f"/api/v1/watch/namespaces/{{ns}}/{sort}"])
        yield Step(f"WATCH {path}?watch=true&timeoutSeconds=1{query}", None, rng.choice(accepts))


def aggregation(rng) -> Iterator[Step]:
    """Groups that are served elsewhere, and what is said where nobody serves them."""
    group = "{ns}.example.com"
    one = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"name": "s", "namespace": "{ns}", "port": rng.choice([443, 80, 444])},
        },
    }
    own = "/apis/apiregistration.k8s.io/v1/apiservices"
    path = rng.choice(
        [
            "spec.group",
            "spec.version",
            "spec.service",
            "spec.service.name",
            "spec.caBundle",
            "spec.insecureSkipTLSVerify",
            "spec.groupPriorityMinimum",
            "spec.versionPriority",
            "spec.service.port",
            "metadata.name",
            "spec",
        ]
    )
    wrong = copy.deepcopy(one)
    put(wrong, path, rng.choice([None, "", "A_b", "x", 0, -1, 70000, {}, True, "aGk="]))
    yield Step(f"POST {own}?dryRun=All", wrong)
    service = rng.choice([None, {}])  # of an external name it would ask the network
    if service is not None:
        obj = named("services", "s")
        obj["spec"] = {"ports": [{"name": "web", "port": 443}]} | service
        yield create("services", obj)
    yield Step(f"POST {own}", one)
    yield Step("WAIT 3")
    yield Step(f"GET {own}/v1.{group}")
    for _ in range(6):
        yield rng.choice(
            [
                Step(f"GET /apis/{group}"),
                Step(f"GET /apis/{group}/v1"),
                Step(f"GET /apis/{group}/v2"),
                Step(f"GET /apis/{group}/v1/namespaces/{{ns}}/things", None, {"Impersonate-User": "ann"}),
                Step(f"POST /apis/{group}/v1/namespaces/{{ns}}/things", {"kind": "Thing"}),
                Step(f"PATCH {own}/v1.{group}", {"spec": {"versionPriority": rng.choice([0, 5, "x"])}}, content(MERGE)),
                Step(f"PATCH {own}/v1.{group}", {"spec": {"service": None}}, content(MERGE)),
                Step(f"PATCH {own}/v1.{group}/status", {"status": {"conditions": []}}, content(MERGE)),
                Step(f"GET {own}/v1.{rng.choice(['apps', 'none', 'batch'])}"),
                Step(f"GET {own}/{rng.choice(['v1.', 'v1.apps', f'v1.{group}'])}", None, {"Accept": TABLE}),
                Step("GET /apis/metrics.k8s.io/v1beta1/nodes"),
                Step("GET /apis/metrics.k8s.io/v1beta1/namespaces/{ns}/pods"),
            ]
        )
    yield Step(f"DELETE {own}/v1.{group}")
    yield Step("WAIT 1")
    yield Step(f"GET /apis/{group}/v1")


def pods(rng) -> Iterator[Step]:
    """Pods that no kubelet runs: binding, status, eviction under budgets, changes of what may not change."""
    url = SORTS["pods"].url
    budget = named("poddisruptionbudgets", "b")
    budget["spec"].pop("minAvailable")
    budget["spec"][rng.choice(["minAvailable", "maxUnavailable"])] = rng.choice([0, 1, 2, "50%", "100%"])
    if rng.random() < 0.4:
        budget["spec"]["unhealthyPodEvictionPolicy"] = rng.choice(["AlwaysAllow", "IfHealthyBudget"])
    yield create("poddisruptionbudgets", budget)
    for name in "pq":
        pod = named("pods", name, a="b")
        pod["spec"]["nodeSelector"] = {"nowhere": "at-all"}
        if rng.random() < 0.3:
            pod["metadata"]["finalizers"] = ["a.b/c"]
        yield create("pods", pod)
    for name in rng.choice(["p", "pq", ""]):
        yield Step(
            f"POST {url}/{name}/binding",
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"kind": "Node", "name": "{ns}"},
            },
        )
        status = {
            "phase": rng.choice(["Running", "Running", "Succeeded"]),
            "conditions": [
                {
                    "type": "Ready",
                    "status": rng.choice(["True", "True", "False"]),
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        }
        yield Step(f"PATCH {url}/{name}/status", {"status": status}, content(MERGE))
    yield Step("WAIT 2")
    yield Step(f"GET {SORTS['poddisruptionbudgets'].url}/b")
    for _ in range(7):
        name = rng.choice(["p", "q"])
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": rng.choice([name, name, name, "other"])},
        }
        options = rng.choice(
            [
                None,
                None,
                {"dryRun": ["All"]},
                {"gracePeriodSeconds": 0},
                {"gracePeriodSeconds": -1},
                {"preconditions": {"uid": "u"}},
                {"propagationPolicy": "x"},
            ]
        )
        if options is not None:
            eviction["deleteOptions"] = options
        path = rng.choice(
            [
                "nodeName",
                "activeDeadlineSeconds",
                "tolerations",
                "containers.0.image",
                "containers.0.name",
                "nodeSelector",
                "schedulingGates",
                "terminationGracePeriodSeconds",
            ]
        )
        change: dict = {}
        put(change, f"spec.{path}", value_for(rng, path))
        yield rng.choice(
            [
                Step(f"POST {url}/{name}/eviction", eviction),
                Step(f"POST {url}/{name}/eviction", eviction),
                Step(f"POST {url}/{name}/eviction{rng.choice(['?dryRun=All', '?gracePeriodSeconds=0'])}", eviction),
                Step(f"PATCH {url}/{name}", change, content(rng.choice([MERGE, STRATEGIC]))),
                Step(
                    f"DELETE {url}/{name}{rng.choice(['', '?gracePeriodSeconds=0', '?gracePeriodSeconds=-3', '?gracePeriodSeconds=40', '?dryRun=All'])}"
                ),
                Step(
                    f"POST {url}/{name}/binding",
                    {
                        "metadata": {"name": name},
                        "target": rng.choice([{"name": "n"}, {}, {"kind": "Pod", "name": "n"}]),
                    },
                ),
                Step(
                    f"GET {url}/{name}/{rng.choice(['log', 'status', 'ephemeralcontainers', 'resize', 'exec', 'attach', 'none'])}"
                ),
                Step(
                    f"PATCH {url}/{name}/{rng.choice(['status', 'resize', 'ephemeralcontainers'])}",
                    rng.choice(
                        [
                            {"status": {"phase": "Failed"}},
                            {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}},
                            {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "50m"}}}]}},
                            {"metadata": {"labels": {"z": "y"}, "finalizers": ["q.r/s"]}},
                        ]
                    ),
                    content(STRATEGIC),
                ),
            ]
        )
    yield Step(
        f"GET {url}?fieldSelector="
        + rng.choice(
            [
                "spec.nodeName%3D{ns}",
                "status.phase%3DPending",
                "status.phase!%3DRunning",
                "spec.restartPolicy%3DAlways",
                "spec.x%3Dy",
            ]
        )
    )


def access(rng) -> Iterator[Step]:
    """Who may what: roles, impersonation, reviews, refusals, tokens."""
    rules = [
        {
            "apiGroups": [rng.choice(["", "apps", "*"])],
            "resources": [rng.choice(["pods", "deployments", "deployments/scale", "*", "*/scale", "configmaps"])],
            "verbs": rng.sample(["get", "list", "patch", "create", "delete", "update", "*"], k=2),
            **rng.choice([{}, {}, {"resourceNames": ["a"]}]),
        }
        for _ in range(2)
    ]
    yield Step(f"POST {RBAC}/roles", named("roles", "r") | {"rules": rules})
    yield Step(
        f"POST {RBAC}/rolebindings",
        named("rolebindings", "rb")
        | {
            "subjects": [
                {"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "ServiceAccount", "name": "default", "namespace": "{ns}"},
            ]
        },
    )
    yield create("configmaps", named("configmaps", "a"))
    yield create("deployments", named("deployments", "a"))
    yield Step("WAIT 2")
    who: list[dict[str, str]] = [
        {"Impersonate-User": "ann"},
        {"Impersonate-User": "bob"},
        {"Impersonate-User": "system:serviceaccount:{ns}:default"},
        {"Impersonate-User": "bob", "Impersonate-Group": "system:masters"},
        {"Impersonate-Group": "x"},
        {"Authorization": "Bearer x"},
        {"Impersonate-User": "system:anonymous"},
        {"Impersonate-User": "ann", "Impersonate-Extra-a": "b", "Impersonate-Uid": "7"},
    ]
    for _ in range(12):
        user = rng.choice(who)
        attributes = {
            "namespace": "{ns}",
            "verb": rng.choice(["get", "list", "patch", "*"]),
            "resource": rng.choice(["pods", "deployments", "configmaps", "*"]),
            **rng.choice([{}, {"group": "apps"}, {"group": "apps", "subresource": "scale"}, {"name": "a"}]),
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        other = copy.deepcopy(review) | {"kind": "SubjectAccessReview"}
        other["spec"] |= rng.choice(
            [
                {"user": "ann"},
                {"user": "bob", "groups": ["system:masters"]},
                {},
                {"groups": ["x"]},
                {"user": "ann", "nonResourceAttributes": {"path": "/x", "verb": "get"}},
            ]
        )
        yield rng.choice(
            [
                Step(f"GET {CORE}/configmaps/a", None, user),
                Step(f"GET {CORE}/{rng.choice(['configmaps', 'pods', 'secrets', 'none'])}", None, user),
                Step(
                    f"PATCH {APPS}/deployments/{rng.choice(['a', 'b'])}{rng.choice(['', '/scale', '/status', '/none'])}",
                    {"spec": {"replicas": 0}},
                    content(MERGE) | user,
                ),
                Step(f"POST {CORE}/configmaps", named("configmaps", rng.choice(["a", "b"])), user),
                Step(f"DELETE {CORE}/{rng.choice(['configmaps', 'configmaps/a', 'pods/x'])}", None, user),
                Step("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, user),
                Step("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", other, rng.choice([{}, user])),
                Step(
                    "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                    {"spec": {"namespace": rng.choice(["{ns}", ""])}},
                    user,
                ),
                Step("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", {}, user),
                Step(
                    f"GET {rng.choice(['/version', '/apis', '/healthz', '/metrics', '/logs', '/api/v1/nodes', '/api/v1/namespaces', '/none'])}",
                    None,
                    user,
                ),
                Step(
                    f"POST {RBAC}/{rng.choice(['roles', 'rolebindings'])}",
                    rng.choice([named("roles", "z"), named("rolebindings", "z")]),
                    user,
                ),
                Step(
                    f"POST {CORE}/serviceaccounts/{rng.choice(['default', 'none'])}/token",
                    {
                        "spec": {
                            "expirationSeconds": rng.choice([600, 5, -1, 10**10]),
                            "audiences": rng.choice([[], ["a"]]),
                        }
                    },
                    rng.choice([{}, user]),
                ),
            ]
        )


def discovery(rng) -> Iterator[Step]:
    """Discovery, tables and negotiation: what clients ask first."""
    accepts = [
        "application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "*/*",
        "text/html",
        "application/xml",
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "application/json;as=No;v=v1;g=meta.k8s.io",
        "image/png",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/vnd.kubernetes.protobuf;x=1,application/json",
    ]
    paths = [
        "/api",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/batch/v1",
        "/apis/none",
        "/apis/apps/v2",
        "/api/v2",
        "/apis/policy/v1",
        "/apis/autoscaling",
        "/version",
        "/version/",
        "/healthz",
        "/livez",
        "/readyz",
        "/healthz/etcd",
        "/healthz/no",
        "/livez?verbose=1&exclude=etcd",
        "/readyz/poststarthook/rbac/bootstrap-roles",
        "/.well-known/openid-configuration",
        "/.well-known",
        "/none",
        "/apis/none/v1",
        "/readyz/informer-sync",
        "/livez/none",
        "/apis/apps/v1/none",
        "/apis/apps/v1/deployments/x/y/z",
        "/swagger.json",
        "/logs",
        "/ui",
        "/debug",
        "/api/v1/componentstatuses/none",
        "/apis/events.k8s.io/v1",
        "/apis/authorization.k8s.io/v1",
        "/apis/metrics.k8s.io/v1beta1",
        "/api/v1/namespaces/{ns}",
        "/apis/apiextensions.k8s.io/v1",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/apis/rbac.authorization.k8s.io/v1",
        "/apis/storage.k8s.io/v1",
    ]
    tables = ("pods", "deployments", "jobs", "cronjobs", "services", "configmaps", "replicasets", "roles", "leases")
    for sort in rng.sample(tables, k=3):
        yield create(sort, named(sort, "a"), "?dryRun=All" if sort == "pods" else "")
    for _ in range(5):
        yield Step(f"GET {rng.choice(paths)}", None, {"Accept": rng.choice(["application/json", rng.choice(accepts)])})
    for _ in range(5):
        yield Step(
            f"GET {SORTS[rng.choice(tables)].url}{rng.choice(['', '/a'])}", None, {"Accept": rng.choice(accepts)}
        )
    for method in rng.sample(["PUT", "POST", "PATCH", "DELETE", "OPTIONS"], k=3):
        yield Step(
            f"{method} {rng.choice(['/api', '/apis/apps/v1', '/version', SORTS['pods'].url, SORTS['pods'].url + '/a', '/healthz'])}",
            {},
        )


def admission(rng) -> Iterator[Step]:
    """Quotas, limit ranges, priorities and service accounts over pods that are made."""
    limits = named("limitranges", "l")
    limits["spec"]["limits"] = [
        rng.choice(
            [
                {"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}},
                {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "50m"}},
                {"type": "Pod", "max": {"memory": "100Mi"}},
                {"type": "Container", "maxLimitRequestRatio": {"memory": "1.5"}},
                {
                    "type": "Container",
                    "default": {"cpu": "200m", "memory": "64Mi"},
                    "defaultRequest": {"cpu": "200m", "memory": "64Mi"},
                },
                {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}},
            ]
        )
    ]
    if rng.random() < 0.7:
        yield create("limitranges", limits)
    quota = named("resourcequotas", "q")
    quota["spec"] = rng.choice(
        [
            {"hard": {"pods": "1"}},
            {"hard": {"requests.cpu": "300m", "limits.memory": "1Gi"}},
            {"hard": {"count/services": "2", "services.nodeports": "0"}},
            {"hard": {"requests.nvidia.com/gpu": "1"}},
            {"hard": {"pods": "1"}, "scopes": ["BestEffort"]},
            {"hard": {"count/jobs.batch": "1", "services": "1"}},
            {"hard": {"pods": "0"}, "scopes": ["Terminating"]},
            {"hard": {"requests.storage": "1Gi", "persistentvolumeclaims": "1"}},
        ]
    )
    yield create("resourcequotas", quota)
    yield Step("WAIT 3")
    yield Step(f"GET {SORTS['resourcequotas'].url}/q")
    for number in range(8):
        sort = rng.choice(["pods", "pods", "pods", "configmaps", "jobs", "services", "persistentvolumeclaims"])
        obj = named(sort, f"o{number}")
        if sort == "pods":
            obj["spec"]["nodeSelector"] = {"nowhere": "at-all"}
            path = rng.choice(
                [
                    "spec.containers.0.resources",
                    "spec.containers.0.resources.limits",
                    "spec.containers.0.resources.requests.cpu",
                    "spec.activeDeadlineSeconds",
                    "spec.serviceAccountName",
                    "spec.priorityClassName",
                    "spec.automountServiceAccountToken",
                    "spec.tolerations",
                    "spec.initContainers",
                    "spec.overhead",
                    "spec.runtimeClassName",
                ]
            )
            put(obj, path, value_for(rng, path))
        yield create(sort, obj, rng.choice(["", "", "?dryRun=All"]))
    yield Step("WAIT 2")
    yield Step(f"GET {SORTS['resourcequotas'].url}/q")
    yield Step(f"PATCH {SORTS['resourcequotas'].url}/q", {"spec": {"hard": {"pods": "0"}}}, content(MERGE))
    yield Step(f"DELETE {SORTS['pods'].url}?gracePeriodSeconds=0")
    yield Step("WAIT 2")
    yield Step(f"GET {SORTS['resourcequotas'].url}/q")


def deletion(rng) -> Iterator[Step]:
    """Finalizers, owners, propagation, collections and namespaces, each to its end."""

    def owner(number: int, **more) -> list:
        return [{"apiVersion": "v1", "kind": "ConfigMap", "name": "top", "uid": f"{{{number}:metadata.uid}}", **more}]

    top = named("configmaps", "top")
    if rng.random() < 0.3:
        top["metadata"]["finalizers"] = ["a.b/c"]
    yield create("configmaps", top)
    for name in "xyz":
        body = named(rng.choice(["configmaps", "secrets", "leases"]), name)
        sort = {"ConfigMap": "configmaps", "Secret": "secrets", "Lease": "leases"}[body["kind"]]
        body["metadata"]["ownerReferences"] = owner(
            0, **rng.choice([{}, {"blockOwnerDeletion": True}, {"controller": True}])
        )
        if rng.random() < 0.25:
            body["metadata"]["ownerReferences"][0]["uid"] = "no-such-uid"
        if rng.random() < 0.25:
            body["metadata"]["finalizers"] = [rng.choice(["a.b/c", "foregroundDeletion"])]
        yield create(sort, body)
    deployment = named("deployments", "d")
    deployment["spec"]["replicas"] = rng.choice([0, 1])
    put(deployment, "spec.template.spec.nodeSelector", {"nowhere": "at-all"})
    yield create("deployments", deployment)
    yield Step("WAIT 3")
    policy = rng.choice(["Background", "Foreground", "Orphan", ""])
    suffix = f"?propagationPolicy={policy}" if policy else ""
    yield Step(f"DELETE {SORTS['configmaps'].url}/top{suffix}")
    yield Step(f"DELETE {SORTS['deployments'].url}/d{suffix}")
    yield Step("WAIT 4")
    for sort in ("configmaps", "secrets", "leases", "deployments", "replicasets", "pods"):
        yield Step(f"GET {SORTS[sort].url}")
    yield Step(
        f"PATCH {SORTS['configmaps'].url}/top",
        {"metadata": {"finalizers": rng.choice([None, ["d.e/f"], []])}},
        content(MERGE),
    )
    if rng.random() < 0.6:
        yield Step("DELETE /api/v1/namespaces/{ns}" + rng.choice(["", "?gracePeriodSeconds=0"]))
        yield Step("GONE /api/v1/namespaces/{ns}")
        yield Step("GET /api/v1/namespaces/{ns}")
        yield create("configmaps", named("configmaps", "late"))
        yield Step(f"GET {SORTS['configmaps'].url}")
        yield Step(
            "PUT /api/v1/namespaces/{ns}/finalize",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}"}, "spec": {"finalizers": []}},
        )
        yield Step("GET /api/v1/namespaces/{ns}")
    else:
        yield Step(
            f"DELETE {SORTS['configmaps'].url}{rng.choice(['', '?labelSelector=none', '?dryRun=All', '?propagationPolicy=Foreground'])}"
        )
        yield Step("WAIT 3")
        yield Step(f"GET {SORTS['configmaps'].url}")


def controllers(rng) -> Iterator[Step]:
    """The courses of workloads whose pods nobody runs, but whose status is told."""
    sort = rng.choice(["deployments", "deployments", "replicasets", "statefulsets", "jobs", "jobs", "cronjobs"])
    url = SORTS[sort].url
    obj = named(sort, "w", t="u")
    template = "spec.jobTemplate.spec.template.spec" if sort == "cronjobs" else "spec.template.spec"
    put(obj, f"{template}.nodeSelector", {"nowhere": "at-all"})
    if sort == "jobs":
        obj["spec"] |= {
            "suspend": rng.choice([False, False, True]),
            "backoffLimit": rng.choice([0, 1, 6]),
            "completions": rng.choice([1, 2]),
            "parallelism": rng.choice([1, 2]),
            **rng.choice(
                [{}, {"completionMode": "Indexed"}, {"activeDeadlineSeconds": 600}, {"ttlSecondsAfterFinished": 0}]
            ),
        }
    elif sort != "cronjobs":
        obj["spec"]["replicas"] = rng.choice([1, 2])
    if sort == "statefulsets":
        obj["spec"]["podManagementPolicy"] = rng.choice(["Parallel", "OrderedReady"])
    yield create(sort, obj)
    yield Step("WAIT 3")
    yield Step(f"GET {url}/w")
    number = 1
    listed = 2
    yield Step(f"GET {SORTS['pods'].url}")
    for _ in range(4):
        listed = number + 2
        pod = f"{SORTS['pods'].url}/{{{listed}:items.0.metadata.name}}"
        act = rng.choice(["status", "status", "scale", "template", "delete-pod", "suspend", "paused"])
        if act == "status":
            phase = rng.choice(["Running", "Running", "Failed", "Succeeded"])
            ready = [
                {
                    "type": "Ready",
                    "status": "True" if phase == "Running" else "False",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
            yield Step(f"PATCH {pod}/status", {"status": {"phase": phase, "conditions": ready}}, content(STRATEGIC))
        elif act == "scale" and sort in ("deployments", "replicasets", "statefulsets"):
            yield Step(f"PATCH {url}/w/scale", {"spec": {"replicas": rng.choice([0, 0, 1, 3])}}, content(MERGE))
        elif act == "delete-pod":
            yield Step(f"DELETE {pod}?gracePeriodSeconds={rng.choice([0, 5])}")
        elif act == "template" and sort in ("deployments", "statefulsets"):
            yield Step(
                f"PATCH {url}/w",
                {"spec": {"template": {"metadata": {"annotations": {"v": str(rng.randrange(3))}}}}},
                content(MERGE),
            )
        elif sort in ("jobs", "cronjobs"):
            yield Step(f"PATCH {url}/w", {"spec": {"suspend": rng.choice([True, False])}}, content(MERGE))
        else:
            yield Step(f"PATCH {url}/w", {"spec": {"paused": True}, "metadata": {"labels": {"t": "v"}}}, content(MERGE))
        yield Step("WAIT 4")
        yield Step(f"GET {url}/w")
        yield Step(f"GET {SORTS['pods'].url}")
        number = listed + 2
    if sort == "deployments":
        yield Step(f"GET {SORTS['replicasets'].url}")
    yield Step(f"GET {CORE}/events")


def customs(rng) -> Iterator[Step]:
    """A definition of custom resources, and requests about them."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "replicas": {"type": "integer", "minimum": 0, "default": 1},
                    "size": {"type": "string", "enum": ["s", "l"]},
                    "parts": {
                        "type": "array",
                        "maxItems": 2,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {"name": {"type": "string"}, "value": {"x-kubernetes-int-or-string": True}},
                        },
                    },
                    "when": {"type": "string", "format": "date-time"},
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        },
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.{ns}.example.com"},
        "spec": {
            "group": "{ns}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                    "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
                }
            ],
        },
    }
    yield Step("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    yield Step("WAIT 6")
    url = "/apis/{ns}.example.com/v1/namespaces/{ns}/things"
    thing = {
        "apiVersion": "{ns}.example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"size": "s", "parts": [{"name": "p", "value": 1}]},
    }
    yield Step(f"POST {url}", thing)
    for _ in range(11):
        body = copy.deepcopy(thing)
        path = rng.choice(
            [
                "spec.replicas",
                "spec.size",
                "spec.parts",
                "spec.parts.0.value",
                "spec.when",
                "spec.any",
                "spec.other",
                "spec",
                "status.replicas",
                "metadata.labels",
                "metadata.finalizers",
                "extra",
            ]
        )
        put(
            body,
            path,
            rng.choice(
                [
                    0,
                    -1,
                    3,
                    "s",
                    "xl",
                    "",
                    None,
                    [],
                    {},
                    True,
                    1.5,
                    [{"name": "p"}, {"name": "p"}],
                    [{"value": 1}],
                    [{"name": "q", "value": "x"}],
                    {"deep": [1]},
                    "2026-01-01T00:00:00Z",
                ]
            ),
        )
        query = rng.choice(
            ["", "", "?dryRun=All", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?fieldManager=me"]
        )
        yield rng.choice(
            [
                Step(f"PUT {url}/a{query}", body),
                Step(f"POST {url}{query}", body | {"metadata": {"name": rng.choice(["b", "c"])}}),
                Step(
                    f"PATCH {url}/a{query}",
                    {k: v for k, v in body.items() if k not in ("apiVersion", "kind", "metadata")},
                    content(MERGE),
                ),
                Step(
                    f"PATCH {url}/a?fieldManager={rng.choice(['me', 'you'])}{rng.choice(['', '&force=true'])}",
                    body,
                    content(APPLY),
                ),
                Step(f"PATCH {url}/a", body, content(STRATEGIC)),
                Step(
                    f"PATCH {url}/a/{rng.choice(['scale', 'status'])}",
                    {"spec": {"replicas": rng.choice([0, 2, -1, "x"])}, "status": {"replicas": 1}},
                    content(MERGE),
                ),
                Step(f"GET {url}/a{rng.choice(['', '/scale', '/status', '/none'])}"),
                Step(f"GET {url}", None, {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
                Step(f"DELETE {url}/a", rng.choice(_AT_ONCE)),
            ]
        )
    yield Step(f"GET {url}/a")
    yield Step("DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{ns}.example.com")


AREAS: dict[str, Callable[[random.Random], Iterator[Step]]] = {
    draw.__name__: draw
    for draw in (
        validation,
        crud,
        patches,
        applies,
        lists,
        scales,
        statuses,
        watches,
        aggregation,
        pods,
        access,
        discovery,
        admission,
        deletion,
        controllers,
        customs,
        beside,
        *FURTHER,
    )
}
#: Where controllers' writes are a part of what is compared.
SETTLED = frozenset({"admission", "deletion", "controllers"}) | SETTLED_FURTHER
