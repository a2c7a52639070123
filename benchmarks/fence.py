"""1,000 different NodePools against the whole catalogue, first and repeated. To reach: under 2 s.

python benchmarks/fence.py [pools]
"""

import random
import sys

from killcheck.clock import wall_seconds
from killcheck.fence import Ceiling, evaluate
from killcheck.instances.catalogue import shipped
from killcheck.instances.launchable import launchable

TO_REACH_S = 2.0
CATEGORIES = ["c", "m", "r", "t", "g", "p", "inf", "trn", "x", "i", "d"]


def pool(number, rng, types):
    """A NodePool as teams write them: some by name, some by category and bounds, most with limits."""
    prefix = "karpenter.k8s.aws/instance-"

    def asks(key, operator, *values):
        requirements.append({"key": key, "operator": operator, "values": list(values)})

    requirements = []
    asks("karpenter.sh/capacity-type", "In", *rng.sample(["spot", "on-demand"], rng.choice([1, 2])))
    asks("kubernetes.io/arch", "In", "amd64")
    kind = rng.random()
    if kind < 0.3:
        asks("node.kubernetes.io/instance-type", "In", *rng.sample(types, rng.randint(1, 12)))
    else:
        asks(prefix + "category", "In", *rng.sample(CATEGORIES, rng.randint(1, 6)))
        asks(prefix + "generation", "Gt", str(rng.randint(1, 6)))
        asks(prefix + "cpu", rng.choice(["Lt", "Gt"]), str(rng.randint(2, 192)))
        if kind > 0.7:
            asks(prefix + "gpu-count", "Lt", str(rng.randint(1, 9)))
        if kind > 0.9:
            asks(prefix + "family", "NotIn", *rng.sample(["p5", "g6", "m5", "c7i"], 2))
    limits = {"cpu": str(rng.randint(8, 4096))}
    if rng.random() < 0.5:
        limits["nvidia.com/gpu"] = str(rng.randint(0, 64))
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": f"pool-{number}"},
        "spec": {
            "limits": limits if rng.random() < 0.8 else {},
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": requirements,
                }
            },
        },
    }


def main(count=1000):
    """Print what it took; exit 1 where that is too long."""
    rng = random.Random(11)
    began = wall_seconds()
    catalogue = shipped()
    types = [one.name for one in launchable(catalogue).types]
    print(f"catalogue of {len(catalogue)} types: {wall_seconds() - began:.3f} s")
    pools = [pool(number, rng, types) for number in range(count)]
    ceiling = Ceiling(max_devices_per_node=1, max_usd_per_hour=100.0, forbidden_types=("p5*", "p6*"))
    took = 0.0
    for turn in ("first", "again"):
        began = wall_seconds()
        report = evaluate(pools, ceiling, catalogue)
        took = wall_seconds() - began
        verdicts = [result.verdict for result in report.results]
        print(
            f"{count} pools, {turn}: {took:.3f} s; "
            + ", ".join(f"{verdicts.count(v)} {v}" for v in ("safe", "exposed", "unproven"))
        )
    return 0 if took < TO_REACH_S * max(1.0, count / 1000) else 1


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
