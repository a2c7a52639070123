"""Kinds beside the workloads, and values that Python takes for the same: refused in the words of a real v1.36.2."""

import pytest
from api_world import World

from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError
from killcheck.kube.objects import copy
from killcheck.kube.resources import Resource

NETWORKS, CORE, DISCOVERY, NODES = "networking.k8s.io", "", "discovery.k8s.io", "node.k8s.io"
INGRESSES = Resource(NETWORKS, "v1", "ingresses", "Ingress")
VOLUMES = Resource(CORE, "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
RUNTIMES = Resource(NODES, "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
VOLUME = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
SLICE = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"name": "web", "port": 80}]}
CASES = {
    "nothing behind it": (INGRESSES, {"spec": {}}, "spec: Invalid value: null: either `defaultBackend` or `rules`"),
    "host": (INGRESSES, {"spec": {"rules": [{"host": "A_b"}]}}, r"spec.rules\[0\].host: Invalid value: \"A_b\""),
    "no paths": (INGRESSES, {"spec": {"rules": [{"http": {"paths": []}}]}}, r"http.paths: Required value"),
    "backend's name": (
        INGRESSES,
        {"spec": {"defaultBackend": {"service": {"name": "Always", "port": {"number": 80}}}}},
        r"spec.defaultBackend.service.name: Invalid value: \"Always\"",
    ),
    "one alone": (
        VOLUMES,
        {"spec": VOLUME | {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}},
        "may not use ReadWriteOncePod with other access modes",
    ),
    "upwards": (VOLUMES, {"spec": VOLUME | {"hostPath": {"path": "../y"}}}, r"must not contain '\.\.'"),
    "empty": (VOLUMES, {"spec": VOLUME | {"capacity": {"storage": "0"}}}, "must be greater than zero"),
    "no address": (r.ENDPOINTSLICES, SLICE | {"endpoints": [{"addresses": ["x"]}]}, "must be a valid IP address"),
    "protocol": (r.ENDPOINTSLICES, SLICE | {"ports": [{"name": "a", "protocol": "1"}]}, r"Unsupported value: \"1\""),
    "overhead": (
        RUNTIMES,
        {"handler": "runc", "overhead": {"podFixed": {"cpu": "-1"}}},
        r"overhead.limits\[cpu\]: Invalid value: \"-1\": must be greater than or equal to 0",
    ),
}


@pytest.mark.parametrize(("resource", "body", "words"), CASES.values(), ids=CASES)
def test_what_a_real_server_refuses(resource, body, words):
    made = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}} | body
    if resource.namespaced:
        made["metadata"]["namespace"] = "default"
    with pytest.raises(ApiError, match=words):
        World().kube.create(resource, made)


def test_what_is_well_made_is_taken():
    kube = World().kube
    for resource, body in ((INGRESSES, {"spec": {"defaultBackend": BACKEND}}), (r.ENDPOINTSLICES, SLICE)):
        made = {"metadata": {"name": "a", "namespace": "default"}} | body
        kept = kube.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind} | made)
        assert kept["metadata"]["uid"]
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": VOLUME}
    assert kube.create(VOLUMES, volume)["spec"]["capacity"] == VOLUME["capacity"]


def test_an_address_of_another_cluster_is_kept_where_it_is_loaded():
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}
    service["spec"]["clusterIP"] = "172.20.0.9"  # of a cluster with a range of its own
    assert World().kube.create(r.SERVICES, service)["spec"]["clusterIP"] == "172.20.0.9"


def test_a_slices_labels_count_as_a_change_of_it():
    kube = World().kube
    made = copy(kube.create(r.ENDPOINTSLICES, {"metadata": {"name": "a", "namespace": "default"}} | SLICE))
    made["metadata"]["labels"] = {"a": "b"}
    assert kube.replace(r.ENDPOINTSLICES, made)["metadata"]["generation"] == 2
