"""The pytest plugin: registered by entry point, it must cost an unrelated project nothing, so it imports late.

Options, ini settings and environment name the spec and the cluster; fixtures hand out drills; a drill that is
inconclusive fails with its reason, and a failure shows the diagnosis and the timeline instead of a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from killcheck.pytest_settings import SETTINGS

if TYPE_CHECKING:
    from killcheck.cluster.base import Cluster
    from killcheck.killpath import KillPath
    from killcheck.pytest_drills import Drills
    from killcheck.session import Session
    from killcheck.verdict import DrillResult

def pytest_addoption(parser: pytest.Parser) -> None:
    """``--killcheck-*``, each also an ini setting ``killcheck_*`` and an environment variable ``KILLCHECK_*``."""
    group = parser.getgroup("killcheck", "killcheck: drills of GPU kill paths")
    for name, text in SETTINGS.items():
        group.addoption(f"--killcheck-{name}", default=None, metavar=name.upper(), help=text)
        parser.addini(f"killcheck_{name}", text, default="")
    group.addoption(
        "--killcheck-manifests", action="append", default=[], metavar="PATH", help="YAML for the embedded cluster")
    parser.addini("killcheck_manifests", "YAML for the embedded cluster", type="paths", default=[])
    group.addoption(
        "--killcheck-allow-inconclusive", action="store_true",
        help="skip, instead of failing, a drill that proves nothing")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a real cluster drills take turns: under xdist all of them go to one worker."""
    from killcheck.pytest_settings import setting

    where = setting(config, "on")
    if where in ("", "embedded") or not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if "drill" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(f"killcheck-{where}"))


def pytest_configure(config: pytest.Config) -> None:
    """One marker."""
    config.addinivalue_line("markers", "killcheck(suite): a drill of a kill path; suite is install, staging or release")


@pytest.fixture(scope="session")
def killcheck_session(request: pytest.FixtureRequest) -> Session:
    """The kill path and where it is drilled, from options, environment and ini."""
    from killcheck.pytest_drills import session_for

    return session_for(request.config)


@pytest.fixture(scope="session")
def kill_path(killcheck_session: Session) -> KillPath:
    """The kill path under test."""
    return killcheck_session.kill_path


@pytest.fixture
def drill(request: pytest.FixtureRequest, killcheck_session: Session) -> Callable[..., DrillResult]:
    """Call it: ``drill("nightly-off", under=["image-gone"])`` drills a layer and returns the result.

    Inconclusive fails the test with its reason (or skips it, with ``--killcheck-allow-inconclusive``).
    """
    from killcheck.pytest_drills import Drills

    drills = Drills(killcheck_session, request)
    request.node.stash[_DRILLS] = drills
    return drills


@pytest.fixture(scope="session")
def faults(kill_path: KillPath) -> Callable[[str], list[str]]:
    """Call it with a layer's name: the faults that mean something to it, by name."""
    from killcheck import faults as known

    return lambda layer: [k.name for k in known.every() if known.means_something(k, kill_path.layer(layer))]


@pytest.fixture
def cluster(killcheck_session: Session) -> Iterator[Cluster]:
    """A cluster to look at: a fresh embedded one with the manifests loaded, or the real one."""
    with killcheck_session.cluster() as (found, _):
        yield found


@pytest.fixture
def timeline(drill: Drills) -> Callable[[], list[dict[str, Any]]]:
    """The phases of the last drill of this test."""
    return lambda: list(drill.last.phases) if drill.last else []


_DRILLS: pytest.StashKey[Any] = pytest.StashKey()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Show the diagnosis and the timeline of a failed drill, and keep the results for the summary."""
    outcome: Any = yield
    drills = item.stash.get(_DRILLS, None)
    if drills is None or call.when != "call":
        return
    report = outcome.get_result()
    drills.describe(report, call.excinfo)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The matrix: every drill of the session with its verdict."""
    rows = [
        row for reports in terminalreporter.stats.values() for report in reports
        for key, row in getattr(report, "user_properties", []) if key == "killcheck"
    ]
    if rows:
        terminalreporter.section("killcheck")
        for row in rows:
            terminalreporter.write_line(str(row))
