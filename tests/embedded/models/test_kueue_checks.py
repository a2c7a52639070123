"""AdmissionChecks and Cohort objects: who else must agree, and what queues have together."""

from cluster_world import cluster, events, pods, running, until
from test_kueue import FLAVOR, LOCAL, NODE, active, job, queue, state, workload

from killcheck.embedded.models.kueue import names as n
from killcheck.embedded.models.kueue.quota import Quotas
from killcheck.kube import resources as r
from killcheck.kube.objects import condition

CHECK = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "AdmissionCheck",
    "metadata": {"name": "capacity"},
    "spec": {"controllerName": "example.internal/capacity"},
}
KEY = ("spot", "nvidia.com/gpu")


def cohort(name, gpus=0, parent="", **limits):
    entry = {"name": "nvidia.com/gpu", "nominalQuota": gpus} | limits
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Cohort",
        "metadata": {"name": name},
        "spec": {
            "resourceGroups": [
                {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "spot", "resources": [entry]}]}
            ]
        }
        | ({"parentName": parent} if parent else {}),
    }


def activate(made):
    """What the check's own controller says when it is there."""
    made.kube.patch(
        n.CHECKS,
        "capacity",
        {
            "status": {
                "conditions": [
                    {
                        "type": "Active",
                        "status": "True",
                        "reason": "Active",
                        "message": "",
                        "lastTransitionTime": "2026-01-15T03:00:00Z",
                    }
                ]
            }
        },
        subresource="status",
    )


def answer(made, answered, of="train", **more):
    """What the check's controller says of a Workload."""
    found = workload(made, of)
    now = made.loop.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    states = [{"name": "capacity", "state": answered, "message": "", "lastTransitionTime": now} | more]
    made.kube.patch(
        n.WORKLOADS, found["metadata"]["name"], {"status": {"admissionChecks": states}}, "default", subresource="status"
    )


def test_a_queue_whose_check_has_no_controller_admits_nothing():
    with cluster(NODE, FLAVOR, CHECK, queue(admissionChecks=["capacity", "budget"]), LOCAL, job()) as made:
        made.loop.sleep(5)
        found = condition(made.kube.get(n.CLUSTERQUEUES, "gpus"), "Active")
        assert (found["status"], found["reason"]) == ("False", "AdmissionCheckNotFound")
        assert found["message"] == (
            "Can't admit new workloads: references missing AdmissionCheck(s): budget, references inactive "
            "AdmissionCheck(s): capacity."
        )
        assert pods(made, app="train") == []


def test_quota_is_held_and_nothing_runs_until_the_check_is_ready():
    with cluster(NODE, FLAVOR, CHECK, queue(admissionChecks=["capacity"]), LOCAL) as made:
        activate(made)
        made.loop.sleep(1)
        made.kube.create(r.JOBS, job())
        made.loop.sleep(30)
        assert state(made, "QuotaReserved")[0] == "True"
        assert state(made, "Admitted") == (
            "False",
            "UnsatisfiedAdmissionChecks",
            "The workload has not all checks ready",
        )
        assert [one["state"] for one in workload(made)["status"]["admissionChecks"]] == ["Pending"]
        assert pods(made, app="train") == []
        answer(made, "Ready")
        until(made, running(made, 2, app="train"))
        assert state(made, "Admitted") == ("True", "Admitted", "The workload is admitted")
        assert "Admitted by ClusterQueue gpus, wait time since reservation was 30s" in events(made, "Admitted")


def test_a_check_that_wants_a_retry_takes_the_quota_back_for_as_long():
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "capacity", "onFlavors": ["spot"]}]}}
    with cluster(NODE, FLAVOR, CHECK, queue(**strategy), LOCAL) as made:
        activate(made)
        made.loop.sleep(1)
        made.kube.create(r.JOBS, job())
        made.loop.sleep(2)
        answer(made, "Retry", message="no machines", requeueAfterSeconds=60)
        made.loop.sleep(5)
        assert state(made, "Evicted")[1:] == (
            "AdmissionCheck",
            'Evicted due to AdmissionCheck in Retry state: "capacity" (no machines)',
        )
        assert state(made, "QuotaReserved")[0] == "False"
        again = workload(made)["status"]["admissionChecks"][0]
        assert (again["state"], again["retryCount"]) == ("Pending", 1)
        assert again["message"] == "Reset to Pending after eviction. Previously: Retry"
        made.loop.sleep(60)
        assert state(made, "Requeued") == ("True", "BackoffFinished", "The workload backoff was finished")
        assert state(made, "QuotaReserved")[0] == "True"
        answer(made, "Ready")
        until(made, running(made, 2, app="train"))


def test_a_check_that_rejects_deactivates_for_good():
    with cluster(NODE, FLAVOR, CHECK, queue(admissionChecks=["capacity"]), LOCAL) as made:
        activate(made)
        made.loop.sleep(1)
        made.kube.create(r.JOBS, job())
        made.loop.sleep(2)
        answer(made, "Ready")
        until(made, running(made, 2, app="train"))
        answer(made, "Rejected", message="over budget")
        made.loop.sleep(30)
        assert active(made) == []
        assert workload(made)["spec"]["active"] is False
        assert state(made, "Evicted")[1:] == (
            "DeactivatedDueToAdmissionCheck",
            'The workload is deactivated due to AdmissionCheck in Rejected state: "capacity" (over budget)',
        )
        assert 'Deactivated due to AdmissionCheck in Rejected state: "capacity" (over budget)' in events(
            made, "AdmissionCheckRejected"
        )
        made.loop.sleep(3600)
        assert active(made) == []


def test_a_cohort_has_quota_of_its_own_for_the_queues_below_it():
    pool = cohort("org", gpus=4)
    with cluster(NODE, FLAVOR, pool, queue(quota=0, cohort="org"), LOCAL, job()) as made:
        until(made, running(made, 2, app="train"))
        made.kube.create(r.JOBS, job("more", gpus=1, parallelism=1))
        made.loop.sleep(5)
        assert state(made, "QuotaReserved", "more")[:2] == ("False", "WaitingForQuota")
        assert pods(made, app="more") == []


def test_queues_below_different_cohorts_share_through_the_parent_as_far_as_the_limits_go():
    left, right = queue(quota=4, name="left", cohort="a"), queue(quota=4, name="right", cohort="b")
    books = Quotas(
        [left, right],
        [cohort("root", 2), cohort("a", parent="root", borrowingLimit=3), cohort("b", parent="root", lendingLimit=1)],
    )
    assert books.most("left", KEY) == 4 + 3  # what the root has and b lends is limited by what a may borrow
    assert books.most("right", KEY) == 4 + 2 + 4
    books.add("left", {KEY: 7.0})
    assert books.available("left", KEY) == 0
    assert books.available("right", KEY) == 4 + 2 + 4 - 7
    assert sorted(books.members("left")) == ["left", "right"]


def test_in_a_cycle_of_cohorts_nothing_is_admitted():
    ring = [cohort("a", 4, parent="b"), cohort("b", 4, parent="a")]
    with cluster(NODE, FLAVOR, *ring, queue(quota=8, cohort="a"), LOCAL, job()) as made:
        made.loop.sleep(5)
        assert pods(made, app="train") == []
        assert state(made, "QuotaReserved")[1:] == ("Suspended", "ClusterQueue gpus is inactive")
        made.kube.patch(n.COHORTS, "b", {"spec": {"parentName": None}})
        until(made, running(made, 2, app="train"))
