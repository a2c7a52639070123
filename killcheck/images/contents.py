"""What an image contains: the commands in it, and how it starts. From ``images.yaml``, or assumed, and said so."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from killcheck.images.platforms import arches_of
from killcheck.images.reference import InvalidReference, Reference, parse
from killcheck.text import lazy_re
from killcheck.text.values import replace

__all__ = ["DEFAULT_PATH", "Contents", "contents_of", "is_known"]

#: What runc puts into the environment of a container whose image sets none.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Bytes of an image that nothing is known of: what the recorded executor image had.
ASSUMED_SIZE = 115_372_532
MEGABYTE = 1_000_000
#: Docker's official images (docker-library/official-images, library/): distributions, languages, servers. Any other
#: name without a registry is somebody's own image, brought to the nodes by hand or by a mirror.
_OFFICIAL = frozenset(
    (
        "almalinux alpine amazoncorretto amazonlinux archlinux bash buildpack-deps busybox caddy clojure composer "
        "debian docker eclipse-temurin elixir erlang fedora gcc golang gradle groovy haproxy haskell httpd julia "
        "mariadb maven memcached mongo mysql nats nginx node openjdk oraclelinux perl php postgres pypy python r-base "
        "rabbitmq redis registry rockylinux ruby rust sapmachine swift tomcat traefik ubuntu"
    ).split()
)
_MINOR = lazy_re.compile(r"(\d{1,3})\.(\d{1,3})(?![\d])")
#: What none of them has.
_NOT_OFFICIAL = frozenset({"kubectl", "oc", "helm", "aws", "gcloud", "az"})


class Contents(Struct, frozen=True):
    """``commands`` maps the absolute path of every command to its name; None: nothing is known of the image.

    ``merged``: /bin is /usr/bin. ``scripts``: (path, text) of small programs of its own. ``gone_since``: from then on
    no registry has it. ``python_packages``: whether Python finds more there than its standard library. ``source`` says
    where this is from.
    """

    commands: dict[str, str] | None
    merged: bool = True
    path: str = DEFAULT_PATH
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    size: int = ASSUMED_SIZE
    gone_since: datetime | None = None
    python_packages: bool = True
    #: Of its Python, where it is known.
    python_version: tuple[int, int] | None = None
    scripts: tuple[tuple[str, str], ...] = ()
    #: The architectures that its name confines it to; empty: it names none.
    arches: tuple[str, ...] = ()
    #: Whether it has the time zones (tzdata); without them ``TZ=Europe/Berlin`` is UTC.
    zones: bool = True
    #: Paths of commands that are applets of busybox.
    applets: frozenset[str] = frozenset()
    #: Of an image of which nothing is known: programs that are surely not in it.
    without: frozenset[str] = frozenset()
    source: str = "assumed"

    @property
    def known(self) -> bool:
        """Whether anything is known of what is in it."""
        return self.commands is not None

    @property
    def assumed(self) -> bool:
        """Whether what is here is a guess."""
        return self.commands is None or self.source.startswith("assumed")

    @property
    def own_folders(self) -> tuple[str, ...]:
        """Folders that are this image's alone, such as ``/opt/bitnami/``: more is in them than its commands."""
        of_every = ("/bin/", "/sbin/", "/usr/")
        placed = [path.split("/")[1:-1] for path in self.commands or () if not path.startswith(of_every)]
        return tuple(dict.fromkeys(f"/{'/'.join(parts[:2])}/" for parts in placed if len(parts) > 1))

    def has(self, path: str) -> bool:
        """Whether an absolute path is one of its commands (known images only)."""
        return self._resolved(path) is not None

    def find(self, name: str, search: str = "") -> str | None:
        """Where a bare command name is found on a PATH (known images only)."""
        for directory in (search or self.path).split(":"):
            candidate = f"{directory.rstrip('/')}/{name}"
            if self._resolved(candidate):
                return candidate
        return None

    def _resolved(self, path: str) -> str | None:
        commands = self.commands or {}
        if path in commands or any(path == script for script, _ in self.scripts):
            return path
        if self.merged:
            for short in ("/bin/", "/sbin/"):
                if path.startswith(short) and f"/usr{path}" in commands:
                    return f"/usr{path}"
        return None


def contents_of(reference: Reference) -> Contents:
    """What is known of an image. Docker's official images are in other registries too, unchanged."""
    found, arches = _named(reference), arches_of(reference)
    return replace(found, arches=arches) if arches else found


def _named(reference: Reference) -> Contents:
    repository = reference.repository
    for mirror in ("public.ecr.aws/docker/library/", "mirror.gcr.io/library/"):
        repository = repository.replace(mirror, "docker.io/library/")
    for entry in _catalogue()["images"]:
        if not fnmatchcase(repository, entry["repository"]):
            continue
        tags = entry.get("tags")
        if tags is None or any(fnmatchcase(reference.tag, tag) for tag in tags):
            return _contents(entry, reference)
    if repository.removeprefix("docker.io/library/") in _OFFICIAL:
        return Contents(None, without=_NOT_OFFICIAL, source="docker-library/official-images: none of them has it")
    return Contents(None)


@cache
def _catalogue() -> dict[str, Any]:
    import yaml

    text = Path(__file__).with_name("images.yaml").read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # type: ignore[no-any-return]  # noqa: S506 - a safe loader, ours


def _layouts() -> dict[str, Any]:
    return _catalogue()["layouts"]  # type: ignore[no-any-return]


def _contents(entry: dict[str, Any], reference: Reference) -> Contents:
    commands, merged, applets = _commands(entry["contains"]) if "contains" in entry else (None, True, frozenset())
    size = entry.get("size_mb")
    return Contents(
        commands,
        merged=merged,
        applets=applets,
        path=entry.get("path", DEFAULT_PATH),
        entrypoint=tuple(entry.get("entrypoint", ())),
        command=tuple(entry.get("command", ())),
        user=str(entry.get("user", "")),
        size=ASSUMED_SIZE if size is None else int(size * MEGABYTE),
        gone_since=_moment(entry.get("gone")),
        python_packages=entry.get("python_packages", True),
        python_version=_version(entry.get("python"), reference),
        zones=entry.get("tzdata", not any(map(_is_zoneless, entry.get("contains", ())))),
        scripts=tuple(entry.get("scripts", {}).items()),
        source=str(entry.get("source", "assumed")),
    )


def _version(said: str | None, reference: Reference) -> tuple[int, int] | None:
    """The version that an entry says, or its tag (``3.12-slim``)."""
    found = _MINOR.match(reference.tag if said == "tag" else said or "")
    return (int(found[1]), int(found[2])) if found else None


def _commands(names: list[str]) -> tuple[dict[str, str], bool, frozenset[str]]:
    """(path -> name, whether the layout is merged, the paths that are busybox' applets)."""
    layouts = _layouts()
    found: dict[str, str] = {}
    merged = True
    applets: set[str] = set()
    for item in names:
        if item in layouts:
            found |= _layout(item)
            applets |= set(_layout(item)) if layouts[item].get("applets") else set()
            merged = merged and layouts[item].get("merged", True)
        else:
            name, _, where = item.partition("@")
            found[where or f"/usr/bin/{name}"] = name
            applets.discard(where or f"/usr/bin/{name}")
    return found, merged, frozenset(applets)


def _is_zoneless(layout: str) -> bool:
    return _layouts().get(layout, {}).get("tzdata") is False


@cache
def _layout(name: str) -> dict[str, str]:
    layout = _layouts()[name]
    found: dict[str, str] = {}
    for other in layout.get("with", ()):
        found |= _layout(other)
    for directory, commands in layout.items():
        if directory.startswith("/"):
            for command in commands.split():
                name, _, program = command.partition("=") if len(command) > 2 else (command, "", "")
                found[f"{directory}/{name}"] = program or name
    return found


def _moment(value: date | None) -> datetime | None:
    return None if value is None else datetime(value.year, value.month, value.day, tzinfo=UTC)


def is_known(image: str) -> bool:
    """Whether anything is known of what the image of that reference contains."""
    try:
        return contents_of(parse(image)).known
    except InvalidReference:
        return False
