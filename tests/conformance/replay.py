"""A recorded situation on the embedded cluster: the same setup, the same trigger, and what is then seen.

What a recording's commands and requests did is done again at their moments; kubectl's own round trips are not.
"""

import json
import re
import shlex
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qs

from recorded import Aliases, Recording, Told, Transition, comparable, merged, state_text

from killcheck.embedded.api.http import Request, User
from killcheck.embedded.cluster import Cluster
from killcheck.images.contents import Contents
from killcheck.kube import resources as r
from killcheck.kube.objects import copy, dig

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
NODE = "node-cpu"
IMAGES = ("localhost:5000/rec/executor:1", "localhost:5000/rec/badarch:1")
#: Debian with bash, Python and curl, and no kubectl.
_PROGRAMS = (
    "bash",
    "sh",
    "sleep",
    "cat",
    "echo",
    "true",
    "false",
    "env",
    "printf",
    "grep",
    "sed",
    "head",
    "tail",
    "tr",
    "date",
    "mktemp",
    "curl",
    "python3",
    "kill",
    "test",
)
EXECUTOR = Contents({f"/usr/bin/{name}": name for name in _PROGRAMS})

GONE = (
    "localhost:5000/rec/gone:1",
    "localhost:5000/rec/not-on-node:1",
    "localhost:5000/library/python@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
)
WATCHED = (r.PODS, r.DEPLOYMENTS, r.REPLICASETS, r.JOBS, r.CRONJOBS, r.NODES, r.PDBS, r.HPAS, r.RESOURCECLAIMS)
_PLAIN = (
    "spec.replicas",
    "spec.nodeName",
    "spec.podCIDR",
    "spec.suspend",
    "spec.concurrencyPolicy",
    "status.replicas",
    "status.terminatingReplicas",
    "status.readyReplicas",
    "status.availableReplicas",
    "status.unavailableReplicas",
    "status.fullyLabeledReplicas",
    "status.updatedReplicas",
    "status.ready",
    "status.terminating",
    "status.succeeded",
    "status.failed",
    "status.lastScheduleTime",
    "status.lastSuccessfulTime",
    "status.completionTime",
    "status.currentHealthy",
    "status.expectedPods",
    "status.disruptionsAllowed",
    "status.desiredHealthy",
    "status.disruptedPods",
    "status.currentReplicas",
    "status.desiredReplicas",
    "status.lastScaleTime",
    "metadata.finalizers",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
)


@dataclass
class Seen:
    """What came of a replay, comparable with a :class:`Recording`."""

    transitions: list[Transition] = field(default_factory=list)
    events: list[Told] = field(default_factory=list)
    answers: list[tuple[str, int, int]] = field(default_factory=list)
    bodies: list[tuple[str, object, object]] = field(default_factory=list)
    cluster: Cluster | None = None


def node(name, **spec):
    """A Node like the recording's: two cores, eight GPUs that nobody built in."""
    capacity = {"cpu": "2", "memory": "8Gi", "pods": "110", "ephemeral-storage": "100Gi", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "spec": spec,
        "status": {"capacity": capacity, "allocatable": capacity},
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        },
    }


class Replay:
    """Plays one recording; ``situation`` as in ``situations.py``."""

    def __init__(self, recording: Recording, situation):
        self.recording = recording
        self.situation = situation
        self.seen = Seen()
        self.aliases = Aliases(recording.aliases.fixed)
        self._last = {}
        self.namespace = next(
            (o["metadata"]["name"] for o in recording.setup if o["kind"] == "Namespace"), situation.namespace
        )

    def run(self) -> Seen:
        steps = sorted(self._steps(), key=lambda step: step[:2])
        lead = max(6.0, 3.0 - steps[0][0])
        start = self.recording.trigger - timedelta(seconds=lead)
        self.cluster = Cluster(start=start, exec_mode=self.situation.exec_mode)
        self.seen.cluster = self.cluster
        try:
            self._ground()
            loop = self.cluster.loop
            begun = loop.monotonic()
            for at, _, act in steps:
                loop.sleep(max(0.0, at + lead - loop.monotonic() + begun))
                with loop.entered():
                    act()
            loop.sleep(max(0.0, self.recording.end + self.situation.extra_s + lead - loop.monotonic() + begun))
            self._collect_events()
        finally:
            self.cluster.close()
        return self.seen

    # -- the cluster ---------------------------------------------------------------------------------------
    def _ground(self):
        cluster = self.cluster
        cluster.load([node(NODE), *map(copy, self.situation.nodes)])
        for image in IMAGES:
            cluster.registry.preload(NODE, image, cluster.loop.now())
        for image in GONE:
            cluster.registry.delete_tag(image)
        cluster.registry.delete_repository("localhost:5000/rec/never-existed")
        cluster.registry.set_state("127.0.0.1:5999", "refusing")
        cluster.registry.set_state("203.0.113.7:5000", "untrusted")
        if self.situation.runs_all:
            cluster.nodes.runs = lambda pod: True
        if self.situation.prepare:
            self.situation.prepare(self)
        for resource in WATCHED:
            cluster.kube.watch(resource, self._saw, lambda error: None)

    def now(self):
        return (self.cluster.loop.now() - self.recording.trigger).total_seconds()

    # -- what is done --------------------------------------------------------------------------------------
    def _steps(self):
        by_name = {f"{o['kind']}/{o['metadata']['name']}": o for o in self.recording.setup}
        begun = {t.object: t.at for t in self.recording.transitions if t.field == "object" and t.value == "ADDED"}
        made = {
            f"{o['kind']}/{o['metadata']['name']}": self._second(o)
            for o in [*self.recording.raw.get("objects", []), *self.recording.raw.get("deleted_objects", [])]
        }
        at = min([-5.0, *made.values()]) if self.situation.setup_at is None else self.situation.setup_at
        steps = []
        batches = [c for c in self.recording.raw["commands"] if "(setup: " in c["command"]]
        for number, command in enumerate(batches):
            names = command["command"].partition("(setup: ")[2].rstrip(")").split(", ")
            known = [begun[name] for name in names if name in begun]
            known = known or [made[name] for name in names if name in made]
            at = max(at, min(known)) if known else at
            if number == len(batches) - 1 and self.situation.last_at is not None:
                at = self.situation.last_at
            steps.append((at, 1, lambda objects=[by_name[n] for n in names if n in by_name]: self._make(objects)))
        for command in self.recording.raw["commands"]:
            if command.get("at_s") is not None and "(setup: " not in command["command"]:
                steps.append((command["at_s"], 2, lambda text=command["command"]: self._command(text)))
        for exchange in self.recording.raw.get("http", []):
            if exchange.get("at_s") is None or exchange.get("as"):
                continue
            steps.append((exchange["at_s"], 0, lambda e=exchange: self._request(e)))
        steps += [(at, 3, lambda act=act: act(self)) for at, act in self.situation.acts]
        return steps

    def _second(self, obj):
        from recorded import _moment

        return (_moment(obj["metadata"]["creationTimestamp"]) - self.recording.trigger).total_seconds()

    def _make(self, objects):
        for obj in objects:
            resource = self.cluster.kube.resource_for(obj["apiVersion"], obj["kind"])
            self.cluster.kube.create(resource, copy(obj))

    def send(self, method, path, body=None, content_type="application/json"):
        """A raw request as the cluster's admin; returns the Response."""
        path, _, query = path.partition("?")
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.cluster.server.handle(
            Request(method, path, parse_qs(query, keep_blank_values=True), {"content-type": content_type}, data, ADMIN)
        )

    def _translated(self, text):
        """A recorded text with this cluster's generated names in place of the recording's."""
        for name, alias in sorted(self.recording.aliases.names.items(), key=lambda item: -len(item[0])):
            text = text.replace(name, self.aliases.real(alias))
        return text

    def _request(self, exchange):
        method, path = self._translated(exchange["request"]).split(" ", 1)
        body = exchange.get("request_body")
        if body is not None and not isinstance(body, str):
            body = json.loads(self._translated(json.dumps(body)))
        answer = self.send(
            method,
            path,
            body.encode() if isinstance(body, str) else body,
            exchange.get("request_content_type") or "application/json",
        )
        if "items" in exchange["body"]:  # how many: what each of them is, the transitions compare
            answer.body, exchange = (
                {"items": len(answer.body["items"])},
                exchange | {"body": {"items": len(exchange["body"]["items"])}},
            )
        label = f"{exchange['request']} ({exchange.get('note', '')}, {exchange['at_s']} s)"
        self.seen.answers.append((label, answer.status, exchange["status"]))
        self.seen.bodies.append(
            (label, body_text(answer.body, self.aliases), body_text(exchange["body"], self.recording.aliases))
        )

    def _command(self, text):
        words = shlex.split(self._translated(text))
        if words[0] == "timeout":
            words = words[2:]
        if words[0] != "kubectl" or any(word.startswith("--dry-run") for word in words):
            return
        options = {w.partition("=")[0]: w.partition("=")[2] for w in words if w.startswith("--")}
        plain = [w for w in words[2:] if not w.startswith("-")]
        verb = getattr(self, f"_kubectl_{words[1]}", None)
        if verb is not None:
            verb(text, plain, options)

    def _path(self, kind, name, namespace=None):
        resource = {
            "deploy": r.DEPLOYMENTS,
            "deployment": r.DEPLOYMENTS,
            "pod": r.PODS,
            "job": r.JOBS,
            "cronjob": r.CRONJOBS,
            "pdb": r.PDBS,
            "node": r.NODES,
            "validatingwebhookconfiguration": r.VALIDATINGWEBHOOKS,
            "secret": r.SECRETS,
        }[kind]
        return resource.path(namespace or self.namespace if resource.namespaced else None, name)

    def _kubectl_scale(self, _text, plain, options):
        kind, name = plain[0].split("/") if "/" in plain[0] else plain[:2]
        self.send(
            "PATCH",
            self._path(kind, name) + "/scale",
            {"spec": {"replicas": int(options["--replicas"])}},
            "application/merge-patch+json",
        )

    def _kubectl_patch(self, text, plain, options):
        words = shlex.split(self._translated(text))
        body = json.loads(words[words.index("-p") + 1])
        self.send("PATCH", self._path(plain[0], plain[1]), body, f"application/{options['--type']}-patch+json")

    def _kubectl_delete(self, text, plain, options):
        if "--all" in options:
            for job in self.cluster.kube.list(r.JOBS, self.namespace).items:
                self.send("DELETE", self._path("job", job["metadata"]["name"]) + "?propagationPolicy=Background")
            return
        query = "?gracePeriodSeconds=0" if "--force" in options else "?propagationPolicy=Background"
        self.send("DELETE", self._path(plain[0], plain[1]) + query)

    def _kubectl_create(self, _text, plain, options):
        cronjob = self.cluster.kube.get(r.CRONJOBS, options["--from"].partition("/")[2], self.namespace)
        template = copy(cronjob["spec"]["jobTemplate"])
        self.cluster.kube.create(
            r.JOBS,
            {
                "metadata": {
                    "name": plain[1],
                    "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
                    "ownerReferences": [
                        {
                            "apiVersion": "batch/v1",
                            "kind": "CronJob",
                            "name": cronjob["metadata"]["name"],
                            "uid": cronjob["metadata"]["uid"],
                            "controller": True,
                        }
                    ],
                },
                "spec": template["spec"],
            },
            self.namespace,
        )

    def _kubectl_set(self, _text, plain, _options):
        name = plain[1].partition("/")[2]
        container = dict(
            self.cluster.kube.get(r.DEPLOYMENTS, name, self.namespace)["spec"]["template"]["spec"]["containers"][0]
        )
        key, value = plain[-1].split("=")
        change = {"env": [{"name": key, "value": value}]} if plain[0] == "env" else {"image": value}
        self._template(name, {"containers": [{"name": container["name"]} | change]})

    def _template(self, name, spec):
        self.send(
            "PATCH",
            self._path("deployment", name),
            {"spec": {"template": {"spec": spec}}},
            "application/strategic-merge-patch+json",
        )

    def _kubectl_rollout(self, _text, plain, _options):
        if plain[0] != "undo":
            return
        name = plain[1].partition("/")[2]
        sets = self.cluster.kube.list(r.REPLICASETS, self.namespace).items
        revision = "deployment.kubernetes.io/revision"
        sets = sorted(sets, key=lambda s: int(s["metadata"]["annotations"][revision]))
        template = copy(sets[-2]["spec"]["template"])
        template["metadata"]["labels"].pop("pod-template-hash")
        self.send(
            "PATCH",
            self._path("deployment", name),
            [{"op": "replace", "path": "/spec/template", "value": template}],
            "application/json-patch+json",
        )

    # -- what is seen --------------------------------------------------------------------------------------
    def _saw(self, event):
        obj = event.object
        if event.type == "BOOKMARK":
            return
        namespace = obj["metadata"].get("namespace")
        if namespace not in (None, self.namespace) or (
            obj["kind"] == "Node" and obj["metadata"]["name"] not in self.aliases.fixed
        ):
            return
        self.aliases.add(obj["kind"], obj["metadata"]["name"])
        alias = self.aliases.of(f"{obj['kind']}/{obj['metadata']['name']}")
        before = self._last.get(alias)
        if event.type == "DELETED":
            self._note(alias, "object", "DELETED")
            self._last.pop(alias, None)
            return
        fields = {name: self.aliases.of(comparable(name, value)) for name, value in _fields(obj).items()}
        if before is None:
            self._note(alias, "object", "ADDED")
        for name in {**(before or {}), **fields}:
            if fields.get(name) != (before or {}).get(name):
                self._note(alias, name, fields.get(name))
        self._last[alias] = fields

    def _note(self, alias, name, value):
        self.seen.transitions.append(Transition(self.now(), alias, name, value))

    def _collect_events(self):
        told = []
        for event in self.cluster.kube.list(r.EVENTS).items:
            about = event.get("involvedObject") or event.get("regarding")
            if about.get("namespace") not in (None, self.namespace) or (
                about["kind"] == "Node" and about["name"] not in self.aliases.fixed
            ):
                continue
            first = event.get("firstTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
            from recorded import _moment

            self.aliases.add(about["kind"], about["name"])
            told.append(
                Told(
                    (_moment(first) - self.recording.trigger).total_seconds(),
                    self.aliases.of(f"{about['kind']}/{about['name']}"),
                    event["type"],
                    event["reason"],
                    self.aliases.of(event.get("message") or event.get("note") or ""),
                    event.get("count") or 1,
                )
            )
        self.seen.events = merged(told)


_CLUSTERS_OWN = frozenset(
    {
        "managedFields",
        "resourceVersion",
        "uid",
        "podIP",
        "podIPs",
        "hostIP",
        "hostIPs",
        "containerID",
        "imageID",
        "pod-template-hash",
    }
)
#: What the recorded control plane put into every pod beside Kubernetes' own.
_ITS_OWN = "openshift-service-ca.crt"


def body_text(body, aliases):
    """An answer's body with what differs from cluster to cluster taken out."""
    if isinstance(body, dict):
        return {aliases.of(key): body_text(value, aliases) for key, value in body.items() if key not in _CLUSTERS_OWN}
    if isinstance(body, list):
        return [body_text(value, aliases) for value in body if not _of_its_own(value)]
    if isinstance(body, str):
        text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>", aliases.of(body))
        text = re.sub(r"\b(probe|kube-api-access)-[a-z0-9]{5}\b", r"\1-<new>", text)
        text = re.sub(r"(?<=pod-template-hash=)[a-z0-9]+", "<hash>", text)
        return re.sub(r"eyJ[\w.-]+", "<JWT>", text)
    return body


def _of_its_own(value):
    return isinstance(value, dict) and dig(value, "configMap", "name", default="") == _ITS_OWN


def _fields(obj):
    found = {}
    for name in _PLAIN:
        value = dig(obj, *name.split("."), default=None)
        if value is not None:
            found[name] = value if isinstance(value, str) else json.dumps(value)
    if obj["kind"] in ("Deployment", "ReplicaSet"):
        found["metadata.generation"] = json.dumps(obj["metadata"]["generation"])
    active = dig(obj, "status", "active", default=None)
    if obj["kind"] == "CronJob":
        found["status.active"] = json.dumps([entry["name"] for entry in active or []])
    elif active is not None:
        found["status.active"] = json.dumps(active)
    if dig(obj, "spec", "taints", default=None):
        found["spec.taints"] = json.dumps(
            [t["key"] + (f"={t['value']}" if t.get("value") else "") + f":{t['effect']}" for t in obj["spec"]["taints"]]
        )
    for condition in dig(obj, "status", "conditions", default=None) or []:
        if "type" in condition:
            found[f"condition {condition['type']}"] = _condition(condition)
    if obj["kind"] == "Pod":
        found["phase"] = dig(obj, "status", "phase", default="")
        for status in dig(obj, "status", "containerStatuses", default=None) or []:
            found |= _container(status)
    return found


def _condition(condition):
    text = condition["status"]
    if condition.get("reason"):
        text += f" reason={condition['reason']}"
    if condition.get("message"):
        text += f" message={json.dumps(condition['message'])}"
    return text


def _container(status):
    head = f"container {status['name']}"
    found = {f"{head} ready": json.dumps(status["ready"]), f"{head} restartCount": str(status["restartCount"])}
    for key in ("state", "lastState"):
        if status.get(key):
            found[f"{head} {key}"] = state_text(status[key])
    return found


__all__ = ["ADMIN", "NODE", "Replay", "Seen", "body_text", "node"]
