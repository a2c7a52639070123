"""How strangers' repositories are read: refusals, what is passed over, holders missed, false headlines, time.

``python benchmarks/repositories.py CLONES`` where CLONES holds a clone (or an export) of each repository of
``repositories.toml``, named after it (``kserve`` or ``kserve+kserve`` for ``kserve/kserve``). Nothing is fetched. A
document *asks* where its plain text writes an accelerator's name with a number; it is *missed* where it is neither a
holder, nor of a kind that is known to hold nothing, nor told as not understood, nor passed over with its file.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from killcheck import discover
from killcheck.clock import wall_now
from killcheck.discover.shapes import sound
from killcheck.kube import manifests
from killcheck.kube.custom_holders import HOLDS_NOTHING, STARTERS, TEMPLATES, is_capacity
from killcheck.kube.manifest_text import is_definition
from killcheck.kube.manifests import Loaded, Manifest, ManifestError
from killcheck.kube.passed_over import Cause
from killcheck.kube.workloads import devices_of
from killcheck.lint import asking

HERE = Path(__file__).parent
#: An accelerator with a number, as any text has it: on purpose not the expressions of the product.
ASKS = re.compile(
    r"""^[^#\n]*((nvidia\.com/(gpu|mig-\S+)|amd\.com/gpu|google\.com/tpu|aws\.amazon\.com/neuron\w*|habana\.ai/gaudi)"""
    r"""["']?\s*:\s*["']?[1-9]|resourceProfile:\s*["']?(nvidia|amd|google)\S*:\d)""",
    re.M,
)
#: What may be a switch, by its kind.
SWITCHES = re.compile(r"^kind: *[\"']?(CronJob|CronWorkflow|ScaledObject|SleepInfo|HorizontalPodAutoscaler)\b", re.M)
SUFFIXES = (".yaml", ".yml", ".json")
#: What such files are made from.
MADE_FROM = (".j2", ".tpl", ".tmpl", ".tftpl", ".template", ".gotmpl")
#: The longest that a thousand files may take, in seconds.
BUDGET_S = 3.0


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a file: ``first`` and ``last`` are its lines."""

    file: Path
    first: int
    last: int


def documents_of(folder: Path, says: re.Pattern[str]) -> Iterator[Document]:
    """Every document with a kind below a folder whose text says so, hidden folders left out."""
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder).parts
        ending = Path(file.stem).suffix or ".yaml" if file.suffix in MADE_FROM else file.suffix
        if ending not in SUFFIXES or not file.is_file() or any(part.startswith(".") for part in inside):
            continue
        line = 1
        for text in re.split(r"^(?=---(?:\s|$))", file.read_text("utf-8", errors="replace"), flags=re.M):
            last = line + text.count("\n")
            if says.search(text) and re.search(r"^[\"' ]*kind\b", text, re.M) and not is_definition(text):
                yield Document(file, line, last)
            line = last


def is_missed(one: Document, loaded: Loaded, unknown: set[int]) -> bool:
    """Whether nothing is said of a document that asks."""
    for told in (skipped for skipped in loaded.skipped if skipped.names_gpus):
        beside = told.cause is Cause.KUSTOMIZATION and Path(told.file).parent == one.file.parent  # a patch of it
        if beside or _under(one.file, {Path(told.file)}):
            return False
    here = [
        m
        for m in (*loaded.manifests, *loaded.variants)
        if Path(m.file) == one.file and one.first <= m.line <= max(one.last, one.first)
    ]
    return not any(is_understood(manifest, unknown) for manifest in here)


def is_understood(manifest: Manifest, unknown: set[int]) -> bool:
    """Whether an object counts as a holder, is known to be none, or is told as not understood."""
    known = HOLDS_NOTHING | TEMPLATES | STARTERS
    kind = str(manifest.obj.get("kind"))
    told = kind in known or is_capacity(kind) or id(manifest.obj) in unknown
    return told or devices_of(manifest.obj, wanted=True) > 0


def command_s(folder: Path) -> float:
    """Processor seconds of the whole command, as a person runs it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable,
        "-c",
        "from killcheck.cli import run; run()",
        "lint",
        "--manifests",
        str(folder),
        "--no-color",
    ]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)  # findings fail it
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(folder: Path) -> dict[str, object]:
    """One repository's row."""
    files = sum(1 for file in folder.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    took_s = command_s(folder)
    try:
        loaded = sound(manifests.load([folder], schemas=False))
        world, notes = asking.world_of(loaded, wall_now())
        asking.lint(world, notes=notes)
        refused, layers = "", len(world.kill_path.layers)
    except (ManifestError, discover.DiscoveryError) as error:
        loaded, refused, layers = Loaded(()), str(error).splitlines()[0], 0
    asks = list(documents_of(folder, ASKS))
    unknown = {id(one.obj) for one in discover.unknown_holders(m.obj for m in (*loaded.manifests, *loaded.variants))}
    missed = [] if refused else [one for one in asks if is_missed(one, loaded, unknown)]
    held = loaded.skipped and {Path(s.file) for s in loaded.skipped}
    switches = [one for one in documents_of(folder, SWITCHES) if not _under(one.file, held or set())]
    read = {(m.file, m.line) for m in (*loaded.manifests, *loaded.variants)}
    return {
        "files": files,
        "read": len(loaded.manifests) + len(loaded.variants),
        "passed": len(loaded.skipped),
        "asking": len(asks),
        "holders": len(discover.holders(loaded.objects)),
        "unknown": len(unknown),
        "missed": len(missed),
        "switches": len(switches),
        "unread": sum(
            not any(file == str(one.file) and one.first <= line <= one.last for file, line in read) for one in switches
        )
        if not refused
        else 0,
        "layers": layers,
        "false": bool(asks) and "nothing here asks" in refused,
        "s": round(took_s, 2),
        "over": took_s > BUDGET_S * max(files, 1000) / 1000,
        "refused": refused,
        "which": [f"{one.file}:{one.first}" for one in missed],
    }


def _under(file: Path, folders: set[Path]) -> bool:
    """Whether a file, or a folder that it is in, was passed over."""
    return file in folders or any(folder in folders for folder in file.parents)


def main() -> int:
    """A row for each repository that is there; 1 where one was refused, missed a holder, said less than it saw."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    rows = tomllib.loads((HERE / "repositories.toml").read_text("utf-8"))["repository"]
    bad = 0
    for row in rows:
        whole = Path(sys.argv[1]) / row["name"].replace("/", "+")
        folder = whole if whole.is_dir() else whole.with_name(row["name"].rpartition("/")[2])
        if not folder.is_dir():
            print(f"{row['name']}: not in {sys.argv[1]} (commit {row['commit'][:12]})")
            continue
        found = measure(folder)
        which = found.pop("which")
        refused = found["refused"] and found["files"]  # a repository without any YAML has nothing to refuse
        wrong = bool(refused or found["missed"] or found["false"] or found["over"])
        bad += wrong
        print(f"{'✗' if wrong else '✓'} {row['name']:<44}", " ".join(f"{key}={value}" for key, value in found.items()))
        for line in which if isinstance(which, list) else ():
            print(f"    missed: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
