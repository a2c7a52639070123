"""P3 asked of GCE and Azure by their own APIs, as a Node's provider id names the machine; stand-ins on loopback."""

from __future__ import annotations

import json
import sys

import pytest

from killcheck.cloud import other_clouds
from killcheck.cloud.instances import Ec2, Instances, OwnClouds
from killcheck.cloud.other_clouds import APIS, OtherClouds
from killcheck.standins.serving import serve
from killcheck.text.values import replace

GCE = "gce://radar/europe-west4-b/gke-prod-l4-1a2b"
SUB = "/subscriptions/0b1f/resourceGroups/mc_prod_prod_westeurope/providers/Microsoft.Compute"
VM, SET = (
    f"azure://{SUB}/virtualMachines/aks-t4-x",
    f"azure://{SUB}/virtualMachineScaleSets/aks-t4-vmss/virtualMachines/7",
)
PATHS = {
    GCE: "/compute/v1/projects/radar/zones/europe-west4-b/instances/gke-prod-l4-1a2b",
    VM: f"{SUB}/virtualMachines/aks-t4-x/instanceView",
    SET: f"{SUB}/virtualMachineScaleSets/aks-t4-vmss/virtualMachines/7/instanceView",
}


def power(*codes):
    return {"statuses": [{"code": code} for code in codes]}


def refused(message):
    return {"error": {"code": 0, "message": message}}


class Clouds:
    """Both APIs: what each path answers, and what was asked of it."""

    def __init__(self):
        self.answers, self.asked = {}, []

    def __call__(self, environ, start_response):
        self.asked.append((environ["PATH_INFO"], environ["HTTP_AUTHORIZATION"]))
        status, body = self.answers.get(environ["PATH_INFO"], (500, b"nobody"))
        start_response(f"{status} X", [("Content-Type", "application/json")])
        return [body if isinstance(body, bytes) else json.dumps(body).encode()]


@pytest.fixture(scope="module")
def served():
    clouds = Clouds()
    with serve(clouds) as url:
        yield clouds, url


@pytest.fixture
def asked(served):
    clouds, url = served
    clouds.answers.clear()
    clouds.asked.clear()
    apis = {name: replace(api, base=url, token=lambda: "t0ken") for name, api in APIS.items()}
    now = iter(range(0, 1000, 10))
    return clouds, Instances(OwnClouds(Ec2(None), OtherClouds(apis=apis)), lambda: next(now))


@pytest.mark.parametrize(
    ("machine", "answer", "state"),
    [
        (GCE, {"status": "RUNNING"}, "running"),
        (GCE, {"status": "STOPPING"}, "stopping"),
        (GCE, {"status": "TERMINATED"}, "terminated"),
        (VM, power("ProvisioningState/succeeded", "PowerState/running"), "running"),
        (VM, power("ProvisioningState/succeeded", "PowerState/stopped"), "running"),  # not deallocated: it bills
        (SET, power("ProvisioningState/succeeded", "PowerState/deallocated"), "terminated"),
        (SET, power("ProvisioningState/deleting", "PowerState/running"), "stopping"),
        (SET, power("ProvisioningState/creating"), "running"),
    ],
)
def test_each_cloud_is_asked_by_the_provider_id_and_understood(asked, machine, answer, state):
    clouds, instances = asked
    clouds.answers[PATHS[machine]] = (200, answer)
    assert (instances.state(machine), instances.problem) == (state, "")
    assert clouds.asked == [(PATHS[machine], "Bearer t0ken")]


def test_a_stand_in_gets_nobodys_token(served):
    clouds, url = served
    clouds.asked.clear()
    clouds.answers[PATHS[GCE]] = (200, {"status": "RUNNING"})
    assert OtherClouds(url).states([GCE]) == {GCE: "RUNNING"}
    assert clouds.asked == [(PATHS[GCE], "Bearer stand-in")]


@pytest.mark.parametrize(
    ("machine", "on", "status", "said"),
    [
        (GCE, {"status": "RUNNING"}, 404, "The resource '{}' was not found"),
        (VM, power("PowerState/running"), 404, "The Resource 'Microsoft.Compute/virtualMachines/aks-t4-x' under resource "
         "group 'mc_prod_prod_westeurope' was not found."),
        (SET, power("PowerState/running"), 400, "The provided instanceId 7 is not an active Virtual Machine Scale Set VM "
         "instanceId."),
        (SET, power("PowerState/running"), 404, "The Resource 'Microsoft.Compute/virtualMachineScaleSets/aks-t4-vmss' "
         "under resource group 'mc_prod_prod_westeurope' was not found."),
    ],
)  # fmt: skip
def test_what_was_there_and_is_not_found_was_deleted_and_what_never_was_is_unknown(asked, machine, on, status, said):
    clouds, instances = asked
    gone = (status, refused(said.format(PATHS[machine].removeprefix("/compute/v1/"))))
    clouds.answers[PATHS[machine]] = gone
    assert instances.state(machine) == "unknown"
    assert f"the cloud does not list {machine}" in instances.problem
    clouds.answers[PATHS[machine]] = (200, on)
    assert instances.state(machine) == "running"
    clouds.answers[PATHS[machine]] = gone
    assert (instances.state(machine), instances.problem) == ("terminated", "")
    clouds.answers[PATHS[machine]] = (200, on)
    assert instances.on_again() == [machine]


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (403, refused("Required 'compute.instances.get' permission"), "denied", "access denied (403): Required"),
        (401, refused("Request had invalid authentication credentials."), "invalid-credentials", "were not taken"),
        (404, refused("The resource 'projects/radar' was not found"), "not-found", "(404): The resource"),
        (200, b"<html>log in</html>", "other", "no JSON (a proxy between?)"),
        (302, b"", "other", "refused (302)"),
    ],
)
def test_what_is_not_said_is_unproven_by_name(asked, status, body, kind, said):
    clouds, instances = asked
    clouds.answers[PATHS[GCE]] = (status, body)
    assert (instances.state(GCE), instances.kind) == ("unknown", kind)
    assert instances.problem.startswith("P3 unproven: compute.instances.get: ")
    assert said in instances.problem


def test_ids_of_no_machine_and_libraries_that_are_not_there(asked, monkeypatch):
    _, instances = asked
    assert instances.state("gce://radar/gpu-1") == "unknown"
    assert "gce://radar/gpu-1 is no provider id of GCP's machines" in instances.problem
    for name, machine, extra in (("google.auth", GCE, "gcp"), ("azure.identity", VM, "azure")):
        monkeypatch.setitem(sys.modules, name, None)
        real = Instances(OwnClouds(Ec2(None)), lambda: 0.0)
        assert (real.state(machine), real.kind) == ("unknown", "not-installed")
        assert f"pip install 'killcheck[{extra}]'" in real.problem
    other_clouds._google.cache_clear()
    other_clouds._azure.cache_clear()
