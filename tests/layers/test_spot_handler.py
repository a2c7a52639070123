"""A spot notice on the embedded cluster: drained within it, resumed from the checkpoint, on spot again."""

from __future__ import annotations

from killcheck.kube.objects import copy, dig
from killcheck.verdict import Verdict


def drill(drilled, change=None, folder=None):
    return drilled("spot-training", "spot-reclaim", change, folder=folder, exec_mode="host")


def job(change):
    def apply(obj):
        if obj["kind"] == "Job":
            change(obj["spec"]["template"]["spec"])

    return apply


def capacity(pool, kind):
    for wanted in dig(pool, "spec", "template", "spec", "requirements"):
        if wanted["key"] == "karpenter.sh/capacity-type":
            wanted["values"] = [kind]


def code(before, after):
    def apply(obj):
        if obj["kind"] == "ConfigMap" and "train.py" in (obj.get("data") or {}):
            assert before in obj["data"]["train.py"]
            obj["data"]["train.py"] = obj["data"]["train.py"].replace(before, after)

    return apply


def test_the_node_is_drained_within_its_notice_and_the_work_goes_on_from_its_checkpoint(drilled):
    result = drill(drilled)
    assert (result.verdict, result.off_by) == (Verdict.SURVIVED, "spot-reclaim"), result.why
    assert "118 s to spare" in result.why
    phases = {p["phase"]: p for p in result.phases}
    assert phases["node_drained"]["deadline_s"] == 120
    assert "scale_written" not in phases
    (told,) = [n for n in result.notes if n.startswith("checkpoint:")]
    assert "6 item(s) before the notice" in told
    assert told.endswith("0 lost")
    assert result.problems == ()


def test_thirty_seconds_are_all_that_some_clouds_leave(drilled, edited):
    def gcp(path):
        edited(path / "killcheck.yaml", "notice: 2m  ", "notice: 30s  ")

    slow = job(lambda spec: spec.update(terminationGracePeriodSeconds=90))
    deaf = code("    checkpoint()\n    print", "    time.sleep(60)\n    checkpoint()\n    print")

    def both(obj):
        slow(obj)
        deaf(obj)

    result = drill(drilled, both, gcp)
    assert result.verdict is Verdict.EXPOSED
    assert "may take 90 s to stop; the notice leaves 30" in result.cause


def test_work_that_starts_again_from_nothing_is_lost_and_counted(drilled):
    result = drill(drilled, code('int(call("GET")["data"]["items"])', "0"))
    assert result.verdict is Verdict.EXPOSED
    assert "did not go on from its checkpoint" in result.cause
    assert "item(s) that were safe are to be done again" in result.cause


def test_work_that_nobody_takes_up_again_is_found(drilled):
    # The Job has spent its retries: a pod that ends by SIGTERM counts, and nothing ignores it.
    def once(obj):
        if obj["kind"] == "Job":
            obj["spec"] |= {"backoffLimit": 0}
            del obj["spec"]["podFailurePolicy"]

    result = drill(drilled, once)
    assert result.verdict is Verdict.EXPOSED
    assert "the work does not go on" in result.cause


def test_a_handler_that_polls_the_metadata_drains_the_node(drilled, edited, monkeypatch):
    """Without an interruption queue, aws-node-termination-handler on every node does it."""
    name = "aws-node-termination-handler"
    labels = {"app.kubernetes.io/name": name}
    handler = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [
                        {"name": name, "image": "public.ecr.aws/aws-ec2/aws-node-termination-handler:v1.25.3"}
                    ],
                },
            },
        },
    }

    from killcheck.embedded.models.karpenter.interruption import Interruption

    monkeypatch.setattr(Interruption, "_receive", lambda self, body: None)
    result = drill(
        drilled,
        lambda obj: [handler] if obj["kind"] == "Namespace" else [],
        lambda path: edited(
            path / "killcheck.yaml",
            "    notice: 2m",
            f"""\
    workload: {{kind: DaemonSet, namespace: kube-system, name: {name}}}
    notice: 2m""",
        ),
    )
    assert result.verdict is Verdict.SURVIVED, (result.why, result.cause)
    assert "a cordon drained" in result.why
    phases = {p["phase"]: p["at_s"] for p in result.phases}
    assert phases["node_drained"] < 30
    assert phases["instance_gone"] is not None


def test_a_notice_that_nobody_hears_ends_with_the_reclaim(drilled, monkeypatch):
    from killcheck.embedded.models.karpenter.interruption import Interruption

    monkeypatch.setattr(Interruption, "_receive", lambda self, body: None)
    result = drill(drilled)
    assert result.verdict is Verdict.EXPOSED
    assert "nobody acted on the notice" in result.cause


def test_an_on_demand_node_in_its_place_is_a_flaw(drilled, edited):
    def either_pool(path):
        edited(path / "killcheck.yaml", "    nodePool: gpu-spot\n", "    selector: karpenter.sh/nodepool\n")

    def fallback(obj):
        if obj["kind"] == "Job":
            selector = {"node.kubernetes.io/instance-type": "g5.2xlarge"}
            obj["spec"]["template"]["spec"]["nodeSelector"] = selector
        if obj["kind"] != "NodePool":
            return []
        obj["spec"] |= {"limits": {"nvidia.com/gpu": 1}, "weight": 10}
        other = copy(obj)
        other["metadata"]["name"] = "gpu-fallback"
        other["spec"]["weight"] = 1
        capacity(other, "on-demand")
        return [other]

    result = drill(drilled, fallback, either_pool)
    assert result.verdict is Verdict.EXPOSED, result.why
    assert "on-demand node" in result.cause


def test_without_spot_nothing_can_be_reclaimed_and_nothing_is_proven(drilled):
    def on_demand(obj):
        if obj["kind"] == "NodePool":
            capacity(obj, "on-demand")

    result = drill(drilled, on_demand)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "no node that runs a target says that it is spot" in result.why


def test_a_checkpoint_that_cannot_be_read_is_no_proof(drilled, edited):
    result = drill(drilled, folder=lambda path: edited(path / "killcheck.yaml", "key: items", "key: steps"))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "cannot be read" in result.why
