"""Is a NetworkPolicy enforced here at all? A probe pod says so: it gets through before, and no more afterwards.

Not every network plugin enforces NetworkPolicies (flannel does not), and the API takes them all the same. The probe is
a pod like the executor's - its image, its account, its labels, its place - whose command only opens a connection; so
what it meets, the executor meets.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from killcheck.executor.refusals import UNREACHED, UNRESOLVED, line_with
from killcheck.faults.base import FaultError
from killcheck.faults.kubernetes.executor import ACCOUNT_PATH, cron_job_of, pod_spec
from killcheck.images.reference import InvalidReference, parse
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.machineless import why_not_run
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry
from killcheck.spec.killpath import Ref
from killcheck.text import lazy_re

__all__ = ["known_to_enforce", "permissions", "probe_after", "probe_before"]

#: How long a probe may take to start, and then to answer, in seconds.
STARTS_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 480.0
#: How long a policy may take to be programmed, in tries of a probe two seconds apart.
TRIES = 20
#: How often in a row a probe must be held back: one connection that fails is no policy (a busy node's DNS, a time-out).
HELD_BACK = 4
#: The same for one kubectl a pod: how often it is asked, and how often in a row it must be held back.
KUBECTL_TRIES, KUBECTL_HELD_BACK = 8, 2
#: Images that have a shell and curl, nc, kubectl or Python, by the end of their names; how many of them are tried.
_TOOLS = lazy_re.compile(r"(?:^|/)(?:busybox|curl|alpine|kubectl|k8s|netshoot|python|bitnami-shell)$")
MOST_IMAGES = 2
#: What of the executor's container another image gets.
_BARE = frozenset({"name", "command", "resources", "securityContext", "imagePullPolicy"})
#: How long a log that a kubelet cannot read is asked for again, in seconds: the exit code says the same.
LOG_PATIENCE_S = 10.0
#: The model of a network plugin on the embedded cluster.
PLUGIN = "network-plugin"

#: The API server's port, as a pod's shell reads it.
API_PORT = "${KUBERNETES_SERVICE_PORT:-443}"

#: Exit codes of the probe.
THROUGH, BLOCKED, CANNOT = 0, 3, 4
#: What kubectl says where somebody answered, whatever it was: a TLS alert and a refusal are answers, too. It is told
#: where to go as any pod is. With ``--server`` it would forget its token and ask for a user name; with
#: ``--request-timeout`` it would forget that it is in a cluster (localhost:8080); and beside the pod's CA
#: ``--insecure-skip-tls-verify`` is an error.
_ANSWERED = (
    "orbidden",
    "nauthorized",
    "logged in to the server",
    "x509",
    "gave HTTP response",
)
#: Opens one connection with whatever the image has; an HTTP error is an answer too.
_SCRIPT = r"""
host={host}; port={port}; scheme={scheme}
once() {{
  if command -v curl >/dev/null 2>&1; then curl -sk -o /dev/null --max-time 4 "$scheme://$host:$port/version"
  elif command -v python3 >/dev/null 2>&1; then
    python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 4)' "$host" "$port" \
      2>/dev/null
  elif command -v kubectl >/dev/null 2>&1 && {{ [ -n "$KUBECONFIG" ] || [ -e {token} ]; }}; then
    limit=; command -v timeout >/dev/null 2>&1 && limit="timeout 5"
    said=$(KUBERNETES_SERVICE_HOST=$host KUBERNETES_SERVICE_PORT=$port $limit kubectl get --raw /version 2>&1) && return
    case "$said" in {answered}) return 0;; *) return 1;; esac
  elif command -v nc >/dev/null 2>&1; then nc -z -w 4 "$host" "$port" </dev/null
  else exit {cannot}; fi
}}
tries=0 same=0
while [ "$tries" -lt {tries} ]; do
  if once; then got=through; else got=blocked; fi
  if [ "$got" = {wanted} ]; then same=$((same + 1)); else same=0; fi
  [ "$same" -ge {in_a_row} ] && {{ echo "killcheck probe: $got"; exit {found}; }}
  tries=$((tries + 1)); sleep 2
done
echo "killcheck probe: $got"; exit {otherwise}
"""


def known_to_enforce(stage: Stage) -> bool:
    """Whether nobody has to be asked: the embedded cluster's own plugin is running."""
    running = stage.cluster.capabilities.controllers
    return running is not None and PLUGIN in running.controllers


def permissions(namespace: str) -> list[Permission]:
    """What probing needs."""
    return [
        *(Permission(verb, "", "pods", namespace=namespace) for verb in ("get", "create", "delete")),
        Permission("get", "", "pods", "log", namespace),
    ]


def probe_before(
    stage: Stage,
    layer: LayerRun,
    labels: dict[str, str],
    host: str,
    port: str = API_PORT,
) -> str:
    """See the probe get through while there is no policy; returns what it said. Raises FaultError where it does not."""
    text = script(host, port, wanted="through", in_a_row=1, found=THROUGH, otherwise=BLOCKED)
    code, said = _probed(stage, layer, labels, "before", script=text, host=host)
    if code == CANNOT:
        raise FaultError(
            "whether NetworkPolicies are enforced here cannot be told: the executor's image has nothing that opens a "
            "connection (curl, python3, kubectl, nc)"
        )
    if code != THROUGH:
        raise FaultError(f"a probe pod could not reach {host} even without a policy ({said}): something else is broken")
    return said


def probe_after(
    stage: Stage,
    layer: LayerRun,
    labels: dict[str, str],
    host: str,
    port: str = API_PORT,
) -> str:
    """See the probe held back by the policy that is there now; returns what it said. Raises FaultError where it is not.

    That is how a network plugin that ignores NetworkPolicies is found out.
    """
    text = script(host, port, wanted="blocked", in_a_row=HELD_BACK, found=BLOCKED, otherwise=THROUGH)
    code, said = _probed(stage, layer, labels, "after", script=text, host=host)
    if code != BLOCKED:
        raise FaultError(
            "this cluster's network plugin does not enforce NetworkPolicies: a probe pod that the policy selects still "
            f"reached {host} ({said}); so nothing about the network can be shown here"
        )
    return said


def script(
    host: str,
    port: str = API_PORT,
    *,
    wanted: str,
    in_a_row: int,
    found: int,
    otherwise: int,
) -> str:
    """What a probe runs: ends with ``found`` once it was ``wanted`` (through, blocked) so often ``in_a_row``.

    With ``otherwise`` where that did not come about. It speaks HTTPS, and HTTP to port 80.
    """
    return _SCRIPT.format(
        host=host,
        port=port,
        scheme="http" if port == "80" else "https",
        tries=TRIES,
        wanted=wanted,
        in_a_row=in_a_row,
        found=found,
        otherwise=otherwise,
        cannot=CANNOT,
        token=f"{ACCOUNT_PATH}/token",
        answered="|".join(f"*{words!r}*" for words in _ANSWERED),
    )


def _probed(
    stage: Stage, layer: LayerRun, labels: dict[str, str], when: str, *, script: str, host: str
) -> tuple[int, str]:
    """(exit code, what it said) of a probe that runs ``script``; of kubectl alone where there is no shell.

    Where the executor's image has neither, of another one that is at hand: a policy goes by a pod's labels. That one is
    handed nothing of the executor's.
    """
    try:
        code, said = _run(stage, layer, labels, when, script)
        refused = None
    except _NoShellError as error:
        found = _by_kubectl(stage, layer, labels, when, host)
        if found is not None:
            return found
        code, said, refused = CANNOT, "", error
    if code == CANNOT:
        for number, image in enumerate(_at_hand(stage)):
            with suppress(FaultError):
                other, told = _run(stage, layer, labels, f"{when}-by-{number}", script, image=image)
                if other != CANNOT:
                    return other, f"{told} (by a pod of {image})"
    if refused is not None:
        raise refused
    return code, said


def _at_hand(stage: Stage) -> list[str]:
    """Images with a shell and a client, by their names: other layers' executors', and what nodes say they have."""
    found = [image for other in stage.kill_path.layers if other.cron_job for image in _images(stage, other.cron_job)]
    for node in stage.scene.nodes.values():
        for listed in dig(node, "status", "images", default=[]):
            found += [str(name) for name in listed.get("names") or () if "@" not in str(name)]
    return [image for image in dict.fromkeys(found) if _has_tools(image)][:MOST_IMAGES]


def _has_tools(image: str) -> bool:
    """By its name, where it is one: a node may list ``<none>:<none>``."""
    try:
        return _TOOLS.search(parse(image).repository) is not None
    except InvalidReference:
        return False


def _images(stage: Stage, ref: Ref) -> list[str]:
    read = partial(stage.cluster.kube.find, r.CRONJOBS, ref.name, ref.namespace)
    cron_job = retry(stage.cluster.loop, read) or {}
    spec = dig(cron_job, "spec", "jobTemplate", "spec", "template", "spec", default={})
    return [str(one["image"]) for one in spec.get("containers") or () if one.get("image")]


class _NoShellError(FaultError):
    """The executor's image has no shell."""


def _by_kubectl(stage: Stage, layer: LayerRun, labels: dict[str, str], when: str, host: str) -> tuple[int, str] | None:
    """The same by kubectl alone, in an image that has nothing else; None where it has not even that.

    One pod is one connection: as often in a row as wanted, and as long as a policy may take to be programmed.
    """
    argv = _kubectl(layer, host)
    if argv is None:
        return None
    wanted, in_a_row = (THROUGH, 1) if when == "before" else (BLOCKED, KUBECTL_HELD_BACK)
    same, said = 0, ""
    for number in range(KUBECTL_TRIES):
        got, said = _asked(stage, layer, labels, f"{when}-{number}", argv)
        same = same + 1 if got == wanted else 0
        if same >= in_a_row:
            return wanted, f"kubectl: {said}"
        stage.cluster.loop.sleep(2.0)
    return (BLOCKED if wanted == THROUGH else THROUGH), f"kubectl: {said}"


def _kubectl(layer: LayerRun, host: str) -> Obj | None:
    """What differs in the executor's container for a call of its kubectl to ``host``; None: it has none by name."""
    first = pod_spec(layer)["containers"][0]
    command = first.get("command")
    program = str(command[0]) if command else parse(str(first.get("image", ""))).repository
    if program.rpartition("/")[2] != "kubectl":
        return None
    found: Obj = {"args": ["get", "--raw", "/version"]} | ({"command": [program]} if command else {})
    if not host.startswith("$"):  # else it is where every pod's variables lead
        found["env"] = [*first.get("env", ()), {"name": "KUBERNETES_SERVICE_HOST", "value": host}]
    return found


def _asked(stage: Stage, layer: LayerRun, labels: dict[str, str], when: str, argv: Obj) -> tuple[int, str]:
    """What one kubectl met, in its words. Raises FaultError where these say neither."""
    name, namespace, code, lines = _ended(stage, _pod(stage, layer, labels, when, argv), when)
    text = "\n".join(lines)
    if code == 0 or any(words in text for words in _ANSWERED):
        return THROUGH, "an answer"
    found = line_with(text, f"{UNREACHED}|{UNRESOLVED}")
    if not found:
        raise FaultError(f"probe pod {namespace}/{name} says neither: exit code {code}, {lines[-1:]}")
    return BLOCKED, found


def _pod(stage: Stage, layer: LayerRun, labels: dict[str, str], when: str, argv: Obj) -> Obj:
    spec = copy(pod_spec(layer))
    spec.pop("initContainers", None)
    first = {
        key: value
        for key, value in spec["containers"][0].items()
        if key not in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "ports", "args")
    }
    spec |= {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{key: value for key, value in first.items() if key != "command"} | argv],
    }
    cron_job = cron_job_of(layer)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": spec,
        "metadata": {
            "name": f"killcheck-probe-{when}-{stage.run[-6:]}",
            "namespace": namespace_of(cron_job),
            "labels": labels,
        },
    }


def _run(
    stage: Stage, layer: LayerRun, labels: dict[str, str], when: str, script: str, *, image: str = ""
) -> tuple[int, str]:
    """(exit code, what it said). Raises _NoShellError; FaultError where it did not come to an end.

    ``image``: another than the executor's.
    """
    pod = _pod(stage, layer, labels, when, {"command": ["/bin/sh", "-c", script]})
    if image:
        pod["spec"] = _handed_nothing(pod["spec"], image)
    _, _, code, said = _ended(stage, pod, when)
    if code not in (THROUGH, BLOCKED, CANNOT):
        raise _NoShellError(
            f"a probe pod of the executor's image could not run /bin/sh (exit code {code}): whether NetworkPolicies "
            "are enforced here cannot be told"
        )
    told = [line for line in said if line.startswith("killcheck probe: ")] or said
    return code, told[-1] if told else f"exit code {code}"


def _handed_nothing(spec: Obj, image: str) -> Obj:
    """For an image that nobody chose for the executor: without its token, Secrets, volumes and rights on the node."""
    first = {key: value for key, value in spec["containers"][0].items() if key in _BARE}
    rights = {key: value for key, value in (first.get("securityContext") or {}).items() if key != "privileged"}
    rights |= {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    bare = {key: value for key, value in spec.items() if key not in ("volumes", "hostPID", "hostIPC")}
    container = first | {"image": image, "securityContext": rights}
    return bare | {"automountServiceAccountToken": False, "containers": [container]}


def _ended(stage: Stage, body: Obj, when: str) -> tuple[str, str, int, list[str]]:
    """Create a probe pod and wait for its end: its name and namespace, its exit code, its lines."""
    pod = stage.journal.create(r.PODS, body, f"created a probe pod ({when})")
    name, namespace = name_of(pod), namespace_of(pod)

    def state(kind: str) -> Obj | None:
        seen = stage.scene.pods.get(name, namespace) or {}
        found = (dig(one, "state", kind) for one in dig(seen, "status", "containerStatuses", default=[]))
        return next((one for one in found if one is not None), None)

    def over() -> bool:
        return state("terminated") is not None or why_not_run(stage.scene.pods.get(name, namespace) or {}) is not None

    began = f"probe pod {namespace}/{name} to start"
    stage.wait(began, lambda: state("running") is not None or state("terminated") is not None, STARTS_WITHIN_S)
    if state("running") is not None:
        stage.wait(f"probe pod {namespace}/{name} to end", over, ANSWERS_WITHIN_S)
    end = state("terminated")
    if end is None:
        raise FaultError(f"a probe pod did not come to an end in time ({_waits(stage, name, namespace)})")
    return name, namespace, int(end.get("exitCode", CANNOT)), _said(stage, name, namespace)


def _said(stage: Stage, name: str, namespace: str) -> list[str]:
    """The lines of a pod's log; none where its kubelet cannot read it."""
    ask = partial(stage.cluster.kube.logs, name, namespace)
    try:
        return retry(stage.cluster.loop, ask, patience_s=LOG_PATIENCE_S).strip().splitlines()
    except KubeError:
        return []


def _waits(stage: Stage, name: str, namespace: str) -> str:
    pod = stage.scene.pods.get(name, namespace) or {}
    for status in dig(pod, "status", "containerStatuses", default=[]):
        waiting = dig(status, "state", "waiting")
        if waiting:
            return f"{waiting.get('reason')}: {waiting.get('message', '')}"
    # Of a pod that runs on this machine the ground may know why it is still there.
    told = [*stage.cluster.unknowns(), *stage.cluster.assumptions()]
    known = [text for text in told if f"{namespace}/{name}" in text]
    return "; ".join([str(dig(pod, "status", "phase", default="never seen")), *known])
