"""An everyday course of kubectl, walked with one kubectl or many, on the embedded cluster and on a real one.

    python tests/conformance/kubectl_course.py KUBECTL... [--kubeconfig REAL] [--hollow-nodes 2] [--report FILE]

Without REAL it is told which commands failed that say nothing of failing. With it, every command's exit code and words
are compared, but for what differs from run to run. Exit code 1: something differs, or failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from client_suites import embedded, real

TEMPLATE = """{metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 1, tolerations: [{operator: Exists}],
      containers: [{name: web, image: "registry.k8s.io/pause:3.9", resources: {requests: {cpu: 10m}}}]}}"""
FOLDER = {
    "config.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue, size: "3"}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: sesame}
""",
    "web.yaml": f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, labels: {{app: web}}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template: {TEMPLATE}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]}}
""",
    "night.yaml": """
apiVersion: batch/v1
kind: CronJob
metadata: {name: night}
spec:
  schedule: "0 3 1 1 *"
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          tolerations: [{operator: Exists}]
          containers: [{name: night, image: "registry.k8s.io/pause:3.9"}]
""",
}
LIST = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: "1"}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader}, rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]}
- {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}}
"""


class Step(NamedTuple):
    """``line``: what a shell runs, with ``k`` for kubectl in the course's namespace and ``K`` outside of one."""

    line: str
    #: The kubectl that had the command first.
    since: int = 0
    #: Whether its words are compared, or its exit code alone.
    words: bool = True


def _steps() -> list[Step]:
    said = Step
    return [
        said("K version -o yaml | grep -A12 serverVersion | grep -E 'major|minor:'"),
        said("for group in '' apps batch policy autoscaling networking.k8s.io; do K api-resources --api-group=$group --no-headers; done | sort"),
        said("K api-versions | grep -E '^[a-z]+/|^v1$|k8s.io/v1$' | grep -vE '(x-k8s|karpenter)|^ray' | sort"),
        said("K explain deployment.spec.strategy | grep -oE '(rollingUpdate|type).*<.*>'"),
        said("K explain cronjob.spec.concurrencyPolicy | grep -E 'KIND|FIELD'"),
        said("k apply -f folder"),
        said("k apply -f folder"),
        said("k apply -f - < list.yaml"),
        said("k apply -f - < list.yaml"),
        said("k rollout status deployment/web --timeout=60s | tail -1"),
        said("k wait --for=condition=Available deployment/web --timeout=60s"),
        said("k get deployment,service,configmap,secret,cronjob,pdb -o name | grep -v openshift"),
        said("k get deployment web"),
        said("k get deployment web -o wide"),
        said("k get pods -l app=web -o jsonpath='{.items[*].status.phase}'"),
        said("k get deployment web -o yaml | sed 's/replicas: 2/replicas: 3/' | k apply -f -"),
        said("k get configmap settings -o yaml | sed 's/blue/red/' | k apply -f -"),
        said("k get configmap settings -o jsonpath='{.data.colour}'"),
        said("k get deployment web -o go-template='{{.spec.replicas}}'"),
        said("k get cm -o custom-columns=NAME:.metadata.name,SIZE:.data.size | grep -v openshift"),
        said("k diff -f folder", words=False),
        said("sed 's/size: \"3\"/size: \"4\"/' folder/config.yaml | k diff -f -", words=False),
        said("sed 's/size: \"3\"/size: \"4\"/' folder/config.yaml | k replace -f -"),
        said("KUBE_EDITOR=\"sed -i 's/replicas: 3/replicas: 2/'\" k edit deployment web"),
        said("KUBE_EDITOR='sed -i s/colour/color/' k edit configmap settings"),
        said("KUBE_EDITOR=true k edit configmap settings"),
        said("k patch deployment web -p '{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"web\",\"env\":[{\"name\":\"A\",\"value\":\"1\"}]}]}}}}'"),
        said("k patch deployment web --type=merge -p '{\"metadata\":{\"annotations\":{\"note\":\"x\"}}}'"),
        said("k patch deployment web --type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":1}]'"),
        said("k patch deployment web --type=json -p '[{\"op\":\"test\",\"path\":\"/spec/replicas\",\"value\":7}]'"),
        said("k scale deployment/web --replicas=2"),
        said("k scale deployment/web --current-replicas=5 --replicas=2"),
        said("k scale --replicas=3 -f folder/web.yaml", words=False),
        said("k set image deployment/web web=registry.k8s.io/pause:3.10"),
        said("k set env deployment/web COLOUR=green"),
        said("k set resources deployment/web --limits=cpu=200m"),
        said("k rollout restart deployment/web"),
        said("k rollout status deployment/web --timeout=90s | tail -1"),
        said("k rollout history deployment/web | wc -l"),
        said("k rollout undo deployment/web"),
        said("k rollout pause deployment/web"),
        said("k rollout resume deployment/web"),
        said("k rollout status deployment/web --timeout=90s | tail -1"),
        said("k get rs -l app=web --no-headers | wc -l"),
        said("k annotate deployment web who=me"),
        said("k annotate deployment web who-"),
        said("k label deployment web tier=front"),
        said("k label deployment web tier=back"),
        said("k label --overwrite deployment web tier=back"),
        said("k get deployment -L tier --no-headers | awk '{print $1, $2, $6}'"),
        said("k describe deployment web | sed '/^Events/,$d;/^OldReplica/d;/^NewReplica/d;/Progressing/d'"),
        said("k describe configmap settings | sort"),
        said("k describe service web | grep -vE '^(IP|Endpoints)'"),
        said("k describe pods -l app=web | grep -cE '^Name:|Ready +True'"),
        said("k logs deployment/web --tail=5", words=False),
        said("k wait --for=condition=Ready pod -l app=web --timeout=60s; k logs -l app=web --tail=1 --prefix", words=False),
        said("k create job now --from=cronjob/night"),
        said("k get job now -o jsonpath='{.spec.backoffLimit}'"),
        said("k create job echo --image=registry.k8s.io/pause:3.9 --dry-run=client -o yaml | grep -v creationTimestamp"),
        said("k create job echo --image=registry.k8s.io/pause:3.9 --dry-run=server -o name"),
        said("k create deployment extra --image=registry.k8s.io/pause:3.9"),
        said("k expose deployment extra --port=80"),
        said("k autoscale deployment extra --min=1 --max=3"),
        said("k get hpa extra --no-headers | awk '{print $1}'"),
        said("k create configmap files --from-literal=a=b"),
        said("k create secret generic files --from-literal=a=b"),
        said("k create serviceaccount sa"),
        said("k create role r --verb=get,list --resource=pods"),
        said("k create rolebinding rb --role=r --serviceaccount={ns}:sa"),
        said("k create quota q --hard=pods=50"),
        said("k get quota q -o jsonpath='{.spec.hard}'"),
        said("k create poddisruptionbudget p --selector=app=none --min-available=1"),
        said("k create ingress i --rule=a.example/=web:80"),
        said("k create token sa --duration=10m | grep -c .", since=24),
        said("k auth can-i get pods"),
        said("k auth can-i get pods --as=system:serviceaccount:{ns}:sa"),
        said("k auth can-i delete pods --as=system:serviceaccount:{ns}:sa"),
        said("k auth can-i --list --as=system:serviceaccount:{ns}:sa | grep -E '^(pods|selfsubject)'", words=False),
        said("k auth whoami", since=27, words=False),
        said("k apply --server-side -f folder/config.yaml"),
        said("k apply --server-side --force-conflicts -f folder/config.yaml"),
        said("k apply view-last-applied configmap settings"),
        said("k apply --prune -l none=none -f folder/config.yaml --dry-run=client", words=False),
        said("k get events --no-headers | awk '{print $3}' | sort -u | grep -E 'Scaling|Created'"),
        said("k get pods --field-selector=status.phase=Running --no-headers | wc -l"),
        said("k get all --no-headers | wc -l", words=False),
        said("k get --raw /healthz"),
        said("k run alone --image=registry.k8s.io/pause:3.9 --overrides='{\"spec\":{\"terminationGracePeriodSeconds\":1}}'"),
        said("k wait --for=condition=Ready pod/alone --timeout=60s"),
        said("k delete pod alone"),
        said("k get nodes --no-headers | wc -l"),
        said("K cordon {node}"),
        said("K cordon {node}"),
        said("K get node {node} --no-headers | awk '{print $2}'"),
        said("K drain {node} --ignore-daemonsets --force --timeout=90s 2>err | tail -1"),
        said("K uncordon {node}"),
        said("K taint node {node} course=yes:NoSchedule"),
        said("K taint node {node} course=yes:NoSchedule"),
        said("K taint node {node} course:NoSchedule-"),
        said("K label node {node} course=yes"),
        said("K label node {node} course-"),
        said("K describe node {node} | grep -E '^(Taints|Unschedulable|Roles)'"),
        said("K top node", words=False),
        said("k top pod", words=False),
        said("K cluster-info | sed -n '1s#http.*##p'"),
        said("k delete -f folder --wait=false", words=True),
        said("k delete job,cronjob --all", words=False),
        said("k delete configmap nothing"),
        said("k delete configmap nothing --ignore-not-found"),
        said("k wait --for=delete deployment/web --timeout=60s", words=False),
        said("k get deployment web"),
        said("k create -f folder/config.yaml"),
        said("k create -f folder/config.yaml"),
        said("k replace --force -f folder/config.yaml"),
        said("k delete secret,configmap -l a=b"),
        said("k get nothing"),
        said("K delete namespace {ns} --wait=true"),
    ]  # fmt: skip


STEPS = _steps()
_PASSING = re.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*( [+-]\d{4})?( UTC)?|\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} [+-]\d{4}"
    r"|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b\d+\.\d+\.\d+\.\d+(:\d+)?\b|\b(\d+[dhms]){1,2}\b|<invalid>"
    r"|-[bcdfghjklmnpqrstvwxz2456789]{8,10}(?=-|\b)|-[bcdfghjklmnpqrstvwxz2456789]{5}\b"
)


class Said(NamedTuple):
    code: int
    words: str


def release(kubectl: str) -> int:
    """The minor version of a kubectl. Raises SystemExit where it does not say."""
    if not Path(kubectl).is_file():
        raise SystemExit(f"{kubectl}: no such file: give the path of a kubectl")
    kubectl = str(Path(kubectl).resolve())
    done = subprocess.run([kubectl, "version", "--client"], capture_output=True, text=True, check=False)
    found = re.search(r'v1\.(\d+)\.|Minor:"(\d+)', done.stdout)
    if not found:
        raise SystemExit(f"{kubectl}: is no kubectl: {done.stderr or done.stdout}")
    return int(found[1] or found[2])


def walk(kubectl: str, kubeconfig: Path, folder: Path, minor: int) -> list[Said | None]:
    """What each step said; None: this kubectl has no such command."""
    space = f"course-{minor}"
    for name, text in FOLDER.items():
        (folder / "folder").mkdir(exist_ok=True)
        (folder / "folder" / name).write_text(text)
    (folder / "list.yaml").write_text(LIST)
    one = f'"{Path(kubectl).resolve()}" --kubeconfig "{kubeconfig}"'
    env = os.environ | {"HOME": str(folder), "TZ": "UTC"}
    env.pop("KUBECONFIG", None)

    def shell(line: str) -> Said:
        whole = f'k() {{ {one} -n {space} "$@"; }}\nK() {{ {one} "$@"; }}\nset -o pipefail\n{line}'
        done = subprocess.run(
            ["bash", "-c", whole],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            stdin=subprocess.DEVNULL,
        )
        return Said(done.returncode, done.stdout + done.stderr)

    if shell(f"K create namespace {space}").code:
        raise SystemExit(f"{kubectl}: cannot make namespace {space}: {shell(f'K get namespace {space}').words}")
    shell("until k get serviceaccount default; do sleep 0.3; done")
    node = shell("K get nodes -o jsonpath='{.items[0].metadata.name}'").words.strip()
    found: list[Said | None] = []
    for step in STEPS:
        line = step.line.replace("{ns}", space).replace("{node}", node)
        said = shell(line) if minor >= step.since else None
        found.append(said and Said(said.code, plain(said.words, space, node)))
    return found


def plain(words: str, space: str, node: str) -> str:
    """Without what differs from run to run, or from cluster to cluster."""
    for name, shown in ((space, "<namespace>"), (node, "<node>")):
        words = words.replace(name, shown) if name else words
    lines = [re.sub(r"\s+", " ", _PASSING.sub("*", line)).strip() for line in words.splitlines()]
    return "\n".join(line for line in lines if line and "openshift" not in line)


def unlike(here: list[Said | None], there: list[Said | None]) -> list[tuple[str, Said, Said]]:
    """The steps that a real server answers otherwise, with both answers."""
    found = []
    for step, ours, theirs in zip(STEPS, here, there, strict=True):
        if ours is None or theirs is None:
            continue
        if ours.code != theirs.code or (step.words and ours.words != theirs.words):
            found.append((step.line, ours, theirs))
    return found


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubectl", nargs="+")
    parser.add_argument("--kubeconfig", type=Path, help="of a real cluster to compare with")
    parser.add_argument("--hollow-nodes", type=int, default=0, help="to put on it, where it has no kubelets")
    parser.add_argument("--report", type=Path, help="where every difference is told")
    said = parser.parse_args(words)
    lines, differ = [], 0
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        places = [stack.enter_context(embedded(folder))]
        if said.kubeconfig:
            places.append(stack.enter_context(real(said.kubeconfig, folder, said.hollow_nodes)))
        for kubectl in said.kubectl:
            minor = release(kubectl)
            both = [walk(kubectl, path, folder, minor) for path in places]
            asked = sum(one is not None for one in both[0])
            found = unlike(*both) if said.kubeconfig else _failed(both[0])
            differ += len(found)
            how = "alike" if said.kubeconfig else "done"
            print(f"kubectl 1.{minor}: {asked - len(found)} of {asked} {how}", flush=True)
            for line, ours, theirs in found:
                lines += [f"## 1.{minor} {line}", f"embedded: {ours.code}", ours.words]
                lines += [f"real: {theirs.code}", theirs.words] if said.kubeconfig else []
            if said.report:
                said.report.write_text("\n".join(lines) + "\n")
    return 1 if differ else 0


def _failed(here: list[Said | None]) -> list[tuple[str, Said, Said]]:
    """The steps of the embedded cluster alone in which it was no answer: what is not served, or broke."""
    bad = re.compile(r"panic|internal error|could not find the requested resource|not implemented|EOF", re.IGNORECASE)
    return [(step.line, one, one) for step, one in zip(STEPS, here, strict=True) if one and bad.search(one.words)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
