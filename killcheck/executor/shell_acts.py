"""What a command asks of the outside, as far as it decides anything: kubectl, curl, clouds, and programs unheard of.

What may *not* live here: how a script comes to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import basename

from killcheck.executor import kubectl_calls
from killcheck.executor.api_calls import ApiCall, HttpCommand, call_of_url, curl, wget
from killcheck.executor.resting import (
    KNOWN,
    Ground,
    Kind,
    Source,
    Unreadable,
    Value,
    joined,
    known,
    read_of,
    unknown,
)
from killcheck.executor.shell_filters import chosen, paths_of
from killcheck.executor.shell_script import UNKNOWN
from killcheck.kube.workloads import STOP_MARKS
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["acts", "made_call", "read_call"]

_Result = tuple[Value, Value]

#: Resources that turn nothing off, where something else is written.
_ASIDE = frozenset(
    """
    events configmaps secrets leases tokenreviews subjectaccessreviews selfsubjectaccessreviews serviceaccounts
    localsubjectaccessreviews
    """.split()
)
#: Commands of kubectl that say the same each night.
_FIXED = frozenset(
    "config version cluster-info api-resources api-versions auth explain completion options plugin kustomize".split()
)
#: Clouds' command lines and others that act on what is not Kubernetes; what they are told to do where they turn off.
_CLOUD = frozenset({"aws", "gcloud", "az", "eksctl", "doctl", "oci", "terraform", "tofu", "pulumi", "systemctl", "ssh"})
_OPAQUE = frozenset({"helm", "argocd", "flux", "kubeadm", "keda", "ansible", "ansible-playbook", "kustomize"})
_TURNS_OFF = lazy_re.compile(
    r"\b(?:terminat|delet|destroy|stop|scal|resiz|dealloc|updat|set-|set\b|suspend|uninstall|upgrade|apply|modify|kill"
    r"|poweroff|shutdown|rollback|down\b)"
)
_SIGNS_IN = lazy_re.compile(
    r"\b(?:configure|login|auth|get-credentials|update-kubeconfig|assume-role|get-token|get-caller-identity|config)\b"
)
#: As whom a machine may act, and where it is, by its cloud's metadata: it answers each night, and that it
#: lapses is what faults are for. What the cloud does to the machine (``spot/instance-action``) is another night's.
_METADATA = r"^\w+://(?:169\.254\.169\.254|169\.254\.170\.23?|metadata\.google\.internal|metadata)(?::\d+)?/\S*?"
_CREDENTIALS = lazy_re.compile(_METADATA + r"(?:\btoken\b|security-credentials|/credentials\b|/project/)")
_WHERE = lazy_re.compile(_METADATA + r"(?:instance-identity|/identity\b|placement/|instance/zone)")
_OF_METADATA = lazy_re.compile(r"metadata\.(?:name|namespace)[!=]+[^,]*")
#: A list of so few that there may be more, and what asks for these.
_FEW = lazy_re.compile(r"[?&]limit=(\d{1,2})(?=[&\s\"']|$)")
_PAGES = lazy_re.compile(r"continue[\"'=\]]|\b_continue\b|metadata\.continue\b")
_TESTED = lazy_re.compile(r"[\"']op[\"']\s*:\s*[\"']test[\"']")


def acts(ground: Ground, name: str, words: Sequence[Value], stdin: Value, shown: str) -> _Result:
    """(exit code, output) of a command that asks the outside; what it changes is noted in ``ground``."""
    rests = joined([*words, stdin] if any(word.text in ("-", "-f-") for word in words) else words).rests
    texts = [UNKNOWN if word.text is None else word.text for word in words]
    if name in ("kubectl", "oc", "kubecolor", "microk8s.kubectl"):
        if texts[1:2] == ["adm"]:
            texts = [texts[0], *texts[2:]]
        return _kubectl(ground, texts, rests, stdin, shown)
    if name in ("curl", "wget"):
        return _http(ground, curl(texts) if name == "curl" else wget(texts), rests, shown)
    if name in _CLOUD or name in _OPAQUE:
        return _elsewhere(ground, name, texts, rests, shown)
    ground.strange = True
    ground.act(shown, rests, aside=True)  # it may be what turns them off, where nothing else is seen to
    return rests | unknown(Kind.PROGRAM, f"what {name} says", name), rests | unknown(
        Kind.PROGRAM, f"what {name} says", name
    )


def _elsewhere(ground: Ground, name: str, texts: Sequence[str], rests: Value, shown: str) -> _Result:
    said = " ".join(texts[1:])
    if _SIGNS_IN.search(said):
        return KNOWN, rests
    if _TURNS_OFF.search(said) or name in ("ssh", "systemctl"):
        ground.act(shown, rests)
        return KNOWN, rests
    if re.search(r"\b(?:publish|send|put|cp|sync|create|tag)\b", said):
        ground.act(shown, rests, aside=True)
        return unknown(Kind.PROGRAM, f"whether {name} answers", name), rests
    found = rests | unknown(Kind.LOOKS, f"what {name} says", name)
    return found, found


# -- kubectl -----------------------------------------------------------------------------------------------------
def _kubectl(ground: Ground, texts: list[str], rests: Value, stdin: Value, shown: str) -> _Result:
    world = ground.world
    line = kubectl_calls.command_line(texts[1:])
    verb = line.words[0] if line.words else ""
    if UNKNOWN in verb:
        raise Unreadable("a command of kubectl that is only known when it runs")
    found = kubectl_calls.read(texts, world.namespace, world.files, stdin.text or "")
    if found.empty or verb in _FIXED:
        return KNOWN, rests
    chosen_by = _OF_METADATA.sub("", line.flag("field-selector")).strip(",")
    if chosen_by:
        rests = rests.doubted(Source(Kind.LOOKS, f"which are {chosen_by[:30]}", chosen_by[:30]))
    writes = [call for call in found.calls if call.writes]
    if writes or verb in ("scale", "delete", "patch", "apply", "drain", "annotate", "label", "set", "edit", "replace"):
        for flag in ("current-replicas", "resource-version"):
            if line.flag(flag) not in ("", "-1"):
                rests = rests.doubted(Source(Kind.LOOKS, f"--{flag}", flag))
        if _TESTED.search(line.flag("patch", "p")):
            rests = rests.doubted(Source(Kind.LOOKS, "a test in its patch", "test"))
        if verb == "create":  # a name that is made new each time
            rests = replace(rests, unknown=frozenset(s for s in rests.unknown if s.kind not in (Kind.CHANCE, Kind.POD)))
        aside = bool(writes) and all(map(_turns_nothing_off, writes)) and not _marks_off(" ".join(texts))
        for call in writes:
            ground.keep(f"{call.resource}/{call.name}", rests)
        ground.act(shown, rests, aside=aside or verb in ("label", "create", "set", "rollout", "taint", "uncordon"))
        return KNOWN, KNOWN
    if verb == "get" and "--raw" not in " ".join(texts):
        return _get(ground, line, found.calls, rests)
    if verb == "wait" and line.flag("for").startswith("delete"):
        return KNOWN, KNOWN
    value = unknown(Kind.LOOKS, f"what kubectl {verb} says", f"kubectl {verb}") | rests
    return value, value


def _turns_nothing_off(call: ApiCall) -> bool:
    return call.resource in _ASIDE or call.marks or (call.resource == "pods" and call.subresource in ("exec", "log"))


def _marks_off(text: str) -> bool:
    return "keda.sh/paused" in text or any(mark in text for mark in STOP_MARKS.values())


def _get(ground: Ground, line: kubectl_calls.CommandLine, calls: Sequence[ApiCall], rests: Value) -> _Result:
    word = " ".join(["get", *line.words[1:3]])
    reads = [read_call(ground, call, word) for call in calls if not call.writes]
    if not reads:
        reads = [_custom(ground, line, word)]
    everywhere = line.switch("all-namespaces") or line.switch("A")
    value = joined(reads) | rests
    raw = Source(Kind.LOOKS, f"all that {line.words[1] if line.words[1:] else 'it'} says", word)
    table = ("1", "2") if everywhere else ("1",)
    form = line.flag("output", "o")
    out = replace(value, raw=frozenset({raw}))
    if form == "name":
        out = value
    elif form.partition("=")[0].removesuffix("-file") in (
        "jsonpath",
        "custom-columns",
        "go-template",
        "jsonpath-as-json",
    ):
        out = chosen(out, form.partition("=")[2], word)
        if next(paths_of(form.partition("=")[2]), None) is None:
            out = value
    elif form not in ("json", "yaml"):
        out = replace(out, table=table)
    sort = line.flag("sort-by")
    if sort and out.raw == frozenset():
        out = chosen(replace(out, raw=frozenset({raw})), "." + sort.strip("{}."), word) if "name" not in sort else out
    return joined(reads).rests | rests.exists, replace(out, text=None)


def _custom(ground: Ground, line: kubectl_calls.CommandLine, word: str) -> Value:
    """A kind that is not known here: what the manifests hold of it."""
    kind, _, name = (line.words[1] if line.words[1:] else "").partition("/")
    name = name or (line.words[2] if line.words[2:] else "")
    plural, _, group = kind.lower().partition(".")
    if kind and ground.world.has(group, plural, "" if UNKNOWN in name else name, line.flag("namespace", "n")):
        return known()
    return unknown(Kind.LOOKS, f"what {kind or 'it'} says", word)


def read_call(ground: Ground, call: ApiCall, word: str) -> Value:
    """What one request that reads rests on."""
    if call.resource == "pods" and call.subresource:
        return unknown(Kind.LOOKS, f"its pods' {call.subresource}", word)
    if "metrics" in call.group:
        return unknown(Kind.LOOKS, "what is measured", word)
    return read_of(ground.world, call, word) | ground.kept.get(f"api {call.resource}/{call.name}", Value())


# -- HTTP --------------------------------------------------------------------------------------------------------
def _http(ground: Ground, requests: Sequence[HttpCommand], rests: Value, shown: str) -> _Result:
    status, out = Value(), Value()
    for request in requests:
        code, said = made_call(ground, request, rests, shown)
        status, out = status | code, out | said
    return status | (rests.exists if requests else Value()), out


def made_call(ground: Ground, request: HttpCommand, rests: Value, shown: str) -> _Result:
    """(success, answer) of a request to a URL."""
    method, url, body = request.method, request.url, request.body
    call = call_of_url(method, url, body)
    host = re.sub(r"^\w+://|[/?].*", "", url).replace(UNKNOWN, "...") or "it"
    if call is None:
        if re.search(r"/(?:openapi|version|healthz|readyz|livez)\b", url) or _CREDENTIALS.search(url):
            return KNOWN, KNOWN
        if _WHERE.search(url):  # another pod may be on another machine
            return KNOWN, Value(raw=frozenset({Source(Kind.LOOKS, f"where {basename(host)} says it is", host[:30])}))
        value = rests | unknown(Kind.LOOKS, f"what {basename(host)} answers", host[:30])
        return value, value
    if call.writes:
        if _TESTED.search(body):
            rests = rests.doubted(Source(Kind.LOOKS, "a test in its patch", "test"))
        ground.keep(f"{call.resource}/{call.name}", rests)
        ground.act(shown, rests, aside=_turns_nothing_off(call) and not _marks_off(body))
        return KNOWN, KNOWN
    field = re.search(r"fieldSelector=([^&\"']+)", url)
    if field and not _OF_METADATA.fullmatch(field[1]):
        rests = rests.doubted(Source(Kind.LOOKS, f"which are {field[1][:30]}", field[1][:30]))
    value = read_call(ground, call, shown[:40])
    few = _FEW.search(url)
    if few and not _PAGES.search(ground.world.text):
        value = value.doubted(Source(Kind.LOOKS, f"whether there are more than {few[1]} {call.resource}", "limit="))
    raw = Source(Kind.LOOKS, f"all that {call.resource} say", shown[:40])
    return value, replace(value | rests, raw=rests.raw | {raw})
