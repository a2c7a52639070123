"""An image and its command tried for real: run once on a Docker Engine, without network, credentials, mounts or rights.

What it does there comes to nothing; whether it *can start* is what is learnt. Nothing is left: the container goes, and
so does the image, unless it was there before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct

from killcheck.engine.connection import Engine, answered
from killcheck.engine.firings import has, pull
from killcheck.engine.projection import seconds
from killcheck.kube.errors import KubeError, NotFound
from killcheck.text import lazy_re

__all__ = ["Rehearsal", "rehearse"]

#: How long a command may run before it counts as one that starts, in seconds: a busy engine is slow to say why not.
PATIENCE_S = 20
#: Label of the containers, so that a later rehearsal removes what a killed one left.
LABEL = "killcheck.dev/rehearsal"
#: How old a rehearsal's container is, in seconds, when whoever made it must have been killed.
LEFT_S = 120
_LACKS = lazy_re.compile(r"(?:^|[\s:])([\w./-]+): (?:command )?not found", re.MULTILINE)
#: How shells say that a variable is not set, which a rehearsal has only where it is plain: bash ends with 127 then.
_UNSET = lazy_re.compile(r"unbound variable|parameter (?:null or )?not set")
#: What ends a command that has no network and no rights: it did start.
_MEMORY = 256 * 1024 * 1024


class Rehearsal(Struct, frozen=True):
    """What came of it. ``starts`` None: it could not be tried; ``why`` in the runtime's or the program's own words."""

    starts: bool | None
    why: str


def rehearse(engine: Engine, image: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Rehearsal:
    """Run ``argv`` (none: the image's own command) in ``image``. Raises Unreachable where no engine answers."""
    try:
        with _at_hand(engine, image):
            return _run(engine, image, list(argv), dict(env or {}))
    except KubeError as error:
        if not getattr(error, "code", 0) and "Docker Engine" in str(error):
            raise
        return Rehearsal(None, f"{image} could not be had: {getattr(error, 'message', error)}")


@contextmanager
def _at_hand(engine: Engine, image: str) -> Iterator[None]:
    there = has(engine.api, image)
    if not there:
        pull(engine.api, image, anonymous=True)
    try:
        yield
    finally:
        if not there:
            with suppress(KubeError), answered():
                engine.api.remove_image(image)


def _run(engine: Engine, image: str, argv: list[str], env: dict[str, str]) -> Rehearsal:
    api = engine.api
    config: dict[str, Any] = {
        "Image": image,
        "Labels": {LABEL: "true"},
        "Env": [f"{name}={value}" for name, value in env.items()],
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": "size=16m"},  # noqa: S108
            "PidsLimit": 64,
            "Memory": _MEMORY,
            "SecurityOpt": ["no-new-privileges"],
        },
    }
    if argv:
        config |= {"Entrypoint": argv[:1], "Cmd": argv[1:]}
    with answered(engine.host):
        now = float(seconds(str(api.info()["SystemTime"])))
        for old in api.containers(all=True, filters={"label": LABEL}):
            if now - float(old["Created"]) > LEFT_S:
                api.remove_container(old["Id"], force=True, v=True)
        made = str(api.create_container_from_config(config)["Id"])  # type: ignore[no-untyped-call]
    try:
        try:
            with answered(engine.host):
                api.start(made)
        except KubeError as error:
            return Rehearsal(False, str(getattr(error, "message", error)))
        return _watch(engine, made)
    finally:
        with suppress(NotFound), answered(engine.host):
            api.remove_container(made, force=True, v=True)


def _watch(engine: Engine, made: str) -> Rehearsal:
    from requests.exceptions import ConnectionError as NoAnswer
    from requests.exceptions import ReadTimeout

    with answered(engine.host):
        try:
            code = int(engine.api.wait(made, timeout=PATIENCE_S)["StatusCode"])
        except (ReadTimeout, NoAnswer):
            state = engine.api.inspect_container(made)["State"]  # an engine that went away says so here
            if state.get("Running"):
                return Rehearsal(True, f"it starts, and still ran after {PATIENCE_S} s")
            code = int(state["ExitCode"])
        said = bytes(engine.api.logs(made))[-4000:].decode("utf-8", "replace").strip()
    lacking = _LACKS.search(said)
    if code and not lacking and _UNSET.search(said):
        return Rehearsal(True, f"it starts, and ends for want of a variable: {said.splitlines()[-1]}")
    if code in (126, 127) or (code and lacking):
        return Rehearsal(False, f"exit code {code}: {said.splitlines()[-1] if said else 'no such command'}")
    if code and "exec format error" in said:
        return Rehearsal(False, said.splitlines()[-1])
    if lacking:
        return Rehearsal(False, f"it goes on without {lacking.group(1)}: {lacking.group(0).strip()}")
    return Rehearsal(True, f"it starts (exit code {code} without a network)")
