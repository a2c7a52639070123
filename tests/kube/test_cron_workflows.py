"""CronWorkflows of Argo's as CronJobs: what fires, in which order it runs and as whom; what is more than that is told."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from killcheck.kube import manifests
from killcheck.kube.cron_workflows import as_cron_job, stood_for

STEPS = """
- name: main
  steps:
  - [{name: first, template: say}]
  - - name: rest
      template: scale
      arguments: {parameters: [{name: what, value: "{{item}}"}]}
      withItems: [chat, rank]
- {name: say, container: {image: "alpine:3", command: [echo, "{{workflow.parameters.word}}"]}}
- name: scale
  inputs: {parameters: [{name: what}]}
  script: {image: k, command: [sh], source: "kubectl scale deploy/{{inputs.parameters.what}} --replicas=0"}
"""
DAG = """
- name: main
  dag: {tasks: [{name: b, template: two, depends: a}, {name: a, template: one}]}
- {name: one, container: {image: k, command: [one]}}
- {name: two, container: {image: k, command: [two]}}
"""
MANY = f"""
- {{name: main, steps: [[{{name: a, template: b, withItems: {list(range(300))}}}]]}}
- {{name: b, container: {{image: a, command: [b]}}}}
"""


def flow(templates: str = DAG, clock: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    inner = {"entrypoint": "main", "serviceAccountName": "owl", "templates": yaml.safe_load(templates), **spec}
    whole = {"schedule": "0 20 * * *", "timezone": "Europe/Rome", "suspend": True, **(clock or {})}
    meta = {"name": "off", "namespace": "ops"}
    made = {**whole, "workflowSpec": inner}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow", "metadata": meta, "spec": made}


def commands(obj: dict[str, Any], kind: str) -> list[list[str]]:
    pod = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [one["command"] for one in pod.get(kind, ())]


def test_steps_run_in_their_order_and_the_last_beside_one_another() -> None:
    made = as_cron_job(flow(STEPS, arguments={"parameters": [{"name": "word", "value": "night"}]}), [])
    assert isinstance(made, dict)
    assert {key: made["spec"][key] for key in ("schedule", "timeZone", "suspend")} == {
        "schedule": "0 20 * * *",
        "timeZone": "Europe/Rome",
        "suspend": True,
    }
    assert commands(made, "initContainers") == [["echo", "night"]]
    assert commands(made, "containers") == [
        ["sh", "-c", "kubectl scale deploy/chat --replicas=0"],
        ["sh", "-c", "kubectl scale deploy/rank --replicas=0"],
    ]
    assert made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["serviceAccountName"] == "owl"


def test_tasks_run_after_those_that_they_depend_on_and_a_template_is_found() -> None:
    template = flow()["spec"]["workflowSpec"]
    there = {"kind": "WorkflowTemplate", "metadata": {"name": "t", "namespace": "ops"}, "spec": template}
    named = flow()
    named["spec"]["workflowSpec"] = {"workflowTemplateRef": {"name": "t"}}
    assert isinstance(as_cron_job(named, []), str)
    made = as_cron_job(named, [there])
    assert isinstance(made, dict)
    assert (commands(made, "initContainers"), commands(made, "containers")) == ([["one"]], [["two"]])


@pytest.mark.parametrize(
    ("beyond", "said"),
    [
        (flow(clock={"schedules": ["1 2 * * *"]}), "it has 2 schedules"),
        (flow(clock={"when": "{{= cronworkflow.failed > 1 }}"}), "whether it fires is for its when to say"),
        (flow(onExit="again"), "it has onExit"),
        (flow(entrypoint="nobody"), "there is no template nobody"),
        (flow(STEPS), "only a run of it knows {{workflow.parameters.word}}"),
        (flow("- {name: main, suspend: {}}"), "template main runs no container"),
        (flow("- {name: main, steps: [[{name: a, template: main}]]}"), "its steps call one another"),
        (flow(MANY), "it has more than 200 steps"),
        (flow(DAG.replace("template: one", "template: one, when: 'false'")), "step a has when"),
    ],
)
def test_what_is_more_than_a_cron_job_is_told(beyond: dict[str, Any], said: str) -> None:
    assert as_cron_job(beyond, []) == said


def test_manifests_have_the_cron_job_at_the_place_of_what_it_stands_for() -> None:
    loaded = manifests.loads(yaml.safe_dump(flow()), "w.yaml")
    assert [(one.obj["kind"], one.place) for one in loaded.manifests] == [
        ("CronWorkflow", "w.yaml:1"),
        ("CronJob", "w.yaml:1"),
    ]
    assert loaded.notes == ("CronWorkflow/ops/off (w.yaml:1) is run as a CronJob: its clock, account and programs",)


def test_a_mark_that_somebody_wrote_is_looked_at_again() -> None:
    """A CronJob of a stranger's manifests may say that it stands for what it does not do."""
    ours = as_cron_job(flow(), [])
    assert isinstance(ours, dict)
    assert list(stood_for([flow(), ours])) == [flow()]
    other = {**ours, "spec": {**ours["spec"], "schedule": "0 1 * * *"}}
    more = {"kind": "CronWorkflow", "apiVersion": "argoproj.io/v1alpha1", "metadata": ours["metadata"], "spec": "odd"}
    for objects in ([flow(), other], [flow(onExit="again"), ours], [more, ours]):
        assert list(stood_for(objects)) == []
