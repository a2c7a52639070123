"""Binding, logs, and custom resources."""

import pytest
from api_world import World, pod

from killcheck.embedded.api.status import bad_request
from killcheck.embedded.containerlog import ContainerLog
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from killcheck.kube.objects import condition, copy

PATH = r.PODS.path("default", "worker")


@pytest.fixture
def world():
    return World()


def bind(world, node, name="worker"):
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    return world.kube.create(r.PODS, body, "default", name=name, subresource="binding")


def test_binding_assigns_a_node_once(world):
    world.kube.create(r.PODS, pod())
    bind(world, "gpu-1")
    found = world.kube.get(r.PODS, "worker", "default")
    assert (found["spec"]["nodeName"], condition(found, "PodScheduled")["status"], found["metadata"]["generation"]) == (
        "gpu-1",
        "True",
        1,
    )
    with pytest.raises(Conflict, match='pod worker is already assigned to node "gpu-1"'):
        bind(world, "gpu-2")
    with pytest.raises(NotFound):
        bind(world, "gpu-1", "other")


class Kubelet:
    def log(self, pod, container, *, previous):
        if previous:
            raise bad_request(f'previous terminated container "{container}" in pod "worker" not found')
        return ContainerLog("".join(f"{container} {i}\n" for i in range(5)).encode())


def test_logs_come_from_the_nodes_kubelet(world):
    world.kube.create(r.PODS, pod())
    assert world.kube.logs("worker", "default") == ""  # not scheduled yet
    bind(world, "gpu-1")
    with pytest.raises(ApiError, match=r"pods \"gpu-1\" not found"):
        world.kube.logs("worker", "default")
    world.server.kubelets["gpu-1"] = Kubelet()
    assert world.kube.logs("worker", "default", tail_lines=2) == "c 3\nc 4\n"
    with pytest.raises(BadRequest, match="container x is not valid for pod worker"):
        world.kube.logs("worker", "default", container="x")
    with pytest.raises(BadRequest, match="previous terminated container"):
        world.kube.logs("worker", "default", previous=True)


def test_a_container_must_be_named_where_there_are_several(world):
    two = pod()
    two["spec"]["containers"].append({"name": "sidecar", "image": "i"})
    world.kube.create(r.PODS, two)
    with pytest.raises(BadRequest, match=r"must be specified for pod worker, choose one of: \[c sidecar\]"):
        world.kube.logs("worker", "default")


# -- custom resources ------------------------------------------------------------------------------------------
THINGS = r.Resource("example.com", "v1", "workers", "Worker")
OLD_THINGS = r.Resource("example.com", "v1beta1", "workers", "Worker")
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["pool"],
            "properties": {
                "pool": {"type": "string", "enum": ["gpu", "cpu"]},
                "replicas": {"type": "integer", "minimum": 0, "default": 1},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "ports": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": True}}},
                },
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    },
}


def version(name, *, storage):
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    }


CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "workers.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "workers", "kind": "Worker", "shortNames": ["wk"]},
        "versions": [version("v1beta1", storage=False), version("v1", storage=True)],
    },
}


def thing(name="w", **spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Worker",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"pool": "gpu"} | spec,
    }


@pytest.fixture
def custom(world):
    made = world.kube.create(r.CRDS, CRD)
    assert condition(made, "Established")["status"] == "True"
    return world


def test_a_crd_is_served_at_once(custom):
    kinds = [k.resource.version for k in custom.server.kinds.all() if k.resource.group == "example.com"]
    assert kinds == ["v1", "v1beta1"]
    made = custom.kube.create(THINGS, thing(free={"a": 1}))
    assert made["spec"] == {"pool": "gpu", "replicas": 1, "free": {"a": 1}}
    assert made["metadata"]["generation"] == 1
    assert custom.kube.get(OLD_THINGS, "w", "default") == made | {"apiVersion": "example.com/v1beta1"}


def test_unknown_fields_are_pruned_with_a_warning(custom):
    answer = custom.raw("POST", THINGS.path("default"), thing(nope=1, free={"x": 1}))
    assert (answer.status, answer.headers["Warning"], answer.body["spec"]) == (
        201,
        '299 - "unknown field \\"spec.nope\\""',
        {"pool": "gpu", "replicas": 1, "free": {"x": 1}},
    )
    strict = custom.raw("POST", THINGS.path("default") + "?fieldValidation=Strict", thing("v", nope=1))
    assert strict.body["message"] == (
        'Worker in version "v1" cannot be handled as a Worker: strict decoding error: unknown field "spec.nope"'
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"pool": "tpu"}, 'spec.pool: Unsupported value: "tpu": supported values: "gpu", "cpu"'),
        (
            {"pool": 1},
            '[spec.pool: Invalid value: "integer": spec.pool in body must be of type string: "integer", spec.pool: '
            'Unsupported value: 1: supported values: "gpu", "cpu"]',
        ),
        (
            {"pool": "gpu", "replicas": -1},
            "[spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0, .spec.replicas: "
            "Invalid value: -1: should be a non-negative integer]",
        ),
        ({"replicas": 1}, "spec.pool: Required value"),
        ({"pool": "gpu", "ports": [{}, {}, {}]}, "spec.ports: Too many: 3: must have at most 2 items"),
        (
            {"pool": "gpu", "ports": [{"port": True}]},
            'spec.ports[0].port: Invalid value: "boolean": spec.ports[0].port in body must be of type integer,string: '
            '"boolean"',
        ),
    ],
)
def test_the_schema_is_enforced(custom, spec, message):
    with pytest.raises(Invalid) as caught:
        custom.kube.create(THINGS, thing() | {"spec": spec})
    assert caught.value.message == f'Worker.example.com "w" is invalid: {message}'


def test_status_and_scale_of_a_custom_resource(custom):
    custom.kube.create(THINGS, thing() | {"status": {"replicas": 9}})
    status = {"status": {"replicas": 2, "selector": "app=w"}, "spec": {"replicas": 7}}
    after = custom.kube.patch(THINGS, "w", status, "default", subresource="status")
    assert (after["spec"]["replicas"], after["status"], after["metadata"]["generation"]) == (1, status["status"], 1)
    scale = custom.kube.patch(THINGS, "w", {"spec": {"replicas": 0}}, "default", subresource="scale")
    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 2, "selector": "app=w"})
    assert custom.kube.get(THINGS, "w", "default")["spec"]["replicas"] == 0


def test_a_put_of_a_custom_resource_needs_its_version(custom):
    made = copy(custom.kube.create(THINGS, thing()))
    made["spec"]["replicas"] = 3
    del made["metadata"]["resourceVersion"]
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion: Invalid value: 0: must be specified for an update"):
        custom.kube.replace(THINGS, made)
    answer = custom.raw("PATCH", THINGS.path("default", "w"), {}, "application/strategic-merge-patch+json")
    assert answer.status == 415


def test_a_crd_takes_its_objects_with_it(custom):
    custom.kube.create(THINGS, thing())
    held = thing("held")
    held["metadata"]["finalizers"] = ["example.com/mine"]
    custom.kube.create(THINGS, held)
    frames = custom.watch(THINGS.path() + "?watch=1&resourceVersion=" + str(custom.store.revision))
    custom.kube.delete(r.CRDS, "workers.example.com")
    custom.settle()
    assert [obj["metadata"]["name"] for obj in custom.kube.list(THINGS).items] == ["held"]
    custom.kube.patch(THINGS, "held", {"metadata": {"finalizers": None}}, "default")
    custom.settle()
    assert custom.kube.find(r.CRDS, "workers.example.com") is None
    with pytest.raises(NotFound, match="404 page not found"):
        custom.kube.list(THINGS)
    assert frames[-1] is None
