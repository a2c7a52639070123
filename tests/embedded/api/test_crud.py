"""Creating, reading and updating objects: what the server decides, and what it refuses in Kubernetes' words."""

import pytest
from api_world import World, configmap, deployment, pod

from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, BadRequest, Conflict, Forbidden, NotFound
from killcheck.kube.objects import copy


@pytest.fixture
def world():
    return World()


def test_the_server_fills_in_what_is_its_own(world):
    given = configmap(data={"a": "1"})
    given["metadata"] |= {
        "uid": "mine",
        "generation": 9,
        "managedFields": [],
        "deletionTimestamp": "2020-01-01T00:00:00Z",
    }
    made = world.kube.create(r.CONFIGMAPS, given)
    meta = made["metadata"]
    assert meta["uid"] != "mine"
    assert meta["creationTimestamp"] == "2026-11-21T02:01:06Z"
    assert meta["resourceVersion"] == str(world.store.revision)
    assert not {"managedFields", "deletionTimestamp"} & meta.keys()
    assert meta["generation"] == 9  # a type that does not count leaves it as it was sent
    assert world.kube.get(r.CONFIGMAPS, "settings", "default") == made


def test_what_is_stored_is_not_what_was_handed_over(world):
    given = configmap(data={"a": "1"})
    world.kube.create(r.CONFIGMAPS, given)
    given["data"]["a"] = "changed behind the server's back"
    assert world.kube.get(r.CONFIGMAPS, "settings", "default")["data"] == {"a": "1"}


def test_generated_names_use_the_safe_letters_and_the_seed(world):
    one = pod(generateName="executor-")
    del one["metadata"]["name"]
    names = [world.kube.create(r.PODS, one)["metadata"]["name"] for _ in range(20)]
    assert len(set(names)) == 20
    assert all(set(name.removeprefix("executor-")) <= set("bcdfghjklmnpqrstvwxz2456789") for name in names)
    assert names[0] == World().kube.create(r.PODS, one)["metadata"]["name"]


def test_a_name_that_is_taken(world):
    world.kube.create(r.DEPLOYMENTS, deployment())
    with pytest.raises(Conflict, match=r'deployments\.apps "vllm" already exists') as caught:
        world.kube.create(r.DEPLOYMENTS, deployment())
    assert caught.value.reason == "AlreadyExists"


def test_the_namespace_must_exist_and_stay(world):
    with pytest.raises(NotFound, match='namespaces "team" not found'):
        world.kube.create(r.CONFIGMAPS, configmap() | {"metadata": {"name": "x", "namespace": "team"}})
    world.kube.create(r.NAMESPACES, {"metadata": {"name": "team"}})
    world.kube.delete(r.NAMESPACES, "team")
    assert world.kube.get(r.NAMESPACES, "team")["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match="unable to create new content in namespace team because it is being") as caught:
        world.kube.create(r.CONFIGMAPS, configmap() | {"metadata": {"name": "x", "namespace": "team"}})
    assert caught.value.causes[0]["reason"] == "NamespaceTerminating"


def test_a_namespace_goes_when_it_is_finalized(world):
    world.kube.create(r.NAMESPACES, {"metadata": {"name": "team"}})
    world.kube.delete(r.NAMESPACES, "team")
    world.kube.patch(r.NAMESPACES, "team", {"metadata": {"labels": {"still": "here"}}})
    team = copy(world.kube.get(r.NAMESPACES, "team"))
    team["spec"]["finalizers"] = []
    world.kube.replace(r.NAMESPACES, team, subresource="finalize")
    assert world.kube.find(r.NAMESPACES, "team") is None


def test_generation_counts_changes_of_the_spec_alone(world):
    world.kube.create(r.DEPLOYMENTS, deployment())

    def generation(patch, subresource=None):
        changed = world.kube.patch(r.DEPLOYMENTS, "vllm", patch, "default", subresource=subresource)
        return changed["metadata"]["generation"]

    assert generation({"metadata": {"labels": {"team": "ml"}}}) == 1
    assert generation({"status": {"replicas": 1}}, "status") == 1
    assert generation({"spec": {"replicas": 0}}) == 2
    assert generation({"spec": {"replicas": 0}}) == 2
    assert generation({"metadata": {"annotations": {"a": "b"}}}) == 3  # a Deployment's annotations count


def test_status_and_spec_are_written_apart(world):
    made = world.kube.create(r.DEPLOYMENTS, deployment() | {"status": {"replicas": 7}})
    assert made["status"] == {}
    both = {"spec": {"replicas": 3}, "status": {"replicas": 2}}
    assert world.kube.patch(r.DEPLOYMENTS, "vllm", both, "default")["status"] == {}
    after = world.kube.patch(
        r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 9}, "status": {"replicas": 2}}, "default", subresource="status"
    )
    assert (after["spec"]["replicas"], after["status"]["replicas"]) == (3, 2)


def test_a_node_may_register_with_a_status(world):
    node = {"metadata": {"name": "gpu-1"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    assert world.kube.create(r.NODES, node)["status"]["capacity"] == {"nvidia.com/gpu": "8"}


def test_a_stale_resource_version_loses(world):
    first = world.kube.create(r.DEPLOYMENTS, deployment())
    second = copy(first)
    second["spec"]["replicas"] = 2
    world.kube.replace(r.DEPLOYMENTS, second)
    with pytest.raises(
        Conflict,
        match=(
            r'Operation cannot be fulfilled on deployments\.apps "vllm": the object has been modified; please apply '
            "your changes to the latest version and try again"
        ),
    ):
        world.kube.replace(r.DEPLOYMENTS, second)
    unconditional = copy(second)
    del unconditional["metadata"]["resourceVersion"]
    unconditional["spec"]["replicas"] = 5
    assert world.kube.replace(r.DEPLOYMENTS, unconditional)["spec"]["replicas"] == 5


def test_an_update_that_changes_nothing_writes_nothing(world):
    made = world.kube.create(r.DEPLOYMENTS, deployment())
    before = world.store.revision
    assert world.kube.replace(r.DEPLOYMENTS, copy(made)) == made
    assert world.store.revision == before


def test_system_metadata_cannot_be_changed(world):
    made = copy(world.kube.create(r.CONFIGMAPS, configmap()))
    made["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    made["data"] = {"b": "2"}
    after = world.kube.replace(r.CONFIGMAPS, made)
    assert after["metadata"]["creationTimestamp"] == "2026-11-21T02:01:06Z"
    made = copy(after)
    made["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(Conflict, match="UID in precondition"):
        world.kube.replace(r.CONFIGMAPS, made)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "other"}, r"the name of the object \(other\) does not match the name on the URL \(settings\)"),
        ({"name": ""}, r"the name of the object \(settings based on URL\) was undeterminable: name must be provided"),
        ({"namespace": "x"}, "the namespace of the provided object does not match the namespace sent on the request"),
    ],
)
def test_a_put_must_agree_with_its_url(world, change, message):
    made = copy(world.kube.create(r.CONFIGMAPS, configmap()))
    made["metadata"] |= change
    with pytest.raises(BadRequest, match=message):
        world.kube.call("PUT", r.CONFIGMAPS.path("default", "settings"), body=made)


def test_the_wrong_version_or_kind(world):
    path = r.DEPLOYMENTS.path("default")
    with pytest.raises(BadRequest, match=r"the API version in the data \(apps/v1beta1\) does not match the expected"):
        world.kube.call("POST", path, body=deployment() | {"apiVersion": "apps/v1beta1"})
    with pytest.raises(BadRequest, match='Pod in version "v1" cannot be handled as a Deployment'):
        world.kube.call("POST", path, body=pod())


def test_a_dry_run_answers_and_keeps_nothing(world):
    before = world.store.revision
    made = world.kube.create(r.DEPLOYMENTS, deployment(), dry_run=True)
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    assert world.store.revision == before
    world.kube.create(r.DEPLOYMENTS, deployment())
    assert (
        world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 0}}, "default", dry_run=True)["spec"]["replicas"]
        == 0
    )
    assert world.kube.get(r.DEPLOYMENTS, "vllm", "default")["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/podz", 404),
        ("GET", "/apis/apps/v1beta1/namespaces/default/deployments", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("POST", "/api/v1/namespaces/default/pods/x", 405),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 405),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/x", 404),
    ],
)
def test_paths_that_lead_nowhere(world, method, path, code):
    answer = world.raw(method, path, body={} if method in ("POST", "PUT") else None)
    assert (answer.status, answer.body["code"], answer.body["details"]) == (code, code, {})


def test_health_and_version(world):
    told = world.raw("GET", "/readyz?verbose").body.splitlines()
    assert (told[0], told[-1]) == ("[+]ping ok", "readyz check passed")
    assert world.raw("GET", "/readyz/nope").status == 404
    for path in ("/healthz", "/readyz", "/livez", "/readyz/ping"):
        assert (world.raw("GET", path).status, world.raw("GET", path).body) == (200, "ok")
    assert world.raw("GET", "/version").body["gitVersion"] == "v1.36.2"


def test_a_body_that_is_not_json(world):
    answer = world.raw("POST", "/api/v1/namespaces/default/configmaps", body="metadata: x")
    assert answer.status == 400
    assert answer.body["message"] == (
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse "
        "error: invalid character 'm' looking for beginning of value (6d657461646174613a2078)"
    )
    assert world.raw("POST", "/api/v1/namespaces/default/configmaps", body=b"", content_type="text/csv").status == 415


def test_a_body_in_yaml(world):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  at: 03:00\n  on: a\n  1: b\n"
    made = world.raw("POST", "/api/v1/namespaces/default/configmaps", body=text, content_type="application/yaml")
    assert (made.status, made.body["data"]) == (201, {"at": "03:00", "true": "a", "1": "b"})


def test_a_secrets_plain_text_is_encoded(world):
    secret = {"metadata": {"name": "s", "namespace": "default"}, "stringData": {"token": "t0p"}}
    made = world.kube.create(r.SECRETS, secret)
    assert (made["data"], made["type"], "stringData" in made) == ({"token": "dDBw"}, "Opaque", False)


def test_a_services_address_is_given_and_kept(world):
    service = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}
    address = world.kube.create(r.SERVICES, service)["spec"]["clusterIP"]
    assert address.startswith("10.96.")
    assert world.kube.replace(r.SERVICES, copy(service))["spec"]["clusterIP"] == address
    other = world.kube.create(r.SERVICES, service | {"metadata": {"name": "t", "namespace": "default"}})
    assert other["spec"]["clusterIP"] != address


def test_a_jobs_selector_comes_from_its_uid(world):
    job = {
        "metadata": {"name": "drill", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
    }
    made = world.kube.create(r.JOBS, job)
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "drill"


def test_events_of_both_groups_are_one_object(world):
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "reason": "BackOff",
        "message": "Back-off pulling image",
        "type": "Normal",
    }
    world.kube.create(r.EVENTS, event)
    path = "/apis/events.k8s.io/v1/namespaces/default/events/e"
    other = world.kube.call("GET", path).body
    assert (other["apiVersion"], other["note"], other["regarding"]["name"]) == (
        "events.k8s.io/v1",
        "Back-off pulling image",
        "p",
    )


def test_every_error_is_a_status(world):
    with pytest.raises(ApiError) as caught:
        world.kube.get(r.DEPLOYMENTS, "vlm", "default")
    assert caught.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'deployments.apps "vlm" not found',
        "reason": "NotFound",
        "details": {"name": "vlm", "group": "apps", "kind": "deployments"},
        "code": 404,
    }


CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        ('{"a":' * 100_000, "application/json", 501),
        ('{"data":{"x":' + "[" * 200 + "]" * 200 + "}}", "application/json", 501),
        ("a: " + "[" * 5_000, "application/yaml", 501),
        (LAUGHS, "application/yaml", 400),
        ("a: &a [*a]\n", "application/yaml", 400),
        ("apiVersion: v1\nkind: ConfigMap\ndata:\n  ? [a]\n  : b\n", "application/yaml", 400),
        ('{"data":{"x":"' + "[" * 200 + '"}}', "application/json", 422),  # in a text: it has no name
    ],
)
def test_a_body_that_would_end_this_process_is_answered(world, body, content_type, code):
    assert world.raw("POST", CONFIGMAPS, body.encode(), content_type).status == code
    assert world.kube.list(r.CONFIGMAPS, "default").items == []


def test_there_are_only_so_many_objects_of_a_type(world, monkeypatch):
    monkeypatch.setattr("killcheck.embedded.api.writes.MOST_OBJECTS", 2)
    for name in "ab":
        world.kube.create(r.CONFIGMAPS, configmap(name))
    with pytest.raises(ApiError, match="no more are kept here"):
        world.kube.create(r.CONFIGMAPS, configmap("c"))
    assert len(world.server.limits.met) == 1
