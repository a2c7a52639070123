"""Manifests as a team commits them: files and folders of YAML and JSON, every object with the place it came from.

Read as Kubernetes reads them (YAML 1.1). What cannot be read is passed over and said, never guessed, and stops nothing:
what a template, a chart or a kustomization would have made of it is missing until it is rendered.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path as FilePath

from msgspec import Struct, field

from killcheck.kube import cron_workflows, manifest_text, outside_schedules
from killcheck.kube.custom_holders import may_hold, mention
from killcheck.kube.gpus import claims_of
from killcheck.kube.manifest_folders import Folders
from killcheck.kube.manifest_render import Filling, Rendered
from killcheck.kube.manifest_text import Manifest
from killcheck.kube.objects import Obj, key_of, ref_of
from killcheck.kube.passed_over import SPEC, Cause, Skipped, summed_up
from killcheck.kube.workloads import devices_of
from killcheck.text.files import enclosed, fetch_ahead, text_of
from killcheck.text.problems import FileProblems, Problem, not_utf8
from killcheck.text.redaction import hide_secrets
from killcheck.text.shown import shown
from killcheck.text.values import replace

__all__ = ["BY_HAND", "STUMBLES", "Loaded", "Manifest", "ManifestError", "Renderings", "Skipped", "load", "loads"]

#: So many kustomizations further down are rendered, each in a sixth of a second: a repository may have hundreds.
_MOST_RENDERED = 12
#: How Python says that a value is not what a reader took it for.
STUMBLES = (AttributeError, TypeError, ValueError, KeyError, IndexError)
#: What folders became, by the folder and what it was filled in with.
Renderings = dict[tuple[str, ...], Rendered | None]
#: Group, kind, and (namespace, name) of an object.
_Identity = tuple[str, str, tuple[str, str]]


class ManifestError(FileProblems):
    """Manifests that the API server would not take, or that cannot be read; ``problems`` are all of them."""


class Loaded(Struct, frozen=True):
    """What was found. ``skipped`` is what was not loaded and why, ``notes`` what a reader should know besides.

    ``surprises`` were read, and otherwise than their writer may think. ``variants``: of an object that several files
    give, those that are not among ``manifests``. ``overlays``: where what was named is nothing but several overlays and
    what they share, the overlays' folders: somebody must choose one. ``sharing``: files that several of them deploy,
    each with their folders. ``named``: the files and folders that were given, of which a later one is laid over others.
    """

    manifests: tuple[Manifest, ...]
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    surprises: tuple[Problem, ...] = ()
    variants: tuple[Manifest, ...] = ()
    overlays: tuple[str, ...] = ()
    sharing: Mapping[str, tuple[str, ...]] = {}
    named: tuple[str, ...] = ()

    @property
    def objects(self) -> list[Obj]:
        """The objects alone, in the files' order."""
        return [manifest.obj for manifest in self.manifests]

    @property
    def unseen(self) -> tuple[Skipped, ...]:
        """What was passed over and may hold GPUs, or a switch."""
        return tuple(one for one in self.skipped if one.matters)

    def passed_over(self, *, spec: bool, verbose: bool = False, harmless: bool = False) -> list[str]:
        """What was not read, one line a class, or each (``verbose``). ``spec``: one was named, so none is told.

        ``harmless``: only that in which nothing can be, where findings tell the rest.
        """
        told = [one for one in self.skipped if one.cause is not Cause.SPEC and not (harmless and one.matters)]
        own = [one for one in self.skipped if one.cause is Cause.SPEC and not one.file.endswith(".accepted.yaml")]
        specs = [] if spec else own  # accepted exposures are read with their spec
        lines = [
            *(f"{one.file}: not read: {SPEC} (give it as SPEC)" for one in specs),
            *summed_up(told, verbose=verbose),
        ]
        return [shown(line) for line in lines]

    def find(self, obj: Obj) -> Manifest | None:
        """Where an object came from, by kind, namespace and name."""
        wanted = _identity(obj)
        return next((manifest for manifest in self.manifests if _identity(manifest.obj) == wanted), None)


class _Reading(Struct):
    """What has been read so far of all that was named."""

    schemas: bool = True
    manifests: list[Manifest] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    surprises: list[Problem] = field(default_factory=list)
    overlays: list[str] = field(default_factory=list)
    sharing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    seen: set[FilePath] = field(default_factory=set)
    renderings: Renderings = field(default_factory=dict)

    def text(self, text: str, file: str) -> None:
        """Read one text."""
        found = manifest_text.read(text, file, schemas=self.schemas)
        self.manifests += found.manifests
        self.skipped += found.skipped
        self.surprises += found.surprises

    def loaded(self) -> Loaded:
        """All of it, each object once, but for what Helm runs when it is asked to."""
        asked = [one for one in self.manifests if _when_asked(one.obj)]
        if asked:
            named = ", ".join(f"{ref_of(one.obj)} ({one.place})" for one in asked[:3])
            more = f", and {len(asked) - 3} more" if asked[3:] else ""
            self.notes.append(f"left out, for helm makes it only when it is asked to (helm.sh/hook): {named}{more}")
        runs = [one for one in self.manifests if one not in asked] if asked else self.manifests
        kept, variants = _one_of_each(runs, self.notes)
        return Loaded(
            (*kept, *_standing_for(kept, self.notes)),
            tuple(self.skipped),
            tuple(self.notes),
            tuple(self.surprises),
            tuple(variants),
            tuple(self.overlays),
            self.sharing,
            self.named,
        )


def load(
    paths: FilePath | str | Sequence[FilePath | str],
    *,
    strict: bool = False,
    exclude: Sequence[str] = (),
    schemas: bool = True,
    values: Sequence[FilePath] = (),
    sets: Sequence[str] = (),
    none_needed: bool = False,
    renderings: Renderings | None = None,
) -> Loaded:
    """Everything in these files and folders (``-`` is standard input), but for the patterns of ``exclude``.

    What cannot be read is passed over, and said. Raises ManifestError where a file that was named, or everything,
    is of that kind; with ``strict`` wherever anything is, with all problems. ``schemas``: those of
    CustomResourceDefinitions too, for a cluster that they are loaded into. A chart or a kustomization that is named
    itself is rendered where the programs for it are installed, the chart with these files of ``values``, and
    with these of its values ``sets`` (``KEY=VALUE``). ``none_needed``: there need not be any object.
    ``renderings``: what was rendered before, which is not rendered again; what is rendered is added.
    """
    wanted = [paths] if isinstance(paths, str | FilePath) else list(paths)
    reading = _Reading(schemas, renderings={} if renderings is None else renderings, named=tuple(map(str, wanted)))
    problems: list[Problem] = []
    for path in wanted:
        before, passed = len(reading.manifests), len(reading.skipped)
        _read(path, exclude, Filling(values, sets), reading)
        faults = [one for one in reading.skipped[passed:] if one.cause.is_fault]
        if faults and (strict or (len(reading.manifests) == before and not FilePath(path).is_dir())):
            problems += _problems(faults)
    if strict:
        problems += reading.surprises
    machines = any(one.document is not None for one in reading.skipped)  # eksctl's: enough for a fence
    none_needed = none_needed or machines
    if not (problems or reading.manifests or none_needed) and not _something_beyond(wanted, reading.skipped):
        problems += _problems([one for one in reading.skipped if one.cause.is_fault]) or [
            Problem(str(path), 0, "", _why_nothing(reading.skipped)) for path in wanted
        ]
    if problems:
        raise ManifestError(problems)
    hide_secrets(manifest.obj for manifest in reading.manifests)
    return reading.loaded()


def loads(text: str, file: str = "<text>") -> Loaded:
    """Everything in one text. Raises ManifestError with all problems: there is nothing else that could go on."""
    reading = _Reading()
    reading.text(text, file)
    faults = [one for one in reading.skipped if one.cause.is_fault]
    if faults or reading.surprises:
        raise ManifestError([*_problems(faults), *reading.surprises])
    return reading.loaded()


def _something_beyond(paths: Sequence[FilePath | str], skipped: Iterable[Skipped]) -> bool:
    """Whether folders hold nothing that can be read, and what may be objects once it is rendered or mended.

    A chart that was named itself is no such folder: that it has to be rendered is the whole answer.
    """
    named = {str(path) for path in paths}
    beyond = (Cause.CHART, Cause.TEMPLATE, Cause.BROKEN, Cause.REFUSED)
    return all(FilePath(path).is_dir() for path in paths) and any(
        (one.cause in beyond and one.file not in named)
        or (one.cause is Cause.OUTSIDE and outside_schedules.is_of_a_machine(FilePath(one.file)))
        for one in skipped
    )


def _problems(faults: Iterable[Skipped]) -> list[Problem]:
    return [Problem(one.file, one.line, "", one.why) for one in faults]


def _read(path: FilePath | str, exclude: Sequence[str], filling: Filling, reading: _Reading) -> None:
    """Everything below one path that was named: as it is written, or rendered where it has to be and can be."""
    if str(path) == "-":
        reading.text(sys.stdin.read(), "<stdin>")
        return
    written = _Reading(reading.schemas, seen=reading.seen, renderings=reading.renderings)
    folders = _read_written(path, exclude, written)
    changed = any(one.cause in (Cause.CHART, Cause.KUSTOMIZATION) for one in written.skipped)
    if changed and FilePath(path).is_dir() and not _render(FilePath(path), filling, written):
        _render_deeper(folders, written)
    for name in ("manifests", "skipped", "notes", "surprises", "overlays"):
        getattr(reading, name).extend(getattr(written, name))
    reading.sharing |= written.sharing


def _render_deeper(folders: Folders, written: _Reading) -> None:
    """Put what the kustomizations further down become in the place of what they list: of a few, of their own files.

    Where there are more, the first that name GPUs. What one that was not rendered uses too is still told.
    """
    changing = {one.file: one.names_gpus for one in written.skipped if one.cause is Cause.KUSTOMIZATION}
    telling = {_normal(file) for file, named in changing.items() if named}
    tops = folders.tops(changing)
    wanted = tops if len(tops) <= _MOST_RENDERED else [top for top in tops if not telling.isdisjoint(top[2])]
    done, left = set[FilePath](), set[FilePath]()
    for top in tops:
        budgeted = top in wanted[:_MOST_RENDERED]
        (done if budgeted and _render_one(top[0], top[1], written) else left).update(top[2])
    written.skipped = [
        one for one in written.skipped if one.cause is not Cause.KUSTOMIZATION or _normal(one.file) not in done - left
    ]


def _render_one(folder: FilePath, files: Collection[FilePath], written: _Reading) -> bool:
    """Put what one kustomization becomes in the place of its files; whether that could be had."""
    own = [one for one in written.manifests if _normal(one.file) in files]
    if not own:
        return False
    made = _Reading(written.schemas, manifests=own, renderings=written.renderings)
    _render(folder, Filling(), made)
    written.notes += made.notes
    if made.manifests is own:
        return False
    ours = {id(one) for one in own}
    first = next(i for i, one in enumerate(written.manifests) if id(one) in ours)
    written.manifests = [one for one in written.manifests if id(one) not in ours]
    written.manifests[first:first] = made.manifests
    written.skipped += made.skipped
    written.surprises += made.surprises
    return True


def _normal(file: str) -> FilePath:
    return FilePath(os.path.normpath(file))


def _render(folder: FilePath, filling: Filling, written: _Reading) -> bool:
    """Put what a chart or kustomization that was named becomes in the place of what is written there.

    Answers whether the folder is one.
    """
    from killcheck.kube.manifest_render import placed, render

    key = (str(folder), *filling.words)
    if key not in written.renderings:
        written.renderings[key] = render(folder, filling)
    rendered = written.renderings[key]
    if rendered is None:
        return False
    if rendered.why:
        written.skipped = [
            replace(one, why=rendered.why) if one.cause is Cause.CHART else one for one in written.skipped
        ]
        if not any(one.cause is Cause.CHART for one in written.skipped):
            written.notes.append(f"{folder}: {rendered.why}")
        return True
    if (folder / "Chart.yaml").is_file() and not filling.words:
        written.notes.append(f"{folder}: filled in with the chart's own values; yours: -f FILE, --set KEY=VALUE")
    made = _Reading(written.schemas)
    made.text(rendered.text, f"{folder} (rendered)")
    written.manifests = placed(made.manifests, rendered.text, folder, written.manifests)
    done = (Cause.CHART, Cause.KUSTOMIZATION)
    written.skipped = [one for one in written.skipped if one.cause not in done] + [
        one for one in made.skipped if one.cause is not Cause.NO_MANIFEST
    ]
    written.surprises = made.surprises
    return True


def _read_written(path: FilePath | str, exclude: Sequence[str], reading: _Reading) -> Folders:
    """Everything below one path, each file once, in order."""
    folders = Folders(exclude)
    files = list(_files(FilePath(path), folders))  # all of them: a later kustomization may use an earlier file
    fetch_ahead(files if FilePath(path).is_dir() else ())
    for file in files:
        if _leads_out(file, FilePath(path)):
            why = f"a link that leads out of {path}, not followed: name that file too"
            reading.skipped.append(Skipped(str(file), 0, why, Cause.ELSEWHERE))
            continue
        real = FilePath(os.path.realpath(file))  # links in a circle are told by who reads them
        if real not in reading.seen and not folders.is_part(file):
            reading.seen.add(real)
            _read_file(file, reading)
    reading.skipped += folders.told()
    reading.notes += folders.notes
    reading.overlays += folders.overlays
    reading.sharing |= folders.sharing
    return folders


def _leads_out(file: FilePath, named: FilePath) -> bool:
    """Whether a file of a folder is a link to one that is elsewhere: a stranger names no file of ours."""
    return file.is_symlink() and file != named and not (enclosed(file, named) or enclosed(file, file.parent))


def _files(path: FilePath, folders: Folders) -> Iterator[FilePath]:
    try:
        yield from folders.files(path)
    except OSError as error:  # a folder that cannot be read
        folders.skipped.append(_unreadable(error.filename or path, error))


def _read_file(file: FilePath, reading: _Reading) -> None:
    try:
        text = text_of(file, "utf-8-sig")
    except UnicodeDecodeError as error:
        reading.skipped.append(Skipped(str(file), 0, not_utf8(error), Cause.UNREADABLE))
    except OSError as error:
        reading.skipped.append(_unreadable(file, error))
    else:
        reading.text(text, str(file))


def _unreadable(file: object, error: OSError) -> Skipped:
    return Skipped(str(file), 0, (error.strerror or str(error)).lower(), Cause.UNREADABLE)


_NEXT = "name the file or the folder that holds the manifests"
#: What to do about what turns off GPUs outside Kubernetes.
BY_HAND = (
    "What turns off GPUs outside Kubernetes is drilled by a killcheck.yaml that names the machine and its programs: "
    "killcheck drill --example single-controller is one, docs/layers.md tells how it is written"
)


def _why_nothing(skipped: Sequence[Skipped]) -> str:
    """What was found instead, three at most, and what to do next."""
    if not skipped:
        return f"no YAML or JSON file in it: {_NEXT}"
    named = [f"{one.file}: {one.why}" for one in skipped[:3]] + ([f"{len(skipped) - 3} more"] if skipped[3:] else [])
    outside = any(one.cause is Cause.OUTSIDE for one in skipped)
    return f"no Kubernetes object in it; {'; '.join(named)}. {BY_HAND if outside else _NEXT.capitalize()}"


def _identity(obj: Obj) -> _Identity:
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    return group, str(obj.get("kind")), key_of(obj)


#: Hooks that no install and no upgrade runs. Source: helm.sh, Chart Hooks and Chart Tests.
_WHEN_ASKED = frozenset({"test", "test-success", "test-failure", "pre-rollback", "post-rollback"})
_WHEN_ASKED |= {"pre-delete", "post-delete"}


def _when_asked(obj: Obj) -> bool:
    """Whether an object is a hook of a test, a rollback or the end of a release, and nothing else."""
    with suppress(*STUMBLES):
        hooks = {one.strip() for one in str(obj["metadata"]["annotations"]["helm.sh/hook"]).split(",")}
        return hooks <= _WHEN_ASKED
    return False


def _one_of_each(manifests: Sequence[Manifest], notes: list[str]) -> tuple[list[Manifest], list[Manifest]]:
    """Each object once, and its other variants.

    In one file the later one is meant, as applying it would have it. In several files they are variants (overlays,
    examples), of which the last that holds GPUs, or may, is asked about: none goes unseen behind another's name.
    """
    by_identity: dict[_Identity, list[Manifest]] = {}
    for manifest in manifests:
        identity = _identity(manifest.obj)
        if not identity[2][1]:  # generateName: an object of its own
            identity = (*identity[:2], ("", manifest.place))
        by_identity.setdefault(identity, []).append(manifest)
    claims: dict[tuple[str, str, str], Obj] = {}
    for manifest in manifests:
        with suppress(*STUMBLES):  # what is of a shape that no API server takes is told when all is read
            claims |= claims_of([manifest.obj])
    kept, variants = [], []
    for given in by_identity.values():
        last = list({manifest.file: manifest for manifest in given}.values())  # of each file
        chosen = _most_telling(last, claims) if len(last) > 1 else last[0]
        kept.append(chosen)
        variants += [manifest for manifest in given if manifest is not chosen]
    notes += _told(kept, variants)
    order = {id(manifest): i for i, manifest in enumerate(manifests)}
    return sorted(kept, key=lambda manifest: order[id(manifest)]), variants


def _standing_for(manifests: Sequence[Manifest], notes: list[str]) -> Iterator[Manifest]:
    """A CronJob for each CronWorkflow that one can stand for, at its place; why none can is told."""
    for one in manifests:
        if not cron_workflows.is_cron_workflow(one.obj) or _names_accelerators(one):
            continue
        try:
            made = cron_workflows.as_cron_job(one.obj, [other.obj for other in manifests])
        except STUMBLES:
            continue
        if isinstance(made, str):
            notes.append(f"{ref_of(one.obj)} ({one.place}) is not run here: {made}")
        elif not any(_identity(made) == _identity(other.obj) for other in manifests):
            notes.append(f"{ref_of(one.obj)} ({one.place}) is run as a CronJob: its clock, account and programs")
            yield dataclasses.replace(one, obj=made)


def _most_telling(variants: Sequence[Manifest], claims: dict[tuple[str, str, str], Obj]) -> Manifest:
    latest = variants[::-1]
    holders = (one for one in latest if _holds(one, claims))
    return next(holders, None) or next(filter(_names_accelerators, latest), latest[0])


def _names_accelerators(manifest: Manifest) -> bool:
    """Whether it is a custom resource that says of accelerators what nobody here understands."""
    try:
        return may_hold(manifest.obj) and mention(manifest.obj) is not None
    except STUMBLES:
        return False


def _holds(manifest: Manifest, claims: dict[tuple[str, str, str], Obj]) -> bool:
    try:
        return devices_of(manifest.obj, claims, wanted=True) > 0
    except STUMBLES:
        return False


def _told(kept: Iterable[Manifest], variants: Sequence[Manifest]) -> Iterator[str]:
    """One sentence on the objects that are given more than once, with the first of them."""
    if not variants:
        return
    first = variants[0]
    used = next(manifest for manifest in kept if _identity(manifest.obj) == _identity(first.obj))
    number = len({_identity(manifest.obj) for manifest in variants})
    others = f" ({number} objects are given more than once)" if number > 1 else ""
    if used.file == first.file:
        yield f"{ref_of(first.obj)} is given twice, at {first.place} and {used.place}; the later one is used{others}"
    else:
        yield (
            f"{ref_of(first.obj)} has variants, at {first.place} and {used.place}: {used.place} is asked about; "
            f"name one folder to ask about that one{others}"
        )
