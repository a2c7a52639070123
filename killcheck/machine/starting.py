"""Whether a line of a script starts a machine: by a cloud's CLI, by HTTP, by an SDK; and what of it cannot be read.

Options may stand between the words of a command, variables that the text assigns are filled in. What is run by a
variable that nobody assigns, by a tool that makes whatever a file says, or on another machine, is told as not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

__all__ = ["assignments", "expanded", "start_in", "unread_in"]

#: Between the words of a command: as a shell has them, or as a list of strings in Python.
_GAP = r"""[\s"',\\]+"""
#: Calls that put accelerators on, a word each; ``*`` stands for options and values in between.
_STARTS = (
    "gcloud compute instances start",
    "gcloud compute instances create",
    "gcloud beta compute instances start",
    "gcloud alpha compute instances start",
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
#: Tools that make whatever a file says.
_MAKES = re.compile(
    r"\b(?:(?:terraform|tofu|terragrunt)\s+(?:\S+\s+)*?apply|pulumi\s+(?:\S+\s+)*?up|ansible-playbook)\b"
)
_ELSEWHERE = re.compile(r"(?:^|[;&|(]|\bthen\b|\bdo\b)\s*(?:timeout\s+\S+\s+)?(ssh)\s+(?=\S+.*\s\S)", re.MULTILINE)
#: What an HTTP API is asked to start.
_BY_HTTP = re.compile(
    r"""(?:https?://|/)[^\s"']*(?:instances?|virtualMachines|pods|servers|droplets)/[^\s"']*"""
    r"""(?:/|/actions?/)(?:start|resume|power_?on|powerOn)\b|\bAction=(?:Start|Run)Instances\b"""
)
_SCALES_UP = re.compile(r"kubectl[^\n;|&]*\bscale\b[^\n;|&]*--replicas[= ]+[1-9]")
_SDK = re.compile(r"\.(start_instances|run_instances|instances\(\)\.start|begin_start)\s*\(")
#: Sets a group to nothing: the same call as one that starts.
_TO_ZERO = re.compile(r"(--desired-capacity|desiredSize|--new-capacity|--size)[= ]+[\"']?0\b")
_ASSIGNED = re.compile(
    r"""^\s*(?:export\s+|readonly\s+|local\s+|declare\s+(?:-\w+\s+)*)?(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;&|]*)""",
    re.MULTILINE,
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_RUN_BY_VARIABLE = re.compile(
    r"""(?:^|[;&|(]|\bthen\b|\bdo\b|\belse\b|\bexec\b|\beval\b)[ \t]*["']?\$(?:(\w+|@)|\{(\w+)[^}]*\})""", re.MULTILINE
)
_PASSES = 4


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
    for call in _STARTS:
        found = _pattern(call).search(text) if call.split(maxsplit=1)[0] in text else None
        if found and not _TO_ZERO.search(text[found.start() : found.start() + 200]):
            return call.replace(" * ", " ")
    for other in (_SCALES_UP, _SDK, _BY_HTTP):
        found = other.search(text)
        if found:
            return found[0].strip()
    return None


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
        yield f"{tool} makes what its files say"
    if _ELSEWHERE.search(text):
        yield "runs a program on another machine (ssh)"
