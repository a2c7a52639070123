"""Switches that size a pool of GKE or AKS by its cloud's command line, in pods."""

import json
from datetime import UTC, datetime

import pytest
from killcheck.probes.pool_sizes import PoolSizes

from killcheck.kube import manifests
from killcheck.lint import asking
from killcheck.run.public import run_drill

PATH = """
apiVersion: v1
kind: Namespace
metadata: {name: speech}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: asr, namespace: speech}
spec:
  replicas: 2
  selector: {matchLabels: {app: asr}}
  template:
    metadata: {labels: {app: asr}}
    spec:
      nodeSelector: {SELECTED}
      tolerations: [{operator: Exists}]
      containers: [{name: s, image: "registry.example.com/asr:3", resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: nightly, namespace: speech, annotations: {azure.workload.identity/client-id: 0b1f-22}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: lights, namespace: speech}
spec:
  schedule: "30 19 * * 1-5"
  timeZone: Europe/Amsterdam
  jobTemplate:
    spec:
      template:
        metadata: {labels: {azure.workload.identity/use: "true"}}
        spec:
          serviceAccountName: nightly
          restartPolicy: Never
          containers: [{name: c, image: IMAGE, command: [bash, -euc, SCRIPT]}]
"""
SPEC = """
apiVersion: killcheck/v1
kind: KillPath
name: asr
targets: [{name: asr, kind: Deployment, namespace: speech, object: asr}]
layers: [{name: lights, type: dead-man, covers: [asr], cronJob: {namespace: speech, name: lights}}]
nodes: [{name: l4, selector: cloud.google.com/gke-nodepool=l4}]
consent: {namespaces: [speech], pools: [l4]}
assume:
  - {kind: NodePool, name: l4, reason: seen to be let on staging, until: 2026-12-31}
"""
GCLOUD = "gcloud container clusters resize prod --node-pool l4 --num-nodes 0 --region europe-west4 --quiet"
AZ = (
    'az login --service-principal -u "$AZURE_CLIENT_ID" -t "$AZURE_TENANT_ID" '
    '--federated-token "$(cat "$AZURE_FEDERATED_TOKEN_FILE")"\naz aks nodepool scale -g rg --cluster-name prod -n t4 -c 0'
)
GKE = {
    "name": "l4",
    "config": {"machineType": "g2-standard-8", "accelerators": [{"acceleratorCount": "1", "acceleratorType": "l4"}]},
    "initialNodeCount": 1,
    "locations": ["europe-west4-a", "europe-west4-b"],
}
SCALED = {"autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": 2}}
AKS = {"name": "t4", "vmSize": "Standard_NC4as_T4_v3", "count": 2, "enableAutoScaling": False}
#: The pool, what is called, the fault; the verdict, and what is said.
DRILLED = {
    "a pool of fixed size": (GKE, GCLOUD, (), "survived", "its executor ended it (Pod/speech/lights-"),
    "an autoscaler puts it back": (GKE | SCALED, GCLOUD, (), "exposed", "as it still asks for 2, others were made"),
    "the identity has lapsed": (AKS, AZ, ("cloud-identity-gone",), "exposed", "AADSTS700213"),
}


@pytest.mark.parametrize("told", DRILLED)
def test_a_pool_that_is_sized_by_a_command_line(tmp_path, told):
    pool, script, under, verdict, said = DRILLED[told]
    gke = pool["name"] == "l4"
    label = "{cloud.google.com/gke-nodepool: l4}" if gke else "{agentpool: t4}"
    text = PATH.replace("{SELECTED}", label).replace("SCRIPT", json.dumps(script))
    text = text.replace("IMAGE", '"google/cloud-sdk:489.0.0-slim"' if gke else '"mcr.microsoft.com/azure-cli:2.61.0"')
    (tmp_path / "path.yaml").write_text(text)
    (tmp_path / "pools.json").write_text(json.dumps([pool]))
    if verdict == "survived":
        (tmp_path / "killcheck.yaml").write_text(SPEC)
    where = {"spec": tmp_path / "killcheck.yaml"} if verdict == "survived" else {"manifests": [tmp_path]}
    result = run_drill(**where, layer="lights", under=under, exec_mode="host", horizon_s=3000.0)
    told = f"{result.why} {result.cause} {' '.join(result.bites.values())}"
    assert (str(result.verdict), result.problems) == (verdict, ()), told
    assert said in told


READ = {
    "gcloud, and nobody is there": (GKE, GCLOUD.removesuffix("--quiet"), ["gcloud asks a person whether to go on"]),
    "gcloud against an autoscaler": (GKE | SCALED, GCLOUD, ["pool l4 has an autoscaler, and its workloads still ask"]),
    "its autoscaler turned off first": (
        GKE | SCALED,
        f"gcloud container node-pools update l4 --cluster prod --region r --no-enable-autoscaling\n{GCLOUD}",
        [],
    ),
    "az against an autoscaler": (
        AKS | {"enableAutoScaling": True, "minCount": 0, "maxCount": 4},
        AZ,
        ["pool t4 has an autoscaler: az refuses"],
    ),
    "az without a login": (AKS, AZ.partition("\n")[2], ["az is not logged in"]),
    "sound": (AKS, AZ, []),
}


@pytest.mark.parametrize("told", READ)
def test_what_reading_alone_says_of_it(told):
    pool, script, wanted = READ[told]
    label = "{cloud.google.com/gke-nodepool: l4}" if pool["name"] == "l4" else "{agentpool: t4}"
    text = PATH.replace("{SELECTED}", label).replace("SCRIPT", json.dumps(script)).replace("IMAGE", "cli:1")
    objects = [*manifests.loads(text, "p.yaml").objects, *manifests.loads(json.dumps([pool]), "p.json").objects]
    world, _ = asking.world_of(objects, datetime(2026, 1, 15, tzinfo=UTC))
    said = [one.message for one in PoolSizes().ask(world)]
    assert len(said) == len(wanted), said
    assert all(part in message for part, message in zip(wanted, said, strict=True))
