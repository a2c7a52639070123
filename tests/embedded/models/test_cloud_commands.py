"""Command lines of clouds that size pools: what they answer, and what becomes of the pool."""

import shlex

import pytest
from test_node_groups import world_of

from killcheck.embedded.models.cloud_commands import CloudCommands
from killcheck.embedded.nodes.execution import Launch
from killcheck.images.contents import Contents

GROUPS = """
[{name: l4, instanceType: g2-standard-8, min: 2, max: 2, fixed: true, zones: [europe-west4-a, europe-west4-b]},
 {name: auto, instanceType: g2-standard-8, min: 1, max: 4, desired: 2},
 {name: t4, instanceType: Standard_NC4as_T4_v3, min: 2, max: 2, fixed: true},
 {name: asg, instanceType: g5.xlarge, min: 1, max: 4, desired: 2}]
"""
RESIZE = "gcloud container clusters resize prod --num-nodes"
LOGIN = "az login --service-principal -u $ID -t $TENANT --federated-token eyJ"
SCALE = "az aks nodepool scale -g rg --cluster-name prod"
ASG = "aws autoscaling set-desired-capacity --auto-scaling-group-name asg --desired-capacity"
#: What is called, one after the other; the last answer (None: nobody can tell); and least, most and wanted of the pool.
CALLED = {
    "for each zone": ([f"{RESIZE} 1 --node-pool l4 --zone z -q"], (0, ""), "l4", (2, 2, 2)),
    "to nothing": ([f"{RESIZE}=0 --node-pool=l4 --region=r --quiet --async"], (0, ""), "l4", (0, 0, 0)),
    "a track": ([f"gcloud beta {RESIZE[7:]} 0 --node-pool l4 --location r -q"], (0, ""), "l4", (0, 0, 0)),
    "without a person": ([f"{RESIZE} 0 --node-pool l4 --zone z"], (1, "not in an interactive session"), "l4", (2, 2, 2)),
    "nowhere": ([f"{RESIZE} 0 --node-pool l4 -q"], (1, "One of [--location, --zone, --region]"), "l4", (2, 2, 2)),
    "located before": (
        ["gcloud config set compute/zone z", f"{RESIZE} 0 --node-pool l4 -q"], (0, ""), "l4", (0, 0, 0)
    ),
    "autoscaled": ([f"{RESIZE} 1 --node-pool auto --zone z -q"], (0, ""), "auto", (1, 4, 1)),
    "below its autoscaler's least": ([f"{RESIZE} 0 --node-pool auto --zone z -q"], None, "auto", (1, 4, 2)),
    "its autoscaler off": (
        [
            "gcloud container node-pools update auto --cluster prod --zone z --no-enable-autoscaling",
            f"{RESIZE} 0 --node-pool auto --zone z -q",
        ],
        (0, ""), "auto", (0, 0, 0),
    ),
    "its least": (
        ["gcloud container clusters update prod --node-pool auto --zone z --enable-autoscaling --min-nodes 0"],
        (0, ""), "auto", (0, 4, 2),
    ),
    "another pool": ([f"{RESIZE} 0 --node-pool nope --zone z -q"], None, "l4", (2, 2, 2)),
    "a flag that nobody knows": ([f"{RESIZE} 0 --node-pool l4 --zone z -q --dry 1"], None, "l4", (2, 2, 2)),
    "something else": (["gcloud container clusters delete prod --zone z -q"], None, "l4", (2, 2, 2)),
    "no login": ([f"{SCALE} -n t4 -c 0"], (1, "Please run 'az login'"), "t4", (2, 2, 2)),
    "scaled": ([LOGIN, f"{SCALE} -n t4 -c 0"], (0, ""), "t4", (0, 0, 0)),
    "the same": ([LOGIN, f"{SCALE} --name t4 --node-count 2"], (1, "same as the current"), "t4", (2, 2, 2)),
    "scaled against its autoscaler": (
        [LOGIN, f"{SCALE} -n auto -c 0"], (1, "Cannot scale cluster autoscaler enabled"), "auto", (1, 4, 2)
    ),
    "its autoscaler off on AKS": (
        [LOGIN, "az aks nodepool update -g rg --cluster-name p -n auto -d", f"{SCALE} -n auto -c 0"],
        (0, ""), "auto", (0, 0, 0),
    ),
    "below a group's least": ([f"{ASG} 0"], (254, "New SetDesiredCapacity value 0 is below min value 1"), "asg", (1, 4, 2)),
    "a group's least and wanted": (
        ["aws autoscaling update-auto-scaling-group --auto-scaling-group-name asg --min-size 0 --desired-capacity 0"],
        (0, ""), "asg", (0, 4, 0),
    ),
    "EKS' most": (
        ["aws eks update-nodegroup-config --cluster-name p --nodegroup-name asg --scaling-config minSize=0,maxSize=0"],
        (252, "valid min value: 1"), "asg", (1, 4, 2),
    ),
    "EKS' sizes": (
        ["aws eks update-nodegroup-config --cluster-name p --nodegroup-name asg --scaling-config minSize=0,desiredSize=0"],
        (0, ""), "asg", (0, 4, 0),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world():
    """Four pools."""
    found = world_of(GROUPS, autoscaler=False)
    found.run(120)
    return found, found.cloud.sizes


@pytest.mark.parametrize("told", CALLED)
def test_what_is_answered_and_what_becomes_of_the_pool(world, told):
    lines, wanted, pool, sizes = CALLED[told]
    found, before = world
    found.cloud.sizes = before
    commands = CloudCommands(found.cloud, found.kube)
    pod = {"metadata": {"name": "off", "namespace": "ops", "uid": told}, "spec": {"serviceAccountName": "night"}}
    launch = Launch(pod, "c", [], {}, [], Contents(frozenset()), "cli")
    *_, last = [commands(launch, shlex.split(line)) for line in lines]
    if wanted is None:
        assert isinstance(last, str)
    else:
        assert last[0] == wanted[0], last
        assert wanted[1] in last[1]
    assert found.cloud.sizes[pool][:3] == sizes
    assert [doubt.about for doubt in commands.unproven] == ([f"NodePool/{pool}"] if wanted == (0, "") else [])
