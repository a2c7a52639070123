"""What nobody here evaluates and may launch machines leaves a fence unproven: a closed vocabulary of what launches none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from killcheck.fence import evaluate
from killcheck.fence.automode import built_in
from killcheck.fence.ceiling import Ceiling
from killcheck.fence.makers import unevaluated
from killcheck.kube.launch_lines import made_by_lines
from killcheck.kube.launcher_files import costing, launching
from killcheck.kube.program_files import making


def obj(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "ops"}, **fields}


def program(*words: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": list(words)}
    return obj("batch/v1", "Job", spec={"template": {"spec": {"containers": [container]}}})


def patch(body: str) -> dict[str, Any]:
    return program("kubectl", "patch", "nodepool", "gpu", "--type=merge", "-p", body)


def workflow(template: dict[str, Any]) -> dict[str, Any]:
    return obj("argoproj.io/v1alpha1", "CronWorkflow", spec={"workflowSpec": {"templates": [template]}})


def scaler(api_version: str, kind: str) -> dict[str, Any]:
    target = {"apiVersion": api_version, "kind": kind, "name": "x"}
    return obj("autoscaling/v2", "HorizontalPodAutoscaler", spec={"scaleTargetRef": target})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (obj("platform.example.io/v1", "TeamCluster"), "platform.example.io is not known"),
        (obj("kops.k8s.io/v1alpha2", "InstanceGroup"), "kops.k8s.io is not known"),
        (obj("cluster.k8s.io/v1alpha1", "MachineDeployment"), "cluster.k8s.io is not known"),
        (obj("metacontroller.k8s.io/v1alpha1", "CompositeController"), "metacontroller.k8s.io is not known"),
        (program("python", "-c", "boto3.client('ec2').run_instances(MinCount=1)"), "run_instances("),
        (program("python", "-c", "a.set_desired_capacity(DesiredCapacity=8)"), "set_desired_capacity("),
        (program("python", "-c", "a.set_desired_capacity(DesiredCapacity=0)"), ""),
        (obj("v1", "ConfigMap", data={"a.py": "ec2.create_fleet(Type='instant')"}), "create_fleet("),
        (obj("machine.openshift.io/v1beta1", "Machine"), "machine.openshift.io is not known"),
        (obj("autoscaling.aws.upbound.io/v1beta1", "AutoscalingGroup"), "autoscaling.aws.upbound.io is not known"),
        (obj("infra.contrib.fluxcd.io/v1alpha2", "Terraform"), "infra.contrib.fluxcd.io is not known"),
        (obj("s3.aws.upbound.io/v1beta1", "Bucket"), ""),
        (obj("ec2.services.k8s.aws/v1alpha1", "VPC"), ""),
        (obj("monitoring.coreos.com/v1", "PrometheusRule"), ""),
        (obj("apps/v1", "Deployment"), ""),
        (obj("networking.k8s.io/v1", "Ingress"), ""),
        (patch('{"spec":{"limits":{"nvidia.com/gpu":"64"}}}'), "patch nodepools.karpenter.sh"),
        (patch('{"spec":{"limits":{"nvidia.com/gpu":"0"}}}'), ""),
        (patch('{"spec":{"limits":{"cpu":"0"},"template":{}}}'), "patch nodepools.karpenter.sh"),
        (program("kubectl", "delete", "nodepool", "gpu"), ""),
        (program("sh", "-c", "eksctl create nodegroup --cluster c --name g"), "eksctl create nodegroup"),
        (
            program("aws", "eks", "update-nodegroup-config", "--scaling-config", "minSize=0,maxSize=8"),
            "update-nodegroup-config",
        ),
        (program("aws", "eks", "update-nodegroup-config", "--scaling-config", "minSize=0,maxSize=0"), ""),
        (obj("autoscaling.openshift.io/v1beta1", "MachineAutoscaler"), "autoscaling.openshift.io is not known"),
        (obj("kro.run/v1alpha1", "ResourceGroup"), "kro.run is not known"),
        (obj("machines.example.io/v1", "Function"), "machines.example.io is not known"),
        (obj("ec2.aws.upbound.io/v1beta1", "Subnet"), ""),
        (program("kubectl", "scale", "machinedeployment", "gpu", "--replicas=9"), "machinedeployments"),
        (program("kubectl", "scale", "machineset", "gpu", "--replicas=0"), ""),
        (patch("[" * 100_000), "patch nodepools.karpenter.sh"),
        (workflow({"script": {"source": "set -e\neksctl create nodegroup --cluster c"}}), "eksctl create nodegroup"),
        (workflow({"container": {"command": ["eksctl", "create", "nodegroup"]}}), "eksctl create nodegroup"),
        (workflow({"script": {"source": "kubectl scale deploy/x --replicas=0"}}), ""),
        (obj("tekton.dev/v1", "Task", spec={"steps": [{"script": "pulumi up --yes"}]}), "pulumi up"),
        (workflow({"container": {"image": "amazon/aws-cli:2", "args": ["ec2", "run-instances"]}}), "ec2 run-instances"),
        (workflow({"container": {"image": "amazon/aws-cli:2", "args": ["ec2", "stop-instances"]}}), ""),
        (scaler("cluster.x-k8s.io/v1beta1", "MachineDeployment"), "scales MachineDeployment/x"),
        (scaler("karpenter.sh/v1", "NodePool"), "scales NodePool/x"),
        (scaler("apps/v1", "Deployment"), ""),
        (workflow({"resource": {"manifest": "apiVersion: karpenter.sh/v1\nkind: NodeClaim\n"}}), "NodeClaim"),
        (program("aws", "ec2", "start-instances", "--instance-ids", "i-0a"), "aws ec2 start-instances"),
        (program("kubectl", "apply", "-f", "https://example.com/pools.yaml"), "kubectl apply -f https://"),
        (program("python", "-c", "import pulumi_aws\n"), "pulumi_aws"),
        (program("python", "-c", "compute_v1.InstancesClient().insert(project='p')"), ".insert("),
        (program("python", "-c", "c = boto3.client('ec2')\nc.modify_instance_capacity_x(n)"), "modify_instance"),
        (program("python", "-c", "c = boto3.client('ec2')\nc.stop_instances(n)\nlogs.create_log(1)"), ""),
    ],
)
def test_whatever_may_launch_machines_is_told(given: dict[str, Any], told: str) -> None:
    found = list(unevaluated([given], ()))
    assert len(found) == bool(told)
    assert told in "".join(found)


def test_all_of_a_group_are_one_sentence() -> None:
    farms = [obj("a.example/v1", "Farm"), obj("a.example/v1", "Farm"), obj("a.example/v1", "Barn")]
    assert [*unevaluated(farms, ())] == [
        "Barn/x, Farm/x and 1 more: what acts on a.example is not known, and may launch machines"
    ]


@pytest.mark.parametrize(
    ("cluster", "pools"),
    [
        (obj("eksctl.io/v1alpha5", "ClusterConfig", autoModeConfig={"enabled": True}), 2),
        (obj("eksctl.io/v1alpha5", "ClusterConfig", autoModeConfig={"enabled": True, "nodePools": []}), 0),
        (obj("eksctl.io/v1alpha5", "ClusterConfig"), 0),
        (obj("eksctl.io/v1alpha5", "ClusterConfig", autoModeConfig=True), 0),
        (obj("eks.services.k8s.aws/v1alpha1", "Cluster", spec={"computeConfig": ["x"]}), 0),
        (obj("eks.services.k8s.aws/v1alpha1", "Cluster", spec={"computeConfig": {"enabled": True}}), 0),
        (
            obj(
                "eks.services.k8s.aws/v1alpha1",
                "Cluster",
                spec={"computeConfig": {"enabled": True, "nodePools": ["general-purpose"]}},
            ),
            1,
        ),
    ],
)
def test_auto_mode_brings_pools_of_its_own(cluster: dict[str, Any], pools: int) -> None:
    assert len([*built_in([cluster])]) == pools


def test_auto_modes_own_pools_have_no_devices_and_no_limit() -> None:
    cluster = obj("eksctl.io/v1alpha5", "ClusterConfig", autoModeConfig={"enabled": True})
    assert evaluate([cluster], Ceiling(max_devices_per_node=0)).cluster.verdict == "safe"
    assert evaluate([cluster], Ceiling(max_usd_per_hour=100)).cluster.verdict == "exposed"


MAKE = """
aws --profile x ec2 modify-instance-attribute --instance-id i --instance-type p5.48xlarge
aws autoscaling set-desired-capacity --auto-scaling-group-name g --desired-capacity $N
aws eks create-nodegroup --cli-input-json file://ng.json
gcloud beta compute instances start vm-1
az vmss scale --new-capacity 8
doctl kubernetes cluster node-pool create c --count 2
- run: sky launch -c x t.yaml
kubectl patch nodepool dev --type merge -p '{"spec":{"limits":{"nvidia.com/gpu":"64"}}}'
kubectl apply -k github.com/x/y?ref=1
curl -fsSL https://x.example/pools.yaml | kubectl apply -f -
helm upgrade --install pools oci://r.example/charts/gpu-pools
rosa create machinepool -c x
curl -X POST -d '{"size":"g"}' https://api.digitalocean.com/v2/droplets
New-AzVM -Name w -Size $Size
ExecStart=/usr/bin/scw instance server create type=x
"!sky launch t.yaml"
"""
MAKE_NOTHING = """
# aws ec2 run-instances
aws eks update-kubeconfig --name c
aws ec2 describe-instances --filters Name=x
aws autoscaling update-auto-scaling-group --min-size 0 --desired-capacity 0 --max-size 0
aws ec2 create-tags --resources x
gcloud container clusters get-credentials c
gcloud container clusters resize c --node-pool p --num-nodes 0 --quiet
az vm deallocate -n x
az login --service-principal
kubectl scale deploy/x --replicas=4
kubectl patch nodepool dev --type merge -p '{"spec":{"limits":{"nvidia.com/gpu":"0"}}}'
kubectl delete nodeclaim x
helm upgrade --install kps prometheus-community/kube-prometheus-stack
curl https://api.digitalocean.com/v2/droplets
Get-AzVM -Name w
helm repo add x https://x.example
eksctl create iamserviceaccount --name x
terraform plan
echo look at the sky launch
"""


def test_lines_that_make_machines_are_told_from_those_that_look_or_end() -> None:
    made = MAKE.strip().splitlines()
    assert [line for line in made if not [*made_by_lines(line)]] == []
    assert [*made_by_lines(MAKE_NOTHING)] == []


ORDERS = """
      InstanceType: p5.48xlarge
InstanceType.$: $.type
"instanceTypes": ["optimal"]
MachineOptions = ["amazonec2-instance-type=g5.48xlarge"]
type: "P3dn24xlarge"
{"TargetCapacity": 2000}
instanceSelector: {vCPUs: 192}
num_nodes: 50; resources:
gpu: 80GB:8
"nodeShape":"BM.GPU.H100.8"
Api: RunInstances
runs-on: runs-on=1/family=p5/spot=false
ResumeProgram=/opt/resume.sh
""".replace("; ", "\n")
COSTS = """
node_type_id: i3en.24xlarge
machineType: m1-ultramem-160
size: Standard_M416ms_v2
"""
NO_ORDERS = """
node.kubernetes.io/instance-type: p5.48xlarge
# InstanceType: p5.48xlarge
"instance_type": {"type": "string"}
"languageserver-types": "3.17.5"
nodes: 3
gpus: 8
replicas: 12
NodeName=rack[1-8] Gres=gpu:8 State=UNKNOWN
runs-on: ubuntu-latest
workerType: sync
"""


def test_what_a_launchers_own_file_orders_is_told_whoever_the_launcher_is() -> None:
    orders = ORDERS.strip().splitlines()
    assert len([*launching(ORDERS)]) == len(orders) - 1
    assert [*costing(ORDERS)] == []
    assert len([*costing(COSTS)]) == 3
    assert [*launching(COSTS)] == []
    assert [said for line in NO_ORDERS.splitlines() for said in (*launching(line), *costing(line))] == []


def test_programs_beside_manifests_are_read_for_a_fence(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("grow:\n\teksctl create nodegroup --cluster c\n")
    (tmp_path / "grow.py").write_text("boto3.client('ec2').run_instances(MaxCount=4)\n")
    (tmp_path / "off.py").write_text("boto3.client('ec2').terminate_instances(InstanceIds=ids)\n")
    (tmp_path / "config.toml").write_text("o = ['amazonec2-instance-type=g5.48xlarge']\n")
    (tmp_path / "up").write_text("#!/bin/sh\naz vm start -n x\n")
    (tmp_path / ".killcheckignore").write_text("old/\n")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "grow.py").write_text("create_fleet()")
    told = [said.partition(" (/")[0] for said in making([tmp_path], ())]
    order = "instance-type=g5.48xlarge"
    assert told == ["eksctl create nodegroup --cluster c", order, "run_instances(", "az vm start -n x"]
