"""Drawn sequences, played on an API server: what it answered, with what differs from cluster to cluster taken out."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from urllib.parse import quote

from compare import unlike
from drawing import Sequence, Step

from killcheck.embedded.models.definitions import crds

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_MADE_UP = re.compile("[bcdfghjklmnpqrstvwxz2456789]{5}")
_TOLD = re.compile(r"\{(\d+):([\w.]+)\}")
#: What a distribution's control plane puts in beside Kubernetes' own.
_DISTRIBUTIONS = "openshift-service-ca.crt"
_DISTRIBUTIONS_VOLUME = re.compile(
    r',\{[\\"]*configMap[\\"]*:\{[\\"]*name[\\"]*:[\\"]*openshift-service-ca\.crt.*?\]\}\}'
)
_BUILD = frozenset({"gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"})
_OWN = _BUILD | frozenset(
    {
        "resourceVersion",
        "continue",
        "podCIDR",  # a control plane need not hand them out
        "podCIDRs",
        "serverAddress",
        "pod-template-hash",
        "controller-revision-hash",
        "token",
        "issuer",
        "jwks_uri",
        "id_token_signing_alg_values_supported",
    }
)
#: What controllers keep for themselves in objects that others write.
_CONTROLLERS = frozenset({"kube-controller-manager", "kube-scheduler", "kube-apiserver"})
_WORKLOADS = frozenset(
    "Deployment ReplicaSet StatefulSet DaemonSet Job CronJob ReplicationController Pod PodDisruptionBudget ResourceQuota "
    "HorizontalPodAutoscaler PersistentVolumeClaim CustomResourceDefinition".split()
)


def play(server, sequence: Sequence, space: str) -> list[dict]:
    """The answers of a fresh namespace: status, warning and body of each step but the waits (None)."""
    server.ask("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": space}}).encode())
    for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
        for _ in range(100):
            if server.ask("GET", f"/api/v1/namespaces/{space}/{path}")[0] == 200:
                break
            server.wait(0.3)
    raw: list[dict] = []
    try:
        for step in sequence.steps:
            raw.append(_played(server, step, raw, space))
    finally:
        server.ask("DELETE", f"/api/v1/namespaces/{space}")
    return [_plain_answer(answer, space) for answer in raw]


def _played(server, step: Step, raw: list[dict], space: str) -> dict:
    method, _, path = step.do.partition(" ")
    if method == "WAIT":
        server.wait(float(path))
        return {}
    if method == "GONE":  # how long that takes is by how busy the machine is
        _await_end(server, path.replace("{ns}", space))
        return {}

    def told(found: re.Match) -> str:
        value = raw[int(found[1])].get("body") if int(found[1]) < len(raw) else None
        for key in found[2].split("."):
            if isinstance(value, list):  # of many alike, one that every server would take
                value = sorted(value, key=lambda item: _spelled(item, space))
            value = (
                value[int(key)]
                if isinstance(value, list) and key.isdigit() and int(key) < len(value)
                else value.get(key)
                if isinstance(value, dict)
                else None
            )
        return str(value if value is not None else "0")

    def text(value: str) -> str:
        return _TOLD.sub(told, value.replace("{ns}", space))

    headers = {key: text(value) for key, value in step.headers.items()}
    body = step.body if step.body is None or isinstance(step.body, str) else json.dumps(step.body)
    if method == "WATCH":
        frames = [
            frame for frame in server.watch(text(path), headers) if not isinstance(frame, dict) or not _passing(frame)
        ]
        return {"status": 200, "warning": None, "body": {"frames": frames}}
    sent = None if body is None else text(body).encode()
    try:
        status, warning, answer = server.ask_as(method, quote(text(path), safe="/?&=%:,;!.~$'()*+-_"), sent, headers)
    except Exception as error:  # noqa: BLE001 - a server that breaks down is a difference like any other
        status, warning, answer = 0, None, repr(error)
    return {"status": status, "warning": warning, "body": answer}


def _await_end(server, path: str) -> None:
    for _ in range(60):
        if server.ask("GET", path)[0] == 404:
            return
        server.wait(1)


def _passing(frame: dict) -> bool:
    """Whether it is a bookmark that comes with the time: the one that ends what there was at first is asked for."""
    return frame.get("type") == "BOOKMARK" and "k8s.io/initial-events-end" not in json.dumps(frame)


def _plain_answer(answer: dict, space: str) -> dict:
    if not answer:
        return {}
    aliases: dict[str, str] = {}
    _names(answer["body"], aliases)
    names = sorted(aliases, key=len, reverse=True)

    def text(value: str) -> str:
        for name in names:
            value = value.replace(name, aliases[name])
        return _without_chance(value.replace(space, "{ns}"))

    return {
        "status": answer["status"],
        "warning": answer["warning"] and text(answer["warning"]),
        "body": _plain(answer["body"], text),
    }


#: What changes from one answer to the next, and what stands for it, in the order in which it is taken out.
_CHANCE = (
    (_DISTRIBUTIONS_VOLUME, ""),
    (_UID, "<uid>"),
    (re.compile(r"https://kubernetes\.default\.svc\.cluster\.local"), "https://kubernetes.default.svc"),  # the issuer
    (_TIME, "<time>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+(?=:?\b)"), "<ip>"),
    (re.compile(r"\bkube-api-access-\w{5}\b"), "kube-api-access-*"),
    (re.compile(r"-29\d{6}\b"), "-<minute>"),  # since 1970, in which a CronJob fired
    (re.compile(r"-(?=[a-z0-9]*\d)[bcdfghjklmnpqrstvwxz2456789]{8,10}(?=-|\b)"), "-<hash>"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-<name>"),
    (re.compile(r"(?<=pod-template-hash=)\w+"), "<hash>"),
    (re.compile(r'("resourceVersion\\?":\\?")\d+'), r"\1*"),
    (re.compile(r'(?<=in scheme ")[^"]*'), "*"),
    (re.compile(r"@@ -\d+,(\d+) \+\d+,(\d+) @@"), r"@@ \1 \2 @@"),  # below the distribution's volume
    (
        re.compile(
            r"(?<=resource version: )\d+|(?<=record \()\d+(?=\))|(?<=, current: )\d+|(?<=UID in object meta: )\S+"
        ),
        "*",
    ),
    (re.compile(r"eyJ[\w.-]+"), "<JWT>"),
)


#: Of several fields that a schema does not know, the first that Go's map gave is named.
_UNDECLARED = re.compile(r"(: (?:\.\w+)*\.)\w+(: field not declared in schema)")
#: What other sequences, played at the same time, have defined.
_OTHERS = re.compile(
    # and the groups of custom resources that the embedded cluster is born with
    r"fresh-\d+-\d+-[ab]\.example\.com|" + "|".join(sorted({re.escape(crd["spec"]["group"]) for crd in crds()}))
)


@lru_cache(maxsize=1 << 14)  # keys and most values come again in every answer
def _without_chance(value: str) -> str:
    for pattern, instead in _CHANCE:
        value = pattern.sub(instead, value)
    return value


def _spelled(item, space: str) -> str:
    return json.dumps(_plain_answer({"status": 0, "warning": None, "body": item}, space), sort_keys=True)


def _names(value, aliases: dict[str, str]) -> None:
    """Names that the server made up: each with the beginning that it was given."""
    if isinstance(value, dict):
        meta = value.get("metadata")
        base, name = (meta.get(key) if isinstance(meta, dict) else None for key in ("generateName", "name"))
        if isinstance(base, str) and isinstance(name, str) and base and _MADE_UP.fullmatch(name.removeprefix(base)):
            aliases[name] = f"{base}<name>"
        for item in value.values():
            _names(item, aliases)
    elif isinstance(value, list):
        for item in value:
            _names(item, aliases)


def _plain(value, text, key: str = ""):
    if isinstance(value, dict):
        found = {text(k): _plain(v, text, k) for k, v in value.items() if k not in _OWN}
        return {k: v for k, v in found.items() if k != "managedFields" or v}
    if isinstance(value, list):
        if key == "managedFields":
            value = [entry for entry in value if not (isinstance(entry, dict) and entry.get("manager") in _CONTROLLERS)]
            value = sorted(
                value, key=lambda one: [str(one.get(k, "")) for k in ("operation", "manager", "subresource")]
            )
        if key == "causes":  # a cause that is said twice counts once: by which way it was met is no matter
            value = [cause for number, cause in enumerate(value) if cause not in value[:number]]
            if any(isinstance(cause, dict) and cause.get("reason") == "FieldManagerConflict" for cause in value):
                value = sorted(value, key=lambda cause: json.dumps(cause, sort_keys=True))  # Go's maps have no order
        if key == "columnDefinitions":  # words that no client shows
            value = [{k: v for k, v in column.items() if k != "description"} for column in value]
        if key == "cells":
            value = [
                "<age>" if isinstance(cell, str) and re.fullmatch(r"\d+[smh](\d+s)?", cell) else cell for cell in value
            ]
        return [_plain(item, text, key) for item in value if not _distributions(item)]
    if key == "ca.crt":
        return "<certificate>"
    if key in ("nodePort", "healthCheckNodePort") and isinstance(value, int) and value:
        return "<port>"  # handed out at random
    return _orderless(text(value)) if isinstance(value, str) else value


def _orderless(text: str) -> str:
    """A refusal whose lines come as Go's maps do, in no order."""
    text = _UNDECLARED.sub(r"\1*\2", text)
    first, *lines = text.split("\n")
    return "\n".join([first, *sorted(lines)]) if first.startswith("failed to create typed patch object") else text


def _distributions(item) -> bool:
    if not isinstance(item, dict):
        return False
    row = item.get("object")  # of a table
    if isinstance(row, dict) and row.get("kind") == "Table":  # a watch's frame has a row, unless it was taken out
        return all(map(_distributions, row.get("rows") or ()))
    parts = (item.get("configMap"), item.get("metadata"), row.get("metadata") if isinstance(row, dict) else None)
    names = [item.get("name"), *(part.get("name") for part in parts if isinstance(part, dict))]
    return _DISTRIBUTIONS in names[1:] or any(isinstance(name, str) and _OTHERS.fullmatch(name) for name in names)


def differences(got: dict, want: dict, *, settled: bool) -> list[str]:
    """Sentences; empty where both answered alike."""
    if not want:
        return []
    found = [f"status {got['status']}, not {want['status']}"] * (got["status"] != want["status"])
    found += [f"warning {got['warning']!r}, not {want['warning']!r}"] * (got["warning"] != want["warning"])
    shown = [_sorted(body) if settled else _unsettled(body) for body in (got["body"], _plain(want["body"], str))]
    return found + list(unlike(*shown, ""))


def _sorted(body):
    """A list in an order that does not rest on made-up names."""
    if isinstance(body, dict) and isinstance(body.get("items"), list):
        items = sorted((_looked(item) for item in body["items"]), key=lambda item: json.dumps(item, sort_keys=True))
        if body.get("kind") == "EventList":  # how often is by when somebody looked
            items = [item for number, item in enumerate(items) if item not in items[:number]]
        return body | {"items": items}
    if isinstance(body, dict) and body.get("kind") == "Table":
        return body | {"rows": sorted(body.get("rows") or (), key=lambda row: json.dumps(row, sort_keys=True))}
    return _looked(body)


def _looked(obj):
    """An object without what shows how often a controller happened to look."""
    if not isinstance(obj, dict):
        return obj
    meta = (
        {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
        if isinstance(obj.get("metadata"), dict)
        else obj.get("metadata")
    )
    if obj.get("kind") == "Event" or "involvedObject" in obj:
        return {k: obj.get(k) for k in ("type", "reason", "message")} | {
            "about": (obj.get("involvedObject") or {}).get("kind")
        }
    if obj.get("kind") == "Namespace":
        obj = obj | {"status": {"phase": (obj.get("status") or {}).get("phase")}}
    return obj | ({"metadata": meta} if "metadata" in obj else {})


def _unsettled(body):
    """An answer without what controllers may have written by the time of the question."""
    if isinstance(body, list):
        return [_unsettled(item) for item in body]
    if not isinstance(body, dict):
        return body
    if isinstance(body.get("metadata"), dict) and (body.get("kind") in _WORKLOADS or "spec" in body):
        meta = dict(body["metadata"])
        notes = {
            k: v for k, v in (meta.pop("annotations", None) or {}).items() if k != "deployment.kubernetes.io/revision"
        }
        meta |= {"annotations": notes} if notes else {}
        if body.get("kind") == "CustomResourceDefinition":
            meta.pop("finalizers", None)  # put there by a controller, a moment later
        body = {k: v for k, v in body.items() if k != "status"} | {"metadata": meta}
    return {k: _unsettled(v) for k, v in body.items()}
