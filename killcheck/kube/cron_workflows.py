"""CronWorkflows of Argo Workflows as CronJobs: the same clock, account and programs, for what fires and runs those.

A CronWorkflow fires as a CronJob does (workflow/cron/operator.go: the same cron library, zones, suspend, concurrency
policy and starting deadline); each container of its steps runs in a pod of its own under the workflow's account. Steps
that follow one another are init containers of one pod here, those of the last group are its containers: a step that
fails keeps the next ones from running, as there. What does more than that is left as it is, and why is said.

Source: argoproj/argo-workflows v3.6 pkg/apis/workflow/v1alpha1/{cron_workflow_types,workflow_types}.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from killcheck.kube.objects import Obj, annotations_of, dig, items, mappings, name_of, namespace_of
from killcheck.text import lazy_re
from killcheck.text.numbers import whole

__all__ = ["STANDS_FOR", "as_cron_job", "is_cron_workflow", "stood_for", "template_of"]

#: On such a CronJob: the CronWorkflow that it stands for.
STANDS_FOR = "killcheck.dev/stands-for"
#: Fields that both kinds have, by the CronWorkflow's name for them.
_CLOCK = {"timezone": "timeZone"} | {
    same: same
    for same in (
        "suspend",
        "concurrencyPolicy",
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    )
}
#: Fields of a workflow, or of a template, that are its pods' too.
_OF_PODS = (
    "affinity",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "hostAliases",
    "hostNetwork",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "schedulerName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
    "volumes",
)
#: What changes nothing of which programs run, as whom and in which order.
_OF_NO_ACCOUNT = frozenset(
    {
        *("activeDeadlineSeconds", "archiveLogs", "arguments", "artifactGC", "entrypoint", "executor", "metrics"),
        *("parallelism", "podGC", "podMetadata", "podPriority", "templates", "ttlStrategy", "workflowMetadata"),
        *("artifactRepositoryRef", "workflowTemplateRef", "name", "inputs", "outputs", "metadata", "container"),
        *("script", "steps", "dag", "failFast", "retryStrategy", "timeout", "plugin"),
    }
)
_PARAMETER = lazy_re.compile(r"\{\{ *(=?)(.*?) *\}\}")
#: How deep steps may call others, and how many calls there may be in all: a few lines of ``withItems`` make millions.
_DEEPEST, _MOST_CALLS = 8, 200


class _Beyond(Exception):
    """What a CronJob cannot be, in a phrase."""


def is_cron_workflow(obj: Obj) -> bool:
    """Whether an object is a CronWorkflow of Argo's."""
    return obj.get("kind") == "CronWorkflow" and str(obj.get("apiVersion", "")).startswith("argoproj.io/")


def stood_for(objects: Sequence[Obj]) -> Iterator[Obj]:
    """The CronWorkflows for which a CronJob among the objects stands, and does all that they do.

    Whoever wrote the manifests may have written that mark: what it says is looked at again.
    """
    marked = {annotations_of(obj).get(STANDS_FOR): obj for obj in objects if obj.get("kind") == "CronJob"}
    for obj in filter(is_cron_workflow, objects):
        job = marked.get(f"{namespace_of(obj) or 'default'}/{name_of(obj)}")
        with suppress(AttributeError, TypeError, ValueError, KeyError, IndexError):
            made = as_cron_job(obj, objects) if job is not None else ""
            if job is not None and isinstance(made, dict) and made["spec"] == job.get("spec"):
                yield obj


def as_cron_job(obj: Obj, objects: Iterable[Obj]) -> Obj | str:
    """The CronJob that does what a CronWorkflow does; a phrase where none does.

    ``objects``: among which its WorkflowTemplate may be.
    """
    try:
        return _cron_job(obj, list(objects))
    except _Beyond as beyond:
        return str(beyond)


def _cron_job(obj: Obj, objects: Sequence[Obj]) -> Obj:
    spec = dig(obj, "spec", default={})
    schedules = [str(one) for one in (*items(spec.get("schedules")), *filter(None, [spec.get("schedule")]))]
    if len(schedules) != 1:
        raise _Beyond(f"it has {len(schedules)} schedules")
    for field in ("when", "stopStrategy"):
        if spec.get(field):
            raise _Beyond(f"whether it fires is for its {field} to say")
    flow = _Flow(_workflow(obj, objects))
    meta: Obj = {"namespace": namespace_of(obj) or "default", "name": name_of(obj)}
    meta["annotations"] = {STANDS_FOR: f"{meta['namespace']}/{meta['name']}"}
    clock = {theirs: spec[own] for own, theirs in _CLOCK.items() if spec.get(own) is not None}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": meta,
        "spec": {"schedule": schedules[0], **clock, "jobTemplate": {"spec": flow.job()}},
    }


def template_of(obj: Obj) -> tuple[str, str, str] | None:
    """Kind, namespace (empty: none) and name of the template that a CronWorkflow is made of; None: it has its own."""
    ref = dig(obj, "spec", "workflowSpec", "workflowTemplateRef", default={})
    if not ref:
        return None
    if ref.get("clusterScope"):
        return "ClusterWorkflowTemplate", "", str(ref.get("name"))
    return "WorkflowTemplate", namespace_of(obj) or "default", str(ref.get("name"))


def _workflow(obj: Obj, objects: Sequence[Obj]) -> Obj:
    """The workflow's own spec over that of the WorkflowTemplate that it names."""
    own: Obj = dig(obj, "spec", "workflowSpec", default={})
    template = template_of(obj)
    if template is None:
        return own
    kind, home, name = template
    for one in objects:
        if (one.get("kind"), name_of(one)) == (kind, name) and (not home or (namespace_of(one) or "default") == home):
            base: Obj = dig(one, "spec", default={})
            arguments = [
                *mappings(dig(base, "arguments", "parameters")),
                *mappings(dig(own, "arguments", "parameters")),
            ]
            return {**base, **own, "arguments": {"parameters": arguments}}
    raise _Beyond(f"no manifest holds its {kind} {name}")


class _Flow:
    """One workflow on its way to become the one pod of a Job."""

    def __init__(self, spec: Obj) -> None:
        self.spec = spec
        _no_more_than(spec, _OF_PODS)
        self.templates = {str(one.get("name")): one for one in mappings(spec.get("templates"))}
        self.known = _values(dig(spec, "arguments"), "workflow.parameters")
        self.calls = 0

    def job(self) -> Obj:
        """The spec of the Job."""
        groups = self._groups(str(self.spec.get("entrypoint")), {}, 0)
        if not groups or any(len(group) != 1 for group in groups[:-1]):
            raise _Beyond("steps that run beside one another come before others")
        pods = [pod for group in groups for pod in group]
        shared = pods[0][0]
        if any(pod != shared for pod, _ in pods):
            raise _Beyond("its steps run as pods of several kinds")
        containers = [{**one, "name": f"step-{number}"} for number, (_, one) in enumerate(pods, 1)]
        first = len(containers) - len(groups[-1])
        retries = max((_limit(one) for one in (self.spec, *self.templates.values())), default=0)
        pod = {**shared, "restartPolicy": "Never", "containers": containers[first:]}
        if first:
            pod["initContainers"] = containers[:first]
        job: Obj = {"backoffLimit": retries, "template": {"metadata": self._labels(), "spec": pod}}
        if isinstance(self.spec.get("activeDeadlineSeconds"), int):
            job["activeDeadlineSeconds"] = self.spec["activeDeadlineSeconds"]
        return job

    def _labels(self) -> Obj:
        told = dig(self.spec, "podMetadata", default={})
        return {key: dict(told[key]) for key in ("labels", "annotations") if told.get(key)}

    def _groups(self, name: str, inputs: Mapping[str, str], depth: int) -> list[list[tuple[Obj, Obj]]]:
        """What runs one after the other: each time the pods, without containers, and the containers, of one group."""
        template = self.templates.get(name)
        if template is None or depth > _DEEPEST:
            raise _Beyond(f"there is no template {name}" if template is None else "its steps call one another")
        self.calls += 1
        if self.calls > _MOST_CALLS:
            raise _Beyond(f"it has more than {_MOST_CALLS} steps")
        _no_more_than(template, _OF_PODS)
        if dig(template, "inputs", "artifacts") or dig(template, "outputs"):
            raise _Beyond(f"template {name} takes or leaves more than parameters")
        values = {**_values(template.get("inputs"), "inputs.parameters"), **inputs}
        if template.get("container") or template.get("script"):
            return [[(self._pod(template, values), _container(template, self._fill, values))]]
        if template.get("steps") is not None:
            groups = [mappings(group) for group in items(template.get("steps"))]
        elif template.get("dag"):
            groups = [[task] for task in _in_order(mappings(dig(template, "dag", "tasks")))]
        else:
            raise _Beyond(f"template {name} runs no container")
        found: list[list[tuple[Obj, Obj]]] = []
        for group in groups:
            beside = [inner for step in group for inner in self._step(step, values, depth)]
            found += beside[0] if len(beside) == 1 else [[one for inner in beside for part in inner for one in part]]
            if len(beside) > 1 and any(len(inner) > 1 for inner in beside):
                raise _Beyond("steps that run beside one another have several parts")
        return found

    def _step(self, step: Obj, values: Mapping[str, str], depth: int) -> list[list[list[tuple[Obj, Obj]]]]:
        """The groups of each run of one step: as many as its ``withItems`` are."""
        beyond = set(step) - {"name", "template", "arguments", "withItems", "dependencies", "depends"}
        if beyond or (step.get("depends") and not re.fullmatch(r"[\w -]+(&&[\w -]+)*", str(step["depends"]))):
            raise _Beyond(f"step {step.get('name')} has {', '.join(sorted(beyond)) or 'depends'}")
        runs = []
        for item in items(step.get("withItems")) or [None]:
            own = {**values, **_item(item)}
            given = {
                key: self._fill(one, own) for key, one in _values(step.get("arguments"), "inputs.parameters").items()
            }
            runs.append(self._groups(str(step.get("template")), given, depth + 1))
        return runs

    def _pod(self, template: Obj, values: Mapping[str, str]) -> Obj:
        both = {**self.spec, **template}
        pod = {field: self._fill(both[field], values) for field in _OF_PODS if both.get(field) is not None}
        own = {key for key in ("labels", "annotations") if dig(template, "metadata", key)}
        if own:
            raise _Beyond(f"template {template.get('name')} gives its pods {' and '.join(sorted(own))} of their own")
        return pod

    def _fill(self, node: Any, values: Mapping[str, str]) -> Any:
        """A value with every parameter in it. Raises _Beyond for one that only a run knows."""
        if isinstance(node, str):
            return _PARAMETER.sub(lambda found: self._value(found, values), node)
        if isinstance(node, dict):
            return {key: self._fill(value, values) for key, value in node.items()}
        return [self._fill(one, values) for one in node] if isinstance(node, list) else node

    def _value(self, found: re.Match[str], values: Mapping[str, str]) -> str:
        value = None if found[1] else {**self.known, **values}.get(found[2])
        if value is None:
            raise _Beyond(f"only a run of it knows {found[0]}")
        return value


def _no_more_than(node: Obj, fields: Iterable[str]) -> None:
    for field in sorted(set(node) - {*fields, *_OF_NO_ACCOUNT}):
        if node[field] not in (None, False, [], {}, ""):
            raise _Beyond(f"it has {field}")


def _values(node: Any, prefix: str) -> dict[str, str]:
    given = mappings(dig(node or {}, "parameters"))
    texts = {str(one.get("name")): one.get("value", one.get("default")) for one in given}
    return {f"{prefix}.{name}": _text(value) for name, value in texts.items() if value is not None}


def _item(item: Any) -> dict[str, str]:
    if item is None:
        return {}
    parts = {f"item.{key}": _text(value) for key, value in item.items()} if isinstance(item, dict) else {}
    return {"item": _text(item), **parts}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _container(template: Obj, fill: Any, values: Mapping[str, str]) -> Obj:
    """The one container of a template; a script is the last word of its command (Argo gives it in a file)."""
    given: Obj = fill(template.get("container") or template.get("script"), values)
    if template.get("script"):
        command = [*items(given.get("command")), "-c", str(given.get("source", ""))]
        given = {**{key: value for key, value in given.items() if key not in ("source", "args")}, "command": command}
    return {key: value for key, value in given.items() if key != "name"}


def _in_order(tasks: Sequence[Obj]) -> list[Obj]:
    """Tasks of a dag, each after those that it depends on. Raises _Beyond for a circle."""
    left, done = list(tasks), list[Obj]()
    while left:
        names = {str(one.get("name")) for one in left}
        free = [one for one in left if not names & _before(one)]
        if not free:
            raise _Beyond("its tasks wait for one another")
        done += free[:1]
        left.remove(free[0])
    return done


def _before(task: Obj) -> set[str]:
    said = re.split(r"[\s&]+", str(task.get("depends") or ""))
    return {*map(str, items(task.get("dependencies"))), *said}


def _limit(node: Obj) -> int:
    return whole(dig(node, "retryStrategy", "limit")) or 0
