"""What the pytest plugin's fixtures hand out; imported only when a test asks for a drill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from killcheck import events, faults
from killcheck.capabilities.cluster import ClusterError
from killcheck.discover import DiscoveryError
from killcheck.drill.sequence import Options
from killcheck.faults import FaultError, apart
from killcheck.fence import AccountError, FenceReport, FenceResult
from killcheck.kube import releases
from killcheck.kube.errors import KubeError
from killcheck.kube.manifests import ManifestError
from killcheck.kube.objects import copy, name_of, namespace_of
from killcheck.layers.base import LayerError
from killcheck.lint.asking import LintResult
from killcheck.pytest.settings import setting, settings
from killcheck.reports.allure import phase_steps
from killcheck.reports.figures import span
from killcheck.results import Cell, Matrix
from killcheck.run import reading
from killcheck.run.chosen import chosen, headline
from killcheck.run.matrix import left_out, plan
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import NothingToDrill, Session, SessionError
from killcheck.run.standing import standing_on
from killcheck.safety import lease
from killcheck.safety.consent import ConsentError
from killcheck.safety.journal import Dirty, JournalError
from killcheck.safety.lease import Busy
from killcheck.spec.killpath import Layer, Policy
from killcheck.spec.phases import stuck_before, words_of
from killcheck.spec.specfile import SpecError
from killcheck.text import lazy_re
from killcheck.text.redaction import redact
from killcheck.text.suggestions import did_you_mean
from killcheck.verdict import DrillResult, Verdict

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

__all__ = [
    "Drills",
    "cases",
    "closing",
    "explain",
    "fences_of",
    "header",
    "layer_names",
    "plainly",
    "pools",
    "release_of",
    "session_for",
    "shared_session",
    "summary",
    "told",
]


def session_for(config: pytest.Config) -> Session:
    """The session that options, environment and ini name. Raises pytest.UsageError for what does not fit."""
    manifests = [Path(path) for path in settings(config, "manifests")]
    mode = setting(config, "exec")
    if mode not in ("", "auto", "host", "docker", "none", "unisolated"):
        raise pytest.UsageError(f"--killcheck-exec is auto, host, docker, none or unisolated, not {mode!r}")
    spec, kubeconfig = setting(config, "spec"), setting(config, "kubeconfig")
    try:
        return chosen(
            spec=Path(spec) if spec else None,
            on=setting(config, "on") or "embedded",
            manifests=manifests,
            example="" if spec or manifests else setting(config, "fixture"),
            exec_mode=mode or None,  # type: ignore[arg-type]
            kubeconfig=Path(kubeconfig) if kubeconfig else None,
            start=config.invocation_params.dir,
            kubernetes_version=setting(config, "kubernetes-version"),
            exclude=settings(config, "exclude"),
            values=[Path(path) for path in settings(config, "values")],
            sets=settings(config, "set"),
            strict=bool(config.getoption("--killcheck-strict") or config.getini("killcheck_strict")),
        )
    except SessionError as error:
        raise pytest.UsageError(str(error)) from None


def release_of(config: pytest.Config) -> str:
    """The Kubernetes version that was asked for. Raises pytest.UsageError for one that is not modelled."""
    version = setting(config, "kubernetes-version")
    try:
        releases.parse(version)
    except releases.ReleaseError as error:
        raise pytest.UsageError(f"--killcheck-kubernetes-version: {error}") from None
    return version


def header(config: pytest.Config) -> str:
    """What is drilled, where, by which policy; or why that cannot be said, which fails the drills themselves."""
    try:
        with plainly(_at_collection):
            return headline(shared_session(config))
    except (pytest.Collector.CollectError, pytest.UsageError) as error:
        return str(error).splitlines()[0]


_SESSION: pytest.StashKey[Session] = pytest.StashKey()
_FENCES: pytest.StashKey[FenceReport] = pytest.StashKey()


def shared_session(config: pytest.Config) -> Session:
    """The session of this pytest run; made once."""
    if _SESSION not in config.stash:
        config.stash[_SESSION] = session_for(config)
    return config.stash[_SESSION]


# -- what suites are parametrized by -----------------------------------------------------------------------
def _at_collection(message: str, *, pytrace: bool = False) -> NoReturn:  # noqa: ARG001 - as pytest.fail takes it
    raise pytest.Collector.CollectError(message)


def _layers(config: pytest.Config) -> list[Layer]:
    only = {name for name in setting(config, "layer").split(",") if name}
    with plainly(_at_collection):
        shared_session(config).layer_names  # noqa: B018 - without any layer a suite would pass by proving nothing
        known = shared_session(config).kill_path.layers
    unknown = only - {layer.name for layer in known}
    if unknown:
        hint = did_you_mean(min(unknown), [layer.name for layer in known])
        _at_collection(f"the spec has no layer {min(unknown)!r}{hint}")
    return [layer for layer in known if not only or layer.name in only]


def layer_names(config: pytest.Config) -> list[str]:
    """The layers to drill; one that cannot be drilled is among them, and fails."""
    return [layer.name for layer in _layers(config)]


def cases(config: pytest.Config) -> list[tuple[str, str]]:
    """(layer, fault) of all faults that mean something, or those that are named; joined by ``+`` what is there at once.

    A fault without its capability is left out (the terminal summary says so), unless it is named: then no layer that it
    could mean something to is left out, and where there is none, each layer's drill says why.
    """
    session, under = shared_session(config), [name for name in setting(config, "under").split(",") if name]
    try:
        together = [apart([word]) for word in under if {"+", "@"} & set(word)]
        for word in under:
            faults.resolved([word], session.layer_names)
    except (KeyError, ValueError) as error:
        _at_collection(str(error.args[0]))
    with plainly(_at_collection):
        capabilities = None if under else session.capabilities
        config.stash[LEFT_OUT] = [] if capabilities is None else left_out(session.kill_path, capabilities)
        planned = plan(
            session.kill_path,
            only_layers=layer_names(config),
            together=together,
            capabilities=capabilities,
            only_faults=[word for word in under if not {"+", "@"} & set(word)],
            objects=() if under or session.real else session.objects,
            standing=standing_on(session) if session.real and not under else None,
        )
    return [(drill.layer, "+".join(drill.faults)) for drill in planned if drill.faults]


#: What pytest says of a call that came to something false.
_WHERE = lazy_re.compile(r"where False = (\w+\([^\n()]*\))")
#: Faults that the cluster has no lever for.
LEFT_OUT: pytest.StashKey[list[str]] = pytest.StashKey()


def pools(config: pytest.Config) -> list[str]:
    """Everything that can launch machines, and the whole cluster."""
    with plainly(_at_collection):
        report = fences_of(config)
    return [one.pool for one in (*report.results, report.cluster)]


# -- what reading answers ----------------------------------------------------------------------------------
def fences_of(config: pytest.Config) -> FenceReport:
    """What could be launched at worst; evaluated once."""
    if _FENCES not in config.stash:
        config.stash[_FENCES] = reading.fences(shared_session(config))
    return config.stash[_FENCES]


def closing(result: FenceResult) -> str:
    """A fence that does not hold, as a person reads it: the door, and what closes it."""
    lines = [f"{result.pool} is {result.verdict}: worst is {result.worst_instance or 'unknown'}", *result.reasons]
    lines += [f"door: {result.door}"] if result.door else []
    lines += [f"remedy: {result.remedy}"] if result.remedy else []
    lines += [f"patch: {json.dumps(result.patch)}"] if result.patch else []
    return "\n  ".join(lines)


def told(result: LintResult) -> str:
    """Findings, a line each."""
    found = result.at_or_above("error")
    return "\n  ".join(
        [f"{len(found)} finding(s)", *(f"{one.object}: {one.message} ({one.probe}) - {one.remedy}" for one in found)]
    )


# -- drills ------------------------------------------------------------------------------------------------
class Drills:
    """The ``drill`` fixture: callable, and remembers what it did for the report."""

    def __init__(self, session: Session, request: pytest.FixtureRequest) -> None:
        self.session = session
        self.request = request
        self.results: list[DrillResult] = []

    @property
    def last(self) -> DrillResult | None:
        """The newest result."""
        return self.results[-1] if self.results else None

    def __call__(
        self,
        layer: str,
        *,
        under: Sequence[str] = (),
        watch_s: float | None = None,
        look: Callable[[ApiClient], None] | None = None,
    ) -> DrillResult:
        """Drill ``layer`` under faults; ``watch_s``: seconds to watch while GPUs stay on (default: as the CLI does).

        ``under``: names, or one (``"a+b"``: both at once). ``look`` is called with the official client of the drill's
        cluster once there is a verdict and before anything is put back; what it raises fails the test afterwards.
        """
        names = self._named(layer, [under] if isinstance(under, str) else under)
        folder = self.request.getfixturevalue("tmp_path_factory").mktemp("killcheck")
        policy = self.session.kill_path.policy
        planned = PlannedDrill(
            layer,
            names,
            Options(horizon_s=watch_s),
            require=policy.required(layer, names) if names else None,
            causes=policy.causes(layer, names),
            acceptance=policy.acceptance(layer, names),
        )
        heard: list[events.Event] = []
        run = Run(self.session, [planned], folder=folder, sinks=[heard.append])
        if look is not None:
            run.sinks.append(_looking(run, look))
        with plainly(pytest.fail), self._turn(layer):
            result = run.execute().drills[0]
        self.results.append(result)
        _tell_allure(self.session, result, heard)
        self.request.node.user_properties.append(("killcheck", _row(result)))
        if result.verdict is Verdict.INCONCLUSIVE:
            reason = f"inconclusive: {result.why}"
            if self.request.config.getoption("--killcheck-allow-inconclusive"):
                pytest.skip(reason)
            pytest.fail(reason, pytrace=False)
        return result

    def _named(self, layer: str, under: Sequence[str]) -> tuple[str, ...]:
        """The faults, if there are such, and such a layer; fails the test in one sentence where there are not."""
        with plainly(pytest.fail):
            known = [one.name for one in self.session.kill_path.layers]
        if layer not in known:
            pytest.fail(f"the spec has no layer {layer!r}{did_you_mean(layer, known)}", pytrace=False)
        problem = ""
        try:
            names = faults.resolved(under, known) if under else ()
        except (KeyError, ValueError) as error:
            problem = str(error.args[0])
        if problem:
            pytest.fail(problem, pytrace=False)
        return names

    @contextmanager
    def _turn(self, layer: str) -> Iterator[None]:
        """On a real cluster: wait until no other xdist worker of this machine drills a target of this layer.

        Whoever else does holds its Lease, and then the drill does not begin.
        """
        if not self.session.real:
            yield
            return
        import fcntl

        kill_path = self.session.kill_path
        base = self.request.getfixturevalue("tmp_path_factory").getbasetemp()
        folder = base.parent if hasattr(self.request.config, "workerinput") else base
        with ExitStack() as held:
            # Sorted, so that two layers that share two targets take them in the same order.
            for namespace, name, _ in lease.wanted(kill_path, kill_path.layer(layer), "default"):
                file = held.enter_context((folder / f"killcheck-{namespace}-{name}.lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def describe(self, report: Any, excinfo: Any) -> None:
        """Give a report its cells of the matrix, and a failed one what a person needs instead of a traceback."""
        report.killcheck_cells = [result.to_json() for result in self.results]
        told = "\n\n".join(explain(result) for result in self.results)
        if report.failed and told and excinfo is not None and excinfo.errisinstance(AssertionError):
            report.longrepr = f"{_claim(str(excinfo.value), self.results[-1])}\n\n{told}"
        elif told:
            report.sections.append(("killcheck", told))


def _looking(run: Run, look: Callable[[ApiClient], None]) -> events.Sink:
    """Has somebody look at the drill's cluster as it is when its verdict stands."""
    from killcheck.pytest.official import api_client_of

    def sink(event: events.Event) -> None:
        if isinstance(event, events.Judged):
            with api_client_of(run.cluster) as client:
                look(client)

    return sink


@contextmanager
def plainly(fail: Callable[..., Any]) -> Iterator[None]:
    """What is wrong with the spec, the cluster or consent ends in one message, not in a traceback."""
    problem: str | None = None
    try:
        yield
    except _EXPECTED as error:
        problem = str(error)
    if problem is not None:
        try:
            fail(problem, pytrace=False)
        except BaseException as failure:
            raise failure from None  # what it came from is in the message


#: What a user can put right; everything else is a defect, and shows where.
_EXPECTED = (
    AccountError,
    Busy,
    ClusterError,
    ConsentError,
    DiscoveryError,
    Dirty,
    FaultError,
    NothingToDrill,
    JournalError,
    KubeError,
    LayerError,
    ManifestError,
    SessionError,
    SpecError,
)


def beside_allure(config: pytest.Config) -> None:
    """What Allure shows beside the results of its ``--alluredir``: where this was, and what failures mean."""
    folder = config.getoption("allure_report_dir", default=None)
    if folder:
        from killcheck.reports.allure import write_shared
        from killcheck.version import __version__

        session = shared_session(config)
        write_shared(
            Path(folder), {"cluster": session.on, "kill_path": session.kill_path.name, "killcheck": __version__}
        )


def _tell_allure(session: Session, result: DrillResult, heard: Sequence[events.Event]) -> None:
    """Steps and attachments, where allure-pytest is installed; without its --alluredir they go nowhere."""
    try:
        import allure
    except ImportError:
        return
    for name, status in phase_steps(result.phases):
        with suppress(AssertionError), allure.step(name):
            assert status == "passed", f"{name}: {result.cause or result.why}"  # Allure's one way to fail a step
    text, name = allure.attachment_type.TEXT, result.layer
    allure.attach(redact(explain(result)), f"{name}: timeline", text)
    allure.attach(json.dumps(result.to_json(), indent=2), f"{name}: result", allure.attachment_type.JSON)
    said = [
        f"{one.at:%H:%M:%S}  {one.type} {one.object}: {one.reason}: {one.message}"
        for one in heard
        if isinstance(one, events.Said)
    ]
    if said:
        allure.attach(redact("\n".join(said)), f"{name}: events", text)
    for one in heard:
        if isinstance(one, events.LogTaken):
            allure.attach(redact(one.text), f"{name}: log of {one.pod}/{one.container}", text)
    manifest = _manifest(session, result.layer)
    if manifest:
        allure.attach(manifest, f"{name}: manifest", allure.attachment_type.YAML)


def _manifest(session: Session, layer: str) -> str | None:
    """The layer's own object as YAML; None where it has none at hand."""
    ref = session.kill_path.layer(layer).ref
    if ref is None:
        return None
    from ruamel.yaml import YAML

    for obj in reading.executors(session):
        if (obj.get("kind"), namespace_of(obj), name_of(obj)) == (ref.kind, ref.namespace, ref.name):
            shown = copy(obj)
            shown.get("metadata", {}).pop("managedFields", None)
            out = StringIO()
            YAML(typ="safe", pure=True).dump(shown, out)
            return redact(out.getvalue())
    return None


def _claim(said: str, result: DrillResult) -> str:
    """What did not hold, in a line: the test's own words, else what came of its last drill and what was asked of it."""
    own = said.partition("\nassert ")[0].strip()
    if own and not own.startswith("assert "):
        return own
    asked = _WHERE.search(said)
    return f"{_row(result)}, not {asked[1]}" if asked else f"{_row(result)}: the assertion does not hold"


def explain(result: DrillResult) -> str:
    """A result as a person reads it: verdict, cause, remedy, evidence, phases."""
    lines = [_row(result)]
    if result.why not in (result.cause, stuck_before(result.stuck_at)):
        lines.append(f"  {result.why}")
    if result.stuck_at:
        lines.append(f"  {stuck_before(result.stuck_at)}")
    if result.cause and result.verdict is not Verdict.INCONCLUSIVE:
        lines += [f"  cause:  {result.cause}", *([f"  remedy: {result.remedy}"] if result.remedy else [])]
        lines += [f"    {line}" for line in result.evidence]
    for phase in result.phases:
        at = span(phase["at_s"]) if phase["at_s"] is not None else "never"
        limit = f" (deadline {span(phase['deadline_s'])})" if phase["deadline_s"] is not None else ""
        lines.append(f"  {words_of(phase['phase']):<18} {at}{limit}")
    return "\n".join(lines)


def _row(result: DrillResult) -> str:
    under = f" under {', '.join(result.faults)}" if result.faults else ""
    zero = f", GPUs off after {span(result.seconds_to_zero)}" if result.seconds_to_zero is not None else ""
    return f"{result.layer}{under}: {result.verdict}{zero}"


# -- the summary -------------------------------------------------------------------------------------------
def summary(config: pytest.Config, cells: Sequence[dict[str, Any]], width: int) -> list[str]:
    """The matrix of a pytest run, from its reports' cells, as lines of text; what was left out and why."""
    from rich.console import Console

    from killcheck.reports.matrix import fitted

    try:
        policy = shared_session(config).kill_path.policy
    except _EXPECTED:
        policy = Policy()
    newest = {(cell["layer"], tuple(cell["faults"])): cell for cell in cells}
    ordered = sorted(newest.values(), key=lambda cell: bool(cell["faults"]))
    matrix = Matrix(
        tuple(
            Cell(
                cell["layer"],
                "+".join(cell["faults"]),
                policy.required(cell["layer"], cell["faults"]),
                DrillResult(
                    cell["layer"],
                    tuple(cell["faults"]),
                    Verdict(cell["verdict"]),
                    cell["why"],
                    off_by=cell["off_by"] or "",
                    seconds_to_zero=cell["seconds_to_zero"],
                    seconds_to_drained=cell["seconds_to_drained"],
                    usd=cell["usd"],
                    usd_until_next_chance=cell["usd_until_next_chance"],
                    cause=cell.get("cause") or "",
                ),
                policy.causes(cell["layer"], cell["faults"]),
            )
            for cell in ordered
        )
    )
    out = StringIO()
    Console(file=out, width=max(width, 40), no_color=True).print(fitted(matrix, max(width, 40)))
    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    without = config.stash.get(LEFT_OUT, [])
    if without:
        lines.append(f"left out, this cluster has not the capabilities that they need: {', '.join(without)}")
    return lines
