"""Which kill path a run is about, from what was named: one place decides it for the command line and for pytest.

A spec that is named, by its file or its folder; else the example that is named; else what is found in the manifests
that are named; else ``killcheck.yaml`` in this folder, or the nearest above it. A shipped example is no default.
What may *not* live here: terminals, clusters, what a spec means.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from killcheck.cluster.naming import ENVTEST
from killcheck.kube import releases
from killcheck.run.session import ExecMode, Session, SessionError
from killcheck.spec.killpath import KillPath, Outcome, Policy

__all__ = ["SPEC_NAME", "arguments", "chosen", "find_spec", "headline", "source", "spec_in"]

#: What a spec is called that nobody named.
SPEC_NAME = "killcheck.yaml"


def chosen(
    *,
    spec: Path | None = None,
    on: str = "embedded",
    manifests: Sequence[Path] = (),
    example: str = "",
    exec_mode: ExecMode | None = None,
    kubeconfig: Path | None = None,
    allow_commands: bool = False,
    start: Path | None = None,
    kubernetes_version: str = "",
    **reading: Any,
) -> Session:
    """The session that was named, or of the spec that lies in ``start`` (default: the working directory) or above it.

    ``reading``: how manifests are read (``exclude``, ``values``, ``sets``, ``strict``, ``verbose`` of a session).
    ``kubernetes_version``: which Kubernetes the embedded cluster is.

    Raises SessionError where two things were named, for a version that is not modelled or that is of no use, where no
    example has that name, and where the spec that was found belongs to another user. That there is no kill path at all
    is said by :attr:`Session.kill_path`: some readers can do without.
    """
    _modelled(kubernetes_version, on)
    if manifests and on not in ("embedded", ENVTEST):
        raise SessionError("--on and --manifests are two places: name one")
    if example:
        _alone(example, spec, manifests, on)
    elif spec is None and not manifests:
        spec = find_spec(Path() if start is None else start)
    return Session(
        spec=spec and spec_in(spec),
        on=on,
        manifests=manifests,
        exec_mode=exec_mode,
        kubeconfig=kubeconfig,
        fixture=example,
        allow_commands=allow_commands,
        kubernetes_version=kubernetes_version,
        **reading,
    )


def find_spec(start: Path) -> Path | None:
    """``killcheck.yaml`` in a folder or the nearest above it, relative to ``start``; None where there is none.

    Raises SessionError for one above that belongs to another user: a spec says what is run here.
    """
    here = Path(os.path.abspath(start))  # noqa: PTH100 - a link is not followed: its parents are where the user is
    for folder in (here, *here.parents):
        found = folder / SPEC_NAME
        if not found.is_file():
            continue
        if folder != here:
            _owned(found)
        return start / SPEC_NAME if folder == here else Path(os.path.relpath(found))
    return None


def spec_in(named: Path) -> Path:
    """The spec that a person means: a file, or the ``killcheck.yaml`` of a folder."""
    return named / SPEC_NAME if (named / SPEC_NAME).is_file() else named


def source(session: Session) -> str:
    """Where the kill path comes from, in a few words."""
    if session.spec is not None:
        return str(session.spec)
    if session.fixture:
        return f"the example {session.fixture}"
    if session.manifests:
        return "found in " + ", ".join(map(str, session.manifests))
    return f"found on {session.on}" if session.real else "no spec"


def headline(session: Session) -> str:
    """The first line of every output: the spec, the cluster, the policy. Raises what :attr:`Session.kill_path` does."""
    kill_path = session.kill_path
    release = "" if session.real else f" (Kubernetes {releases.parse(kill_path.kubernetes_version).version})"
    return f"{kill_path.name}: {source(session)}, on {session.on}{release}; policy: {_policy(kill_path)}"


def arguments(session: Session) -> list[str]:
    """What names the same again on a command line; the words that a replay needs besides layers and faults."""
    words = [str(session.spec)] if session.spec else []
    words += ["--example", session.fixture] if session.fixture and not session.spec else []
    named = {
        "--manifests": session.manifests,
        "--values": session.values,
        "--set": session.sets,
        "--exclude": session.exclude,
    }
    words += [word for option, said in named.items() for one in said for word in (option, str(one))]
    words += ["--on", session.on] if session.real else []
    words += ["--kubernetes-version", session.kubernetes_version] if session.kubernetes_version else []
    words += ["--kubeconfig", str(session.kubeconfig)] if session.kubeconfig and session.real else []
    return words + (["--exec", session.exec_mode] if session.exec_mode else [])


def _policy(kill_path: KillPath) -> str:
    policy = kill_path.policy
    required = f"{policy.undisturbed} undisturbed, {policy.faulted} under faults"
    if policy.rules == policy.expired == ():
        return f"the default ({required})" if policy == Policy() else required
    known = sum(rule.require is Outcome.KNOWN for rule in policy.rules)
    said = [required, f"{len(policy.rules)} rule(s)"] + ([f"{known} accept an exposure"] if known else [])
    said += [f"{len(policy.expired)} expired"] if policy.expired else []
    return ", ".join(said)


def _modelled(version: str, on: str) -> None:
    """Whether that Kubernetes can be had, here. Raises SessionError."""
    if version and on != "embedded":
        raise SessionError(f"--kubernetes-version is of the embedded cluster: {on} has its own, and says which")
    try:
        releases.parse(version)
    except releases.ReleaseError as error:
        raise SessionError(f"--kubernetes-version: {error}") from None


def _alone(example: str, spec: Path | None, manifests: Sequence[Path], on: str) -> None:
    if spec is not None or manifests:
        raise SessionError(f"--example {example} is a kill path by itself: name it, or SPEC, or --manifests")
    if on != "embedded":
        raise SessionError(f"--example {example} is drilled on the embedded cluster; --on {on} needs a spec")
    import killcheck.fixtures as fixtures  # noqa: PLR0402 - mypy cannot follow the mapped package

    try:
        fixtures.path(example)
    except ValueError as error:
        raise SessionError(str(error)) from None


def _owned(found: Path) -> None:
    """A spec above the working directory says what programs run: not one that another user put there."""
    if not hasattr(os, "getuid"):
        return
    owner = found.stat().st_uid
    if owner not in (0, os.getuid()):
        raise SessionError(
            f"{found} belongs to another user (uid {owner}); a spec says what is run here: name it as SPEC to use it"
        )
