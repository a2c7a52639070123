"""Writes docs/reference/ and the record's JSON Schema from the code: ``make docs``. A test sees that nothing drifts."""

from __future__ import annotations

import csv
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum, StrEnum
from pathlib import Path
from textwrap import wrap
from typing import Any

import click
from msgspec.json import schema_components

import killcheck
from killcheck import events, faults, fixtures, probes, verdict
from killcheck.cli import COMMANDS, main
from killcheck.cloud import ask
from killcheck.embedded import cluster, controllers
from killcheck.entries import MARK, Becomes, Unknown
from killcheck.faults.kubernetes.cloud_identity_gone import CloudIdentityGone
from killcheck.instances import reclaims
from killcheck.kube import provider_pools, releases
from killcheck.layers.spot_handler import SpotHandler
from killcheck.ledger.kinds import MODELLED
from killcheck.reports.document import schema
from killcheck.spec.specfile import json_schema

ROOT = Path(__file__).resolve().parent.parent
HEAD = "<!-- Made from the code by docs/generate.py (make docs): change it there. -->\n\n"
#: What each exit code says.
CODES = {
    "proven": "every drill was proven, no finding reached the failing severity, every fence holds",
    "exposed": "GPUs stayed on, or a finding at or above the failing severity, or more can be launched than allowed",
    "usage": "wrong usage, or a spec or manifest that cannot be used: the message says file and line",
    "inconclusive": "nothing is proven, and why is said; never counted as a pass",
    "unfinished": "could not finish: no cluster, interrupted, no room, a defect; the journal says what is left",
    "dirty": "something that killcheck changed could not be put back: the worst outcome, whatever else passed",
}
#: What cannot be used, how it ends, and what else is true of it; tests/cli/test_fuzz.py asserts it of inputs that
#: chance made.
BAD_INPUT = (
    ("an option, a command, a fault, a layer or a context that is not there", 2, "the nearest name is said"),
    ("a spec, a policy, a catalogue, a baseline or a run record that is none", 2, "with file and line"),
    ("manifests of which nothing can be read, or in which nothing asks for a GPU", 2, "each file's reason is said"),
    (
        "a folder of manifests in which something cannot be read",
        None,
        "the rest decides; a drill proves nothing then (3), and with `--strict` it is 2",
    ),
    ("a spec that does not allow the context, the namespace or the program", 2, "before anything is sent there"),
    ("a kubeconfig that is none, or that lacks the context", 2, ""),
    ("a kubeconfig whose server does not answer, or takes no such credentials", 4, ""),
    (
        "a journal in `.killcheck/` that this machine has not signed, or that was changed",
        5,
        "by `restore`; a drill tells it and goes on",
    ),
    (
        "a journal in a ConfigMap on no other word than its own: unsigned, and no Lease of its run",
        5,
        "by `restore`; a drill tells it and goes on",
    ),
    ("a journal of this machine, whose cluster does not answer", 4, ""),
)


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    made = {
        "cli.md": _cli(),
        "spec.md": _spec(),
        "probes.md": _probes(),
        "faults.md": _faults(),
        "exit-codes.md": _codes(),
        "record.md": _record(),
        "result.md": _result(),
        "extent.md": _extent(),
        "kubernetes.md": _kubernetes(),
        "python.md": _python(),
    }
    found = {ROOT / "docs/reference" / name: HEAD + text for name, text in made.items()}
    found[ROOT / "killcheck/killcheck.schema.json"] = json_schema()
    found[ROOT / "killcheck/reports/schemas/record-v1.json"] = json.dumps(record_schema(), indent=1) + "\n"
    return found


def record_schema() -> dict[str, Any]:
    """The JSON Schema of a line of the run record: one branch a kind of event."""
    branches = []
    for kind, cls in sorted(events._KINDS.items()):
        made = schema_components([cls])[1][kind]
        made["properties"] = {"event": {"const": kind}, **made["properties"]}
        if kind == "RunFinished":
            made["properties"]["seal"] = {
                "type": "string",
                "description": "Of the machine that wrote the record, over this line and the hash before it.",
            }
        made["properties"]["chain"] = {"type": "string", "description": "A hash over this line and the one before it."}
        made["required"] = ["event", *made.get("required", [])]
        made["description"] = _first(cls.__doc__)
        branches.append(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "killcheck run record, version 1",
        "description": "One line of a run record. Kinds and fields may be added: a reader skips what it does not know.",
        "anyOf": branches,
    }


def _cli() -> str:
    """Each command's help, at a fixed width and without what an environment variable adds."""
    parts = ["# Commands\n"]
    context = click.Context(main, info_name="killcheck", terminal_width=100, **main.context_settings)
    parts.append(f"```text\n{main.get_help(context)}\n```\n")
    for name, (module, _) in COMMANDS.items():
        command = importlib.import_module(f"killcheck.commands.{module}").command
        parts += _command(command, name, context)
    return "\n".join(parts)


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100, **command.context_settings)
    yield f"## {context.command_path}\n"
    yield f"```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for under in command.list_commands(context):
            found = command.get_command(context, under)
            assert found is not None
            yield from _command(found, under, context)


def _spec() -> str:
    whole = json.loads(json_schema())
    parts = [
        "# killcheck.yaml\n",
        "The JSON Schema for editors is `killcheck/killcheck.schema.json`. Durations are"
        " texts like `90s`, `5m` or `2h`.\n",
    ]
    parts += _fields("The spec", whole, set())
    for name, one in whole.get("$defs", {}).items():
        if one.get("properties"):
            parts += _fields(name.removesuffix("Model"), one, set(one.get("required", [])))
    return "\n".join(parts)


def _fields(title: str, one: dict[str, Any], required: set[str]) -> Iterator[str]:
    required = required or set(one.get("required", []))
    yield f"## {title}\n"
    if one.get("description"):
        yield _flat(one["description"]) + "\n"
    yield "| field | type | default | |\n|---|---|---|---|"
    for name, field in one.get("properties", {}).items():
        default = "required" if name in required else f"`{json.dumps(field['default'])}`" if "default" in field else ""
        yield f"| `{name}` | {_type(field)} | {default} | {_cell(field.get('description', ''))} |"
    yield ""


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[1].removesuffix("Model")
        return f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(one) for one in field["anyOf"] if one.get("type") != "null"))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"map to {_type(field['additionalProperties'])}"
    kinds = field.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kind for kind in kinds if kind != "null")


def _probes() -> str:
    parts = [
        "# Probes\n",
        "What `killcheck lint` asks, by reading alone. Rows are those of the failure catalogue that"
        " a probe answers to.\n",
    ]
    for probe in sorted((*probes.ALL, *probes.REHEARSED), key=lambda one: one.id):
        parts += [
            f"## {probe.id}\n",
            f"{_flat(probe.claim)}\n",
            f"- severity: {probe.severity}" + ("; asks a running cluster only" if probe.live else ""),
            f"- fix: {_flat(probe.remedy)}",
            f"- failure rows: {', '.join(map(str, probe.failures)) or '-'}",
            f"- sources: {'; '.join(_flat(source) for source in probe.sources)}\n",
        ]
    return "\n".join(parts)


def _faults() -> str:
    parts = [
        "# Faults\n",
        "What `killcheck drill --under` takes, also several at once. *Needs*: capabilities that only some"
        " clusters have; without, any Kubernetes API will do.\n",
    ]
    kinds = (*faults.ALL, *faults.CLOUD, *faults.ENGINE, *faults.MACHINE)
    for family in dict.fromkeys(kind.family for kind in kinds):
        parts.append(f"## {family}\n")
        for kind in (kind for kind in kinds if kind.family == family):
            needs = f" Needs: {', '.join(kind.needs)}." if kind.needs else ""
            costs = f" Costs: {_flat(kind.costs)}." if getattr(kind, "costs", "") else ""
            rows = f" Failure rows: {', '.join(map(str, kind.failures))}." if kind.failures else ""
            parts += [
                f"### {kind.name}\n",
                f"{_flat(kind.simulates)}.{needs}{costs}{rows} Seen by: {kind.shows}.\n",
                f"{_flat(inspect.getdoc(kind) or '')}\n",
            ]
    return "\n".join(parts)


def _codes() -> str:
    rows = [f"| {number} | {word} | {CODES[word]} |" for word, number in verdict.EXIT_CODES.items()]
    bad = [f"| {what} | {'' if code is None else code} | {more} |" for what, code, more in BAD_INPUT]
    head = ["# Exit codes\n", "| code | word | means |", "|---|---|---|", *rows]
    return "\n".join([*head, "\n## What cannot be used\n", "| what | code | |", "|---|---|---|", *bad, ""])


def _record() -> str:
    parts = [
        "# The run record\n",
        "One JSON object a line, written as it happens; every report is made from it alone."
        " Its schema is `killcheck/reports/schemas/record-v1.json`. Every event has `event` (its kind), `at` (RFC"
        " 3339 on the cluster's clock) and `drill` (empty for the run itself). Each line ends with `chain`, a hash over"
        " it and the line before: what was changed, taken out or added shows. Before it, the last line of a run that"
        " ended has `seal`: only the machine that wrote the record has the key of it.\n",
    ]
    for kind, cls in events._KINDS.items():
        parts += [f"## {kind}\n", f"{_flat(inspect.getdoc(cls) or '')}\n"]
        parts += [
            f"- `{name}`: {_cell(str(cls.__annotations__[name]))}"
            for name in cls.__struct_fields__
            if name not in ("at", "drill")
        ]
        parts.append("")
    return "\n".join(parts)


def _result() -> str:
    whole = schema("result")
    parts = [
        "# The JSON document\n",
        "What `--json` prints and `killcheck report --json` makes. Its schema is"
        " `killcheck/reports/schemas/result-v1.json`; fields may be added within v1.\n",
    ]
    parts += _fields("The document", whole, set())
    for name, one in whole["$defs"].items():
        parts += _fields(name.capitalize(), one, set())
    return "\n".join(parts)


def _python() -> str:
    """The public face: what ``import killcheck`` has. Its docstrings carry units and errors."""
    found = {name: getattr(killcheck, name) for name in killcheck.__all__ if name != "__version__"}
    parts = ["# From Python\n", "What `import killcheck` has; everything else may change.\n"]
    parts += [
        "```python\nimport killcheck\n",
        'found = killcheck.run_drill("killcheck.yaml", layer="nightly-off", under=["registry-unreachable"])',
        "print(found.verdict, found.cause, found.usd)\n```\n",
    ]
    for name, one in found.items():
        call = inspect.isfunction(one)
        kind = "" if call else " (exception)" if issubclass(one, Exception) else " (type)"
        parts += [f"## {name}{kind}\n", *([_signature(name, one)] if call else [])]
        parts += [_plain(inspect.getdoc(one) or "") + "\n", *(() if call else _has(one))]
    return "\n".join(parts)


def _signature(name: str, call: Any) -> str:
    signature = inspect.signature(call)
    taken = list(signature.parameters.values())
    lines = [f"    {one.name}: {one.annotation}{_default(one)}," for one in taken]
    first_named = next((at for at, one in enumerate(taken) if one.kind is one.KEYWORD_ONLY), None)
    if first_named is not None:
        lines.insert(first_named, "    *,")
    return "\n".join(["```python", f"{name}(", *lines, f") -> {signature.return_annotation}", "```\n"])


def _default(one: inspect.Parameter) -> str:
    if one.default is one.empty:
        return ""
    return f" = {one.default.__name__}" if callable(one.default) else f" = {one.default!r}"


def _has(kind: type) -> Iterator[str]:
    """What a type has of its own: the values of an enum; fields, properties and methods, with their first sentences."""
    if issubclass(kind, Enum):
        yield f"Values: {', '.join(f'`{member.value}`' for member in kind)}\n"
        return
    fields = getattr(kind, "__struct_fields__", None) or tuple(getattr(kind, "__dataclass_fields__", ()))
    if fields:
        yield "\n".join(["```text", *wrap(", ".join(fields), 100), "```\n"])
    own = {name: one for name, one in vars(kind).items() if name[:1] != "_" and name not in fields}
    for name, one in own.items():
        if isinstance(one, property | classmethod) or inspect.isfunction(one):
            yield f"- `{name}`: {_plain(_first(inspect.getdoc(one)))}"
    yield ""


def _plain(text: str) -> str:
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", text).replace("``", "`")


def _kubernetes() -> str:
    """What differs between the releases of Kubernetes that the embedded cluster can be."""
    minors = sorted(releases.LATEST)
    names = " | ".join(f"1.{minor}" for minor in minors)
    line = "---|" * len(minors)

    def row(known: Callable[[int], bool]) -> str:
        return " | ".join("yes" if known(minor) else "-" for minor in minors)

    parts = [
        "# More than one Kubernetes\n",
        "`--kubernetes-version` says which Kubernetes the embedded cluster is, for `cluster up`, `drill`, `lint`,"
        " `gate` and `explore`. In a spec it is `kubernetesVersion`, in pytest `--killcheck-kubernetes-version`, in"
        f" Python `Cluster(kubernetes_version=...)`. Without it the cluster is {releases.DEFAULT.version}. A real"
        " cluster has its own; programs of it are rehearsed on that release, or on the nearest one. Every verdict names"
        " the release that it was seen on.\n",
        "Only 1.36 was compared with a real control plane, request by request. The others are 1.36 with what is in"
        " these tables. Defaults are upstream's: a provider or an administrator may have switched a gate.\n",
        "## Releases\n",
        "| release | `/version` answers |\n|---|---|",
        *(f"| 1.{minor} | `{releases.LATEST[minor]}` |" for minor in minors),
        "\n## Feature gates\n",
        f"| gate | {names} | what it decides here |\n|---|{line}---|",
        *(
            f"| `{name}` | {row(lambda minor, name=name: releases.Release(minor, '').on(name))} | {_cell(means)} |"
            for name, (_, means) in releases.GATES.items()
        ),
        "\n## Types\n",
        "What is not here is served by all of them, or by none.\n",
        f"| type | {names} |\n|---|{line}",
        *(
            f"| `{version}` {plural} | {row(lambda minor, since=since: minor >= since)} |"
            for (version, plural), since in releases.TYPES.items()
        ),
        "\n## Fields\n",
        "An older release refuses the field where kubectl asks strictly, and drops it with a warning elsewhere.\n",
        "| field | since |\n|---|---|",
        *(f"| `{kind.removeprefix('V1')}.{name}` | 1.{since} |" for (kind, name), since in releases.FIELDS.items()),
        "",
    ]
    return "\n".join(parts)


def _extent() -> str:
    """What is modelled, executed, asked and not known, per controller and cloud."""
    parts = [
        "# What is known, and how\n",
        " ".join(f"*{how.capitalize()}*: {means}." for how, means in _HOW.items()) + "\n",
        "## Controllers\n",
        "| what | how | by |\n|---|---|---|",
        *(f"| {name} | {how} | {_cell(by)} |" for name, how, by in _controllers()),
        "\n## Clouds\n",
        f"| | {' | '.join(reclaims.NAMES.values())} |\n|---|{'---|' * len(reclaims.NAMES)}",
        *_cloud_rows(),
        "\n## Faults\n",
        "| family | everywhere | where a cloud answers | on machines | on Docker hosts |\n|---|---|---|---|---|",
        *_by_family(),
        "\n## By subject\n",
        "Each has kill paths that ship, faults that break them, questions of `lint` that see it coming, tests and a"
        " page. Where there are no faults, nothing sabotages it yet.\n",
        "| subject | drilled on | broken by | foreseen by | tested in | told in |\n|---|---|---|---|---|---|",
        *_subjects(),
        "\n## Not known\n",
        "Nobody built these. The last column is what becomes of a verdict that could turn on one. Each line is"
        " a mark on the code that says it, or, of what is not said, on the code that ends where it begins.\n",
        "| where | what | a verdict is then |\n|---|---|---|",
        *(f"| {one.area} | {_cell(one.what)} | {one.becomes} |" for one in _not_known()),
        "",
    ]
    return "\n".join(parts)


def _subjects() -> Iterator[str]:
    """Each subject's row of docs/subjects.csv; what is named there and is not here is an error."""
    every = {kind.name for group in (faults.ALL, faults.CLOUD, faults.MACHINE, faults.ENGINE) for kind in group}
    there: dict[str, Callable[[str], bool]] = {
        "paths": fixtures.names().__contains__,
        "faults": every.__contains__,
        "findings": {one.id for one in (*probes.ALL, *probes.REHEARSED)}.__contains__,
        "tests": lambda name: (ROOT / "tests" / name).is_file(),
        "pages": lambda name: (ROOT / "docs" / name.partition("#")[0]).is_file(),
    }
    for row in csv.DictReader((ROOT / "docs/subjects.csv").read_text(encoding="utf-8").splitlines()):
        for column, is_there in there.items():
            if gone := [name for name in row[column].split() if not is_there(name)]:
                raise ValueError(f"docs/subjects.csv: {row['subject']}: no {gone[0]} among {column}")
        cells = [", ".join(f"`{name}`" for name in row[one].split()) for one in there if one != "pages"]
        page = row["pages"].partition("#")
        yield f"| {row['subject']} | {' | '.join(cells)} | [{page[0]}](../{row['pages']}) |"


def _controllers() -> Iterator[tuple[str, How, str]]:
    """Name, how, by what; each controller and model as the embedded cluster starts it."""
    kinds: dict[str, list[str]] = {}
    for version, (name, served) in MODELLED.items():
        kinds.setdefault(name, []).append(f"`{version}: {', '.join(sorted(served))}`")
    for one in (*controllers.ALL, *cluster.MODELS):
        served_here = "".join(f"; {version}" for version in kinds.get(one.name, ()))
        yield f"`{one.name}`", How.MODELLED, _about(inspect.getmodule(one)) + served_here
    yield "executors of CronJobs, Jobs and pods without GPUs", How.EXECUTED, _about(importlib.import_module(_RUNS))
    yield "programs of controllers among the manifests", How.EXECUTED, _about(importlib.import_module(_REHEARSED))
    for name, (how, module) in sorted(_WITNESSES.items()):
        yield name, How(how), _about(importlib.import_module(module))


def _not_known() -> list[Unknown]:
    """What is marked in the code; by area, as the areas first come."""
    found: list[Unknown] = []
    for file in sorted((ROOT / "killcheck").rglob("*.py")):
        if "\n@leaves(" in (text := file.read_text(encoding="utf-8")) or "\n    @leaves(" in text:
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            for one in vars(importlib.import_module(name)).values():
                if getattr(one, "__module__", None) == name:
                    found += [mark for code in (one, *_methods(one)) for mark in getattr(code, MARK, ())]
    return sorted(dict.fromkeys(found), key=lambda one: (_AREAS.index(one.area), list(Becomes).index(one.becomes)))


def _methods(one: object) -> list[object]:
    return list(vars(one).values()) if isinstance(one, type) else []


#: The areas of kill paths, in the order in which they are told; one that is not here is an error.
_AREAS = (
    "worker fleets",
    "scale to zero",
    "single controllers",
    "spot",
    "alerts",
    "Kueue",
    "clouds",
    "policies",
    "fences",
    "credentials",
    "network",
)
_RUNS, _REHEARSED = "killcheck.embedded.nodes.host_runtime", "killcheck.rehearsal.programs"
_WITNESSES = {
    "alert rules of Prometheus (P5)": ("modelled", "killcheck.witnesses.alarms"),
    "alert rules, where `promtool` is on the PATH": ("asked", "killcheck.witnesses.promtool"),
}
_CATALOGUES = {"aws": "instances.csv", "gcp": "gcp.csv", "azure": "azure.csv"}
_METADATA = {"aws": "ec2_metadata", "gcp": "gce_metadata", "azure": "azure_metadata"}
_POOLS = {"aws": ("karpenter", "awsgroups"), "gcp": ("otherclouds",), "azure": ("otherclouds",)}
#: Whose node pools a kind of `killcheck.kube.provider_pools` is.
_PROVIDERS = {"ContainerNodePool": "gcp", "ManagedClustersAgentPool": "azure"}


class How(StrEnum):
    """How a cell of the tables is known: the one vocabulary of this page."""

    MODELLED = "modelled"
    EXECUTED = "executed"
    ASKED = "asked"
    READ = "read"
    UNKNOWN = "not known"


_HOW = {
    How.MODELLED: "a model of it runs on the embedded cluster",
    How.EXECUTED: "its own program runs",
    How.ASKED: "who knows is asked",
    How.READ: "judged from manifests and exports",
    How.UNKNOWN: "nobody built it, or it is out of reach: the last table says what becomes of a verdict",
}
#: What is known of one thing in one cloud, and by what.
_Cell = tuple[How, str]


def _types(cloud: str) -> _Cell:
    """How many types with devices, how many with a price, and of when."""
    lines = (ROOT / "killcheck/instances" / _CATALOGUES[cloud]).read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    devices = [row for row in rows if row["device_kind"]]
    priced = sum(bool(row["usd_per_hour"]) for row in devices)
    dates = re.findall(r"20\d\d-\d\d(?:-\d\d)?", " ".join(line for line in lines if line.startswith("#")))
    return How.READ, f"{len(devices)} with devices, {priced} with a price ({max(dates)})"


def _stands(cloud: str) -> _Cell:
    """What makes nodes there on the embedded cluster."""
    if cloud == "aws":
        own = {"karpenter", "auto-scaling-groups", "cluster-autoscaler"}
        return How.MODELLED, ", ".join(f"`{one.name}`" for one in cluster.MODELS if one.name in own)
    kinds = [f"`{kind}`" for kind in provider_pools.KINDS if _PROVIDERS[kind] == cloud]
    return How.MODELLED, f"{', '.join(kinds)}: {_about(provider_pools)}"


def _notice(cloud: str) -> _Cell:
    stand_in = importlib.import_module(f"killcheck.standins.{_METADATA[cloud]}")
    return How.MODELLED, f"{reclaims.NOTICE_S[cloud]:.0f} s; {_about(stand_in)}"


def _own_hand(cloud: str) -> _Cell:
    """Who of the cloud's own acts on a notice."""
    if cloud == "gcp":
        return How.MODELLED, _about(importlib.import_module("killcheck.embedded.nodes.shutdown"))
    if cloud == "azure":
        (mark,) = getattr(SpotHandler._unheard, MARK)
        return How.UNKNOWN, mark.what
    return How.MODELLED, "Karpenter, by its interruption queue"


def _pools(cloud: str) -> _Cell:
    return How.READ, ". ".join(_about(importlib.import_module(f"killcheck.fence.{name}")) for name in _POOLS[cloud])


_MACHINES_API = {"aws": "EC2", "gcp": "GCE", "azure": "Azure Compute"}


def _billed(cloud: str) -> _Cell:
    return How.ASKED, f"{_MACHINES_API[cloud]} itself, an export, a program of yours"


def _account(cloud: str) -> _Cell:
    return (How.ASKED, _about(ask)) if cloud == "aws" else (How.UNKNOWN, "")


def _lapsing(cloud: str) -> _Cell:
    if cloud != "aws":
        return How.MODELLED, f"of command lines in pods: `{CloudIdentityGone.name}`"
    named = [f"`{kind.name}`" for kind in faults.CLOUD if kind.family == "credentials"]
    return How.EXECUTED, f"against a stand-in or an account: {', '.join(named)}"


_CLOUDS: tuple[tuple[str, Callable[[str], _Cell]], ...] = (
    ("machine types and prices", _types),
    ("nodes on the embedded cluster", _stands),
    ("what a pool may launch", _pools),
    ("a spot notice", _notice),
    ("who of the cloud's own acts on it", _own_hand),
    ("that a machine is off (P3)", _billed),
    ("what an account lets be launched", _account),
    ("credentials that lapse", _lapsing),
)


def _cloud_rows() -> Iterator[str]:
    for what, told in _CLOUDS:
        cells = [": ".join(filter(None, told(cloud))) for cloud in reclaims.NAMES]
        yield f"| {what} | {' | '.join(map(_cell, cells))} |"


def _by_family() -> Iterator[str]:
    kinds = (faults.ALL, faults.CLOUD, faults.MACHINE, faults.ENGINE)
    for family in dict.fromkeys(kind.family for group in kinds for kind in group):
        cells = (", ".join(f"`{kind.name}`" for kind in group if kind.family == family) for group in kinds)
        yield f"| {family} | {' | '.join(cells)} |"


def _about(module: Any) -> str:
    """The first sentence of a module's docstring."""
    told = re.sub(r":\w+:`([^`]*)`", r"`\1`", _first(inspect.getdoc(module)))
    return told.replace("``", "`").rstrip(".")


def _flat(text: str) -> str:
    return " ".join(text.split())


def _first(text: str | None) -> str:
    return _flat((text or "").partition("\n\n")[0])


def _cell(text: str) -> str:
    return _flat(text).replace("|", "\\|")


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
