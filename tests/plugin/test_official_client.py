"""The official Kubernetes client in a team's tests: of the embedded cluster, of the drill's, of a real one."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

TESTS = """
from kubernetes import client


def test_what_the_manifests_declare(api_client, dynamic_client):
    apps = client.AppsV1Api(api_client)
    assert apps.read_namespaced_deployment("vllm", "inference").spec.replicas == 1
    pools = dynamic_client.resources.get(api_version="karpenter.sh/v1", kind="NodePool").get().items
    assert [pool.metadata.name for pool in pools] == ["gpu"]
    apps.patch_namespaced_deployment_scale("vllm", "inference", {"spec": {"replicas": 0}})
    assert apps.read_namespaced_deployment("vllm", "inference").spec.replicas == 0


def test_the_night_as_the_official_client_sees_it(drill):
    seen = {}

    def look(api_client):
        seen["replicas"] = client.AppsV1Api(api_client).read_namespaced_deployment("vllm", "inference").spec.replicas
        jobs = client.BatchV1Api(api_client).list_namespaced_job("inference").items
        seen["succeeded"] = {job.status.succeeded for job in jobs}

    assert drill("nightly-off", look=look).proven
    assert seen == {"replicas": 0, "succeeded": {1}}


def test_what_is_seen_to_be_wrong_fails(drill):
    def look(api_client):
        assert client.CoreV1Api(api_client).list_node().items == ["none"], "as I expected"

    drill("nightly-off", look=look)


def test_an_embedded_cluster_by_itself(embedded_cluster, api_client):
    core = client.CoreV1Api(api_client)
    core.create_namespace({"metadata": {"name": "team"}})
    embedded_cluster.advance(5)
    assert core.read_namespaced_service_account("default", "team").metadata.name == "default"
"""


@pytest.mark.weekly
def test_a_teams_own_assertions_are_written_as_everywhere(pytester):
    pytester.makepyfile(test_own=TESTS)
    done = pytester.runpytest_subprocess("-W", "error", "--killcheck-fixture", "dead-man", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(["*AssertionError: as I expected*"])


def test_nobody_pays_for_it_who_does_not_ask():
    code = "import sys, killcheck.pytest.plugin, killcheck.pytest.drills; print('kubernetes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_a_place_without_kubernetes_says_so():
    from killcheck.capabilities.cluster import ClusterError
    from killcheck.cluster.host import HostCluster
    from killcheck.pytest.official import api_client_of

    with pytest.raises(ClusterError, match="has none"), api_client_of(HostCluster()):
        pass


def test_without_the_extra_the_message_says_how_to_get_it(monkeypatch):
    from killcheck.capabilities.cluster import NotInstalled
    from killcheck.pytest import official

    monkeypatch.setattr(official, "find_spec", lambda name: None)
    with pytest.raises(NotInstalled, match=r"pip install 'killcheck\[client\]'"), official.api_client_of(None):
        pass
