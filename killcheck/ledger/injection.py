"""Containers that an injector adds to the pods of a switch: they are in no manifest, so nobody here ran beside them.

A sidecar that goes on keeps a Job from ending, and its proxy may not be there when the program asks its first question.
"""

from __future__ import annotations

from collections.abc import Iterator

from killcheck.entries import Entry, Status
from killcheck.kube.injection import asked_for
from killcheck.kube.objects import name_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.ledger.stakes import Stakes, home_of

__all__ = ["entries"]

_SETTLES = (
    'leave its pods out (sidecar.istio.io/inject: "false" and the like), drill it on a cluster where the injector '
    "answers (--on CONTEXT), or say under assume: why the Job ends beside it"
)


def entries(stakes: Stakes) -> Iterator[Entry]:
    """An open entry for each switch whose pods an injector is asked for."""
    named = {(ref.kind, ref.namespace, ref.name) for ref in stakes.switches}
    for obj in stakes.objects:
        if (obj.get("kind"), home_of(obj), name_of(obj)) not in named:
            continue
        for template in templates(obj):
            mark = asked_for(template.metadata, stakes.namespace(home_of(obj)))
            if mark is not None:
                because = f"its pods ask an injector for containers ({mark}), and none were injected here"
                yield Entry(f"Injection/{ref_of(obj).partition('/')[2]}", Status.NOT_MODELLED, because, _SETTLES)
