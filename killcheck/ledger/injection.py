"""Containers that an injector adds to the pods of a switch: they are in no manifest, so nobody here ran beside them.

A sidecar that goes on keeps a Job from ending, and its proxy may not be there when the program asks its first question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.kube.injection import asked_for
from killcheck.kube.objects import Obj, annotations_of, dig, labels_of, name_of, namespace_of, ref_of
from killcheck.kube.workloads import templates
from killcheck.ledger.stakes import Stakes, home_of
from killcheck.spec.killpath import Ref
from killcheck.text import lazy_re

__all__ = ["brought", "entries"]

_SETTLES = (
    'leave its pods out (sidecar.istio.io/inject: "false" and the like), drill it on a cluster where the injector '
    "answers (--on CONTEXT), or say under assume: why the Job ends beside it"
)


@leaves("network", "sidecars that a webhook injects beside what turns GPUs off", Becomes.OPEN)
def entries(stakes: Stakes) -> Iterator[Entry]:
    """An open entry for each switch whose pods an injector is asked for."""
    for obj in stakes.switching():
        for template in templates(obj):
            mark = asked_for(template.metadata, stakes.namespace(home_of(obj)))
            if mark is not None:
                because = f"its pods ask an injector for containers ({mark}), and none were injected here"
                yield Entry(f"Injection/{ref_of(obj).partition('/')[2]}", Status.NOT_MODELLED, because, _SETTLES)


#: Where Vault's agent puts what it fetched, unless an annotation says otherwise.
_BROUGHT_TO = "/vault/secrets"
#: What says another place (developer.hashicorp.com, Vault Agent Injector annotations).
_PLACES = lazy_re.compile(r"(secret-volume-path|agent-inject-file)(-.*)?$")
#: What is said of a file that is not there, and a file. Two patterns: one of both takes minutes for a long line.
_NOT_THERE = lazy_re.compile(r"no such file|not found|cannot open|can.t open|does not exist|ENOENT", re.IGNORECASE)
_FILE = lazy_re.compile(r"/[\w./-]+")
#: The pod's own address: where a sidecar's proxy listens.
_OWN = lazy_re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):\d+", re.IGNORECASE)


def brought(objects: Iterable[Obj], ref: Ref, logs: Iterable[str]) -> str | None:
    """What an injector may have brought to a switch's pods and was not here: a file that they read, a proxy they ask.

    None: none is asked for, or nothing shows that they missed anything of it. ``logs``: what they said.
    """
    loaded = list(objects)
    found = [o for o in loaded if (o.get("kind"), namespace_of(o) or "default", name_of(o)) == _key(ref)]
    spaces = {name_of(o): o for o in loaded if o.get("kind") == "Namespace"}
    for template in (one for obj in found for one in templates(obj)):
        mark = asked_for(template.metadata, spaces.get(ref.namespace, {"metadata": {}}))
        if mark is None:
            continue
        said = annotations_of({"metadata": template.metadata}) | labels_of({"metadata": template.metadata})
        places = [
            _BROUGHT_TO,
            *(str(value) for key, value in said.items() if _PLACES.search(key) and "/" in str(value)),
        ]
        reads = next((place for place in places if place in str(dig(template.spec, "containers", default=[]))), None)
        missed = (_missed(line) for text in logs for line in text.splitlines())
        what = reads or next((one for one in missed if one is not None), None)
        if what is not None:
            return (
                f"{ref} needs {what}, its pods ask an injector for what may bring it ({mark}), and none answered here"
            )
    return None


def _missed(line: str) -> str | None:
    """The file that a line of a log says is not there, or the address on which nobody listens; None: neither."""
    said = _NOT_THERE.search(line)
    if said is not None:
        after = _FILE.search(line, said.end())
        files = [after[0]] if after is not None else _FILE.findall(line, 0, said.start())
        if files:
            return str(files[-1])
    own = _OWN.search(line)
    return own[0] if own is not None and "refused" in line[own.end() :].lower() else None


def _key(ref: Ref) -> tuple[str, str, str]:
    return ref.kind, ref.namespace or "default", ref.name
