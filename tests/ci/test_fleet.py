"""The fleet's recipes: a pod for each cluster, what each pod starts, and one of them run to its end."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml
from own_world import QUICK, living, nothing_left, recipe
from pipeline import Runner, installed

from killcheck.embedded.cluster import Cluster
from killcheck.kube import resources as r
from killcheck.kube.permissions import Permissions

CONTEXTS = ["staging-eu", "staging-us", "research"]
BUCKET = "example-killcheck-evidence"


def mounted(home, kubeconfig="{}"):
    """What the volumes hold: the ConfigMap `fleet` and the Secret `fleet-kubeconfig`, as files."""
    fleet, secret = home / "fleet", home / "kubeconfig"
    fleet.mkdir()
    secret.mkdir()
    (fleet / "contexts").write_text("\n".join(CONTEXTS) + "\n")
    (secret / "config").write_text(kubeconfig)
    for context in CONTEXTS:
        spec = {**QUICK, "consent": {**QUICK["consent"], "contexts": [context]}}
        (fleet / f"{context}.yaml").write_text(yaml.safe_dump(spec))
    return {"/etc/fleet": str(fleet), "/etc/kubeconfig": str(secret)}


def job(index, paths):
    """The command of the indexed Job's container ``index``, and its environment."""
    [made] = [obj for obj in recipe("fleet/indexed-job.yaml") if obj["kind"] == "Job"]
    [container] = made["spec"]["template"]["spec"]["containers"]
    return placed(container["command"], paths), {"JOB_COMPLETION_INDEX": str(index), "BUCKET": BUCKET}


def argo(index, paths):
    """The same of the workflow's step ``index``: its parameters filled in, as Argo does."""
    [flow] = [obj for obj in recipe("fleet/argo-workflow.yaml") if obj["kind"] == "CronWorkflow"]
    spec = flow["spec"]["workflowSpec"]
    given = {f"workflow.parameters.{one['name']}": one["value"] for one in spec["arguments"]["parameters"]}
    templates = {one["name"]: one for one in spec["templates"]}
    [[step]] = templates[spec["entrypoint"]]["steps"]
    item = yaml.safe_load(filled(step["withParam"], given))[index]
    for one in step["arguments"]["parameters"]:
        given[f"inputs.parameters.{one['name']}"] = filled(one["value"], {"item": item})
    container = templates[step["template"]]["container"]
    return placed([filled(word, given) for word in [*container["command"], *container["args"]]], paths), {}


def filled(text, given):
    return re.sub(r"{{(.*?)}}", lambda found: given[found[1]], text)


def placed(words, paths):
    for there, here in paths.items():
        words = [word.replace(there, here) for word in words]
    return words


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("pod", [job, argo])
def test_each_pod_drills_its_own_cluster(tmp_path, pod, index):
    said = tmp_path / "killcheck"
    said.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    said.chmod(0o755)
    paths = mounted(tmp_path)
    words, env = pod(index, paths)
    done = subprocess.run(
        words, env={"PATH": f"{tmp_path}:/usr/bin:/bin", **env}, check=True, capture_output=True, text=True
    )
    context = CONTEXTS[index]
    spec, *options = [word for word in done.stdout.split() if word != "drill"]
    assert spec == f"{paths['/etc/fleet']}/{context}.yaml"
    assert re.sub(r"(--[\w-]+)[ =](?=[^-])", r"\1=", " ".join(options)).split() == [
        f"--on={context}",
        f"--kubeconfig={paths['/etc/kubeconfig']}/config",
        "--yes",
        f"--evidence=s3://{BUCKET}/killcheck/{context}",
    ]


def test_a_pod_beyond_the_list_says_so(tmp_path):
    words, env = job(3, mounted(tmp_path))
    done = subprocess.run(words, env={"PATH": "/usr/bin:/bin", **env}, check=False, capture_output=True, text=True)
    assert (done.returncode, "no context number 3 in" in done.stderr) == (2, True), done.stderr


def test_the_job_makes_one_pod_a_cluster_that_finds_all_it_mounts():
    cluster = Cluster(exec_mode="none")
    try:
        ours = {"namespace": "killcheck"}
        cluster.load(
            [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "killcheck"}},
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "fleet", **ours},
                    "data": {"bucket": "b"},
                },
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "fleet-kubeconfig", **ours}},
                *recipe("fleet/indexed-job.yaml"),
            ]
        )
        cluster.loop.sleep(120.0)
        pods = cluster.kube.list(r.PODS, "killcheck").items
        indexes = [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods]
        assert sorted(indexes) == ["0", "1", "2"]
        waiting = [
            state.get("reason")
            for pod in pods
            for status in pod["status"].get("containerStatuses", [])
            for state in status["state"].values()
        ]
        assert not {"CreateContainerConfigError", "ContainerCreating"} & set(waiting), waiting
    finally:
        cluster.close()


def test_argos_executor_can_report_and_killcheck_has_no_token():
    """As argo-workflows takes them (workflow/controller/workflowpod.go setupServiceAccount, docs/workflow-rbac.md)."""
    objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in recipe("fleet/argo-workflow.yaml")}
    spec = objects["CronWorkflow", "killcheck-fleet"]["spec"]["workflowSpec"]
    executor = spec["executor"]["serviceAccountName"]
    token = objects["Secret", f"{executor}.service-account-token"]
    assert token["metadata"]["annotations"]["kubernetes.io/service-account.name"] == executor
    assert not spec["automountServiceAccountToken"]
    assert ("ServiceAccount", spec["serviceAccountName"]) in objects
    granted = Permissions(objects.values())
    asked = {"group": "argoproj.io", "resource": "workflowtaskresults", "namespace": "killcheck"}
    assert granted.allows(executor, "killcheck", verb="create", **asked)
    assert granted.allows(executor, "killcheck", verb="patch", **asked)
    assert not granted.allows(spec["serviceAccountName"], "killcheck", verb="create", **asked)


@pytest.mark.weekly
def test_a_pod_of_the_fleet_drills_and_leaves_its_evidence(tmp_path):
    aws = pytest.importorskip("killcheck.standins.aws")
    home, bin_, own = (tmp_path / name for name in ("home", "bin", "own"))
    for folder in (home, bin_, own):
        folder.mkdir()
    stand_in = aws.StandIn()
    try:
        s3 = stand_in.aws().client("s3")
        s3.create_bucket(Bucket=BUCKET)
        with living() as cluster, installed(bin_, own) as path:
            words, env = job(1, mounted(tmp_path, cluster.kubeconfig().replace("killcheck-embedded", "staging-us")))
            keys = {"AWS_ACCESS_KEY_ID": "AKIASTANDIN000000000", "AWS_SECRET_ACCESS_KEY": "s"}
            runner = Runner(home, path)
            runner.env.update(stand_in.environment(), **keys, **env)
            done = subprocess.run(words, cwd=home, env=runner.env, check=False, capture_output=True, text=True)
            assert (done.returncode, nothing_left(cluster)) == (0, ([], 1)), done.stdout + done.stderr
        names = [one["Key"] for one in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
        assert {name.rpartition("/")[2] for name in names} == {"run.jsonl", "report.html"}
        assert all(name.startswith("killcheck/staging-us/") for name in names)
    finally:
        stand_in.close()
