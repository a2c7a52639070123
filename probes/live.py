"""Questions that only the API server can answer, asked of it without changing anything.

Access reviews for calls that RBAC objects do not explain, and a dry run (``dryRun=All``) of each layer's pod as the Job
controller would make it: authenticated, admitted by every webhook and plugin, validated, and not stored. How many
requests that takes depends on the layers of the kill path, not on the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from killcheck.kube import resources as r
from killcheck.kube.client import Kube
from killcheck.kube.errors import ApiError, Forbidden, KubeError, TooManyRequests
from killcheck.kube.objects import Obj, copy, dig, name_of, ref_of

if TYPE_CHECKING:
    from killcheck.probes.world import Answers, Executor, World

    from killcheck.executor import ApiCall

__all__ = ["ask", "pod_of"]

#: The kinds that tell what RBAC grants.
_RBAC = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
#: A webhook with side effects refuses to be asked about a dry run: that says nothing about the pod.
_NO_DRY_RUN = "does not support dry run"


def ask(kube: Kube, world: World, *, dry_run: bool = True, pull_secrets: bool = False) -> Answers:
    """What the API server says of the executors of a kill path. Never raises KubeError: what it cannot ask, it says.

    ``pull_secrets``: read those of the executors' pods, by name, so that their registries can be asked with them.
    """
    from killcheck.probes.world import Answers

    answers = Answers()
    for one in world.layer_executors:
        for call in one.reading.calls:
            _review(kube, world, one, call, answers)
    for one in world.layer_executors if dry_run else ():
        _dry_run(kube, one, answers)
    for one in world.layer_executors if pull_secrets else ():
        _pull_secrets(kube, world, one, answers)
    return answers


def _pull_secrets(kube: Kube, world: World, one: Executor, answers: Answers) -> None:
    from killcheck.probes.pulls import pull_secrets

    for name in pull_secrets(world, one):
        try:
            found = kube.find(r.SECRETS, name, one.namespace)
        except KubeError as error:
            answers.unanswered[f"Secret/{one.namespace}/{name}"] = str(error)
            continue
        if found is not None:
            answers.pull_secrets[one.namespace, name] = found


# -- may it ------------------------------------------------------------------------------------------------
def _review(kube: Kube, world: World, one: Executor, call: ApiCall, answers: Answers) -> None:
    """A SubjectAccessReview, where the RBAC objects could not be read or do not grant the call (others may)."""
    key = (one.namespace, one.account, call)
    readable = not any(kind in world.unread for kind in _RBAC)
    if key in answers.reviews or "SubjectAccessReview" in answers.unanswered or (call.named and not call.name):
        return
    if readable and world.may_call(one, call):
        return
    user = f"system:serviceaccount:{one.namespace}:{one.account}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{one.namespace}", "system:authenticated")
    try:
        answers.reviews[key] = kube.may(
            call.verb,
            call.resource,
            group=call.group,
            subresource=call.subresource,
            name=call.name,
            namespace=call.namespace,
            user=user,
            groups=groups,
        )
    except KubeError as error:
        answers.unanswered["SubjectAccessReview"] = str(error)


# -- would it be made --------------------------------------------------------------------------------------
def _dry_run(kube: Kube, one: Executor, answers: Answers) -> None:
    who = ref_of(one.owner)
    try:
        if not kube.may("create", "pods", namespace=one.namespace):
            answers.unanswered[who] = f"we may not create pods in namespace {one.namespace}, not even in a dry run"
            return
        made = kube.create(r.PODS, pod_of(one), one.namespace, dry_run=True)
        answers.dry_runs[who] = ""
        answers.injected[who] = tuple(_injected(one.spec, made))
    except (Forbidden, ApiError) as error:
        if _NO_DRY_RUN in error.message or isinstance(error, TooManyRequests):
            answers.unanswered[who] = error.message
        else:
            answers.dry_runs[who] = error.message
    except KubeError as error:
        answers.unanswered[who] = str(error)


def pod_of(one: Executor) -> Obj:
    """The pod as the Job controller makes it from the template: its labels, and the name of a Job that is none."""
    spec = copy(one.spec)
    spec.setdefault("restartPolicy", "Never" if one.owner.get("kind") == "CronJob" else "Always")
    job = f"{name_of(one.owner)}-dry-run"
    labels = dict(one.template.metadata.get("labels") or {})
    if one.owner.get("kind") == "CronJob":
        labels |= {"job-name": job, "batch.kubernetes.io/job-name": job}
    metadata = {
        "generateName": f"{job}-",
        "namespace": one.namespace,
        "labels": labels,
        "annotations": dict(one.template.metadata.get("annotations") or {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _injected(spec: Obj, made: Obj) -> Iterator[str]:
    """Containers that admission added and that run beside the executor's own, without being native sidecars."""
    own = {str(container.get("name")) for container in spec.get("containers") or ()}
    for container in dig(made, "spec", "containers", default=[]):
        if container.get("name") not in own:
            yield str(container.get("name"))
