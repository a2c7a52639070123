"""Instance metadata at its own address inside containers that really run: tokens, notices, hops, policies."""

import json
from copy import deepcopy

import pytest
from test_founding_story import Prepared, run

from killcheck import faults, fixtures
from killcheck.embedded.cluster import Cluster
from killcheck.embedded.default_objects import node
from killcheck.kube import resources as r
from killcheck.spec import specfile
from killcheck.spec.cloud_access import CloudAccess
from killcheck.text.values import replace

DANCE = """
IMDS=http://169.254.169.254/latest TTL=X-aws-ec2-metadata-token-ttl-seconds
TOKEN=$(curl -sS -X PUT -H "$TTL: 60" --max-time 5 $IMDS/api/token) || exit 9
status() { curl -s -o /dev/null -w "%{http_code}\\n" "$@"; }
curl -s -H "X-aws-ec2-metadata-token: $TOKEN" $IMDS/meta-data/instance-id; echo
status $IMDS/meta-data/instance-id
status -H "X-aws-ec2-metadata-token: $TOKEN" $IMDS/meta-data/spot/instance-action
"""
#: A handler in a few lines: polls, and says what it is told.
HANDLER = """
import time, urllib.error, urllib.request
def ask(path, **headers):
    method = "PUT" if "token" in path else "GET"
    request = urllib.request.Request("http://169.254.169.254/latest/" + path, method=method, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=60).read().decode()
    except urllib.error.HTTPError as error:
        return error.code
for _ in range(40):
    token = ask("api/token", **{"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    print(ask("meta-data/spot/instance-action", **{"X-aws-ec2-metadata-token": token}), flush=True)
    time.sleep(10)
"""
BOTO = """
from botocore.utils import InstanceMetadataRegionFetcher
print(InstanceMetadataRegionFetcher().retrieve_region())
"""


class World:
    """A cluster of one machine that is an instance, and pods on it."""

    def __init__(self, **options):
        self.cluster = Cluster(exec_mode="host")
        self.kube = self.cluster.kube
        self.instance = self.cluster.cloud.launch("m6i.large", by="test", capacity_type="spot")
        made = node("worker", "m6i.large", cpu="2", memory="8Gi")
        made["spec"] = {**made.get("spec", {}), "providerID": self.instance.provider_id}
        if options:
            made["metadata"]["labels"]["karpenter.k8s.aws/ec2nodeclass"] = "default"
            self.kube.create(
                self.kube.resource_for("karpenter.k8s.aws/v1", "EC2NodeClass"),
                {
                    "apiVersion": "karpenter.k8s.aws/v1",
                    "kind": "EC2NodeClass",
                    "metadata": {"name": "default"},
                    "spec": {"metadataOptions": options},
                },
            )
        self.cluster.load([made])

    def run(self, command, **spec):
        """A pod; its name."""
        self.kube.create(
            r.PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "asks",
                    "namespace": "default",
                    "labels": {"app": "asks"},
                    "annotations": {"killcheck.dev/execute": "true"},
                },
                "spec": {
                    "restartPolicy": "Never",
                    "nodeName": "worker",
                    **spec,
                    "containers": [{"name": "c", "image": "public.ecr.aws/example/handler:1", "command": command}],
                },
            },
        )

    def phase(self):
        return self.kube.get(r.PODS, "asks", "default").get("status", {}).get("phase")

    def ended(self, within_s=600.0):
        """How it ended, and what it said."""
        assert self.cluster.loop.run_until(lambda: self.phase() in ("Succeeded", "Failed"), within_s), self.phase()
        return self.phase(), self.said()

    def said(self):
        return str(self.kube.call("GET", "/api/v1/namespaces/default/pods/asks/log").body).splitlines()


@pytest.fixture
def world(request):
    made = World(**getattr(request, "param", {}))
    yield made
    made.cluster.close()


def test_the_token_dance_by_curl(world):
    world.run(["sh", "-c", DANCE])
    assert world.ended() == ("Succeeded", [world.instance.instance_id, "401", "404"])


def test_a_handler_that_polls_sees_the_notice_its_time_fixed(world):
    world.run(["python3", "-c", HANDLER])
    world.cluster.loop.run_until(lambda: world.phase() == "Running", 60.0)
    world.cluster.loop.sleep(25.0)
    world.cluster.cloud.interrupt(world.instance.instance_id, in_s=600.0)
    goes = f"{world.instance.notice:%Y-%m-%dT%H:%M:%SZ}"
    _, lines = world.ended()
    told = [line for line in lines if line != "404"]
    assert lines[0] == "404"
    assert len(told) > 5
    assert {json.dumps(json.loads(line)) for line in told} == {json.dumps({"action": "terminate", "time": goes})}


def test_aws_own_client_finds_it(world):
    world.run(["python3", "-c", BOTO])
    assert world.ended() == ("Succeeded", ["us-east-1"])


@pytest.mark.parametrize("world", [{"httpTokens": "required"}], indirect=True)
def test_a_hop_too_far_gets_no_token_and_the_nodes_own_network_does(world):
    world.run(["sh", "-c", DANCE])
    phase, said = world.ended()
    assert phase == "Failed"
    assert "timed out" in said[0]
    assert world.cluster.metadata.asked["default/asks"] == [("/latest/api/token", 0)]
    world.kube.delete(r.PODS, "asks", "default")
    world.cluster.loop.sleep(40)
    world.run(["sh", "-c", DANCE], hostNetwork=True)
    assert world.ended()[0] == "Succeeded"


def test_a_network_policy_that_does_not_name_it_cuts_it_off(world):
    world.kube.create(
        r.NETWORKPOLICIES,
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "api-only", "namespace": "default"},
            "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": 6443}]}]},
        },
    )
    world.run(["sh", "-c", DANCE])
    phase, said = world.ended()
    assert (phase, "Timeout was reached" in said[0]) == ("Failed", True)
    assert world.cluster.metadata.asked["default/asks"] == []


# -- cut off, in a drill -----------------------------------------------------------------------------------
ASKS_FIRST = """
set -eu
IMDS=http://169.254.169.254/latest
TOKEN=$(curl -fsS --max-time 5 -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" $IMDS/api/token)
curl -fsS -H "X-aws-ec2-metadata-token: $TOKEN" $IMDS/meta-data/placement/region >/dev/null
"""


def drilled(tmp_path, first, *under):
    path = specfile.load(fixtures.spec("dead-man"))
    session = Prepared(
        fixture="dead-man",
        _kill_path=replace(path, cloud=CloudAccess(endpoint="stand-in", region="us-east-1", cluster="dev")),
    )
    objects = deepcopy(list(session.objects))
    job = next(o for o in objects if o["kind"] == "CronJob")["spec"]["jobTemplate"]["spec"]
    job["backoffLimit"] = 0
    pod = job["template"]["spec"]
    pod["containers"][0]["args"][0] = first + pod["containers"][0]["args"][0]
    session._objects = objects
    return run(tmp_path, session, "nightly-off", *under)[0]


def test_an_executor_that_needs_metadata_has_it(tmp_path):
    drill = drilled(tmp_path, ASKS_FIRST)
    assert str(drill.verdict) == "survived", drill.why


def test_and_is_exposed_without(tmp_path):
    drill = drilled(tmp_path, ASKS_FIRST, "aws-metadata-blocked")
    assert str(drill.verdict) == "exposed", drill.why
    assert "asked 169.254.169.254 for a token and got no answer" in drill.bites["aws-metadata-blocked"]
    assert not drill.dirty


def test_where_nobody_asks_it_does_not_bite_and_a_matrix_leaves_it_out(tmp_path):
    drill = drilled(tmp_path, "", "aws-metadata-blocked")
    assert (str(drill.verdict), "did not bite" in drill.why) == ("inconclusive", True)
    assert faults.named("aws-metadata-blocked").unsuited_executor("x", {"kind": "CronJob", "spec": {}})


def test_without_namespaces_a_variable_leads_there(world):
    world.cluster.nodes.runtime.isolation = "unisolated"
    world.run(
        [
            "python3",
            "-c",
            "import os, urllib.request\n"
            "url = os.environ['AWS_EC2_METADATA_SERVICE_ENDPOINT'] + '/latest/api/token'\n"
            "ttl = {'X-aws-ec2-metadata-token-ttl-seconds': '60'}\n"
            "print(len(urllib.request.urlopen(urllib.request.Request(url, method='PUT', headers=ttl)).read()))",
        ]
    )
    phase, said = world.ended()
    assert (phase, int(said[0]) > 40) == ("Succeeded", True)
