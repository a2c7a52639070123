"""Quotas, queues, ranges and pools side by side, in what each lets a kill path have of GPUs."""

import pytest

from killcheck.fence.ceiling import Ceiling
from killcheck.fence.evaluate import evaluate

POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "a10"},
    "spec": {
        "limits": {"nvidia.com/gpu": 6},
        "template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a10"}}},
    },
}
GPU = "nvidia.com/gpu"


def queue(name, nominal, cohort="", version="v1beta1", **more):
    resource = {"name": GPU, "nominalQuota": nominal, **{k: v for k, v in more.items() if k.endswith("Limit")}}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "spot", "resources": [resource]}]}]
    spec = {"resourceGroups": groups, **({"stopPolicy": more["stop"]} if "stop" in more else {})}
    if cohort:
        spec["cohort" if version == "v1beta1" else "cohortName"] = cohort
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus", "namespace": "nlp"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "5"}},
}
RANGE = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "one", "namespace": "nlp"},
    "spec": {"limits": [{"type": "Container", "max": {GPU: "2"}}]},
}


@pytest.mark.parametrize(
    ("objects", "lines"),
    [
        ([], []),
        ([QUOTA], ["ResourceQuota/nlp/gpus: 5", "NodePool/a10: 6"]),
        ([RANGE], ["LimitRange/nlp/one: 2 a container", "NodePool/a10: 6"]),
        ([queue("team", 4)], ["ClusterQueue/team: 4", "NodePool/a10: 6"]),
        (
            [queue("team", 4, "all"), queue("other", 3, "all", version="v1beta2")],
            [
                "ClusterQueue/team: 4, and 3 borrowed from cohort all",
                "ClusterQueue/other: 3, and 4 borrowed from cohort all",
            ],
        ),
        (
            [queue("team", 4, "all", borrowingLimit=1), queue("other", 3, "all", lendingLimit=2)],
            [
                "ClusterQueue/team: 4, and 1 borrowed from cohort all",
                "ClusterQueue/other: 3, and 4 borrowed from cohort all",
            ],
        ),
        ([queue("team", 4, "all"), queue("other", 3, "all", lendingLimit=0)], ["ClusterQueue/team: 4"]),
        ([queue("team", 4, stop="Hold")], ["ClusterQueue/team: 4; stopPolicy Hold"]),
    ],
)
def test_every_bound_has_its_line(objects, lines):
    notes = evaluate([POOL, *objects], Ceiling(max_devices_per_node=1)).notes
    told = [
        note.removeprefix("nvidia.com/gpu at most: ") for note in notes if note.startswith("nvidia.com/gpu at most")
    ]
    assert told[: len(lines)] == lines
    assert bool(told) is bool(objects)
