"""Charts and kustomizations rendered by the programs installed for it, without network, plugins or remote bases.

A stranger's chart may not make us fetch or run anything: what names something that is not a file here is not rendered,
plugins stay off, proxies lead nowhere, and time and output are bounded. What is rendered points back at its sources.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.kube.manifest_folders import FILES_OUTSIDE, helm_command, kustomization_in, kustomize_command
from killcheck.kube.manifest_text import Manifest
from killcheck.kube.objects import name_of
from killcheck.text import lazy_re
from killcheck.text.files import text_of
from killcheck.text.values import replace
from killcheck.text.yamlfile import Document, YamlError, documents

__all__ = ["Filling", "Rendered", "placed", "render"]

#: The longest that a renderer may take, in seconds, and the most that it may write, in bytes.
_LONGEST_S = 30.0
_MOST_BYTES = 64_000_000
#: A port that nobody listens on: whoever would download something is refused at once.
_NOWHERE = "http://127.0.0.1:9"
#: What a reference to something elsewhere looks like.
_REMOTE = lazy_re.compile(r"\w+://|^git@|^[\w.-]+\.(com|org|io|dev|net)[/:]|[?&]ref=|^git::")
#: Where a kustomization names files, or what is to be fetched: lists of them, entries with a path, generators.
_LISTED = ("resources", "bases", "components", "crds", "configurations", "patchesStrategicMerge")
_BY_PATH = ("patches", "patchesJson6902", "replacements", "openapi")
_GENERATORS = ("configMapGenerator", "secretGenerator")
_RUN_THINGS = ("helmCharts", "helmChartInflationGenerator", "generators", "transformers", "validators")
#: kubectl's last line (klog), and what kustomize says of a file that it was not let to read (``fileloader.go``).
_LOGGED = lazy_re.compile(r'[IWEF]\d{4} [\d:.]+ +\d+ \S+\] "command failed" err="(.*)"')
_OUTSIDE = lazy_re.compile(r"security; file '([^']+)' is not in or below")
_SOURCE = lazy_re.compile(r"^# Source: (\S+)$", re.M)


class Rendered(Struct, frozen=True):
    """What a renderer wrote; or in ``why`` the reason that there is none, with the command to run."""

    text: str = ""
    why: str = ""


class Filling(Struct, frozen=True):
    """What a chart is filled in with: files of values, then single ones, each ``KEY=VALUE`` as helm takes it."""

    values: Sequence[Path] = ()
    sets: Sequence[str] = ()

    @property
    def words(self) -> list[str]:
        """The arguments for helm."""
        files = [word for file in self.values for word in ("-f", str(file))]
        return [*files, *(word for one in self.sets for word in ("--set", one))]


def render(folder: Path, filling: Filling | None = None) -> Rendered | None:
    """A folder that is a chart (filled in with what is given) or a kustomization; None for any other one."""
    if (folder / "Chart.yaml").is_file():
        filling = filling or Filling()
        given = filling.words
        by_hand = helm_command(folder, given)
        helm = shutil.which("helm")
        if helm is None:
            return Rendered(why=f"a Helm chart, and helm is not installed: {by_hand}")
        if any(_REMOTE.search(str(file)) for file in filling.values):
            return Rendered(why=f"values that are not a file here, and nothing is downloaded: {by_hand}")
        return _run([helm, "template", "release", str(folder), *given], by_hand)
    kustomization = kustomization_in(folder)
    if kustomization is None:
        return None
    elsewhere = next(_elsewhere(kustomization, set()), "")
    by_hand = kustomize_command(folder, {"helmCharts": "helmChart" in elsewhere})
    if elsewhere:
        return Rendered(why=f"not rendered here: {elsewhere} ({by_hand})")
    programs = (["kustomize", "build"], ["kubectl", "kustomize"])
    program = next((words for words in programs if shutil.which(words[0])), None)
    if program is None:
        return Rendered(why=f"a kustomization, and neither kustomize nor kubectl is installed: {by_hand}")
    return _run([*program, str(folder)], by_hand)


def _elsewhere(file: Path, seen: set[Path]) -> Iterator[str]:
    """Why a kustomization, or one that it leads to, cannot be rendered without fetching or running something."""
    real = Path(os.path.realpath(file))
    if real in seen:
        return
    seen.add(real)
    try:
        found = documents(text_of(file, "utf-8-sig"), str(file))
    except (OSError, UnicodeDecodeError, YamlError) as error:
        yield f"{file} cannot be read: {error}"
        return
    spec = found[0].value if found and isinstance(found[0].value, dict) else {}
    for key in _RUN_THINGS:
        if spec.get(key):
            yield f"{file} has {key}, which run or fetch something"
    for text in _references(spec):
        if _REMOTE.search(text):
            yield f"{file} names {text}, and nothing is downloaded"
    for key in ("resources", "bases", "components"):
        for entry in spec.get(key) or ():
            target = file.parent / str(entry)
            if not target.exists():
                yield f"{file} names {entry}, which is not a file here"
            inner = kustomization_in(target) if target.is_dir() else None
            if inner is not None:
                yield from _elsewhere(inner, seen)


def _references(spec: Mapping[str, Any]) -> Iterator[str]:
    """Every text of a kustomization that names a file. Source: its reference (kubectl.docs.kubernetes.io)."""
    for key in _LISTED:
        yield from _texts(spec.get(key))
    for key in _BY_PATH:
        for entry in _mappings(spec.get(key)):
            yield from _texts(entry.get("path"))
    for key in _GENERATORS:
        for entry in _mappings(spec.get(key)):
            for name in ("files", "envs", "env"):
                yield from (text.partition("=")[2] or text for text in _texts(entry.get(name)))


def _texts(value: Any) -> Iterator[str]:
    """A text, or those of a list; a patch that stands there whole names no file."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and "\n" not in one:
            yield one


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, Mapping))


def _run(words: list[str], by_hand: str) -> Rendered:
    """Run a renderer, bounded, with an environment that has nothing of ours in it."""
    with tempfile.TemporaryDirectory(prefix="killcheck-render-") as home, tempfile.TemporaryFile() as out:
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=_LONGEST_S,
                check=False,
                env=_environment(home),
            )
        except subprocess.TimeoutExpired:
            return Rendered(why=f"not rendered within {_LONGEST_S:.0f} s: {by_hand}")
        except OSError as error:
            return Rendered(why=f"{words[0]} cannot be run ({(error.strerror or str(error)).lower()}): {by_hand}")
        if done.returncode:
            return Rendered(why=_refused(done.stderr.decode("utf-8", "replace"), by_hand))
        if out.tell() > _MOST_BYTES:
            return Rendered(why=f"more than {_MOST_BYTES // 1_000_000} MB were rendered: {by_hand}")
        out.seek(0)
        return Rendered(out.read().decode("utf-8", "replace"))


def _refused(said: str, by_hand: str) -> str:
    """What a renderer said last, without the time and place of kubectl's log; and what works by hand."""
    last = (said.strip().splitlines() or ["no reason given"])[-1]
    outside = _OUTSIDE.search(last)
    if outside:
        if FILES_OUTSIDE[0] not in by_hand:  # a kustomization below this one names it
            by_hand = by_hand.replace(" >", f" {' '.join(FILES_OUTSIDE)} >")
        return f"not rendered here: {outside[1]} is outside the folder of the kustomization that names it ({by_hand})"
    logged = _LOGGED.fullmatch(last)
    return f"not rendered: {(logged[1].replace(chr(92) + chr(34), chr(34)) if logged else last)[:300]} ({by_hand})"


def _environment(home: str) -> dict[str, str]:
    """A home without plugins, settings or credentials; git and every download refused."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": home,
        "HELM_PLUGINS": home,
        "HELM_CACHE_HOME": home,
        "HELM_CONFIG_HOME": home,
        "HELM_DATA_HOME": home,
        "KUBECONFIG": os.devnull,
        "XDG_CONFIG_HOME": home,
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        **{f"{scheme}_proxy": _NOWHERE for scheme in ("http", "https", "all")},
        **{f"{scheme}_PROXY": _NOWHERE for scheme in ("HTTP", "HTTPS", "ALL")},
    }


# -- where it came from --------------------------------------------------------------------------------------
def placed(manifests: Sequence[Manifest], text: str, folder: Path, sources: Sequence[Manifest]) -> list[Manifest]:
    """What was rendered, with the places of its sources: the lines of a kustomization's resources, of a chart's files.

    ``sources`` are the resources as they are written; a name prefix or suffix may have been added to theirs.
    """
    if (folder / "Chart.yaml").is_file():
        return [_at(manifest, *_in_chart(text, manifest, folder)) for manifest in manifests]
    whole = str(kustomization_in(folder) or folder)
    return [_from_source(manifest, sources) or _at(manifest, whole, 1) for manifest in manifests]


def _at(manifest: Manifest, file: str, line: int) -> Manifest:
    """A manifest of which only the file is known, and where in it it begins."""
    return Manifest(manifest.obj, file, line, Document(manifest.obj, file, line, (), (), None))


def _from_source(manifest: Manifest, sources: Sequence[Manifest]) -> Manifest | None:
    kind, name = manifest.obj.get("kind"), name_of(manifest.obj)
    near = [one for one in sources if one.obj.get("kind") == kind and name_of(one.obj) and name_of(one.obj) in name]
    best = max(near, key=lambda one: len(name_of(one.obj)), default=None)
    return replace(best, obj=manifest.obj) if best is not None else None


def _in_chart(text: str, manifest: Manifest, folder: Path) -> tuple[str, int]:
    """The chart's file that a manifest came from, and the line in it that says its kind."""
    found = _SOURCE.findall("\n".join(text.split("\n")[: manifest.line]))
    file = folder / found[-1].partition("/")[2] if found else folder / "Chart.yaml"
    try:
        lines = text_of(file, "utf-8-sig", errors="replace").split("\n")
    except OSError:
        return str(file), 1
    kind = re.compile(rf"kind: *['\"]?{re.escape(str(manifest.obj.get('kind')))}['\"]? *$")
    return str(file), next((i for i, line in enumerate(lines, 1) if kind.match(line)), 1)
