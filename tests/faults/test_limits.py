"""What only the embedded cluster answers is nobody's fault and nobody's proof: inconclusive, with the limit named."""

from __future__ import annotations

import pytest
import yaml
from strangers import Stranger

from killcheck.run.planned import PlannedDrill
from killcheck.run.runner import Run
from killcheck.run.session import Session

#: Its programs are known, kubectl and curl among them; nothing is known of the other.
KNOWN, UNKNOWN = "alpine/k8s:1.30.2", "ghcr.io/example/ops:3"
OFF = "kubectl -n ml-team scale deploy/llm-chat --replicas=0"
POD = "p=$(kubectl -n ml-team get pods -l app=llm-chat -o name | head -1)"
API = "https://kubernetes.default.svc"
ASK = (
    "curl -fsS --cacert /var/run/secrets/kubernetes.io/serviceaccount/ca.crt "
    '-H "Authorization: Bearer $(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"'
)


@pytest.fixture
def drilled(tmp_path, monkeypatch):
    """A drill of a switch that runs a shell script in an image."""
    monkeypatch.chdir(tmp_path)

    def drill(script, image=KNOWN, change=lambda objects: None):
        path = Stranger("", image=image, command=tuple(script) if isinstance(script, list) else ("sh", "-c", script))
        objects = path.objects()
        change(objects)
        (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(objects))
        session = Session(manifests=[tmp_path / "all.yaml"], exec_mode="host")
        (result,) = Run(session, [PlannedDrill(path.switch)], sinks=[]).execute().drills
        return result

    return drill


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (f"set -e; {POD}; kubectl -n ml-team exec $p -- nvidia-smi; {OFF}", "is hollow"),
        (f"{POD}; kubectl -n ml-team exec $p -- grep -q busy /tmp/state && exit 0; {OFF}", "is hollow"),
        (f"kubectl top pods -n ml-team 2>/dev/null; {OFF}", "kubectl top asks for metrics"),
        (
            f"set -e; {ASK} {API}/apis/metrics.k8s.io/v1beta1/namespaces/ml-team/pods; {OFF}",
            "pods.metrics.k8s.io is not",
        ),
        (f"set -e; kubectl get --raw /api/v1/namespaces/ml-team/services/llm-chat:8000/proxy/metrics; {OFF}", "proxy"),
        (f"set -e; kubectl -n ml-team get seldondeployment llama; {OFF}", "type seldondeployment"),
        (
            f"set -e; {ASK} {API}/apis/machinelearning.seldon.io/v1/namespaces/ml-team/seldondeployments; {OFF}",
            "its Custom",
        ),
        (f"kubectl -n ml-team logs deploy/llm-chat | grep -q POST && exit 0; {OFF}", "is hollow and says nothing"),
        (f"curl -fs http://prometheus.monitoring:9090/api/v1/query || true; {OFF}", "Service prometheus.monitoring"),
        (f"set -e; curl -fsS https://hooks.example.com/off; {OFF}", "looked for hooks.example.com"),
        (f"helm -n ml-team list && {OFF}", "it calls helm"),
    ],
)
@pytest.mark.one_in(3)
def test_an_answer_of_ours_alone_decides_nothing(drilled, script, words):
    result = drilled(script)
    assert str(result.verdict) == "inconclusive", result.cause
    assert words in result.why


@pytest.mark.parametrize(
    "script",
    [
        f"nosuchtool --off llm-chat || exit 1; {OFF}",
        ["nosuchtool", "deploy/llm-chat", "kubectl scale --replicas=0"],
        ["python3", "-c", f"import nosuchmodule, os; os.system({OFF!r})"],
        f"argocd app set llm --off; {OFF}",
        "/app/turn-off llm-chat",
        f"set -e; . /app/lib.sh; {OFF}",
        f"set -e; cat names.txt >/dev/null; {OFF}",
        ["python3", "/app/off.py"],
        ["python3", "-c", f"import os; open('/app/config.yaml'); os.system({OFF!r})"],
    ],
)
@pytest.mark.one_in(3)
def test_what_this_host_lacks_an_unknown_image_may_have(drilled, script):
    result = drilled(script, UNKNOWN)
    assert str(result.verdict) == "inconclusive", result.cause
    assert f"nothing is known of image {UNKNOWN}" in result.why


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("kubectl -n ml-team scale deploymnet/llm-chat --replicas=0", "deploymnet"),
        (f"set -e; {ASK} {API}/apis/extensions/v1beta1/namespaces/ml-team/deployments/llm-chat; {OFF}", "404"),
        (f"set -e; nosuchtool; {OFF}", "127"),
        (f"set -e; . /app/lib.sh; {OFF}", "/app/lib.sh"),
        (f"set -e; cat /tmp/state; {OFF}", "/tmp/state"),
    ],
)
@pytest.mark.one_in(2)
def test_what_would_fail_anywhere_is_the_executors_own(drilled, script, words):
    result = drilled(script)
    assert str(result.verdict) == "exposed", result.why
    assert words in result.cause


@pytest.mark.parametrize(
    ("image", "script", "words"),
    [
        ("debian:12", "apt-get update -q; apt-get install -y curl; curl -LO http://a.example.com/k", "with apt-get"),
        ("python:3.12-slim", "pip install -q kubernetes; python -c 'import kubernetes'", "with pip"),
        ("python:3.12-slim", "python -m pip install -q kubernetes; python -c 'import kubernetes'", "with pip"),
        (UNKNOWN, f"npx zx off.mjs; {OFF}", "with npx"),
        ("debian:12", "cp /bin/true /usr/local/bin/kubectl && kubectl && /media/off", "/media/off: not found"),
        ("bitnamilegacy/kubectl:1.33.4", f"set -e; . /opt/bitnami/scripts/liblog.sh; {OFF}", "the commands are known"),
    ],
)
@pytest.mark.one_in(2)
def test_what_is_fetched_or_lies_in_an_image_is_not_here(drilled, image, script, words):
    result = drilled(script, image)
    assert words in (result.cause or result.why)
    assert str(result.verdict) == ("exposed" if "not found" in words else "inconclusive")


@pytest.mark.parametrize("after", ["kubectl top nodes", "curl -fs https://hooks.example.com/off"])
def test_what_is_asked_after_zero_was_written_changes_nothing(drilled, after):
    result = drilled(f"{OFF} && {after}; true")
    assert str(result.verdict) == "survived", result.why
