"""Which files of a folder are manifests, and what its charts and kustomizations would have made of them."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from killcheck.kube import launch_lines, launcher_files, machine_texts, outside_schedules, terraform_pools
from killcheck.kube.manifest_text import is_definition, is_template_of_objects, runs_something
from killcheck.kube.passed_over import Cause, Skipped, names_accelerators, names_pools, outside
from killcheck.text.files import enclosed, text_of
from killcheck.text.values import replace
from killcheck.text.yamlfile import YamlError, documents

if TYPE_CHECKING:
    from pathspec import PathSpec

__all__ = [
    "FILES_OUTSIDE",
    "IGNORE_FILE",
    "KUSTOMIZATIONS",
    "Folders",
    "helm_command",
    "kustomization_in",
    "kustomize_command",
    "left_out",
]

#: Names of what is to be left out, one pattern a line, as git has them; in a folder that was named.
IGNORE_FILE = ".killcheckignore"
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
#: Files that may hold a schedule from outside Kubernetes, or what makes machines.
_SCHEDULES = frozenset({".timer"}) | terraform_pools.SUFFIXES | machine_texts.SUFFIXES
#: Files that a program makes manifests of; what their name has before that is nothing, or what they become.
_TEMPLATES = frozenset(
    {".envsubst", ".erb", ".gotmpl", ".hbs", ".in", ".j2", ".jinja", ".jinja2", ".mustache"}
    | {".template", ".tftpl", ".tmpl", ".tpl"}
)
#: Programs of languages that are there to write objects, and what in one says that it runs something or holds GPUs.
_LANGUAGES = frozenset({".cue", ".dhall", ".jsonnet", ".k", ".libsonnet", ".pkl", ".star"})
_READ = (*_SUFFIXES, *_SCHEDULES, *_TEMPLATES, *_LANGUAGES)
_NOT_MANIFESTS = frozenset({"node_modules", "vendor", "__pycache__"})
#: What a kustomization says that does not change what is deployed.
_NEUTRAL = frozenset(
    {"apiVersion", "kind", "metadata", "resources", "bases", "components", "buildMetadata", "sortOptions", "crds"}
)
#: Groups of machines that are always kept, and how many.
Floors = tuple[tuple[str, int], ...]
#: No file's name is longer.
_LONGEST = 256
#: What lets kustomize read files that are not below a kustomization's folder.
FILES_OUTSIDE = ("--load-restrictor", "LoadRestrictionsNone")
#: Where a kustomization names other folders and files that become objects.
_NAMING = ("resources", "bases", "components")


def kustomization_in(folder: Path) -> Path | None:
    """The kustomization of a folder; None where it has none."""
    return next((folder / name for name in KUSTOMIZATIONS if (folder / name).is_file()), None)


def helm_command(chart: Path, given: Sequence[str] = ()) -> str:
    """What renders a chart by hand, its dependencies fetched where they are not in it."""
    fetch = ["--dependency-update"] if _lacks_dependencies(chart) else []
    return f"{shlex.join(['helm', 'template', str(chart), *given, *fetch])} > rendered.yaml"


def _lacks_dependencies(chart: Path) -> bool:
    """Whether a chart names other charts that are not in its folder ``charts``: helm refuses it until they are."""
    wanted: list[Any] = []
    for name in ("Chart.yaml", "requirements.yaml"):
        with suppress(YamlError):
            found = documents(_text(chart / name), name)
            entries = found[0].value.get("dependencies") if found and isinstance(found[0].value, dict) else None
            wanted += entries if isinstance(entries, list) else []
    inside = [entry.name for entry in (chart / "charts").iterdir()] if (chart / "charts").is_dir() else []
    names = [str(one.get("name")) for one in wanted if isinstance(one, dict)]
    return any(not any(entry == name or entry.startswith(f"{name}-") for entry in inside) for name in names)


def kustomize_command(folder: Path, spec: Mapping[str, Any] | None = None) -> str:
    """What renders a kustomization by hand; charts, and files outside its folder, have to be asked for."""
    spec = dict(spec or {})
    helm = ["--enable-helm"] if spec.get("helmCharts") or spec.get("helmChartInflationGenerator") else []
    outside = any(not one.is_relative_to(_normal(folder)) and _is_file(one) for one in _used_files(folder, spec))
    words = ["kubectl", "kustomize", str(folder), *helm, *(FILES_OUTSIDE if outside else ())]
    return f"{shlex.join(words)} > rendered.yaml"


class Folders(Struct):
    """Walks what was named. ``exclude``: patterns of what to leave out; ``skipped`` and ``notes`` are what it says.

    ``reached``: every kustomization that was read, with those that lead to it; ``commands`` render each by hand.
    """

    exclude: Sequence[str] = ()
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reached: dict[Path, set[Path]] = field(default_factory=dict)
    below: dict[Path, list[Path]] = field(default_factory=dict)  # the files of a kustomization's resources
    commands: dict[Path, str] = field(default_factory=dict)
    _components: set[Path] = field(default_factory=set)  # kustomizations that others have to use
    _plain: list[Path] = field(default_factory=list)  # files that no kustomization names
    _root: Path = Path()
    _left_out: PathSpec[Any] | None = None
    _walked: set[Path] = field(default_factory=set)
    _parts: set[Path] = field(default_factory=set)  # what kustomizations use, and not as a resource
    _resources: set[Path] = field(default_factory=set)

    def files(self, path: Path) -> Iterator[Path]:
        """The manifest files of a file or folder, in order of name.

        A folder with a kustomization has the files that its resources name; a chart's templates are passed over. A
        path that does not exist is yielded: reading it says so. Raises OSError for a folder that cannot be read.
        """
        if not path.is_dir():
            yield path
            return
        self._root = path
        self._left_out = _patterns(path, self.exclude)
        self._pipelines(outside_schedules.above(path))
        yield from self._folder(path, (), named=True)

    def is_part(self, file: Path) -> bool:
        """Whether a file is a patch, or another part of a kustomization, and nobody's resource: no object itself."""
        here = _normal(file)
        return here in self._parts and here not in self._resources

    @property
    def overlays(self) -> list[str]:
        """The folders of overlays, where what was named holds nothing but them and what they share; else empty."""
        tops = [str(file.parent) for file in self._tops()]
        shared = any(len(led_by) > 1 for led_by in self.reached.values())
        return tops if shared and len(tops) > 1 and not any(map(_looks_like_an_object, self._plain)) else []

    @property
    def sharing(self) -> dict[str, tuple[str, ...]]:
        """The files that several kustomizations which stand by themselves deploy, each with the folders of those."""
        found: dict[str, list[str]] = {}
        for top in self._tops():
            for file in {str(file) for one in self._led_to(top) for file in self.below.get(one, ())}:
                found.setdefault(file, []).append(str(top.parent))
        return {file: tuple(folders) for file, folders in found.items() if len(folders) > 1}

    def tops(self, changing: Collection[str]) -> list[tuple[Path, frozenset[Path], frozenset[Path]]]:
        """Kustomizations that no other leads to and that change something, or lead to one of ``changing`` that does.

        Each is (folder, its files, the kustomizations in it), and shares with others none of these that has a file:
        patches alone are nobody's objects.
        """
        led = {top: frozenset(self._led_to(top)) for top in self._tops()}
        shared = Counter(one for below in led.values() for one in below)
        return [
            (top.parent, frozenset(self.below.get(top, ())), below)
            for top, below in led.items()
            if not (top.parent / "Chart.yaml").is_file()  # helm's
            and not below.isdisjoint(map(_normal, map(Path, changing)))
            and all(shared[one] == 1 or not self.below.get(one) for one in below)
        ]

    def told(self) -> Iterator[Skipped]:
        """What was passed over. A component has the command of what uses it: alone it has nothing to change."""
        for one in self.skipped:
            file = _normal(Path(one.file))
            component = one.cause is Cause.KUSTOMIZATION and file in self._components
            user = self._user(file) if component else None
            if user is not None:
                yield replace(one, why=f"a component of {user.parent} ({self.commands[user]})")
            elif component and not self.below[file]:
                yield replace(one, why="a component that no kustomization here uses")
            else:
                yield one

    def _user(self, component: Path) -> Path | None:
        """The first kustomization that uses a component and is none itself; None: there is none."""
        above, seen = [component], {component}
        while above:
            by = sorted(self.reached[above.pop(0)] - seen)
            found = next((one for one in by if one not in self._components), None)
            if found is not None:
                return found
            seen.update(by)
            above += by
        return None

    def _tops(self) -> list[Path]:
        """The kustomizations that no other leads to, and that are something by themselves."""
        return [file for file, led_by in self.reached.items() if not led_by and file not in self._components]

    def _led_to(self, top: Path) -> Iterator[Path]:
        """A kustomization and all that it leads to, each once."""
        left, seen = [top], {top}
        while left:
            here = left.pop()
            yield here
            led = [file for file, led_by in self.reached.items() if here in led_by and file not in seen]
            seen.update(led)
            left += led

    def _folder(self, path: Path, within: tuple[Path, ...], *, named: bool = False) -> Iterator[Path]:
        kustomization = kustomization_in(path)
        if kustomization is not None:
            yield from self._kustomized(kustomization, within, named=named)
        elif (path / "Chart.yaml").is_file():
            self._chart(path)
        elif _normal(path) not in self._walked:
            self._walked.add(_normal(path))
            yield from self._entries(path, frozenset())

    def _entries(self, path: Path, known: frozenset[Path]) -> Iterator[Path]:
        """What lies in a folder, but for what is ``known`` already."""
        for listed in _by_name(path):
            self._pipelines(outside_schedules.pipelines(path / listed.name))
            if listed.name.startswith(".") or listed.name in _NOT_MANIFESTS:
                continue
            is_link = listed.is_symlink()  # one may lead in a circle
            is_folder = (path / listed.name).is_dir() if is_link else listed.is_dir(follow_symlinks=False)
            entry = path / listed.name
            fires = not is_folder and outside_schedules.is_crontab(entry)
            if not is_folder and self._left_out is None and not fires and not listed.name.endswith(_READ):
                continue
            if entry in known:
                continue
            if not listed.name.isprintable():
                self._unnamed(path, listed.name)
            elif self._is_left_out(entry):
                self._pass(entry, "left out as it was asked", Cause.LEFT_OUT)
            elif is_folder and not is_link:
                yield from self._folder(entry, ())
            elif is_folder:
                self._pass(entry, "a link to a folder, not followed: name that folder too", Cause.ELSEWHERE)
            elif entry.suffix in _SUFFIXES and entry.is_file():
                self._plain.append(entry)
                yield entry
            elif entry.suffix in _SUFFIXES:
                self._pass(entry, "a link that leads nowhere, or no file", Cause.UNREADABLE)
            elif entry.suffix in _SCHEDULES or (fires and entry.is_file()):
                self._scheduled(entry)
            elif entry.suffix in _LANGUAGES and entry.is_file():
                self._program(entry)
            elif entry.suffix in _TEMPLATES and Path(entry.stem).suffix in ("", *_SUFFIXES) and entry.is_file():
                self._template(entry)

    def _unnamed(self, folder: Path, name: str) -> None:
        """A name that writes lines of its own where it is told, or that a terminal obeys: nobody means well by one."""
        told = "".join(sign if sign.isprintable() else "?" for sign in name)
        why = "its name has a line break, what a terminal obeys, or bytes that are no UTF-8: rename it"
        self.skipped.append(Skipped(str(folder / told), 0, why, Cause.UNREADABLE))

    def _pipelines(self, files: Iterable[Path]) -> None:
        for file in files:
            if not any(map(self._is_left_out, (file, *file.parents))):
                self._scheduled(file, pipeline=True)

    def _scheduled(self, file: Path, *, pipeline: bool = False) -> None:
        """Tell of a schedule that acts from outside Kubernetes, where a file has one, and of machines that it keeps."""
        text = _text(file)
        what = None if file.suffix in machine_texts.SUFFIXES else outside_schedules.in_file(file, text)
        kept, makes, costs = self._machines_in(file, text)
        if pipeline:
            makes = (*launch_lines.made_by_lines(text), *launcher_files.launching(text))
            costs = tuple(launcher_files.costing(text))
        if file.suffix in terraform_pools.SUFFIXES and (holds := next(terraform_pools.objects(text), "")):
            why = f"Terraform, whose {holds} asks for GPUs: name what comes of it"
            self._pass(file, why, Cause.TEMPLATE, named=True)
        if what is not None:
            why, cause = outside(what), Cause.OUTSIDE
        elif kept or makes or costs:
            of = "Terraform" if file.suffix in terraform_pools.SUFFIXES else "no manifest"
            why = f"{of}, with machines that it always keeps" if kept else f"{of}, which makes nodes"
            cause = Cause.CONFIGURATION
        else:
            return
        self.skipped.append(
            Skipped(str(file), 0, why, cause, floors=kept, launching=makes, costing=costs, starts=what or "")
        )

    def _machines_in(
        self, file: Path, text: str
    ) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...], tuple[str, ...]]:
        """(machines that are always kept, what may make some with GPUs, what makes others)."""
        if file.suffix not in terraform_pools.SUFFIXES:
            if file.suffix not in machine_texts.SUFFIXES:
                return (), (), ()
            return (), tuple(machine_texts.makes(str(file), text)), tuple(machine_texts.costs(str(file), text))
        makes = tuple(terraform_pools.launching(text, lambda source: self._is_read(file.parent / source)))
        costs = tuple(one for one in terraform_pools.costing(text) if one not in makes)
        return tuple(terraform_pools.floors(text)), makes, costs

    def _is_read(self, folder: Path) -> bool:
        """Whether a folder is below what was named."""
        return _normal(folder).is_relative_to(_normal(self._root)) and folder.is_dir()

    def _template(self, file: Path) -> None:
        """Tell of what becomes objects, or a chart's values, and is told apart from YAML by its name."""
        text = _text(file)
        makes, costs = tuple(machine_texts.makes(file.stem, text)), tuple(machine_texts.costs(file.stem, text))
        if makes or costs:
            why, named = "a template, which makes nodes", names_accelerators(text)
            self.skipped.append(Skipped(str(file), 0, why, Cause.TEMPLATE, named, launching=makes, costing=costs))
        elif is_template_of_objects(text):
            self._pass(file, "a template, by its name: render it first", Cause.TEMPLATE, names_accelerators(text))
        elif names_accelerators(text):
            why = "a template of no Kubernetes object (no kind and apiVersion)"
            self._pass(file, why, Cause.NO_MANIFEST, named=True)

    def _program(self, file: Path) -> None:
        """Tell of a program that makes objects which run or scale something, or that names GPUs."""
        text = _text(file)
        named = names_accelerators(text)
        pools = names_pools(text)
        if named or pools or runs_something(text):
            why = "a program that makes objects: name what comes of it"
            self.skipped.append(Skipped(str(file), 0, why, Cause.TEMPLATE, named, names_pools=pools))

    def _is_left_out(self, entry: Path) -> bool:
        if self._left_out is None:
            return False
        try:
            inside = entry.relative_to(self._root).as_posix()
        except ValueError:
            return False  # a kustomization led out of what was named
        return self._left_out.match_file(inside + "/" if entry.is_dir() else inside)

    def _pass(self, path: Path, why: str, cause: Cause, named: bool | None = None) -> None:
        named = _names_accelerators(path) if named is None else named
        self.skipped.append(Skipped(str(path), 0, why, cause, named))

    def _chart(self, path: Path) -> None:
        """A chart's templates say nothing until Helm has filled them in; its values may name GPUs."""
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.suffix in (*_SUFFIXES, *_TEMPLATES) and file.is_file() and enclosed(file, self._root)
        ]
        named = any(
            _names_accelerators(file) for file in files if file.suffix in _SUFFIXES and not is_definition(_text(file))
        )
        why = f"a Helm chart, which is not rendered here: {helm_command(path)}"
        pools = any(names_pools(_text(file)) for file in files)
        chart = Skipped(str(path), 0, why, Cause.CHART, named, tuple(map(str, files)), names_pools=pools)
        self.skipped.append(chart)

    # -- kustomizations --------------------------------------------------------------------------------------
    def _kustomized(self, file: Path, within: tuple[Path, ...], *, named: bool) -> Iterator[Path]:
        here = _normal(file)
        if here in within:
            self.notes.append(f"{file}: a kustomization that is among its own resources")
            return
        first = here not in self.reached
        self.reached.setdefault(here, set()).update(within[-1:])
        if not first:
            return
        try:
            found = documents(text_of(file, "utf-8-sig"), str(file))
        except (YamlError, OSError, UnicodeDecodeError):
            yield file  # reading it again says what is wrong
            yield from self._entries(file.parent, frozenset({file}))
            return
        spec: dict[str, Any] = found[0].value if found and isinstance(found[0].value, dict) else {}
        below = self.below.setdefault(here, [])
        self.commands[here] = kustomize_command(file.parent, spec)
        if spec.get("kind") == "Component":
            self._components.add(here)
        away = []
        for entry in (entry for key in _NAMING for entry in self._listed(spec, key, file)):
            target = _normal(file.parent / str(entry))
            if target.exists():
                found_in = list(self._resource(target, (*within, here)))
                yield from found_in
                inner = kustomization_in(target)  # what lies beside its resources is none of ours
                below += self.below.get(inner, ()) if inner is not None else map(_normal, found_in)
            else:
                away.append(f"its resource {entry} is not a file here, and nothing is downloaded")
        files = tuple(sorted({str(one) for one in below}))
        self._undone(file, spec, files)
        self.skipped += [Skipped(str(file), 0, why, Cause.ELSEWHERE, files=files) for why in away]
        yield from self._beside(file, spec, named=named)

    def _undone(self, file: Path, spec: dict[str, Any], files: tuple[str, ...]) -> None:
        """What a kustomization would do to its resources: a patch of it may ask for GPUs that they do not."""
        undone = sorted(key for key, value in spec.items() if key not in _NEUTRAL and value)
        if undone:
            why = f"not rendered here: {', '.join(undone)} ({self.commands[_normal(file)]})"
            used = _used_files(file.parent, {key: spec[key] for key in undone if key not in _NAMING})
            self._parts |= used
            gpus = any(_names_accelerators(one) for one in (file, *used))
            pools = any(names_pools(_text(one)) for one in (file, *used, *map(Path, files)))
            undone_here = Skipped(str(file), 0, why, Cause.KUSTOMIZATION, gpus, files, names_pools=pools)
            self.skipped.append(undone_here)

    def _resource(self, target: Path, within: tuple[Path, ...]) -> Iterator[Path]:
        if target.is_dir():
            yield from self._folder(target, within)
        else:
            self._walked.add(_normal(target))
            self._resources.add(_normal(target))
            yield target

    def _beside(self, file: Path, spec: dict[str, Any], *, named: bool) -> Iterator[Path]:
        """What lies beside a kustomization and is none of its resources: its patches, other folders, leftovers."""
        known = {_normal(file), *_used_files(file.parent, spec), *self._walked}
        for entry in sorted(file.parent.iterdir()):
            if entry.name.startswith(".") or _normal(entry) in known:
                continue
            if self._is_left_out(entry):
                self._pass(entry, "left out as it was asked", Cause.LEFT_OUT)
            elif entry.is_dir() and not entry.is_symlink() and entry.name not in _NOT_MANIFESTS and not named:
                yield from self._folder(entry, ())
            elif entry.suffix in _SUFFIXES and entry.is_file() and _looks_like_an_object(entry):
                self._pass(entry, f"{file.name} beside it does not name it", Cause.UNLISTED)

    def _listed(self, spec: dict[str, Any], key: str, file: Path) -> list[Any]:
        value = spec.get(key) or []
        if isinstance(value, list):
            return value
        self.notes.append(f"{file}: {key} must be a list, found {value!r}: kustomize would not take it")
        return []


def _by_name(folder: Path) -> list[os.DirEntry[str]]:
    """What lies in a folder, with what listing it says of each: of thousands of files a look at each takes longer."""
    with os.scandir(folder) as listed:
        return sorted(listed, key=lambda entry: entry.name)


def _patterns(root: Path, exclude: Sequence[str]) -> PathSpec[Any] | None:
    """What is left out below a folder that was named; None: nothing is."""
    lines = list(exclude)
    file = root / IGNORE_FILE
    if file.is_file():
        lines += text_of(file, "utf-8-sig", errors="replace").splitlines()
    if not lines:
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def left_out(root: Path, exclude: Sequence[str]) -> Callable[[Path], bool]:
    """Whether a path below a folder that was named is left out: by ``exclude``, or the folder's own patterns."""
    folders = Folders(exclude)
    folders._root, folders._left_out = root, _patterns(root, exclude)
    return folders._is_left_out


def _used_files(folder: Path, spec: dict[str, Any]) -> set[Path]:
    """Whatever a kustomization names that may be a file: resources, patches, values, generators' files."""
    return {_normal(folder / text) for text in _texts(spec) if len(text) < _LONGEST and "\n" not in text}


def _normal(path: Path) -> Path:
    """A path without ``..`` in it; links are not looked up, which takes longer than reading the files."""
    return Path(os.path.normpath(path))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value.rpartition("=")[2]  # a generator's KEY=FILE
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _text(path: Path) -> str:
    try:
        return text_of(path, "utf-8-sig", errors="replace") if _is_file(path) else ""
    except OSError:
        return ""


def _is_file(path: Path) -> bool:
    """Also of a text that is too long for a path, and of a folder that may not be looked into: no."""
    try:
        return path.is_file()
    except OSError:
        return False


def _names_accelerators(path: Path) -> bool:
    return names_accelerators(_text(path))


def _looks_like_an_object(path: Path) -> bool:
    text = _text(path)
    return "kind" in text and "apiVersion" in text
