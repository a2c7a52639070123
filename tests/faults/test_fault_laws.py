"""Laws over all faults and paths of strangers: never dirty, never a bite without its effect, one verdict for all names.

Each fault meets one of the paths in the ordinary run; with KILLCHECK_ALL_PATHS=1 every one of them.
"""

from __future__ import annotations

import os
import re
from zlib import crc32

import pytest
import yaml
from strangers import STRANGERS, Stranger

from killcheck import faults
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session

#: What these paths survive; everything else exposes them.
SURVIVED = {
    "cached-copy-evicted",
    "job-hung-under-forbid",
    "clocks-forward",
    "clocks-back",
    "spot-notice",
    "spot-notice-queue",
    "spot-notice-metadata",
    "spot-rebalance",
    "spot-reclaim",
    "laptop-killed",
    "run-never-finishes",
    "dns-slow",
    "sidecar-stays",
}
#: Where it is the client that decides: kubectl tries again for as long as it is told to wait, and looks up no name.
OTHERWISE = {
    ("kubectl", "dns-denied"): "inconclusive",
    ("kubectl", "dns-wrong"): "inconclusive",
    ("kubectl", "dns-slow"): "inconclusive",
    ("kubectl", "api-brownout"): "survived",
}
#: What the evidence of a bite must show: the effect, in the words of whoever met it.
EFFECTS = {
    "token-dead": r"401|provide credentials",
    "token-audience": r"401|provide credentials",
    "token-not-mounted": r"[Nn]o such file|localhost:8080",
    "rolebinding-gone": r"forbidden|403",
    "egress-denied": r"timeout|[Cc]ould not resolve|name resolution",
    "dns-denied": r"[Cc]ould not resolve|resolution",
    "dns-wrong": r"[Ff]ailed to connect|timed out|timeout",
    "proxy-in-the-way": r"192\.0\.2\.1|timed out",
    "sidecar-not-ready": r"has not been started",
    "certificate-ended": r"certificate has expired",
    "node-clock-behind": r"not yet valid",
    "dns-slow": r"look-up\(s\) took 5 s each",
    "handshake-lost": r"handshake|timed out",
    "sidecar-stays": r"has ended, and killcheck-proxy runs on",
    "issuer-keys-rotated": r"401 Unauthorized to system:serviceaccount:",
    "pdb-blocks": r"to evict it is refused: .*disruption budget",
    "do-not-disrupt": r"do-not-disrupt|nobody has moved it",
    "long-grace": r"told to go \d+ s ago",
    "keda-minimum": r"its triggers are not active, and KEDA keeps minReplicaCount",
    "finalizer": r"\(Terminating\)",
    "pool-floor": r"is empty, and NodeClaim",
    "image-gone": r"not found",
    "node-partitioned": r"Ready Unknown",
    "spot-notice": r"SpotInterrupted|left at",
    "spot-notice-queue": r"SpotInterrupted|left at",
    "spot-notice-metadata": r"left at|Ready Unknown",
    "spot-rebalance": r"SpotRebalanceRecommendation",
    "spot-reclaim": r"left at|Ready Unknown",
    "autoscaler-down": r"is empty, and nobody has removed it",
    "registry-quota": r"toomanyrequests",
    "registry-unreachable": r"connection refused",
    "controller-manager-down": r"has no status|observed generation",
}
#: Faults of what these paths have not: they pull without a Secret.
REFUSED = {"pull-secret-expired": r"pulls without a secret"}


#: Faults of layers that these paths have not: theirs is a switch.
ELSEWHERE = {
    "reading-stuck",
    "trigger-fails",
    "queue-runaway",
    "cold-start-slow",
    "model-loads-slow",
    "queue-released",
    "no-spot",
    "cloud-identity-gone",
}


def cells() -> list[tuple[str, Stranger]]:
    """(fault, path): one each, or all."""
    names = [kind.name for kind in faults.ALL if kind.name not in ELSEWHERE]
    if os.environ.get("KILLCHECK_ALL_PATHS"):
        return [(name, path) for name in names for path in STRANGERS]
    return [(name, STRANGERS[crc32(name.encode()) % len(STRANGERS)]) for name in names]


@pytest.fixture
def drilled(tmp_path, monkeypatch):
    """A drill of a stranger's manifests, under faults."""
    monkeypatch.chdir(tmp_path)

    def drill(path, *under):
        folder = tmp_path / "deploy"
        folder.mkdir(exist_ok=True)
        (folder / "all.yaml").write_text(yaml.safe_dump_all(path.objects()))
        session = Session(manifests=[folder], exec_mode="host")
        session.night_s = 2 * 3600.0  # what nobody turns off is not watched until the morning
        (result,) = Run(session, [PlannedDrill(path.switch, under)], sinks=[]).execute().drills
        return result

    return drill


@pytest.mark.parametrize(("fault", "path"), cells(), ids=str)
@pytest.mark.one_in(10)
def test_a_fault_bites_by_its_effect_and_leaves_nothing(drilled, fault, path):
    result = drilled(path, fault)
    assert not result.problems
    if fault in REFUSED:
        assert str(result.verdict) == "inconclusive"
        assert re.search(REFUSED[fault], result.why)
        return
    wanted = OTHERWISE.get((path.client, fault), "survived" if fault in SURVIVED else "exposed")
    assert str(result.verdict) == wanted, result.why
    if wanted != "inconclusive":
        assert re.search(EFFECTS.get(fault, "."), result.bites[fault]), result.bites
        assert not any("the steady state is not" in note for note in result.notes)


@pytest.mark.parametrize("path", STRANGERS, ids=str)
@pytest.mark.one_in(2)
def test_undisturbed_they_all_go_off(drilled, path):
    result = drilled(path)
    assert str(result.verdict) == "survived", result.why


def test_the_table_names_faults_that_there_are():
    names = {kind.name for kind in faults.ALL}
    assert SURVIVED | set(EFFECTS) | {fault for _, fault in OTHERWISE} <= names
