"""Is a NetworkPolicy enforced here at all? A probe pod says so: it gets through before, and no more afterwards.

Not every network plugin enforces NetworkPolicies (flannel does not), and the API takes them all the same. The probe is
a pod like the executor's - its image, its account, its labels, its place - whose command only opens a connection; so
what it meets, the executor meets.
"""

from __future__ import annotations

from killcheck.faults.base import FaultError
from killcheck.faults.kubernetes.executor import cron_job_of, pod_spec
from killcheck.kube import resources as r
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import Obj, copy, dig, name_of, namespace_of
from killcheck.kube.permissions import Permission
from killcheck.layers.base import LayerRun, Stage
from killcheck.safety.undo import retry

__all__ = ["known_to_enforce", "permissions", "probe_after", "probe_before"]

#: How long a probe may take to start, and then to answer, in seconds.
STARTS_WITHIN_S = 180.0
ANSWERS_WITHIN_S = 480.0
#: How long a policy may take to be programmed, in tries of a probe two seconds apart.
TRIES = 20
#: How often in a row a probe must be held back: one connection that fails is no policy (a busy node's DNS, a time-out).
HELD_BACK = 4
#: How long a log that a kubelet cannot read is asked for again, in seconds: the exit code says the same.
LOG_PATIENCE_S = 10.0
#: The model of a network plugin on the embedded cluster.
PLUGIN = "network-plugin"

#: The API server's port, as a pod's shell reads it.
API_PORT = "${KUBERNETES_SERVICE_PORT:-443}"

#: Exit codes of the probe.
THROUGH, BLOCKED, CANNOT = 0, 3, 4
#: Opens one connection with whatever the image has; an HTTP error is an answer too.
_SCRIPT = r"""
host={host}; port={port}; scheme={scheme}
once() {{
  if command -v curl >/dev/null 2>&1; then curl -sk -o /dev/null --max-time 4 "$scheme://$host:$port/version"
  elif command -v python3 >/dev/null 2>&1; then
    python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 4)' "$host" "$port" \
      2>/dev/null
  elif command -v kubectl >/dev/null 2>&1; then
    said=$(kubectl -s "$scheme://$host:$port" --insecure-skip-tls-verify --request-timeout=4s version 2>&1) && return
    case "$said" in *orbidden*|*nauthorized*) return 0;; *) return 1;; esac
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
    code, said = _run(stage, layer, labels, "before", text)
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
    code, said = _run(stage, layer, labels, "after", text)
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
    )


def _pod(stage: Stage, layer: LayerRun, labels: dict[str, str], when: str, script: str) -> Obj:
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
        "containers": [{**first, "command": ["/bin/sh", "-c", script]}],
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


def _run(stage: Stage, layer: LayerRun, labels: dict[str, str], when: str, script: str) -> tuple[int | None, str]:
    """(exit code, what it said); None: it did not come to an end."""
    pod = stage.journal.create(r.PODS, _pod(stage, layer, labels, when, script), f"created a probe pod ({when})")
    name, namespace = name_of(pod), namespace_of(pod)

    def ended() -> Obj | None:
        seen = stage.scene.pods.get(name, namespace) or {}
        for status in dig(seen, "status", "containerStatuses", default=[]):
            if "terminated" in (status.get("state") or {}):
                return status["state"]["terminated"]  # type: ignore[no-any-return]
        return None

    def started() -> bool:
        seen = stage.scene.pods.get(name, namespace) or {}
        return any(
            "running" in (status.get("state") or {}) for status in dig(seen, "status", "containerStatuses", default=[])
        )

    loop = stage.cluster.loop
    loop.run_until(lambda: started() or ended() is not None, STARTS_WITHIN_S)
    if started():
        loop.run_until(lambda: ended() is not None, ANSWERS_WITHIN_S)
    end = ended()
    if end is None:
        raise FaultError(f"a probe pod did not come to an end in time ({_waits(stage, name, namespace)})")
    try:
        said = (
            retry(
                stage.cluster.loop,
                lambda: stage.cluster.kube.logs(name, namespace),
                patience_s=LOG_PATIENCE_S,
            )
            .strip()
            .splitlines()
        )
    except KubeError:
        said = []
    code = end.get("exitCode")
    if code not in (THROUGH, BLOCKED, CANNOT):
        raise FaultError(
            f"a probe pod of the executor's image could not run /bin/sh (exit code {code}): whether NetworkPolicies "
            "are enforced here cannot be told"
        )
    return code, said[-1] if said else f"exit code {code}"


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
