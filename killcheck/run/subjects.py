"""What a run's drills are of, as digests: the spec, the manifests, the images of what turns the GPUs off.

Digests are of what is said, not of how it is written: a comment, the order of keys, of documents and of files, and
their names and folders make no difference. What Secrets hold is not in them, nor what a name calls a secret elsewhere
(:mod:`killcheck.run.withheld`): a digest of a short value gives it away.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from killcheck.images.reference import InvalidReference, parse
from killcheck.kube.objects import Obj, dig, name_of, namespace_of, ref_of
from killcheck.kube.passed_over import Skipped
from killcheck.kube.workloads import templates
from killcheck.run.session import Session
from killcheck.run.withheld import withheld, withheld_text
from killcheck.spec.killpath import KillPath
from killcheck.spec.specfile import accepted
from killcheck.text.files import LONGEST, opened, text_of
from killcheck.text.yamlfile import YamlError, documents

__all__ = ["Subjects", "images_of", "of_manifests", "of_session", "of_spec"]

#: Fields of a Secret whose values are nobody's to digest.
_HELD = ("data", "stringData")
#: Characters of a digest.
_LONG = len("sha256:") + 64


class Subjects(Struct, frozen=True):
    """Digests are ``sha256:`` and 64 hexadecimal digits. ``spec``: empty where the kill path was found without one.

    ``objects``: of each object of the manifests by its ref. ``unread``: of files that could not be read and may hold
    GPUs or a switch. ``images``: those of the layers' executors, as the manifests write them. ``withheld``: refs of
    objects, Secrets aside, that hold values which are not in their digests.
    """

    spec: str = ""
    objects: dict[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    @property
    def manifests(self) -> str:
        """The digest of all objects and unread files together; empty where there are no manifests."""
        return _sha({"objects": self.objects, "unread": sorted(self.unread)}) if self.objects or self.unread else ""

    @property
    def pinned(self) -> dict[str, str]:
        """Images that are named by digest, with it."""
        return {image: digest for image in self.images if (digest := _digest_of(image))}

    @property
    def unpinned(self) -> list[str]:
        """Images that are named by a tag, which is no digest: what it leads to may change without a trace."""
        return [image for image in self.images if not _digest_of(image)]

    def to_json(self) -> dict[str, Any]:
        """As the run record has them."""
        return {
            "spec": self.spec,
            "objects": self.objects,
            "unread": list(self.unread),
            "images": list(self.images),
            "withheld": list(self.withheld),
        }


def of_session(session: Session) -> Subjects:
    """What a session's drills are of. Raises what reading its spec and manifests does.

    On a real cluster there are no manifests, and the images are only known when its objects were listed.
    """
    spec = of_spec(session.spec_file) if session.spec_file is not None else ""
    if session.real:
        return Subjects(spec)
    objects = session.objects  # read now: what is passed over is known from then on
    objects = [*objects, *(obj for _, obj in session.refused)]
    unread = set(session.unseen) - {skipped for skipped, _ in session.refused}
    digested = [(obj, _without_secrets(obj)) for obj in objects]
    return Subjects(
        spec,
        _by_ref(digested),
        _unread(unread),
        images_of(session.kill_path, objects),
        tuple(sorted({ref_of(obj) for obj, left in digested if obj.get("kind") != "Secret" and left != obj})),
    )


def of_spec(file: Path) -> str:
    """The digest of a spec and of the exposures that are accepted beside it. Raises OSError, YamlError."""
    said = [document.value for document in documents(text_of(file), str(file))]
    beside = accepted.beside(file)
    with suppress(FileNotFoundError, YamlError):
        said += [document.value for document in documents(text_of(beside), str(beside))]
    return _sha(withheld(said))


def of_manifests(objects: Iterable[Obj]) -> dict[str, str]:
    """By ref, the digest of every object."""
    return _by_ref((obj, _without_secrets(obj)) for obj in objects)


def _by_ref(digested: Iterable[tuple[Obj, Any]]) -> dict[str, str]:
    """``digested``: objects, and what of each is digested."""
    found: dict[str, set[str]] = defaultdict(set)
    for obj, left in digested:
        found[ref_of(obj)].add(_sha(left))
    return {ref: min(one) if len(one) == 1 else _sha(sorted(one)) for ref, one in sorted(found.items())}


def images_of(kill_path: KillPath, objects: Iterable[Obj]) -> tuple[str, ...]:
    """The images of the layers' executors, as far as those are among the objects; sorted."""
    wanted = {(ref.kind, ref.namespace, ref.name) for ref in (layer.ref for layer in kill_path.layers) if ref}
    found = {
        str(container.get("image", ""))
        for obj in objects
        if (obj.get("kind"), namespace_of(obj) or "default", name_of(obj)) in wanted
        for template in templates(obj)
        for part in ("initContainers", "containers")
        for container in dig(template.spec, part, default=()) or ()
        if isinstance(container, dict)
    }
    return tuple(sorted(found - {""}))


def _digest_of(image: str) -> str | None:
    """``sha256:...`` where the image is named by it, else None."""
    try:
        digest = parse(image).digest
    except InvalidReference:
        return None
    return digest.lower() if digest.startswith("sha256:") and len(digest) == _LONG else None


def _unread(skipped: Iterable[Skipped]) -> tuple[str, ...]:
    return tuple(sorted({_of_file(Path(one.file)) or _sha(one.why) for one in skipped}))


def _of_file(file: Path) -> str | None:
    """The digest of a file's content; None for what a checkout may bring in the place of one: a link, a device, a pipe,
    or more than any manifest is."""
    if file.is_symlink():
        return None
    try:
        with opened(file) as source:
            content = source.read(LONGEST + 1)
    except OSError:
        return None
    if len(content) > LONGEST:
        return None
    text = withheld_text(content.decode("utf-8", "surrogateescape"))
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _without_secrets(obj: Obj) -> Any:
    if obj.get("kind") != "Secret":
        return withheld(obj)
    return {key: sorted(value) if key in _HELD and isinstance(value, dict) else value for key, value in obj.items()}


def _sha(value: Any) -> str:
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), default=str)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _plain(value: Any) -> Any:
    """The same with text as keys: YAML has others, which cannot be sorted."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
