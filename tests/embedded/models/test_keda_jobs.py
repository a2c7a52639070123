"""KEDA's ScaledJobs: when Jobs are made, who takes them away, and what is not known of it."""

from __future__ import annotations

import pytest
from cluster_world import cluster, pods, until

from killcheck.embedded.models.keda_jobs import SCALED_JOBS
from killcheck.kube import resources as r

NS = "lab"
PAUSED = "autoscaling.keda.sh/paused"
READS = "killcheck.dev/trigger-value"


def _scaled(notes=None, **spec):
    container = {"name": "r", "image": "render:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    trigger = {"type": "rabbitmq", "metadata": {"queueName": "q", "value": "1"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": SCALED_JOBS.api_version,
        "kind": SCALED_JOBS.kind,
        "metadata": {"name": "render", "namespace": NS, "annotations": notes or {}},
        "spec": {"jobTargetRef": {"template": template}, "triggers": [trigger]} | spec,
    }


def _jobs(made):
    return made.kube.list(r.JOBS, NS).items


def _wait(made, seconds):
    made.loop.run_until(lambda: False, seconds)


@pytest.mark.parametrize(
    ("notes", "spec", "count"),
    [
        ({}, {}, 1),
        ({READS: "3"}, {}, 3),
        ({READS: "3"}, {"maxReplicaCount": 2}, 2),
        ({READS: "0"}, {}, 0),
        ({READS: "0"}, {"minReplicaCount": 2}, 2),
        ({PAUSED: "true"}, {}, 0),
        ({PAUSED: "false"}, {}, 1),
    ],
    ids=str,
)
def test_as_many_jobs_as_are_called_for(notes, spec, count):
    with cluster(_scaled(notes, **spec)) as made:
        _wait(made, 65.0)
        assert len(_jobs(made)) == len(pods(made)) == count


def test_pause_leaves_what_runs_and_keeps_others_from_coming():
    with cluster(_scaled()) as made:
        until(made, lambda: pods(made))
        made.kube.patch(SCALED_JOBS, "render", {"metadata": {"annotations": {PAUSED: "true"}}}, NS)
        _wait(made, 65.0)
        (job,) = _jobs(made)
        made.kube.delete(r.JOBS, job["metadata"]["name"], NS, propagation="Background")
        _wait(made, 65.0)
        assert not pods(made)
        assert not made.doubts


def test_job_that_is_made_again_is_told_to_be_a_guess():
    with cluster(_scaled()) as made:
        until(made, lambda: pods(made))
        (job,) = _jobs(made)
        made.kube.delete(r.JOBS, job["metadata"]["name"], NS, propagation="Background")
        until(made, lambda: made.doubts)
        _wait(made, 1.0)
        assert len(pods(made)) == 1
        assert [(one.about, one.may_be_on) for one in made.doubts] == [("ScaledJob/lab/render", False)]


@pytest.mark.parametrize(("rollout", "left"), [("immediate", 0), ("gradual", 1)])
def test_another_generation_ends_the_jobs_of_the_one_before(rollout, left):
    with cluster(_scaled(rollout={"strategy": rollout})) as made:
        until(made, lambda: pods(made))
        made.kube.patch(
            SCALED_JOBS, "render", {"spec": {"maxReplicaCount": 1}, "metadata": {"annotations": {READS: "0"}}}, NS
        )
        _wait(made, 65.0)
        assert len(pods(made)) == left


def test_its_jobs_go_with_it():
    with cluster(_scaled()) as made:
        until(made, lambda: pods(made))
        made.kube.delete(SCALED_JOBS, "render", NS)
        until(made, lambda: not pods(made))
        _wait(made, 65.0)
        assert not _jobs(made)


def test_pod_that_a_trigger_counts_calls_for_a_job_when_it_comes():
    trigger = {"type": "kubernetes-workload", "metadata": {"podSelector": "app=work", "value": "1"}}
    work = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w", "namespace": NS, "labels": {"app": "work"}}}
    with cluster(_scaled(triggers=[trigger])) as made:
        _wait(made, 65.0)
        assert not _jobs(made)
        made.kube.create(r.PODS, work | {"spec": {"containers": [{"name": "c", "image": "c:1"}]}})
        _wait(made, 65.0)
        assert len(_jobs(made)) == 1
