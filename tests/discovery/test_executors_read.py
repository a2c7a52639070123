"""What executors do, read off their pod templates: calls, tools, and the ways in which they hide failure."""

from typing import Any

import pytest

from killcheck import executor
from killcheck.executor import Reading, shell_script
from killcheck.executor.shell_script import UNKNOWN, ShellSyntaxError

SCALE = "patch deployments/scale.apps inference/vllm"
URL = "https://kubernetes.default.svc/apis/apps/v1/namespaces/$NS/deployments/vllm/scale"
CURL = "curl {} -X PATCH " + URL + ' -d \'{{"spec":{{"replicas":0}}}}\''
ENV = [{"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}, {"name": "WHO", "value": "vllm"}]


def read(*command: str, data: dict[str, str] | None = None, **container: Any) -> Reading:
    """Read a container; ``data`` is a ConfigMap mounted at /scripts and used as envFrom."""
    spec = {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "command": list(command),
                "env": ENV,
                "volumeMounts": [{"name": "s", "mountPath": "/scripts"}],
                **container,
            }
        ],
        "volumes": [{"name": "s", "configMap": {"name": "cm"}}],
    }
    return executor.read(spec, "inference", {("inference", "cm"): {"data": data or {}}})


def sh(script: str, **more: Any) -> Reading:
    return read("/bin/sh", "-c", script, **more)


def calls(reading: Reading) -> list[str]:
    return [str(call) for call in reading.calls]


# -- curl --------------------------------------------------------------------------------------------------
def test_the_articles_executor():
    reading = sh("TOKEN=$(cat /var/run/t)\n" + CURL.format('-H "Authorization: Bearer $TOKEN"'))
    assert calls(reading) == [SCALE]
    assert reading.calls[0].replicas == 0
    assert reading.tools == ("sh", "cat", "curl")
    assert "without -f" in reading.false_green[0].said
    assert not reading.not_understood


def test_a_url_that_is_none_has_a_path_all_the_same():
    assert calls(sh(CURL.format("-g").replace("//kubernetes.default.svc", "//[10.96.0.1]"))) == [SCALE]


@pytest.mark.parametrize(
    ("options", "honest"),
    [
        ("-f", True),
        ("-fsS", True),
        ("--fail", True),
        ("--fail-with-body", True),
        ("-sSf --max-time 5", True),
        ("-sS", False),
        ("-s -o /dev/null", False),
        ("-m 5", False),
        ("-H f", False),
        ("-w '%{http_code}'", True),
    ],
)
def test_a_curl_that_cannot_fail_is_noticed(options: str, honest: bool):
    assert (not sh(CURL.format(options)).false_green) is honest


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("curl -f https://h/api/v1/pods", "list pods"),
        ("curl -f 'https://h/api/v1/pods?watch=true'", "watch pods"),
        ("curl -f https://h/api/v1/namespaces/a/pods/b", "get pods a/b"),
        ("curl -f https://h/api/v1/namespaces/a", "get namespaces a"),
        ("curl -f -XDELETE https://h/apis/batch/v1/namespaces/a/jobs/b", "delete jobs.batch a/b"),
        ("curl -f -X DELETE https://h/apis/batch/v1/namespaces/a/jobs", "deletecollection jobs.batch a"),
        ("curl -f -d '{}' https://h/api/v1/namespaces/a/pods/b/eviction", "create pods/eviction a/b"),
        (
            "curl -f --request PUT --data-binary @- https://h/apis/apps/v1/namespaces/a/deployments/b",
            "update deployments.apps a/b",
        ),
        (
            "curl -f --json '{}' -X PATCH --url https://h/apis/karpenter.sh/v1/nodepools/gpu",
            "patch nodepools.karpenter.sh gpu",
        ),
        ("curl -f -X DELETE https://h/api/v1/nodes/$NODE", "delete nodes"),
        ("curl -f -X DELETE $API/api/v1/nodes/n1", "delete nodes n1"),
        ("curl -f -X DELETE ${API:-https://h}/api/v1/nodes/n1", "delete nodes n1"),
        (
            "wget --method=PATCH --body-data='{}' -O- https://h/apis/apps/v1/namespaces/a/deployments/b/scale",
            "patch deployments/scale.apps a/b",
        ),
    ],
)
def test_urls_become_calls(command: str, call: str):
    assert calls(sh(command)) == [call]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("helm uninstall vllm -n serving", ["list secrets serving"]),
        ("helm --namespace=serving upgrade vllm ./chart", ["list secrets serving"]),
        ("helm rollback vllm", ["list secrets inference"]),
        ("helm version", []),
        ("helm plugin install https://example.com/x", []),
        ("helm template install", []),
        ("helm uninstall vllm --kube-context other", []),
        ('helm uninstall vllm -n "$(cat /where)"', []),
    ],
)
def test_helm_looks_for_its_releases_first(command: str, expected: list[str]):
    reading = sh(command)
    assert (calls(reading), len(reading.not_understood)) == (expected, 1)


def test_a_request_to_something_else_is_not_understood():
    assert sh("curl -f -X POST https://hooks.example.com/off").not_understood == ("POST https://hooks.example.com/off",)


# -- kubectl -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kubectl scale deployment/vllm --replicas=0", ["get deployments.apps inference/vllm", SCALE]),
        ("kubectl scale --replicas 0 deploy vllm -n $NS", ["get deployments.apps inference/vllm", SCALE]),
        (
            "kubectl -n a scale sts/x --replicas=0 --current-replicas=1",
            ["get statefulsets.apps a/x", "get statefulsets/scale.apps a/x", "update statefulsets/scale.apps a/x"],
        ),
        (
            "kubectl scale deploy --all --replicas=0",
            ["list deployments.apps inference", "patch deployments/scale.apps inference"],
        ),
        ("kubectl delete job/a --wait=false", ["delete jobs.batch inference/a"]),
        ("kubectl delete pods -l app=x -A --wait=false", ["list pods -l app=x", "delete pods -l app=x"]),
        ("kubectl delete rayclusters.ray.io a --wait=false", ["delete rayclusters.ray.io inference/a"]),
        (
            'kubectl patch deploy vllm --subresource=scale -p \'{"spec":{"replicas":0}}\'',
            ["get deployments.apps inference/vllm", SCALE],
        ),
        (
            "kubectl annotate scaledobject/a autoscaling.keda.sh/paused-replicas=0 --overwrite",
            ["get scaledobjects.keda.sh inference/a", "patch scaledobjects.keda.sh inference/a"],
        ),
        ("kubectl cordon n1", ["get nodes n1", "patch nodes n1"]),
        (
            "kubectl drain n1 --ignore-daemonsets --delete-emptydir-data",
            ["get nodes n1", "patch nodes n1", "list pods", "get daemonsets.apps", "create pods/eviction", "get pods"],
        ),
        ("kubectl create job --from=cronjob/a b", ["get cronjobs.batch inference/a", "create jobs.batch inference"]),
        ("kubectl rollout status deploy/a", ["get deployments.apps inference/a", "watch deployments.apps inference/a"]),
        (
            "timeout 60 kubectl wait --for=delete pod -l app=a",
            ["list pods inference -l app=a", "watch pods inference -l app=a"],
        ),
        (
            "kubectl patch lws/a --type=merge -p {}",
            [
                "get leaderworkersets.leaderworkerset.x-k8s.io inference/a",
                "patch leaderworkersets.leaderworkerset.x-k8s.io inference/a",
            ],
        ),
        ("kubectl delete mpijobs.v2beta1.kubeflow.org/a --wait=false", ["delete mpijobs.kubeflow.org inference/a"]),
        ("kubectl delete gpus.v1.acme.io/a --wait=false", ["delete gpus.acme.io inference/a"]),
        ("kubectl delete gpus.acme.io a --wait=false", ["delete gpus.acme.io inference/a"]),
        ("kubectl version", []),
    ],
)
def test_kubectl_becomes_the_requests_that_it_sends(command: str, expected: list[str]):
    reading = sh(command)
    assert calls(reading) == expected
    assert not reading.not_understood


def test_kubectl_by_arguments_alone():
    reading = executor.read(
        {
            "containers": [
                {
                    "name": "c",
                    "image": "bitnami/kubectl:1.31@sha256:abc",
                    "env": ENV,
                    "args": ["scale", "deployment/$(WHO)", "--replicas=0", "-n", "$(NS)"],
                }
            ]
        },
        "inference",
    )
    assert calls(reading)[-1] == SCALE
    assert reading.calls[-1].replicas == 0
    assert reading.tools == ("kubectl",)


def test_a_dry_run_kills_nothing():
    reading = sh("kubectl scale deploy/vllm --replicas=0 --dry-run=server")
    assert not reading.calls
    assert "nothing is changed" in reading.false_green[0].said


def test_kubectl_words_that_are_not_known_are_said():
    assert sh("kubectl frobnicate deploy/vllm").not_understood == ("kubectl frobnicate deploy/vllm",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("scale deploy/a --replica=0", "there is no flag --replica; did you mean --replicas?"),
        ("drain n --ignore-daemonset --delete-emptydir-data", "did you mean --ignore-daemonsets?"),
        ("patch raycluster r -p {}", "without --type=merge it is answered 415: rayclusters"),
        ("patch raycluster r --type=merge -p {}", ""),
        ("patch deploy a -p {}", ""),
        ("scale deploy/a --replicas=0 --timeout=5m", ""),
    ],
)
def test_command_lines_that_are_not_taken(words: str, said: str):
    found = executor.read({"containers": [{"name": "c", "image": "i", "command": ["kubectl", *words.split()]}]}, "ns")
    assert [said in line for line in found.not_understood] == ([True] if said else [])


def test_objects_in_heredocs_and_files():
    manifest = "kind: Deployment\nmetadata: {name: vllm, namespace: $NS}"
    text = f"cat <<EOF >/dev/null\nx\nEOF\nkubectl apply -f - <<EOF\n{manifest}\nEOF\n"
    assert calls(sh(text))[1] == "patch deployments.apps inference/vllm"
    data = {"d.yaml": "kind: Job\nmetadata: {name: j}"}
    assert calls(sh("kubectl delete --wait=false -f /scripts/d.yaml", data=data)) == ["delete jobs.batch inference/j"]


# -- exit codes --------------------------------------------------------------------------------------------
KUBECTL = "kubectl scale deploy/vllm --replicas=0"


ANSWER = (
    "code=$(curl -s -w '%{http_code}' -X PATCH https://h/apis/apps/v1/namespaces/a/deployments/b/scale "
    """-d '{"spec":{"replicas":0}}')"""
)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (KUBECTL + " || true", "is followed by '|| true'"),
        (KUBECTL + " || echo failed", "is followed by '|| echo failed'"),
        ("set -e\n" + KUBECTL + " || :", "is followed by '|| :'"),
        (KUBECTL + "\necho done", "no 'set -e', and more runs after"),
        (KUBECTL + "; exit 0", "no 'set -e'"),
        (KUBECTL + " | tee /tmp/log", "without pipefail"),
        ("set -e\n" + KUBECTL + " | tee /tmp/log", "without pipefail"),
        (KUBECTL + " &", "in the background"),
        ("set -e\nset +e\n" + KUBECTL + "\necho", "no 'set -e'"),
        ("for d in a b; do kubectl scale deploy/$d --replicas=0; done", "no 'set -e'"),
        ("for i in 1 2 3; do " + KUBECTL + " && break; done\necho", "is refused, the script goes on"),
        ("n=0\nwhile [ $n -lt 3 ]; do " + KUBECTL + " && break; n=$((n+1)); done", "is refused, the script goes on"),
        ("rc=0\n" + KUBECTL + " || rc=1\necho", "is refused, the script goes on"),
        ("set -e\noff() { local said=$(" + KUBECTL + "); }\noff\necho", "is refused, the script goes on"),
        ("if ! kubectl create cm lock; then exit 0; fi\n" + KUBECTL, "nothing here deletes cm lock"),
        (ANSWER + '\nif [ "$code" != 200 ]; then echo bad; fi\necho', "more runs after"),
    ],
)
def test_failures_that_are_hidden(script: str, said: str):
    assert any(said in how.said for how in sh(script).false_green), sh(script).false_green


@pytest.mark.parametrize(
    "script",
    [
        KUBECTL,
        "echo hello\n" + KUBECTL,
        "set -e\n" + KUBECTL + "\necho done",
        "set -euo pipefail\n" + KUBECTL + " | tee x",
        KUBECTL + " || exit 1",
        KUBECTL + " && echo done",
        "if ! " + KUBECTL + "; then exit 1; fi\necho done",
        "set -o errexit\n" + KUBECTL + "\necho",
        "set -e\nfor d in a b; do kubectl scale deploy/$d --replicas=0; done",
        "kubectl get pods || true\n" + KUBECTL,
        KUBECTL + " || " + KUBECTL,
        ANSWER + '\ncase "$code" in 2*) ;; *) echo "$code"; exit 1;; esac',
        ANSWER + '\n[[ $code == 200 ]] || { echo "$code" >&2; exit 1; }\necho',
        ANSWER.replace("-w '%{http_code}'", "") + '\necho "$code" | grep -q replicas || exit 1\necho',
        "for i in 1 2 3; do\n" + KUBECTL + " && exit 0\nsleep 5\ndone\nexit 1",
        "n=0\nuntil " + KUBECTL + "; do\nn=$((n+1))\nif [ $n -ge 5 ]; then exit 1; fi\ndone\necho off",
        "n=0\nfor d in a b; do kubectl scale deploy/$d --replicas=0 || { n=$((n+1)); }\ndone\n[ $n -eq 0 ] || exit 1\necho",
        KUBECTL + "\nrc=$?\necho\nexit $rc",
        'die() { echo "$1"; exit 1; }\n' + KUBECTL + " || die no\necho",
        KUBECTL + " &\nwait $! || exit 1\necho",
        "ok=no\nfor i in 1 2; do if " + KUBECTL + '; then ok=yes; break; fi; done\n[ "$ok" = yes ] || exit 1\necho',
        "if ! kubectl create cm lock; then exit 0; fi\ntrap 'kubectl delete cm lock' EXIT\n" + KUBECTL,
        "trap 'exit 1' ERR\n" + KUBECTL + "\necho",
    ],
)
def test_failures_that_are_seen(script: str):
    assert not sh(script).false_green


@pytest.mark.parametrize(
    ("script", "waits_s"),
    [
        ("sleep 10m\n" + KUBECTL + "\nsleep 5", 600),
        ("if [ -f /x ]; then sleep 60; fi\nsleep 30\n" + KUBECTL, 30),
        ("n=0\nwhile [ $n -lt 3 ]; do sleep 20; n=$((n+1)); done\n" + KUBECTL, 60),
        ("while true; do kubectl get pods && break; sleep 9; done\n" + KUBECTL, 0),
    ],
)
def test_how_long_a_script_sleeps_before_it_acts(script: str, waits_s: float):
    assert sh(script).waits_s == waits_s


def test_errexit_by_option_and_by_shebang():
    assert not read("sh", "-ec", KUBECTL + "\necho").false_green
    assert not read("/scripts/off.sh", data={"off.sh": "#!/bin/bash -eu\n" + KUBECTL + "\necho"}).false_green
    assert read("/scripts/off.sh", data={"off.sh": "#!/bin/bash\n" + KUBECTL + "\necho"}).false_green


# -- scripts elsewhere -------------------------------------------------------------------------------------
def test_scripts_in_config_maps():
    data = {
        "off.sh": "#!/usr/bin/env bash\n. /scripts/lib.sh\noff vllm",
        "lib.sh": "off() { kubectl scale deploy/$1 --replicas=0; }",
    }
    assert calls(read("/scripts/off.sh", data=data))[-1] == SCALE
    data = {"off.sh": "off() { kubectl scale deploy/$1 --replicas=0; }\noff vllm"}
    for command in (["bash", "/scripts/off.sh"], ["sh", "-c", "/scripts/off.sh"], ["sh", "-c", "exec /scripts/off.sh"]):
        assert calls(read(*command, data=data))[-1] == SCALE


def test_names_of_files_that_config_maps_rename():
    spec = {
        "containers": [
            {
                "name": "c",
                "command": ["sh", "/x/y.sh"],
                "volumeMounts": [{"name": "s", "mountPath": "/x/y.sh", "subPath": "k"}],
            }
        ],
        "volumes": [{"name": "s", "projected": {"sources": [{"configMap": {"name": "cm"}}]}}],
    }
    reading = executor.read(spec, "inference", {("inference", "cm"): {"data": {"k": KUBECTL}}})
    assert calls(reading)[-1] == SCALE


@pytest.mark.parametrize(
    ("script", "tools"),
    [
        ("echo ls > /tmp/off.sh; chmod +x /tmp/off.sh; /tmp/off.sh", {"sh", "chmod"}),
        (". /opt/lib/night.sh; scale_down llm; kubectl get pods", {"sh", "kubectl"}),
        ("scale_down llm; kubectl get pods", {"sh", "scale_down", "kubectl"}),
    ],
)
def test_what_a_script_makes_or_sources_is_none_of_its_images(script: str, tools: set[str]):
    found = executor.read({"containers": [{"name": "c", "image": "i", "command": ["sh", "-c", script]}]}, "ns")
    assert set(found.tools) == tools


def test_what_is_in_the_image_is_said_not_to_be_here():
    assert "not in the manifests" in read("sh", "/opt/off.sh").not_understood[0]
    assert "not in the manifests" in read("python3", "/app/off.py").not_understood[0]
    assert (
        "entrypoint of its image"
        in executor.read({"containers": [{"name": "c", "image": "acme/off:1"}]}, "n").not_understood[0]
    )
    assert read("/app/off").not_understood == ("/app/off",)


def test_clouds_are_outside():
    reading = sh("aws autoscaling set-desired-capacity --auto-scaling-group-name gpu --desired-capacity 0")
    assert reading.outside[0].startswith("aws autoscaling set-desired-capacity")
    assert not reading.calls


def test_no_secret_is_repeated():
    reading = sh("helm upgrade --set token=hunter2 x && aws configure set aws_secret_access_key hunter2")
    assert "hunter2" not in str(reading.not_understood)


def test_environment_from_config_maps_and_the_service_account_files():
    reading = sh(
        "NS=$(cat /var/run/secrets/kubernetes.io/serviceaccount/namespace)\n"
        "curl -f -XDELETE $API/apis/batch/v1/namespaces/$NS/jobs/$JOB",
        data={"API": "https://h", "JOB": "j"},
        envFrom=[{"configMapRef": {"name": "cm"}}],
    )
    assert calls(reading) == ["delete jobs.batch inference/j"]


# -- Python ------------------------------------------------------------------------------------------------
BODY = '{"spec": {"replicas": 0}}'
PYTHON = {
    "urllib": """
import os, urllib.request as u
ns = os.environ["NS"]
r = u.Request(f"https://h/apis/apps/v1/namespaces/{ns}/deployments/vllm/scale", data=b'BODY', method="PATCH")
u.urlopen(r)
""",
    "requests": """
import os, requests
url = "https://h/apis/apps/v1/namespaces/%s/deployments/vllm/scale" % os.environ["NS"]
requests.patch(url, json=BODY).raise_for_status()
""",
    "httpx": """
import httpx, os
url = "https://h/apis/apps/v1/namespaces/" + os.getenv("NS") + "/deployments/vllm/scale"
httpx.request("PATCH", url, json=BODY).raise_for_status()
""",
    "client": """
from kubernetes import client
client.AppsV1Api().patch_namespaced_deployment_scale("vllm", "inference", BODY)
""",
    "client by keyword": """
from kubernetes import client
body = BODY
client.AppsV1Api().patch_namespaced_deployment_scale(name="vllm", namespace="inference", body=body)
""",
    "a list in a list": """
import subprocess
BASE = ("kubectl", "-n", "inference")
for name in ["vllm"]:
    subprocess.run([*BASE, "scale", f"deploy/{name}", "--replicas", str(0)], check=True)
""",
    "one of two": """
import os, requests
ns = "inference" if os.environ["NS"] else "elsewhere"
requests.patch(f"https://h/apis/apps/v1/namespaces/{ns}/deployments/vllm/scale", json=BODY).raise_for_status()
""",
    "a function of its own": """
def call(method, url, body): ...
call("PATCH", "https://h/apis/apps/v1/namespaces/inference/deployments/vllm/scale", BODY)
""",
}


@pytest.mark.parametrize("script", PYTHON.values(), ids=PYTHON)
def test_python_in_its_several_ways(script: str):
    reading = read("python3", "-c", script.replace("BODY", BODY))
    assert [call for call in calls(reading) if not call.startswith("get")] == [SCALE], reading
    assert reading.writes[0].replicas == 0
    assert not reading.false_green


def test_python_that_starts_kubectl_and_custom_objects():
    script = 'import subprocess\nsubprocess.run(["kubectl", "scale", "deploy/vllm", "--replicas=0"], check=True)'
    assert calls(read("python", "-c", script))[-1] == SCALE
    script = 'api.delete_namespaced_custom_object("ray.io", "v1", "ns", "rayclusters", "x")'
    assert calls(read("python", "-c", script)) == ["delete rayclusters.ray.io ns/x"]


def test_python_that_swallows_failure():
    swallow = 'try:\n  c.patch_namespaced_deployment_scale("a", "b", {})\nexcept Exception as e:\n  print(e)\n'
    assert "every exception is caught" in read("python", "-c", swallow).false_green[0].said
    assert not read("python", "-c", swallow + "  raise\n").false_green
    unchecked = 'import requests\nrequests.delete("https://h/apis/batch/v1/namespaces/a/jobs/b")'
    assert "raise_for_status" in read("python", "-c", unchecked).false_green[0].said


def test_python_that_cannot_be_read_says_so():
    assert "not Python" in read("python", "-c", "def (").not_understood[0]
    assert (
        "no call that could be followed" in read("python", "-c", "import lightkube\nkubernetes = 1\n").not_understood[0]
    )


# -- the shell itself --------------------------------------------------------------------------------------
def words(text: str, **variables: str) -> list[list[str]]:
    return [list(command.words) for command in shell_script.parse(text, variables).commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a 'b c' \"d $X\" e\\ f", [["a", "b c", "d x y", "e f"]]),
        ('a $X "$X"', [["a", "x", "y", "x y"]]),
        ('a $EMPTY b "$EMPTY"', [["a", "b", ""]]),
        ("a $NOBODY/b", [["a", UNKNOWN + "/b"]]),
        ("a ${NOBODY:-d} ${X:-d} ${NOBODY-$X}", [["a", "d", "x", "y", "x", "y"]]),
        ("A=1 B=$A a $B", [["a", "1"]]),
        ("a \\\n  b # c\nd", [["a", "b"], ["d"]]),
        ("a >x 2>&1 <y b; c &>z", [["a", "b"], ["c"]]),
        ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("while ! a; do b; done", [["a"], ["b"]]),
        ("case $X in a|b) c ;; *) d;; esac; e", [["c"], ["d"], ["e"]]),
        ("f() { a $1; }\nf x; f y", [["a", "x"], ["a", "y"]]),
        ('function f { a "$@"; }\nf x', [["a", "x"]]),
        ("f() { a -b \"$@\" c; }\nf 'x y' z", [["a", "-b", "x y", "z", "c"]]),
        ('f() { a "$@"; }\nf', [["a"]]),
        ("for i in 1 2; do for j in a b; do x $i$j; done; done", [["x", "1a"], ["x", "1b"], ["x", "2a"], ["x", "2b"]]),
        ("a $(b c) `d`", [["b", "c"], ["d"], ["a", UNKNOWN, UNKNOWN]]),
        ("a $(echo b)", [["a", "b"]]),
        ("(a; b) | c", [["a"], ["b"], ["c"]]),
        ("a <<'X'\n$X\nX\nb", [["a"], ["b"]]),
        ("f() { f; }; f", [["f"]]),
        ("", []),
        ("# nothing", []),
        ("a $((1+2))", [["a", UNKNOWN]]),
        ("a '#b' c#d", [["a", "#b", "c#d"]]),
        ('T=(a/b \'c d\')\nfor t in "${T[@]}"; do x "$t"; done', [["x", "a/b"], ["x", "c d"]]),
        (
            'declare -A T=( [k]="v" [l]=w )\nfor k in "${!T[@]}"; do x $k "${T[$k]}"; done',
            [["x", "k", "v"], ["x", "l", "w"]],
        ),
        ("F=()\na || F+=(b)\nc ${#F[@]} ${F[0]} ${F[1]} $F", [["a"], ["c", "1", "b", "b"]]),
        ('a "${NONE[@]}" "${F[@]}"\nF=()\nb "${F[@]}"', [["a", UNKNOWN, UNKNOWN], ["b"]]),
        ("p=n/a.b.c; a ${p%%/*} ${p##*/} ${p%.*} ${p#*.}", [["a", "n", "a.b.c", "n/a.b", "b.c"]]),
        ("a ${NOBODY%/*}", [["a", UNKNOWN]]),
        ("if (( $X > 1 && $Y )); then b; fi", [[":"], ["b"]]),
        ("[[ -n $X && $X == \\#* ]] && b", [["[["], ["b"]]),
        ("while read -r l; do a; done < <(b c)", [["read", "-r", "l"], ["a"], ["b", "c"]]),
    ],
)
def test_the_shell_is_read_as_a_shell_would(text: str, expected: list[list[str]]):
    assert words(text, X="x y", EMPTY="") == expected


def test_here_documents_expand_unless_quoted():
    plain, quoted = shell_script.parse("a <<X\n$V \"q\"\nX\nb <<'X'\n$V\nX\n", {"V": "1"}).commands
    assert (plain.stdin, quoted.stdin) == ('1 "q"\n', "$V\n")


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a $(b", "a <<X\nb", "a ${b", "for x in a; do b", "case x in"])
def test_what_never_closes_is_an_error_of_its_own(text: str):
    with pytest.raises(ShellSyntaxError):
        shell_script.parse(text)
    assert "cannot be read" in sh(text).not_understood[0]


LLM = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: inference}
spec: {replicas: %s, template: {spec: {containers: [{name: a, resources: {limits: {%s: 1}}}]}}}
"""


@pytest.mark.parametrize(
    ("replicas", "holds", "written"),
    [(2, "nvidia.com/gpu", 2), (0, "nvidia.com/gpu", 0), (0, "cpu", 0), (2, "cpu", None), ("two", "cpu", None)],
)
@pytest.mark.parametrize("words", ["apply -f /scripts/llm.yaml", "apply -f /scripts/", "replace -f /scripts"])
def test_replicas_of_an_applied_manifest_are_what_is_written(
    words: str, replicas: object, holds: str, written: int | None
) -> None:
    data = {"llm.yaml": LLM % (replicas, holds), "notes.txt": LLM % (7, "nvidia.com/gpu")}
    found = sh(f"kubectl {words}", data=data)
    changed = [call for call in found.calls if call.verb in ("patch", "update")]
    assert [(call.resource, call.name, call.replicas) for call in changed] == [("deployments", "llm", written)]


TENFOLD = "\n".join(["A=aaaaaaaaaa", *["A=$A$A$A$A$A$A$A$A$A$A"] * 30, "kubectl scale deploy $A --replicas=0"])
ENTRIES = (
    "A=(a b c d e f g h i j);" + 'A=("${A[@]}" "${A[@]}" "${A[@]}" "${A[@]}");' * 20 + 'kubectl delete pod "${A[@]}"'
)


@pytest.mark.parametrize(
    ("script", "data"),
    [
        (TENFOLD, None),
        (ENTRIES, None),
        (". /scripts/a.sh", {"a.sh": ". /scripts/a.sh\nbash /scripts/a.sh\nsource /scripts/../scripts/a.sh"}),
    ],
)
def test_a_script_that_grows_without_an_end_is_not_followed(script, data):
    assert len(repr(sh(script, data=data))) < 1_000_000


@pytest.mark.parametrize(
    "program",
    [
        'a="xxxxxxxxxx"\n' + '\na=f"{a}{a}{a}{a}{a}{a}{a}{a}{a}{a}"' * 30 + '\nos.system("kubectl scale deploy " + a)',
        "x=" + "-" * 100_000 + "1",
        "import kubernetes\x00",
    ],
)
def test_a_python_program_that_would_end_its_reader_is_not_followed(program):
    assert len(repr(read("python3", "-c", program))) < 10_000
