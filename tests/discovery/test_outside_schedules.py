"""Schedules that act from outside Kubernetes are told, and no folder that has one is said to be without a switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from killcheck import discover
from killcheck.kube import manifests
from killcheck.kube.passed_over import Cause

TARGET = """\
apiVersion: v1
kind: Pod
metadata: {name: chat}
spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}
"""
STATED = [
    ("a.tf", 'resource "google_cloud_scheduler_job" "off" {}\n', "Terraform's google_cloud_scheduler_job off"),
    ("a.tf", 'resource "aws_autoscaling_schedule" "x" {}\n', "Terraform's aws_autoscaling_schedule x"),
    ("a.tf", 'resource "azurerm_automation_schedule" "x" {}\n', "azurerm_automation_schedule"),
    ("a.tf", 'resource "aws_scheduler_schedule" "x" {}\n', "aws_scheduler_schedule"),
    ("a.tf", 'resource "kubernetes_cron_job_v1" "x" {}\n', "kubernetes_cron_job_v1"),
    ("a.tf", 'resource "aws_cloudwatch_event_rule" "x" {\n schedule_expression = "cron(0)"\n}\n', "event_rule x"),
    ("a.timer", "[Timer]\nOnCalendar=20:00\n", "a systemd timer (20:00)"),
    ("c.yaml", "Resources: {A: {Type: AWS::Scheduler::Schedule, ScheduleExpression: cron(0)}}\n", "CloudFormation's"),
    (".github/workflows/w.yml", "on: {}\n- cron: '0 0 * * *'\nrun: gcloud compute instances stop gpu\n", "a workflow"),
    (".forgejo/workflows/w.yaml", "- cron: '0 0 * * *'\n  - uses: actions-hub/kubectl@v1\n", "a workflow"),
    (".gitlab-ci.yml", 'off: {rules: [{if: $X == "schedule"}], script: [oc scale dc/a --replicas=0]}\n', "a pipeline"),
    (".circleci/config.yml", "- schedule: {cron: 0 0}\n- run: ./ci/gpu-off.sh\n", "runs './ci/gpu-off.sh'"),
    ("Jenkinsfile", "triggers { cron('H 20 * * *') }\n sh 'make scale-down'\n", "runs 'make scale-down'"),
    ("azure-pipelines.yml", "schedules:\n- cron: 0 20 * * *\nsteps: [{script: az vm deallocate -n a}]\n", "a pipeline"),
    ("play.yml", "- ansible.builtin.cron:\n    job: /opt/stop_gpus.sh\n", "Ansible's module cron"),
]
HARMLESS = [
    ("a.tf", 'resource "google_container_node_pool" "gpu" {}\n'),
    ("a.tf", 'resource "aws_cloudwatch_event_rule" "x" { event_pattern = "{}" }\n'),
    ("a.timer", "[Unit]\n"),
    ("c.yaml", "Resources: {A: {Type: AWS::EC2::Instance}}\n"),
    (".github/workflows/w.yml", "- cron: '0 0 * * *'\nrun: ruff check\n"),
    (".github/workflows/w.yml", "- cron: '0 0 * * *'\nbody: see https://acme.dev/aws/ to upgrade\n"),
    (".github/workflows/w.yml", "on: push\nrun: kubectl scale deploy x --replicas=0\n"),
    (".github/workflows/w.yml", "- cron: 0 0 *\nrun: aws eks update-kubeconfig -n a; kubectl get po; ./test.sh\n"),
    (".gitlab-ci.yml", "test: {script: [kubectl scale deploy x --replicas=0]}\n"),
    ("play.yml", "- ansible.builtin.cron:\n    job: /usr/bin/certbot renew\n"),
]


def beside(folder: Path, name: str, text: str) -> manifests.Loaded:
    (folder / "target.yaml").write_text(TARGET)
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return manifests.load(folder)


@pytest.mark.parametrize(("name", "text", "said"), STATED, ids=[row[2].split()[-1] for row in STATED])
def test_a_schedule_outside_is_told_and_not_read(name: str, text: str, said: str, tmp_path: Path):
    loaded = beside(tmp_path, name, text)
    [one] = loaded.unseen
    assert (one.file, one.cause) == (str(tmp_path / name), Cause.OUTSIDE)
    assert said in one.why
    assert not one.undermines  # a drill of what was read is still a proof
    notes = discover.from_objects(loaded, complete=False).notes
    assert any("nothing that could be read turns off" in note for note in notes)


@pytest.mark.parametrize(("name", "text"), HARMLESS)
def test_what_has_no_schedule_that_acts_is_not_told(name: str, text: str, tmp_path: Path):
    assert not beside(tmp_path, name, text).unseen


def test_what_is_left_out_is_not_looked_at(tmp_path: Path):
    (tmp_path / ".killcheckignore").write_text("*.tf\n.github/\n")
    beside(tmp_path, STATED[0][0], STATED[0][1])
    loaded = beside(tmp_path, STATED[8][0], STATED[8][1])
    assert not [one for one in loaded.skipped if one.cause is Cause.OUTSIDE]


def test_a_pipeline_above_the_folder_that_was_named_is_one_of_its_repository(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    name, text, _ = STATED[8]
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/target.yaml").write_text(TARGET)
    [one] = manifests.load(tmp_path / "deploy").unseen
    assert (one.file, one.cause) == (str(tmp_path / name), Cause.OUTSIDE)
    (tmp_path / "deploy/.git").mkdir()  # a repository of its own
    assert not manifests.load(tmp_path / "deploy").unseen
