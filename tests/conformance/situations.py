"""What is particular about each replayed recording: its nodes, what is done to it, which differences are allowed and why."""

import json
from dataclasses import dataclass

from compare import PASS_S, REST_S, TOLERANCE_S
from recorded import FOLDER, NAMES
from replay import EXECUTOR, IMAGES, node

from killcheck.embedded.nodes.execution import NetworkPolicy
from killcheck.images.contents import Contents
from killcheck.kube import resources as r
from killcheck.kube.objects import copy, format_time


@dataclass(frozen=True)
class Situation:
    """``acts``: (seconds after the trigger, function of the Replay); ``masks``: (pattern, replacement) for texts of
    both sides; ``allowed``: (pattern of a difference, why it is none); ``runs_all``: also what executors are not;
    ``late_s``: so late the kubelet may try again, at passes whose moments are its own."""

    name: str
    exec_mode: str = "host"
    runs_all: bool = False
    namespace: str = ""
    nodes: tuple = ()
    prepare: object = None
    acts: tuple = ()
    setup_at: float | None = None
    last_at: float | None = None
    extra_s: float = 3.0
    tolerance_s: float = TOLERANCE_S
    late_s: float = 0.0
    masks: tuple = ()
    allowed: tuple = ()


#: Recordings of requests only: the request suite has them.
REQUESTS_ONLY = frozenset(
    {
        "19-cronjob-invalid",
        "25-scale-subresource",
        "26-tokens",
        "26b-token-expires",
        "27-access-review",
        "31-yaml-off-is-boolean",
    }
)

#: The recorder's other two nodes, which came, went and were cordoned: "take the reasons, not the numbers" (README).
TAINTED = tuple(
    node(f"hollow-{n}", taints=[{"key": "rec/hollow", "value": "true", "effect": "NoSchedule"}]) for n in (1, 2)
)
NODE_COUNTS = (
    (r"0/\d+ nodes are available: .*?(?=(?: no new claims| still not schedulable|$))", "<nodes>"),
    (r"preemption: 0/\d+ nodes are available: \d+ ", "preemption: "),
)


#: A node of another situation that nothing of this one tolerates.
UNSETTLED = node("hollow-1", taints=[{"key": "rec/other", "value": "true", "effect": "NoSchedule"}])
#: Where images are pulled, and containers started, again and again: what the recorder just saw may come a pass later.
PULLS = {"late_s": PASS_S[1], "extra_s": PASS_S[1] + 1.0}
RESTARTS = {"late_s": REST_S[1] - REST_S[0], "extra_s": REST_S[1] + 1.0}


def _no_kubelet(replay):
    """A Node object, and nothing behind it."""
    replay.cluster.nodes.tends = lambda node: node["metadata"]["name"] != "rec-node"


def _one_heartbeat(replay):
    """The only one that it ever gives, as recorded."""
    told = next(c["body"] for c in replay.recording.raw["commands"] if c["command"].startswith("PATCH /api/v1/nodes"))
    now = format_time(replay.cluster.loop.now())
    conditions = [c | {"lastHeartbeatTime": now, "lastTransitionTime": now} for c in told["status"]["conditions"]]
    replay.cluster.kube.patch(
        r.NODES, "rec-node", {"status": told["status"] | {"conditions": conditions}}, subresource="status"
    )


def _evict_again(replay):
    pod = replay.cluster.kube.list(r.PODS, "rec-23c").items[0]["metadata"]["name"]
    answer = replay.send(
        "POST",
        r.PODS.path("rec-23c", pod) + "/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "rec-23c"}},
    )
    replay.seen.answers.append(("the correct eviction after two minutes", answer.status, 201))


def _running(replay):
    """What the recorder did by hand: both pods are Running and Ready."""
    now = format_time(replay.cluster.loop.now())
    for pod in replay.cluster.kube.list(r.PODS, "rec-24").items:
        container = pod["spec"]["containers"][0]["name"]
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Initialized", "ContainersReady", "Ready")
        ]
        replay.cluster.kube.patch(
            r.PODS,
            pod["metadata"]["name"],
            {
                "status": {
                    "phase": "Running",
                    "conditions": conditions,
                    "containerStatuses": [
                        {
                            "name": container,
                            "ready": True,
                            "restartCount": 0,
                            "image": "",
                            "imageID": "",
                            "state": {"running": {"startedAt": now}},
                        }
                    ],
                }
            },
            "rec-24",
            kind="strategic",
            subresource="status",
        )


def _vllm_of_15(replay):
    setup = json.loads((FOLDER / "15-webhook-service-missing.json").read_text())["setup"]
    for obj in setup:
        if obj["kind"] in ("Namespace", "Deployment"):
            replay._make([obj])


def _node_comes(replay):
    """Another situation's node, which moved every pod that waits (README: "take the reasons, not the numbers")."""
    replay.cluster.kube.create(r.NODES, copy(TAINTED[1]))


def _node_settles(replay):
    taints = [*TAINTED[1]["spec"]["taints"], {"key": "rec/settled", "effect": "NoSchedule"}]
    replay.cluster.kube.patch(r.NODES, "hollow-2", {"spec": {"taints": taints}})


def _elsewhere(moment):
    """Something of another situation on one of its nodes, after which pods that wait are tried again."""

    def act(replay):
        taints = [*TAINTED[0]["spec"]["taints"], {"key": f"rec/at-{moment}", "effect": "NoSchedule"}]
        replay.cluster.kube.patch(r.NODES, "hollow-1", {"spec": {"taints": taints}})

    return moment, act


def _cordon_elsewhere(replay):
    replay.cluster.kube.patch(r.NODES, "hollow-1", {"spec": {"unschedulable": True}})


def _the_recorders_machine(replay):
    """Its resolver answers nothing, and one image's program is for another machine."""
    replay.cluster.nodes.network = lambda _pod: NetworkPolicy(dns="drop")
    tool = Contents({}, scripts=(("/bin/tool", "an ELF header that this machine does not know"),))
    replay.cluster.registry.describe(IMAGES[1], tool)


def _tag_goes(replay):
    replay.cluster.registry.delete_tag("localhost:5000/rec/cached:1")


_SPECIAL = {
    s.name: s
    for s in (
        Situation("01b-create-job-from", allowed=((r"UnexpectedJob.*times", "3 to 5 times per Job (README)"),)),
        Situation("02-image-tag-not-found", **PULLS),
        Situation("02b-image-repository-not-found", **PULLS),
        Situation("02c-image-digest-not-found", **PULLS),
        Situation("03-registry-connection-refused", **PULLS),
        Situation(
            "03b-registry-unknown-host",
            **PULLS,
            masks=((r"lookup registry\.invalid on \S+:", "lookup registry.invalid on <resolver>:"),),
        ),
        Situation("03c-registry-untrusted-certificate", **PULLS),
        Situation("07c-exec-not-on-path", prepare=lambda replay: replay.cluster.registry.describe(IMAGES[0], EXECUTOR)),
        Situation(
            "10-401-dead-token",
            allowed=(
                (r"TokenReview after the Secret was deleted", "the token of this review is not the bound one here"),
            ),
        ),
        Situation(
            "15b-webhook-on-scale",
            namespace="rec-15",
            prepare=_vllm_of_15,
            setup_at=-1.0,
            allowed=(
                (
                    r"answer to PATCH .*\.(generation|conditions|observedGeneration)",
                    "the Deployment had been scaled in situation 15 already",
                ),
                (r"metadata\.generation", "the Deployment had been scaled in situation 15 already"),
                (r"^(event )?(Pod|ReplicaSet)/vllm", "the pod was started at another moment"),
                (r"^event Deployment/vllm", "it had been scaled in situation 15 already"),
                (r"^event Job/", "situation 15's own end"),
            ),
        ),
        Situation("16-unschedulable-nodeselector", nodes=TAINTED),
        Situation("16b-unschedulable-gpu", nodes=TAINTED, acts=(_elsewhere(5.33), _elsewhere(9.48))),
        Situation("16c-unschedulable-taint", nodes=TAINTED[:1]),
        Situation("16d-insufficient-cpu", nodes=TAINTED, acts=(_elsewhere(1.7), _elsewhere(3.92))),
        Situation("17b-forbid-image-pull", **PULLS),
        Situation(
            "18-suspended-cronjob",
            allowed=(
                (r"PodReadyToStartContainers: \[111\.\d: False, ", "the kubelet's first post came after the sandbox"),
            ),
        ),
        Situation("23-eviction", tolerance_s=4.0),
        Situation(
            "23b-eviction-not-ready-pods",
            extra_s=0.0,
            allowed=((r"NoPods", "whether the budget is seen before the first pod is a race of milliseconds"),),
        ),
        Situation(
            "23c-failed-eviction-spends-budget",
            acts=((121.47, _evict_again),),
            allowed=(
                (r"at the end, 121", "the entry is gone once the eviction has been taken"),
                (r"NoPods", "whether the budget is seen before the first pod is a race of milliseconds"),
            ),
        ),
        Situation(
            "24-node-dies",
            nodes=(UNSETTLED,),
            prepare=_no_kubelet,
            acts=((0.01, _one_heartbeat), (11.24, _running), (126.5, _cordon_elsewhere)),
        ),
        Situation("28b-image-pull-backoff-growth", **PULLS),
        Situation("28c-crashloop-backoff-growth", runs_all=True, **RESTARTS),
        Situation(
            "29-hpa-and-zero",
            tolerance_s=15.0,
            allowed=(
                (r"Pod/vllm-<1>-<[2-7]>", "which of equal pods goes is decided by their random uids"),
                (r"SuccessfulDelete Deleted pod: vllm-<1>-<[2-7]>", "which of equal pods goes"),
            ),
        ),
        Situation(
            "32-dra-missing-deviceclass",
            nodes=TAINTED[:1],
            masks=NODE_COUNTS,
            last_at=25.38,
            acts=((27.28, _node_comes), (27.39, _node_settles)),
        ),
        Situation(
            "30b-gc-foreground",
            allowed=(
                (
                    r"Deployment/vllm status\.unavailableReplicas",
                    "its last status is written in the millisecond it goes",
                ),
            ),
        ),
        Situation(
            "30b-gc-orphan",
            allowed=((r"Deployment/vllm (status|condition)", "its last status is written in the millisecond it goes"),),
        ),
        Situation(
            "30b-gc-job-default", allowed=((r"Job/a status\.ready", "looked at once a second, and gone within one"),)
        ),
        Situation("30-rollout-and-bad-rollout", **PULLS),
        Situation("34-exit-codes", prepare=_the_recorders_machine),
        Situation(
            "35-tag-deleted-but-cached",
            acts=((-0.5, _tag_goes),),
            masks=((r"in \d\S+ \(\S+ including waiting\)\. Image size: \d+ bytes", "in <time>"),),
        ),
    )
}

SITUATIONS = tuple(_SPECIAL.get(name) or Situation(name) for name in NAMES if name not in REQUESTS_ONLY)
