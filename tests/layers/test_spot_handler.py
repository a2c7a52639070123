"""A spot notice on the embedded cluster: drained within it, resumed from the checkpoint, on spot again."""

from __future__ import annotations

import json
import re

import pytest

from killcheck.kube.objects import copy, dig
from killcheck.verdict import Verdict


def drill(drilled, change=None, folder=None):
    return drilled("spot-training", "spot-reclaim", change, folder=folder, exec_mode="host")


def without_checkpoint(edited):
    def unnamed(path):
        kept = "    checkpoint:            # how many items are safe: what is read before the notice, and after the work goes on\n"
        edited(path / "killcheck.yaml", kept, "")
        edited(path / "killcheck.yaml", "      configMap: {namespace: training, name: pretrain, key: items}\n", "")

    return unnamed


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
        # The zone that was interrupted is the only one: there is no other spot machine of the type for a while.
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1b"]}
        obj["spec"]["template"]["spec"]["requirements"].append(zone)
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


def test_where_no_spot_is_to_be_had_the_work_waits_and_nothing_is_bought(drilled):
    result = drilled("spot-training", "spot-reclaim", under=["no-spot"])
    assert result.verdict is Verdict.EXPOSED, result.why
    assert "InsufficientInstanceCapacity" in result.bites["no-spot"]
    assert "the work does not go on" in result.cause
    assert result.problems == ()


#: A stranger's words for the same: namespace, work, pool and types.
STRANGERS = {
    "training": "lab-7",
    "pretrain": "finetune",
    "gpu-spot": "burst",
    "g5.2xlarge": "g6e.4xlarge",
    "g6.2xlarge": "g6.4xlarge",
}


def in_strangers_words(text):
    for ours, theirs in STRANGERS.items():
        text = text.replace(ours, theirs)
    return text


@pytest.mark.parametrize(
    "room",
    [
        {"operator": "In", "values": ["on-demand", "spot"]},
        {"operator": "Exists"},
        {"operator": "NotIn", "values": ["reserved"]},
    ],
    ids=lambda room: room["operator"],
)
@pytest.mark.one_in(3)
def test_a_strangers_pool_that_may_fall_back_is_seen_to_pay_on_demand(drilled, room):
    """Other names, two workers on machines of other types and in one zone, and room for both kinds of capacity."""

    def theirs(obj):
        said = json.loads(in_strangers_words(json.dumps(obj)))
        obj.clear()
        obj.update(said)
        if obj["kind"] == "NodePool":
            wanted = obj["spec"]["template"]["spec"]["requirements"]
            wanted[:] = [one for one in wanted if one["key"] != "karpenter.sh/capacity-type"]
            wanted.append({"key": "karpenter.sh/capacity-type"} | room)
            wanted.append({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1c"]})
            obj["spec"]["limits"] = {"nvidia.com/gpu": 8}
        if obj["kind"] == "Job":
            obj["spec"] |= {"parallelism": 2, "completions": 2}

    def spec(folder):
        for file in folder.iterdir():
            file.write_text(in_strangers_words(file.read_text()))

    result = drilled("spot-training", "spot-reclaim", theirs, under=["no-spot"], folder=spec, exec_mode="host")
    assert result.verdict is Verdict.EXPOSED, result.why
    assert re.search(r"on-demand node \S+ \(g\S+, \$\d+\.\d\d an hour\) came in the place of spot node", result.cause)
    assert "burst" in result.bites["no-spot"]
    assert result.problems == ()


def test_what_is_lost_is_what_was_done_since_the_last_checkpoint(drilled):
    """A worker that writes every third item of 20 s, and not when it is told to stop."""
    result = drill(drilled, code("    checkpoint()\n    print", "    print"))
    assert result.verdict is Verdict.SURVIVED, result.why
    (told,) = [n for n in result.notes if n.startswith("work lost:")]
    assert "half is to be expected: 30 s ($0.01 on demand) a reclaim" in told
    assert 0 <= float(told.split(" s ")[0].removeprefix("work lost: ")) <= 72


def test_the_moment_of_the_notice_is_drawn_and_the_same_each_time(drilled):
    said = [[n for n in drill(drilled).notes if "at a drawn" in n] for _ in range(2)]
    assert len(said[0]) == 1, said
    assert said[0] == said[1]


@pytest.mark.weekly
def test_work_that_writes_nothing_down_is_lost_as_a_whole(drilled):
    result = drill(drilled, code('{"items": str(done)}', "{}"))
    assert result.verdict is Verdict.EXPOSED, result.why
    assert "nothing was written down" in result.cause
    assert "on demand" in result.cause
    assert result.problems == ()


def test_work_that_does_not_run_here_is_not_said_to_write_nothing(drilled):
    def hollow(obj):
        if obj["kind"] == "Job":
            del obj["spec"]["template"]["metadata"]["annotations"]

    result = drill(drilled, hollow)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "was not written twice" in result.why


def test_a_job_that_a_reclaim_ends_is_seen_without_a_checkpoint(drilled, edited):
    def once(obj):
        if obj["kind"] == "Job":
            obj["spec"] |= {"backoffLimit": 0}
            del obj["spec"]["podFailurePolicy"]

    result = drill(drilled, once, without_checkpoint(edited))
    assert result.verdict is Verdict.EXPOSED, result.why
    assert "Job/training/pretrain failed with the reclaim (BackoffLimitExceeded" in result.cause


def test_a_job_that_counts_as_done_what_a_reclaim_ended_is_seen(drilled, edited):
    quits = code("sys.exit(143)", "sys.exit(0)")
    result = drill(drilled, quits, without_checkpoint(edited))
    assert result.verdict is Verdict.EXPOSED, result.why
    assert re.search(r"Job/training/pretrain is complete by pod pretrain-\S+, which the reclaim ended", result.cause)
    assert "another exit code" in result.remedy


def test_hollow_work_is_not_done_because_it_was_told_to_stop(drilled, edited):
    """A Job whose program is not run takes its retry after the reclaim, and is not complete by it."""

    def hollow(obj):
        if obj["kind"] == "Job":
            del obj["spec"]["template"]["metadata"]["annotations"]

    result = drill(drilled, hollow, without_checkpoint(edited))
    assert result.verdict is Verdict.SURVIVED, result.why
    assert not any("steady" in note for note in result.notes), result.notes


def test_without_a_checkpoint_in_the_spec_what_is_at_stake_is_said(drilled, edited):
    result = drill(drilled, folder=without_checkpoint(edited))
    assert any("where none is written, all work in the" in note for note in result.notes), result.notes
