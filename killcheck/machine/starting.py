"""Whether a line of a script starts a machine: by a cloud's CLI, by HTTP, by an SDK; and what of it cannot be read.

Options may stand between the words of a command, variables that the text assigns are filled in, a shell's functions
are followed. What is run by a variable that nobody assigns, by a tool that makes whatever a file says, or on another
machine, is told as not followed. So is any call of a cloud's command line or SDK that is not known to start nothing: a
list of those that start something is never whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from posixpath import basename

from killcheck.executor.shell_script import UNKNOWN, ShellSyntaxError, parse
from killcheck.text import lazy_re

__all__ = ["DOUBT", "MAKES", "assignments", "called", "expanded", "start_in", "started_by", "unread_in"]

#: Between the words of a command: as a shell has them, or as a list of strings in Python.
_GAP = r"""[\s"',\\]+"""
#: Calls that put accelerators on, a word each; ``*`` stands for options and values in between.
_STARTS = (
    "gcloud compute instances start",
    "gcloud compute instances create",
    "gcloud compute instances resume",
    "gcloud compute instance-groups managed resize",
    "gcloud compute tpus tpu-vm start",
    "gcloud compute tpus tpu-vm create",
    "aws ec2 start-instances",
    "aws ec2 run-instances",
    "aws autoscaling set-desired-capacity",
    "aws eks update-nodegroup-config",
    "az vm start",
    "az vm create",
    "az vmss start",
    "az vmss scale",
    "doctl compute droplet-action power-on",
    "oci compute instance action * START",
    "runpodctl start pod",
    "runpodctl create pod",
    "vastai create instance",
    "vastai start instance",
    "docker start",
    "docker run",
    "virsh start",
    "nomad job run",
)
#: From a command to its verb: a few words of the same command, its line continued or not.
_TO_VERB = r"(?:[ \t]|\\\n)+(?:[^\s;&|]+(?:[ \t]|\\\n)+){0,12}?"
#: Tools that make whatever a file says.
_MAKES = lazy_re.compile(rf"\b(?:(?:terraform|tofu|terragrunt){_TO_VERB}apply|pulumi{_TO_VERB}up|ansible-playbook)\b")
_ELSEWHERE = lazy_re.compile(r"(?:^|[;&|(]|\bthen\b|\bdo\b)\s*(?:timeout\s+\S+\s+)?(ssh)\s+(?=\S+.*\s\S)", re.MULTILINE)
#: What an HTTP API is asked to start.
_BY_HTTP = lazy_re.compile(
    r"""(?:https?://|/)[^\s"']*(?:instances?|virtualMachines|pods|servers|droplets)/[^\s"']*"""
    r"""(?:/|/actions?/)(?:start|resume|power_?on|powerOn)\b|\bAction=(?:Start|Run)Instances\b"""
)
_SCALES_UP = lazy_re.compile(r"kubectl[^\n;|&]*\bscale\b[^\n;|&]*--replicas[= ]+[1-9]")
_SDK = lazy_re.compile(r"\.(start_instances|run_instances|instances\(\)\.start|begin_start)\s*\(")
#: Sets a group to nothing: the same call as one that starts.
_TO_ZERO = lazy_re.compile(r"(--desired-capacity|desiredSize|--new-capacity|--size)[= ]+[\"']?0\b")
_ASSIGNED = lazy_re.compile(
    r"""^\s*(?:export\s+|readonly\s+|local\s+|declare\s+(?:-\w+\s+)*)?(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;&|]*)""",
    re.MULTILINE,
)
_VARIABLE = lazy_re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_RUN_BY_VARIABLE = lazy_re.compile(
    r"""(?:^|[;&|(]|\bthen\b|\bdo\b|\belse\b|\bexec\b|\beval\b)[ \t]*["']?\$(?:(\w+|@)|\{(\w+)[^}]*\})""", re.MULTILINE
)
_PASSES = 4
#: What is said of a call that is on no list.
DOUBT = "is not known to start nothing"
#: What is said of a tool that makes what is off what its files say, machines among it.
MAKES = "makes what its files say"
#: gcloud's release track, which any of its commands may be of.
_TRACK = lazy_re.compile(rf"(\bgcloud{_GAP})(?:alpha|beta){_GAP}")
#: Command lines by which machines are started, of clouds and of hosts.
_CLIS = frozenset(
    "gcloud aws az doctl oci runpodctl vastai hcloud linode-cli ibmcloud openstack vultr-cli scw aliyun eksctl "
    "docker podman virsh nomad".split()
)
#: Words of such a command that start no machine, and groups of commands that have to do with none.
_STARTS_NOTHING = lazy_re.compile(
    r"(?:list|ls|describe|get|show|stop|delete|terminate|deallocate|suspend|power-?off|shutdown|destroy|rm|remove|kill|"
    r"wait|auth|login|logout|config|configure|version|help|info|s3|s3api|storage|logging|logs|sts|cloudwatch|sns|sqs|"
    r"pubsub|monitoring|ecr|iam|account|inspect|ps|images|pull|push|cp|sync|search|status|export|exec|down|detach|metrics|"
    r"pricing|billing|dns|acr|decrypt|cordon)(?:[-_].*)?"
)
#: How many words of a command say what it does: a service, its parts, the verb.
_SAYING = 5
#: Programs that start the rest of their words, after their own.
_WRAPPERS = frozenset("timeout sudo env nice nohup time exec command xargs setsid ionice chronic flock".split())
_PYTHON = lazy_re.compile(r"python(?:\d(?:\.\d+)?)?")
_SDKS = lazy_re.compile(
    r"\b(?:boto3|botocore|google\.cloud|googleapiclient|azure\.mgmt|openstack|libcloud|hcloud|digitalocean|runpod|vastai)\b"
)
#: Methods of an SDK that may put something on.
_PUTS_ON = lazy_re.compile(
    r"\.(\w*(?:start|launch|resume|resize|insert|power_?on|run_instances|create_fleet|create_instances|create_pod|"
    r"set_desired|set_node_pool_size|modify|begin_update|begin_create)\w*)\s*\("
)


@cache
def _pattern(call: str) -> re.Pattern[str]:
    """A call with options between its words, their values apart or not."""
    words = [word for word in call.split() if word != "*"]
    loose = "*" in call
    parts = [re.escape(words[0])]
    for word in words[1:]:
        own = re.escape(word)
        option = rf"--?[A-Za-z][\w-]*(?:=[^\s;|&]*)?{_GAP}(?:(?!{own}\b)[^\s;|&\-\"'][^\s;|&\"']*{_GAP})?"
        between = r"[^\n;|&]*?" if loose else rf"(?:{option}){{0,6}}"
        parts.append(rf"{_GAP}{between}{own}")
    return re.compile(r"(?<![\w-])" + "".join(parts) + r"(?![\w-])")


def start_in(text: str) -> str | None:
    """The call of a text that starts something, in words; None: none is to be read."""
    text = _TRACK.sub(r"\1", text)
    for call in _STARTS:
        found = _pattern(call).search(text) if call.split(maxsplit=1)[0] in text else None
        if found and not _TO_ZERO.search(text[found.start() : found.start() + 200]):
            return call.replace(" * ", " ")
    for other in (_SCALES_UP, _SDK, _BY_HTTP):
        found = other.search(text)
        if found:
            return found[0].strip()
    return None


def called(text: str, known: Mapping[str, str] | None = None) -> list[tuple[tuple[str, ...], str]]:
    """(words, what it reads) of each command of a shell's text, past what only starts another; functions are followed.

    None for what is no shell's text.
    """
    try:
        commands = parse(text, known).commands
    except ShellSyntaxError:
        return []
    return [(words, one.stdin or "") for one in commands if (words := _unwrapped(one.words))]


def _unwrapped(words: Sequence[str]) -> tuple[str, ...]:
    """A command without the programs that start it (``timeout 4h``, ``env A=b``, ``flock -n 9``)."""
    left = list(words)
    while left and basename(left[0]) in _WRAPPERS:
        left.pop(0)
        while len(left) > 1 and (left[0].startswith("-") or "=" in left[0] or left[0][:1].isdigit()):
            left.pop(0)
    return tuple(left)


def started_by(text: str, known: Mapping[str, str] | None = None) -> str | None:
    """The call by which a shell's text starts something, functions and their arguments followed; None: none is read."""
    return next((found for words, _ in called(text, known) if (found := start_in(" ".join(words)))), None)


def assignments(text: str) -> dict[str, str]:
    """Variables that a script gives a plain value, the last one counts; what it computes is left out."""
    found = {}
    for name, value in _ASSIGNED.findall(text):
        plain = value[1:-1] if value[:1] in ("'", '"') and len(value) > 1 else value
        if "$(" not in plain and "`" not in plain:
            found[name] = plain
    return found


def expanded(text: str, known: Mapping[str, str]) -> str:
    """The text with its variables filled in where their value is known."""

    def value(found: re.Match[str]) -> str:
        return known.get(found[1] or found[2], found[0])

    for _ in range(_PASSES):
        filled = _VARIABLE.sub(value, text)
        if filled == text:
            break
        text = filled
    return text


def unread_in(text: str) -> Iterator[str]:
    """What a text runs that cannot be followed, a phrase each."""
    for name, braced in dict.fromkeys(_RUN_BY_VARIABLE.findall(text)):
        if name != "@":
            yield f"runs what ${name or braced} is, which is not to be read"
    for tool in dict.fromkeys(" ".join(found.split()) for found in _MAKES.findall(text)):
        yield f"{tool} {MAKES}"
    if _ELSEWHERE.search(text):
        yield "runs a program on another machine (ssh)"
    yield from dict.fromkeys(_untold(text))


def _untold(text: str) -> Iterator[str]:
    """Calls of clouds' command lines and SDKs of which nobody knows that they start nothing."""
    if _SDKS.search(text) and re.search(r"^\s*(?:import|from)\s", text, re.MULTILINE):
        yield from (f"calls {name}() of a cloud's SDK, which {DOUBT}" for name in dict.fromkeys(_PUTS_ON.findall(text)))
        return  # no shell's text
    for words, given in called(text):
        program = basename(words[0])
        if program in _CLIS and not start_in(" ".join(words)):
            said = [word for word in words[1:] if not word.startswith("-")][:_SAYING]
            if said and not _TO_ZERO.search(" ".join(words)) and not _is_known(said):
                yield f"'{program} {' '.join(said)}' {DOUBT}".replace(UNKNOWN, "...")
        elif _PYTHON.fullmatch(program):
            yield from _untold("\n".join((*(word for word in words if "\n" in word or "import" in word), given)))


def _is_known(said: Sequence[str]) -> bool:
    """Whether a word before any that only a run would tell says that nothing is started."""
    for word in said:
        if UNKNOWN in word:
            return False
        if _STARTS_NOTHING.fullmatch(word):
            return True
    return False
