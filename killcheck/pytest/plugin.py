"""The pytest plugin: registered by entry point, it must cost an unrelated project nothing, so it imports late.

Options, ini settings and environment name the spec and the cluster; fixtures hand out drills; a drill that is
inconclusive fails with its reason, and a failure shows the diagnosis and the timeline instead of a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from killcheck.pytest.settings import LISTS, PATHS, SETTINGS, STRICT

if TYPE_CHECKING:
    from kubernetes.client import ApiClient
    from kubernetes.dynamic import DynamicClient

    from killcheck.capabilities.cluster import Cluster
    from killcheck.embedded import Cluster as EmbeddedCluster
    from killcheck.fence import FenceReport
    from killcheck.lint.asking import LintResult
    from killcheck.pytest.drills import Drills
    from killcheck.run.session import Session
    from killcheck.spec.killpath import KillPath
    from killcheck.verdict import DrillResult


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--killcheck-*``, each also an ini setting ``killcheck_*`` and an environment variable ``KILLCHECK_*``."""
    group = parser.getgroup("killcheck", "killcheck: drills of GPU kill paths")
    for name, text in SETTINGS.items():
        group.addoption(f"--killcheck-{name}", default=None, metavar=name.upper(), help=text)
        parser.addini(f"killcheck_{name.replace('-', '_')}", text, default="")
    for name, text in LISTS.items():
        group.addoption(f"--killcheck-{name}", action="append", default=[], metavar=name.upper(), help=text)
        kind: Literal["paths", "linelist"] = "paths" if name in PATHS else "linelist"
        parser.addini(f"killcheck_{name}", text, type=kind, default=[])
    group.addoption("--killcheck-strict", action="store_true", help=STRICT)
    parser.addini("killcheck_strict", STRICT, type="bool", default=False)
    group.addoption(
        "--killcheck-allow-inconclusive",
        action="store_true",
        help="skip, instead of failing, a drill that proves nothing",
    )


@pytest.hookimpl(wrapper=True)  # xdist's workers read the groups in this same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Keep to the suite that was chosen; under ``--dist loadgroup`` keep drills of one target together."""
    from killcheck.pytest.settings import suites

    grouped: list[pytest.Item] = []
    if getattr(config.option, "loadgroup", False):
        grouped = [item for item in items if "drill" in getattr(item, "fixturenames", ())]

    chosen = suites(config)
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items if chosen else ():
        mark = item.get_closest_marker("killcheck")
        (kept if mark is None or mark.kwargs.get("suite") in chosen else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    if grouped:
        from killcheck.pytest.groups import group, identify

        group(config, grouped)
        yield
        identify(grouped)
    else:
        yield


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The kill path, the cluster and the policy, where any is named or lies here; nothing in an unrelated project."""
    from killcheck.pytest.settings import concerned

    if not concerned(config):
        return []
    from killcheck.pytest.drills import header

    return [f"killcheck: {header(config)}"]


def pytest_configure(config: pytest.Config) -> None:
    """One marker."""
    config.addinivalue_line("markers", "killcheck(suite): a test of a kill path; suite is install, staging, release")


@pytest.fixture(scope="session")
def killcheck_session(request: pytest.FixtureRequest) -> Session:
    """The kill path and where it is drilled, from options, environment and ini."""
    from killcheck.pytest.drills import shared_session

    return shared_session(request.config)


@pytest.fixture
def embedded_cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A Kubernetes in this process, on a virtual clock: load manifests, let time pass, connect any client."""
    from killcheck.embedded import Cluster
    from killcheck.pytest.drills import release_of

    with Cluster(exec_mode="none", kubernetes_version=release_of(request.config)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kill_path(killcheck_session: Session) -> KillPath:
    """The kill path under test."""
    from killcheck.pytest.drills import plainly

    with plainly(pytest.fail):
        return killcheck_session.kill_path


@pytest.fixture
def drill(request: pytest.FixtureRequest, killcheck_session: Session) -> Callable[..., DrillResult]:
    """Call it: ``drill("nightly-off", under=["image-gone"])`` drills a layer and returns the result.

    Inconclusive fails the test with its reason (or skips it, with ``--killcheck-allow-inconclusive``).
    """
    from killcheck.pytest.drills import Drills

    drills = Drills(killcheck_session, request)
    request.node.stash[_DRILLS] = drills
    return drills


@pytest.fixture(scope="session")
def faults(kill_path: KillPath) -> Callable[[str], list[str]]:
    """Call it with a layer's name: the faults that mean something to it, by name."""
    from killcheck import faults as known

    return lambda layer: [k.name for k in known.every() if known.means_something(k, kill_path, kill_path.layer(layer))]


@pytest.fixture(scope="session")
def fences(request: pytest.FixtureRequest) -> FenceReport:
    """What could be launched at worst, pool by pool, against the spec's ceiling."""
    from killcheck.pytest.drills import fences_of

    return fences_of(request.config)


@pytest.fixture(scope="session")
def findings(killcheck_session: Session) -> LintResult:
    """What reading finds, as ``killcheck lint`` does."""
    from killcheck.run.reading import findings as found

    return found(killcheck_session)


@pytest.fixture
def cluster(killcheck_session: Session) -> Iterator[Cluster]:
    """A cluster to look at: a fresh embedded one with the manifests loaded, or the real one."""
    with killcheck_session.cluster() as (found, _):
        yield found


@pytest.fixture
def api_client(request: pytest.FixtureRequest) -> Iterator[ApiClient]:
    """The official ``kubernetes.client.ApiClient``: of ``embedded_cluster`` if the test has it, else ``cluster``."""
    from killcheck.pytest.drills import plainly
    from killcheck.pytest.official import api_client_of

    name = "embedded_cluster" if "embedded_cluster" in request.fixturenames else "cluster"
    with plainly(pytest.fail), api_client_of(request.getfixturevalue(name)) as client:
        yield client


@pytest.fixture
def dynamic_client(api_client: ApiClient) -> DynamicClient:
    """The official ``kubernetes.dynamic.DynamicClient`` of the same cluster: any kind, custom ones too."""
    from kubernetes.dynamic import DynamicClient

    return DynamicClient(api_client)


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
    """The matrix: every drill of the session with its verdict, its times and its dollars."""
    cells = [
        cell
        for reports in terminalreporter.stats.values()
        for report in reports
        for cell in getattr(report, "killcheck_cells", ())
    ]
    if cells:
        from killcheck.pytest.drills import beside_allure, summary

        beside_allure(terminalreporter.config)
        terminalreporter.section("killcheck")
        for line in summary(terminalreporter.config, cells, terminalreporter._tw.fullwidth):
            terminalreporter.write_line(line)
