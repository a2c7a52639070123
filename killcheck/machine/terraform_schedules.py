"""Schedules of auto scaling groups in Terraform's text, as the command that does the same: read by form, not planned.

Source (2026): ``aws_autoscaling_schedule``: ``recurrence`` (cron, in ``time_zone``, else UTC), and numbers of which -1
leaves what there is. What a variable gives is not known, and not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from killcheck.kube.custom_holders import is_gpu_machine
from killcheck.spec.killpath import Command
from killcheck.text import lazy_re
from killcheck.text.files import enclosed, text_of

__all__ = ["Sized", "schedules"]

_BLOCK = lazy_re.compile(
    r'^resource\s+"(aws_autoscaling_(?:schedule|group))"\s+"([\w-]+)"\s*\{(.{0,4000}?)^\}', re.M | re.S
)
_FIELD = lazy_re.compile(r'^  *(\w+) *= *("[^"\n$%]*"|-?\d+|[\w.\[\]]+) *(?:(?:#|//)[^\n]*)?$', re.M)
_NUMBER = lazy_re.compile(r"[0-9]{1,6}")
_WORD = lazy_re.compile(r'"([\w.-]+)"')
_REGION = lazy_re.compile(r'^provider\s+"aws"\s*\{[^}]{0,4000}?^[ \t]*region[ \t]*=\s*"([\w-]+)"', re.M | re.S)
_NAMED = lazy_re.compile(r"aws_autoscaling_group\.([\w-]+)\.(?:name|id)")
#: Terraform's fields and the options of the command, in its order.
_SIZES = (("min_size", "--min-size"), ("max_size", "--max-size"), ("desired_capacity", "--desired-capacity"))


class Sized(Struct, frozen=True):
    """One schedule: ``name`` and ``line`` of its block, the command that does the same, when (cron), in which zone;
    ``odd``: what is wrong with its numbers, in half a sentence."""

    name: str
    line: int
    command: Command
    schedule: str
    time_zone: str
    odd: str | None


def schedules(file: Path, limit_s: float) -> Iterator[Sized]:
    """The schedules of a file whose group and numbers stand there, in a module that names a machine with GPUs.

    Raises OSError.
    """
    text = text_of(file, errors="replace")
    if "aws_autoscaling_schedule" not in text:
        return
    module = _module(file.parent)
    if not any(is_gpu_machine(word) for word in _WORD.findall(module)):
        return
    groups = {one[2]: _fields(one[3]) for one in _BLOCK.finditer(module) if one[1] == "aws_autoscaling_group"}
    region = _REGION.search(module)
    where = ("--region", region[1]) if region else ()
    for found in _BLOCK.finditer(text):
        fields = _fields(found[3])
        if found[1] != "aws_autoscaling_schedule" or "recurrence" not in fields:
            continue
        of = _NAMED.fullmatch(fields.get("autoscaling_group_name", ""))
        group = groups.get(of[1], {}) if of else {}
        name = group.get("name", of[1]) if of else fields.get("autoscaling_group_name", "")
        sizes, odd = _sizes(fields, group)
        if name and "." not in name and sizes:
            argv = (
                "aws",
                "autoscaling",
                "update-auto-scaling-group",
                "--auto-scaling-group-name",
                name,
                *sizes,
                *where,
            )
            line = text.count("\n", 0, found.start()) + 1
            zone = fields.get("time_zone", "") or "UTC"
            yield Sized(found[2], line, Command(argv, limit_s), fields["recurrence"], zone, odd)


def _sizes(fields: Mapping[str, str], group: Mapping[str, str]) -> tuple[list[str], str | None]:
    """(the options that say how many, what is odd about them, if anything)."""
    given = {name: fields[name] for name, _ in _SIZES if _NUMBER.fullmatch(fields.get(name, ""))}
    odd, most = None, given.get("max_size", "")
    if fields.get("desired_capacity") == "-1" and most != "0":
        there = group.get("desired_capacity") or group.get("min_size") or "1"
        given["desired_capacity"] = there if _NUMBER.fullmatch(there) else "1"
        odd = f"desired_capacity = -1 leaves as many machines as there are ({there})"
    elif given.get("desired_capacity") and int(given.get("min_size", 0)) > int(given["desired_capacity"]):
        odd = f"min_size {given['min_size']} is more than desired_capacity {given['desired_capacity']}: AWS refuses it"
    return [word for name, option in _SIZES if name in given for word in (option, given[name])], odd


def _module(folder: Path) -> str:
    """The text of a module, which is a folder."""
    files = [file for file in sorted(folder.glob("*.tf")) if file.is_file() and enclosed(file, folder)]
    return "\n".join(text_of(file, errors="replace") for file in files)


def _fields(block: str) -> dict[str, str]:
    return {name: value.strip('"') for name, value in _FIELD.findall(block)}
