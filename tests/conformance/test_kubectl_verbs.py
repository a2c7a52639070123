"""kubectl's verbs one after the other, with what they print and how they end against a real v1.36.2 control plane.

The expected texts were seen there with the same commands in the same order; what names, ages and addresses are, varies.
"""

import re
import shutil

import pytest

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: verbs, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: web, image: "nginx:1.27", ports: [{containerPort: 80, name: http}], env: [{name: A, value: "1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: verbs}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: verbs}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [
    {name: c, image: "curlimages/curl:8.5.0", command: ["true"]}]}}}}
---
apiVersion: v1
kind: Secret
metadata: {name: sec, namespace: verbs}
stringData: {p: hush}
"""

#: (command, what it must print as a pattern, exit code); in order.
BEGIN = (
    ("create namespace verbs", "namespace/verbs created", 0),
    ("config set-context --current --namespace=verbs", "modified", 0),
)
READY = (
    *BEGIN,
    ("apply -f - <M", "created", 0),
    ("rollout status deployment/web --timeout=60s", 'deployment "web" successfully rolled out', 0),
)
SESSIONS = {
    "applying, reading, patching": (
        *BEGIN,
        ("diff -f - <M", r"\+  replicas: 2", 1),
        (
            "apply -f - <M",
            r"deployment.apps/web created\nservice/web created\ncronjob.batch/nightly created\n"
            "secret/sec created",
            0,
        ),
        (
            "apply -f - <M",
            r"web unchanged\nservice/web unchanged\ncronjob.batch/nightly unchanged\n"
            "secret/sec configured",
            0,
        ),
        ("diff -f - <M", "^$", 0),
        (
            "apply -f - --dry-run=server <M replicas: 2=>replicas: 3",
            r"deployment.apps/web configured \(server dry run\)",
            0,
        ),
        ("wait --for=condition=Available deployment/web --timeout=60s", "deployment.apps/web condition met", 0),
        ("rollout status deployment/web --timeout=60s", 'deployment "web" successfully rolled out', 0),
        ("apply --server-side -f - <M", "secret/sec serverside-applied", 0),
        ("apply --server-side -f - <M replicas: 2=>replicas: 3", "deployment.apps/web serverside-applied", 0),
        ("get deployment web -o yaml", r'kubectl.kubernetes.io/last-applied-configuration: \|\n.*"replicas":3', 0),
        (
            "apply --server-side --field-manager=other -f - <M replicas: 2=>replicas: 4",
            'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas\nPlease review',
            1,
        ),
        ("scale deployment web --replicas=2", "deployment.apps/web scaled", 0),
        ("wait --for=jsonpath={.status.readyReplicas}=2 deployment/web --timeout=60s", "condition met", 0),
        ("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}", "^nginx:1.27$", 0),
        ("get deployment -o go-template='{{range .items}}{{.metadata.name}} {{end}}'", "^web $", 0),
        (
            "get deployment web -o custom-columns=N:.metadata.name,I:.spec.template.spec.containers[*].image",
            r"N     I\nweb   nginx:1.27",
            0,
        ),
        ("get deployment web -o wide", "NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR", 0),
        ("get pods -l app=nope", "No resources found in verbs namespace.", 0),
        ("get pods -l app=web --field-selector=status.phase=Running -o name", r"^(pod/web-\w+-\w+\n){2}$", 0),
        ("get all", r"(?s)pod/web.*service/web.*deployment.apps/web.*replicaset.apps/web.*cronjob.batch/nightly", 0),
        (
            "describe deployment web",
            r"StrategyType:           RollingUpdate\nMinReadySeconds:        0\n"
            "RollingUpdateStrategy:  25% max unavailable, 25% max surge",
            0,
        ),
        ("describe svc web", r"IP Family Policy:         SingleStack\nIP Families:              IPv4", 0),
        ("describe secret sec", "p:  4 bytes", 0),
        ("describe ingress nope", r'Error from server \(NotFound\): ingresses.networking.k8s.io "nope" not found', 1),
        (
            "explain deployment.spec.replicas",
            r"(?s)GROUP:      apps\nKIND:       Deployment\nVERSION:    v1.*replicas <integer>",
            0,
        ),
        ("explain nope", 'the server doesn\'t have a resource type "nope"', 1),
        ("api-resources --api-group=apps -o name", "daemonsets.apps", 0),
        ("api-versions", "apiregistration.k8s.io/v1", 0),
        ("""patch deployment web -p '{"spec":{"revisionHistoryLimit":5}}'""", "deployment.apps/web patched", 0),
        ("""patch deployment web --type=merge -p '{"metadata":{"annotations":{"k":"v"}}}'""", "patched", 0),
        (
            """patch deployment web --type=json -p '[{"op":"remove","path":"/spec/nope"}]'""",
            "The request is invalid: the server rejected our request due to an error in our request",
            1,
        ),
        (
            """patch deployment web -p '{"spec":{"replicas":"x"}}'""",
            r'The request is invalid: patch: Invalid value: "map\[spec:map\[replicas:x\]\]": unrecognized type: int32',
            1,
        ),
        ("label deployment web team=ml", "deployment.apps/web labeled", 0),
        ("label deployment web team=other", r"error: 'team' already has a value \(ml\), and --overwrite is false", 1),
        ("label deployment web team=other --overwrite", "labeled", 0),
        ("label deployment web team-", "unlabeled", 0),
        ("annotate deployment web note=x", "deployment.apps/web annotated", 0),
    ),
    "rollouts": (
        *READY,
        ("set image deployment/web web=nginx:1.28", "deployment.apps/web image updated", 0),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out", 0),
        ("rollout history deployment/web", r"REVISION  CHANGE-CAUSE\n1         <none>\n2         <none>", 0),
        (
            "rollout history deployment/web --revision=2",
            r"(?s)with revision #2\nPod Template:.*Image:	nginx:1.28",
            0,
        ),
        ("rollout undo deployment/web", "deployment.apps/web rolled back", 0),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out", 0),
        ("rollout pause deployment/web", "deployment.apps/web paused", 0),
        ("rollout pause deployment/web", 'error: deployments.apps "web" is already paused', 1),
        ("rollout resume deployment/web", "deployment.apps/web resumed", 0),
        ("rollout restart deployment/web", "deployment.apps/web restarted", 0),
        ("rollout status deployment/web --timeout=60s", "successfully rolled out", 0),
        ("set env deployment/web B=2", "deployment.apps/web env updated", 0),
        ("set resources deployment/web --limits=memory=256Mi", "resource requirements updated", 0),
        ("set env deployment/web --list", r"A=1\nB=2", 0),
        ("autoscale deployment web --min=1 --max=3", "horizontalpodautoscaler.autoscaling/web autoscaled", 0),
        ("expose deployment web --name=web2 --port=81 --target-port=80", "service/web2 exposed", 0),
    ),
    "making and taking away": (
        *READY,
        ("run one --image=nginx:1 --restart=Never", "pod/one created", 0),
        ("wait --for=condition=Ready pod/one --timeout=60s", "pod/one condition met", 0),
        ("logs nope", 'pods "nope" not found in namespace "verbs"', 1),
        ("top pods", "error: Metrics API not available", 1),
        ("top nodes", "error: Metrics API not available", 1),
        ("create job drill --from=cronjob/nightly", "job.batch/drill created", 0),
        ("create token default --duration=5m", "may not specify a duration less than 10 minutes", 1),
        ("create token default --duration=10m", r"^[\w-]+\.[\w-]+\.[\w-]+$", 0),
        ("create configmap c3 --from-literal=a=b", "configmap/c3 created", 0),
        (
            "create role r2 --verb=get,list --resource=pods,deployments.apps/scale",
            "role.rbac.authorization.k8s.io/r2 created",
            0,
        ),
        ("create rolebinding rb2 --role=r2 --serviceaccount=verbs:default", "created", 0),
        ("create pdb p2 --selector=a=b --min-available=1", "poddisruptionbudget.policy/p2 created", 0),
        ("create ingress in --rule=a.example.com/x=web:80", "ingress.networking.k8s.io/in created", 0),
        ("create namespace verbs", r'Error from server \(AlreadyExists\): namespaces "verbs" already exists', 1),
        ("auth can-i get pods --as=system:serviceaccount:verbs:default", "^yes$", 0),
        ("auth can-i create deployments --as=system:serviceaccount:verbs:default", "^no$", 1),
        (
            "auth can-i --list --as=system:serviceaccount:verbs:default",
            r"deployments.apps/scale +\[\] +\[\] +\[get list\]",
            0,
        ),
        ("auth whoami", r"(?s)Username +kubernetes-admin.*credential-id\s+\[X509SHA256=[0-9a-f]{64}\]", 0),
        ("events --for deployment/web", "Scaled up replica set web-", 0),
        ("cordon cpu-1", "node/cpu-1 cordoned", 0),
        ("cordon cpu-1", r"node/cpu-1 already cordoned", 0),
        ("drain cpu-1 --ignore-daemonsets --force --delete-emptydir-data --timeout=60s", "node/cpu-1 drained", 0),
        ("uncordon cpu-1", "node/cpu-1 uncordoned", 0),
        ("taint nodes cpu-1 k=v:NoSchedule", "node/cpu-1 tainted", 0),
        ("taint nodes cpu-1 k:NoSchedule-", "node/cpu-1 untainted", 0),
        ("replace -f - <M replicas: 2=>replicas: 1", "deployment.apps/web replaced", 0),
        (
            "create -f - <M",
            r'Error from server \(AlreadyExists\): error when creating "STDIN": deployments.apps "web"',
            1,
        ),
        ("delete pod one --grace-period=0 --force", 'pod "one" force deleted', 0),
        ("delete job drill", 'job.batch "drill" deleted', 0),
        ("delete deployment web --cascade=orphan", 'deployment.apps "web" deleted', 0),
        ("get rs -l app=web -o name", "^(replicaset.apps/web-\\w+\n)+$", 0),
        ("delete svc nope --ignore-not-found", "^$", 0),
        ("delete -f - --ignore-not-found <M", 'secret "sec" deleted', 0),
        ("get nopes", 'error: the server doesn\'t have a resource type "nopes"', 1),
    ),
}


@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.one_in(2)
def test_a_session_prints_what_it_prints_on_a_real_cluster(kubectl, session):
    space = "verbs-" + session.partition(",")[0].replace(" ", "-")
    for step, pattern, rc in SESSIONS[session]:
        command, stdin = step.replace("verbs", space), None
        if " <M" in command:
            command, _, change = command.partition(" <M")
            old, _, new = change.strip().partition("=>")
            stdin = (MANIFEST.replace(old, new) if old else MANIFEST).replace("verbs", space)
        said = OLD_CLIENT.sub("", kubectl(command, stdin, rc))
        assert re.search(pattern.replace("verbs", space), said), f"kubectl {step}:\n{said}"
    kubectl(f"delete namespace {space} --wait=false")


#: What an older kubectl says of any server that is two versions newer.
OLD_CLIENT = re.compile(r"WARNING: version difference between client .*\n")
