"""A way to the API server that is there and no good, on strangers' paths; and what lint says of it before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from strangers import ACCOUNT, Stranger

from killcheck.lint import asking
from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session
from killcheck.verdict import DrillResult

HERE = Stranger(
    "curl", "StatefulSet", ("ocr", "asr"), 2, "docs-eu", "quiet-hours", "hush", "America/Bogota", "5 1 * * 2-6", "l4"
)
URL = "https://kubernetes.default.svc/apis/apps/v1/namespaces/docs-eu/statefulsets/$n/scale"


#: An image with nothing but kubectl in it, and a schedule of each day.
BARE = replace(
    HERE,
    schedule="5 1 * * *",
    image="rancher/kubectl:v1.31.0",
    command=("kubectl", "scale", "-n", HERE.namespace, "--replicas=0", *(f"statefulset/{n}" for n in HERE.targets)),
)


#: It fires again while it is drilled: a drill under this fault suspends the schedule, which is no exposure.
OFTEN = replace(HERE, schedule="5,15 1 * * *")


def curl(options: str, before: str = "") -> Stranger:
    """The same path, whose curl has other options."""
    script = (
        f"set -e\n{before}\nfor n in ocr asr; do curl -fsS {options} --cacert {ACCOUNT}/ca.crt "
        f'-H "Authorization: Bearer $(cat {ACCOUNT}/token)" -H "Content-Type: application/merge-patch+json" '
        f'-X PATCH {URL} -d \'{{"spec":{{"replicas":0}}}}\'; done'
    )
    return replace(HERE, image="curlimages/curl:8.10.1", command=("sh", "-c", script))


def drilled(path: Stranger, fault: str, folder: Path, *, deadline_s: int | None = 900) -> DrillResult:
    """One drill, watched for two hours; without a deadline its Job may run for ever."""
    objects = path.objects()
    (job,) = [obj["spec"]["jobTemplate"]["spec"] for obj in objects if obj["kind"] == "CronJob"]
    job["activeDeadlineSeconds"] = deadline_s
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    session = Session(manifests=[folder / "all.yaml"], exec_mode="host")
    session.night_s = 2 * 3600.0
    (result,) = Run(session, [PlannedDrill(path.switch, (fault,))], folder=folder / "runs").execute().drills
    return result


@pytest.mark.parametrize(
    ("path", "fault", "deadline_s", "verdict", "says"),
    [
        (curl("--max-time 4"), "dns-slow", 900, "exposed", "Resolving timed out after 4000"),
        (curl("--connect-timeout 4"), "dns-slow", 900, "exposed", "Resolving timed out after 4000"),
        (curl("--max-time 40"), "dns-slow", 900, "survived", ""),
        (curl("--max-time 12"), "handshake-lost", 900, "exposed", "SSL connection timed out after 12000"),
        (replace(HERE, client="kubectl"), "handshake-lost", 900, "exposed", "TLS handshake timeout"),
        (replace(HERE, client="python"), "handshake-lost", 900, "exposed", "handshake operation timed out"),
        (replace(HERE, client="python"), "node-clock-behind", 900, "exposed", "not yet valid"),
        (HERE, "sidecar-stays", None, "exposed", "concurrencyPolicy Forbid: the Job of the firing before"),
        (HERE, "sidecar-stays", 900, "survived", ""),
        (OFTEN, "sidecar-stays", 300, "survived", ""),
        (BARE, "sidecar-stays", None, "exposed", "concurrencyPolicy Forbid: the Job of the firing before"),
    ],
    ids=str,
)
@pytest.mark.one_in(3)
def test_way_that_is_no_good(path, fault, deadline_s, verdict, says, tmp_path):
    result = drilled(path, fault, tmp_path, deadline_s=deadline_s)
    assert str(result.verdict) == verdict, result.why
    assert says in result.cause
    assert not result.problems
    assert result.bites[fault]


@pytest.mark.parametrize(
    ("path", "probe", "message"),
    [
        (curl("--max-time 4"), "impatient", "gives up after 4 s"),
        (curl("-m2"), "impatient", "gives up after 2 s"),
        (curl("--max-time 4 --retry 3"), "impatient", ""),
        (curl("--max-time 30"), "impatient", ""),
        (curl(""), "impatient", ""),
        (curl("", "export https_proxy=http://10.9.8.7:3128"), "proxied", "https_proxy: its requests"),
        (curl("-x http://squid.corp:3128"), "proxied", "sent to squid.corp"),
        (curl("-x http://squid.corp:3128 --noproxy '*'"), "proxied", ""),
        (curl("", "export https_proxy=http://10.9.8.7:3128 no_proxy=.svc"), "proxied", ""),
        (curl("", "proxy_note=none"), "proxied", ""),
    ],
    ids=str,
)
def test_lint_sees_it_coming(path, probe, message):
    world, _ = asking.world_of(path.objects(), datetime(2026, 5, 4, tzinfo=UTC))
    found = [one.message for one in asking.lint(world).findings if one.probe == probe]
    assert bool(found) is bool(message)
    assert all(message in one for one in found)
