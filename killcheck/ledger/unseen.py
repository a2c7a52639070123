"""What a drill takes for granted of things that no model of ours knows: said under the verdict, each with its object.

Sources: istio.io, ambient mode (label ``istio.io/dataplane-mode``, a pod's goes before its namespace's);
kueue.sigs.k8s.io, ClusterQueue
(``fairSharing``, ``preemption.borrowWithinCohort``), Configuration (``waitForPodsReady``), ResourceFlavor
(``topologyName``), partial admission (annotation
``kueue.x-k8s.io/job-min-parallelism`` of a Job); karpenter.sh, Utilizing ODCRs and Capacity Blocks
(``capacityReservationSelectorTerms``; capacity type ``reserved``); cloud.google.com, Workload Identity Federation for
GKE (annotation of the ServiceAccount); azure.github.io/azure-workload-identity (the same, ``client-id``);
docs.aws.amazon.com, EKS Pod Identity (ACK: PodIdentityAssociation ``spec.namespace``, ``spec.serviceAccount``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from posixpath import basename

from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.executor.calendar import own_clock
from killcheck.kube.objects import Obj, annotations_of, dig, items, labels_of, name_of, ref_of
from killcheck.kube.secret_text import kept, secrets_of, unread
from killcheck.kube.workloads import PodTemplate, templates
from killcheck.ledger.stakes import Held, Stakes, home_of
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["entries"]

_MESH = "istio.io/dataplane-mode"
#: What gives a pod's account an identity in a cloud, other than by a file that a fault takes away.
_IDENTITIES = {
    "iam.gke.io/gcp-service-account": "GKE's workload identity",
    "azure.workload.identity/client-id": "Azure's workload identity",
}
#: How few pods of a Job Kueue may let run.
_LEAST = "kueue.x-k8s.io/job-min-parallelism"


def entries(stakes: Stakes) -> Iterator[Entry]:
    """An assumption for each: a mesh without sidecars, a Secret that somebody renews, a queue that does more."""
    named = {(ref.kind, ref.namespace, ref.name) for ref in stakes.switches}
    for obj in stakes.objects:
        if (obj.get("kind"), home_of(obj), name_of(obj)) in named:
            yield from _meshed(stakes, obj)
            yield from _left_out(stakes, obj)
            yield from _queued(stakes, obj)
            yield from _shares_a_volume(stakes, obj)
            yield from _renewed(stakes, obj)
            yield from _by_own_clock(stakes, obj)
            yield from _logged_in(stakes, obj)
            yield from _for_audience(obj)
    if stakes.queues:
        yield from map(_queue, filter(_does_more, stakes.objects))
        yield from (_in_part(held) for held in stakes.targets if held.obj and _LEAST in annotations_of(held.obj))
    yield from (_reserved(obj) for obj in stakes.objects if name_of(obj) in stakes.pools and _may_reserve(stakes, obj))


@leaves("network", "a mesh without sidecars (Istio's ambient mode)", Becomes.SAID)
def _meshed(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    for template in templates(switch):
        namespace = labels_of(stakes.namespace(home_of(switch)))
        said = dig(template.metadata, "labels", default={}).get(_MESH) or namespace.get(_MESH)
        if said == "ambient":
            because = (
                f"its packets go through a mesh ({_MESH}: ambient), which was not there: taken to let them through"
            )
            yield Entry(ref_of(switch), Status.ASSUMED, because)


def _left_out(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    """What a switch would be told if it were there: a word in its environment may be all that keeps it from acting."""
    home = home_of(switch)
    known = {(str(obj.get("kind")), home_of(obj), name_of(obj)) for obj in stakes.objects}
    elsewhere = {(home_of(obj), kept(obj) or name_of(obj)) for obj in stakes.objects if kept(obj) or _sealed(obj)}
    for template in templates(switch):
        texts = list(_texts(stakes, switch, template))
        for container in (
            *dig(template.spec, "initContainers", default=[]),
            *dig(template.spec, "containers", default=[]),
        ):
            for kind, source, variable in _sources(container):
                name = str(source.get("name"))
                absent = source.get("optional") is True and (kind, home, name) not in known
                if absent and not _tells_too_late(stakes, switch, template, container, variable):
                    heard = bool(variable) or _heeds(stakes, switch, template, container, texts)
                    yield _not_there(f"{kind}/{home}/{name}", switch, heard=heard)
                elif kind == "Secret" and (home, name) in elsewhere:
                    asked = [one for one in _compared(container, texts) if variable in ("", one)]
                    asked = [one for one in asked if not _tells_too_late(stakes, switch, template, container, one)]
                    because = f"what it holds is kept elsewhere, and {ref_of(switch)} goes by ${''.join(asked[:1])}"
                    if asked:
                        yield Entry(f"Secret/{home}/{name}", Status.NOT_MODELLED, because, _SAID)


def _not_there(source: str, switch: Obj, *, heard: bool) -> Entry:
    """A source that may be elsewhere: open where the switch goes by what it holds, else said."""
    if heard:
        because = f"it is optional and not among the manifests: what it would tell {ref_of(switch)} is not known"
        return Entry(source, Status.NOT_MODELLED, because, _ADD)
    because = f"it is optional and not among the manifests; {ref_of(switch)} names none of its variables: taken to hold"
    return Entry(source, Status.ASSUMED, f"{because} none that its programs heed by themselves (HTTPS_PROXY)")


def _heeds(stakes: Stakes, switch: Obj, template: PodTemplate, container: Obj, texts: list[str]) -> bool:
    """Whether a program may go by a variable that nothing here sets: its words name one, or are not all known."""
    reading = stakes.reading(switch, template)
    programs = {basename(words[0]) for words in reading.commands if words}
    if reading.not_understood or not programs or not programs <= _KNOWN or any(map(_ASKS_FOR_MORE.search, texts)):
        return True
    given = {str(one.get("name")) for one in container.get("env") or () if "value" in one}
    return any(set(_named(text)) - given - set(_set_before(text)) for text in texts)


def _named(text: str) -> dict[str, int]:
    """The variables that a script names, and where each is first."""
    found: dict[str, int] = {}
    for one in (*_VARIABLE.finditer(text), *_EXPANDED.finditer(text)):
        found[one[1]] = min(one.start(), found.get(one[1], len(text)))
    return found


def _set_before(text: str) -> Iterator[str]:
    """The variables that a script sets before it names them, on every way through it."""
    named, branch = _named(text), _BRANCHES.search(text)
    straight = branch.start() if branch else len(text)
    for one in _SETS.finditer(text):
        name = one["name"] or one["each"]
        if name in named and named[name] >= one.end() and (one["each"] or one.start() < straight):
            yield name


def _queued(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    """A switch whose Jobs wait for a queue of Kueue's that no manifest holds: here they were let go at once."""
    queue = labels_of(dig(switch, "spec", "jobTemplate", default={})).get(_QUEUE)
    held = {(home_of(obj), name_of(obj)) for obj in stakes.objects if obj.get("kind") == "LocalQueue"}
    if queue and (home_of(switch), queue) not in held:
        because = f"its Jobs wait for LocalQueue {home_of(switch)}/{queue}, which is not among the manifests"
        yield Entry(ref_of(switch), Status.NOT_MODELLED, because, _LET_GO)


def _shares_a_volume(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    """A volume that one node alone may have, and that a target, or whatever else runs on, has already.

    Pods here come to it wherever they are: kubelets ask no driver, and nothing is attached (kubernetes.io, Persistent
    Volumes, access modes; ``Multi-Attach error`` of the attach/detach controller).
    """
    wanted = {name for template in templates(switch) for name in _claims(template)}
    for obj in stakes.objects if wanted else ():
        stays = obj.get("kind") not in ("CronJob", "Job") or stakes.is_target(obj)
        if obj is switch or home_of(obj) != home_of(switch) or not stays:
            continue
        for name in sorted(wanted & {one for template in templates(obj) for one in _claims(template, obj)}):
            modes = _modes(stakes, home_of(obj), name)
            if not set(modes or ()) & {"ReadWriteMany", "ReadOnlyMany"}:
                said = ", ".join(modes) if modes else "of which no manifest tells how many nodes may have it"
                because = (
                    f"it waits for PersistentVolumeClaim {home_of(obj)}/{name} ({said}), which {ref_of(obj)} has on "
                    "its own node: that it may be had on another one too was not seen"
                )
                yield Entry(ref_of(switch), Status.NOT_MODELLED, because, _OWN_VOLUME)


def _claims(template: PodTemplate, obj: Obj | None = None) -> Iterator[str]:
    """The names of the claims that its pods wait for; of a StatefulSet also those that it makes for its first ones."""
    yield from (
        str(dig(one, "persistentVolumeClaim", "claimName", default=""))
        for one in template.spec.get("volumes") or ()
        if "persistentVolumeClaim" in one
    )
    for made in dig(obj or {}, "spec", "volumeClaimTemplates", default=[]):
        yield from (
            f"{dig(made, 'metadata', 'name')}-{name_of(obj or {})}-{number}"
            for number in range(min(template.count, _MOST_OF_A_SET))
        )


def _modes(stakes: Stakes, home: str, name: str) -> list[str]:
    found = (o for o in stakes.objects if o.get("kind") == "PersistentVolumeClaim" and name_of(o) == name)
    return next((list(dig(o, "spec", "accessModes", default=[])) for o in found if home_of(o) == home), [])


#: So many pods of a StatefulSet are looked at: nobody runs more, and a number in a manifest may be any.
_MOST_OF_A_SET = 1000
_OWN_VOLUME = (
    "give the switch no volume of others, or one of accessModes ReadWriteMany; or say under assume: why it gets it"
)


def _by_own_clock(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    """What asks for the time in a way that is answered by this host: on which nights it acts was not seen."""
    for template in templates(switch):
        asked = own_clock(list(_texts(stakes, switch, template)))
        if asked is not None:
            because = f"it goes by the time that '{asked}' says: that was this host's, on every night that was drilled"
            yield Entry(ref_of(switch), Status.NOT_MODELLED, because, _BY_DATE)


def _texts(stakes: Stakes, switch: Obj, template: PodTemplate) -> Iterator[str]:
    """The words that its containers are started with, and those of the ConfigMaps that it names: scripts lie there."""
    for kind in ("initContainers", "containers"):
        yield from (word for one in dig(template.spec, kind, default=[]) for word in _spoken(one))
    named = str(template.spec)
    for (home, name), one in stakes.config_maps.items():
        if home == home_of(switch) and repr(name) in named:
            yield from map(str, (one.get("data") or {}).values())


def _spoken(container: Obj) -> Iterator[str]:
    yield from (str(word) for word in (*items(container.get("command")), *items(container.get("args"))))


_BY_DATE = (
    "let date(1) say the time, drill it on a real cluster (--on CONTEXT), or say under assume: why it acts each night"
)
_QUEUE = "kueue.x-k8s.io/queue-name"
_LET_GO = (
    "add its queue to the manifests, take the label from its Jobs, or say under assume: that it always lets them go"
)
_ADD = "add it to the manifests, or say under assume: that it is nowhere"
_SAID = "let it go by a ConfigMap among the manifests, or say under assume: that it says nothing against it"
#: A comparison in a script, and the variables of it. Whether one is there at all (``-z``, ``-n``) is none. So far
#: behind where one begins its end is looked for, in characters.
_TESTS = lazy_re.compile(r"(?<![\w$])(?:\[\[?|test|case|if)(?=\s)")
_COMPARES = lazy_re.compile(r"=|\s-(?:eq|ne|gt|ge|lt|le)\s")
#: A variable that is a command: ``if $HOLD; then``.
_ALONE = lazy_re.compile(r"\s*(?:!\s+)?\"?\$\{?\w+\}?\"?\s*")
_ENDS = {"[[": "]]", "[": " ]", "case": " in"}
_LONGEST_TEST, _MOST_NAMED = 400, 50
#: ...and what is looked for in one: ``echo "$HOLD" | grep -q on``, ``grep -q on <<< "$HOLD"``.
_SEARCHED = lazy_re.compile(
    r"\b(?:echo|printf)\b([^\n;&|]{0,200})\|\s*[ef]?grep\b|\bgrep\b[^\n;&|]{0,200}<<<([^\n;&|]{0,200})"
)
#: What Python compares of its environment, there and then or by the name that it gave it.
_ENVIRON = r"""(?:environ(?:\.get)?\s{0,9}[\[(]|getenv\()\s{0,9}["'](\w+)["']"""
_COMPARED = lazy_re.compile(_ENVIRON + r"[^\n]{0,80}?(?:==|!=|\bin\b|\bis\b)")
_CALLED = lazy_re.compile(r"(?m)^[ \t]*(\w+)[ \t]*=[^\n=]{0,80}?" + _ENVIRON)
_VARIABLE = lazy_re.compile(r"\$\{?([A-Za-z_]\w*)")
#: ...as a manifest's own words have it.
_EXPANDED = lazy_re.compile(r"\$\(([A-Za-z_]\w*)\)")
#: What a program hears besides: lengths, indirections, arithmetic, all that is set, and what bash and jq do by names.
_ASKS_FOR_MORE = lazy_re.compile(
    r"\$\{[#!]|\(\(|\[\[|\s-v\b|\benv\b|environ|(?<!kubectl )\bset\b(?![-\w]|\s+[-+])"
    r"|\b(?:export|declare|typeset|local)\s+-p"
)
#: Where a variable is set: by itself, or one after the other of several.
_SETS = lazy_re.compile(
    r"(?:^|;)[ \t]*(?:export[ \t]+)?(?P<name>\w+)=(?:[^\s;&|\"'$(]{0,200}|\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'"
    r"|\$\([^\n]{0,400}\))[ \t]*(?=;|$)|\b(?:for|read|read -r)[ \t]+(?P<each>\w+)\b",
    re.MULTILINE,
)
_BRANCHES = lazy_re.compile(r"\b(?:if|case|while|until|for|function|trap)\b|&&|\|\||\(\)|[{]\s")
_MADE = lazy_re.compile(r"\b(?:read(?: -r)?|for|local|export|printf -v) +(\w+)|(?:^|[;&|\s])(\w+)=", re.MULTILINE)


def _sealed(obj: Obj) -> bool:
    return obj.get("kind") == "Secret" and unread(obj) is not None


def _compared(container: Obj, texts: Iterable[str]) -> list[str]:
    """The variables that scripts compare with something, apart from those that they, or a manifest, set."""
    script = "\n".join(texts)
    own = {str(one.get("name")) for one in container.get("env") or () if "value" in one}
    own |= {name for pair in _MADE.findall(script) for name in pair}
    asked = [name for said in _tested(script) for name in _VARIABLE.findall(said)]
    given = list(dict.fromkeys(_CALLED.findall(script)))[:_MOST_NAMED]
    asked += [*_COMPARED.findall(script), *(variable for name, variable in given if _asks(script, name))]
    return [name for name in dict.fromkeys(asked) if name not in own]


def _tested(script: str) -> Iterator[str]:
    """What a shell's script compares, or looks for something in."""
    for found in _TESTS.finditer(script):
        rest = script[found.end() : found.end() + _LONGEST_TEST].partition("\n")[0]
        end = _ENDS.get(found[0])
        said = rest.partition(end)[0] if end else re.split("[;&|]", rest, maxsplit=1)[0]
        if found[0] == "case" or (_ALONE.fullmatch if found[0] == "if" else _COMPARES.search)(said):
            yield said
    yield from (" ".join(found) for found in _SEARCHED.findall(script))


def _asks(script: str, name: str) -> bool:
    """Whether a Python program compares what it calls so."""
    return re.search(rf"\b{name}\b[^\n=]{{0,40}}?(?:==|!=|\bin\b)", script) is not None


#: Variables that say whom to tell. What programs heed by themselves (a proxy, a kubeconfig, a path) is none.
_TO_TELL = lazy_re.compile(r"(?i)\w*(slack|teams|discord|webhook|pagerduty|opsgenie|sentry|notif|alert|mail|smtp)\w*")
#: What makes a script run otherwise than from its first line to its last.
_NOT_IN_ORDER = lazy_re.compile(r"\b(while|until|for|trap|function|eval|source)\b|\(\)|&\s*$", re.MULTILINE)


def _tells_too_late(stakes: Stakes, switch: Obj, template: PodTemplate, container: Obj, variable: str) -> bool:
    """Whether a script names a variable of whom to tell only after all that it writes: that is done by then."""
    command = [str(word) for word in (*items(container.get("command")), *items(container.get("args")))]
    script = command[-1] if command else ""
    plain = len(command) == _SHELL and basename(command[0]) in _SHELLS and command[1].lstrip("-").endswith("c")
    if not (plain and variable in script and _TO_TELL.fullmatch(variable)) or _NOT_IN_ORDER.search(script):
        return False
    before = script[: script.index(variable)].rpartition("\n")[0]
    whole, done = (
        stakes.reading(switch, replace(template, spec={"containers": [_saying(container, command, text)]}))
        for text in (script, before)
    )
    deaf = {basename(words[0]) for words in done.commands} <= _DEAF
    return deaf and bool(whole.writes) and whole.writes == done.writes and not done.not_understood


def _saying(container: Obj, command: list[str], text: str) -> Obj:
    return {**container, "command": [*command[:-1], text], "args": []}


#: Programs that look at no such variable.
_DEAF = frozenset({"kubectl", "sleep", "date", "echo"})
#: ``sh -c SCRIPT``.
_SHELL = 3
_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
#: ...and those that go by their words, proxies and kubeconfigs apart.
_KNOWN = _DEAF | _SHELLS | {"curl", "jq", "xargs", "grep", "set", "test", "true"}


def _sources(container: Obj) -> Iterator[tuple[str, Obj, str]]:
    """(kind, reference, variable) of what fills a container's environment; all of a source has no variable."""
    given = [
        *(("", one) for one in dig(container, "envFrom", default=[])),
        *((str(one.get("name")), one.get("valueFrom") or {}) for one in container.get("env") or ()),
    ]
    for variable, one in given:
        for key, kind in (
            ("secretRef", "Secret"),
            ("secretKeyRef", "Secret"),
            ("configMapRef", _MAP),
            ("configMapKeyRef", _MAP),
        ):
            if isinstance(one.get(key), dict):
                yield kind, one[key], variable


_MAP = "ConfigMap"


@leaves("credentials", "whether External Secrets, Vault and cert-manager go on renewing a Secret", Becomes.SAID)
def _renewed(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    wanted = {name for template in templates(switch) for name in secrets_of(template.spec)} - {""}
    for obj in stakes.objects:
        name = kept(obj)
        if name in wanted and home_of(obj) == home_of(switch):
            because = f"it renews Secret {home_of(obj)}/{name}, which {ref_of(switch)} reads: taken to go on doing so"
            yield Entry(ref_of(obj), Status.ASSUMED, because)


def _does_more(obj: Obj) -> bool:
    """Whether a queue, or a flavour of it, asks for what the model of Kueue leaves out."""
    if obj.get("kind") == "ResourceFlavor":
        return bool(dig(obj, "spec", "topologyName"))
    if obj.get("kind") == _MAP:  # Kueue's own configuration
        return any(_KUEUES in text and _WAITS.search(text) for text in map(str, (obj.get("data") or {}).values()))
    borrows = dig(obj, "spec", "preemption", "borrowWithinCohort", "policy", default="Never") != "Never"
    return obj.get("kind") in ("ClusterQueue", "Cohort") and (borrows or bool(dig(obj, "spec", "fairSharing")))


#: Kueue's configuration, where it waits for pods to get ready (and evicts what does not), or shares fairly.
_KUEUES, _WAITS = "config.kueue.x-k8s.io", lazy_re.compile(r"(?m)^(?:waitForPodsReady|fairSharing):")


@leaves("Kueue", "topology, fair sharing, preemption while borrowing, waitForPodsReady", Becomes.SAID)
def _queue(obj: Obj) -> Entry:
    because = "topology, fair sharing, preemption while borrowing and waiting for ready pods are not modelled: "
    because += "admitted by quota alone"
    return Entry(ref_of(obj), Status.ASSUMED, because)


@leaves("Kueue", "partial admission", Becomes.SAID)
def _in_part(held: Held) -> Entry:
    because = f"Kueue may admit a part of it ({_LEAST}), which is not modelled: all of its pods or none were admitted"
    return Entry(str(held), Status.ASSUMED, because)


@leaves("credentials", "EKS Pod Identity, workload identity of GKE and AKS: whether they go on", Becomes.SAID)
def _logged_in(stakes: Stakes, switch: Obj) -> Iterator[Entry]:
    """The identity in a cloud that a switch's account is given: nobody here takes it away."""
    home = home_of(switch)
    for template in templates(switch):
        account = str(template.spec.get("serviceAccountName") or "default")
        marks = annotations_of(stakes.accounts.get((home, account), {"metadata": {}}))
        by = [how for mark, how in _IDENTITIES.items() if mark in marks]
        by += [
            ref_of(obj)
            for obj in stakes.objects
            if obj.get("kind") == "PodIdentityAssociation"
            and (dig(obj, "spec", "namespace"), dig(obj, "spec", "serviceAccount")) == (home, account)
        ]
        for how in by:
            because = f"ServiceAccount {home}/{account} has its identity in a cloud by {how}: taken to go on having it"
            yield Entry(ref_of(switch), Status.ASSUMED, because)


@leaves(
    "credentials",
    "which audiences a cluster's API server takes, of those that a token is asked for by name",
    Becomes.SAID,
)
def _for_audience(switch: Obj) -> Iterator[Entry]:
    """A token for one of the defaults, by name: another cluster has another (kubeadm's, EKS', GKE's own)."""
    for template in templates(switch):
        for volume in template.spec.get("volumes") or ():
            for source in dig(volume, "projected", "sources", default=[]):
                audience = str(dig(source, "serviceAccountToken", "audience", default=""))
                if "kubernetes.default.svc" in audience:
                    because = f"its token is for audience {audience}: the API server is taken to be one that takes it"
                    yield Entry(ref_of(switch), Status.ASSUMED, because)


def _may_reserve(stakes: Stakes, pool: Obj) -> bool:
    """Whether a pool's machines may come out of capacity that is paid for anyway. As the fence reads it."""
    spec = dig(pool, "spec", "template", "spec", default={}) if pool.get("kind") == "NodePool" else {}
    wanted = next((one for one in spec.get("requirements") or () if one.get("key") == _CAPACITY), None)
    listed = "reserved" in (wanted or {}).get("values", ())
    if wanted is not None and listed is not (wanted.get("operator") == "In"):
        return False
    named = dig(spec, "nodeClassRef", "name", default="")
    classes = (obj for obj in stakes.objects if obj.get("kind") == "EC2NodeClass" and name_of(obj) == named)
    return any(dig(obj, "spec", "capacityReservationSelectorTerms") for obj in classes)


_CAPACITY = "karpenter.sh/capacity-type"


@leaves("fences", "capacity reservations and blocks: what they bill while no machine uses them", Becomes.SAID)
def _reserved(pool: Obj) -> Entry:
    because = (
        "its machines may come out of a capacity reservation or block, which is paid for also where none is on: that "
        "the bill stops was not seen"
    )
    return Entry(ref_of(pool), Status.ASSUMED, because)
