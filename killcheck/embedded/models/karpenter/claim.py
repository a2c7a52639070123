"""Making NodeClaims: from a NodePool's template, and from what pending pods narrowed it to."""

from __future__ import annotations

import hashlib
import json

from killcheck.embedded.models.karpenter import names as n
from killcheck.embedded.models.karpenter.packing import Fresh, instance_type_names
from killcheck.embedded.models.karpenter.pool import Pool
from killcheck.instances.amounts import text, total
from killcheck.instances.launchable import Launchable, well_known
from killcheck.instances.requirements import Requirement, Requirements
from killcheck.kube.objects import Obj, copy, dig

__all__ = ["claim_for", "pool_hash", "static_claim"]


def pool_hash(pool: Pool) -> str:
    """What drift is judged by: a digest of the template without its requirements."""
    template = copy(dig(pool.obj, "spec", "template", default={}))
    template.get("spec", {}).pop("requirements", None)
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return str(int.from_bytes(digest[:8], "big"))


def claim_for(fresh: Fresh, types: Launchable) -> Obj:
    """The NodeClaim that the provisioner creates: its requirements name the types, cheapest first."""
    requirements = Requirements(fresh.requirements)
    names = instance_type_names(types, fresh.mask)
    requirements.add(Requirement.of(n.INSTANCE_TYPE, "In", names))
    offered = sorted({usage for one in types.members(fresh.mask) for usage in one.usage} & {"spot", "on-demand"})
    requirements.add(Requirement.of(n.CAPACITY_TYPE, "In", offered))
    claim = _claim(fresh.pool, requirements)
    needs = sorted(total([fresh.needs, fresh.overhead]).items())
    claim["spec"]["resources"] = {"requests": {name: text(name, value) for name, value in needs}}
    return claim


def static_claim(pool: Pool) -> Obj:
    """A static pool's NodeClaim: the pool's requirements as they are; the cloud provider chooses the type."""
    return _claim(pool, pool.requirements)


def _claim(pool: Pool, requirements: Requirements) -> Obj:
    template = pool.template
    known = well_known(pool.prefix)
    custom = {
        key: min(one.values)
        for key, one in requirements.items()
        if key not in known and not one.complement and one.values and key != n.HOSTNAME
    }
    annotations = dict(dig(pool.obj, "spec", "template", "metadata", "annotations", default={}))
    annotations |= {"karpenter.sh/nodepool-hash": pool_hash(pool), "karpenter.sh/nodepool-hash-version": "v3"}
    spec: Obj = {
        "requirements": requirements.entries(),
        "nodeClassRef": dict(pool.node_class),
        "expireAfter": pool.expire_after,
    }
    for field in ("taints", "startupTaints", "terminationGracePeriod"):
        if template.get(field):
            spec[field] = template[field]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "generateName": f"{pool.name}-",
            "labels": {**pool.labels, **custom},
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodePool",
                    "name": pool.name,
                    "uid": pool.uid,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
    }
