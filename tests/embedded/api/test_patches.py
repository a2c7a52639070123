"""The four kinds of patch, and what the server answers where one does not fit."""

import pytest
from api_world import World, configmap, deployment
from hypothesis import given, settings
from hypothesis import strategies as st

from killcheck.embedded.api.patch import PatchFailed, json_patch, merge_patch, strategic_patch
from killcheck.kube import resources as r
from killcheck.kube.errors import ApiError, BadRequest, Conflict, Invalid
from killcheck.kube.objects import copy

SCALARS = st.one_of(st.booleans(), st.integers(0, 3), st.sampled_from(["", "x", "y"]))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def difference(old, new):
    """The merge patch that makes ``new`` of ``old``."""
    patch = {key: None for key in old if key not in new}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            patch[key] = difference(old[key], value)
        elif key not in old or old[key] != value or type(old[key]) is not type(value):
            patch[key] = value
    return patch


@settings(max_examples=150, deadline=None)
@given(OBJECTS, OBJECTS)
def test_a_merge_patch_leads_from_one_object_to_the_other(old, new):
    before = copy(old)
    assert merge_patch(old, difference(old, new)) == new
    assert old == before


CONTAINERS = [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "2"}]


def containers(patch):
    target = {"spec": {"containers": copy({"c": CONTAINERS})["c"]}}
    return strategic_patch(target, {"spec": patch}, "V1Pod")["spec"].get("containers")


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ([{"name": "b", "image": "3"}], [CONTAINERS[0], {"name": "b", "image": "3"}]),
        ([{"name": "c"}], [{"name": "c"}, *CONTAINERS]),
        ([{"name": "a", "$patch": "delete"}], [CONTAINERS[1]]),
        ([{"name": "z"}, {"$patch": "replace"}], [{"name": "z"}]),
        (
            [{"name": "a", "env": [{"name": "Y", "value": "2"}]}],
            [CONTAINERS[0] | {"env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}, CONTAINERS[1]],
        ),
        ([{"name": "a", "image": None}], [{"name": "a", "env": CONTAINERS[0]["env"]}, CONTAINERS[1]]),
        ([{"name": "b", "$patch": "replace", "args": []}], []),
    ],
)
def test_strategic_merge_of_lists_with_a_key(patch, expected):
    assert containers({"containers": patch}) == expected


def test_the_order_that_a_client_asks_for():
    patch = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "9"}]}
    assert [c["name"] for c in containers(patch)] == ["b", "a"]


def test_what_merges_in_one_type_is_replaced_in_another():
    """The node lifecycle controller takes a taint away by a strategic patch: a Node's taints have no key."""
    taints = [{"key": "nvidia.com/gpu"}, {"key": "node.kubernetes.io/not-ready"}]
    patch = {"spec": {"taints": taints[:1]}, "imagePullSecrets": [{"name": "b"}], "status": {"conditions": []}}
    target = {
        "spec": {"taints": taints},
        "imagePullSecrets": [{"name": "a"}],
        "status": {"conditions": [{"type": "x"}]},
    }
    assert strategic_patch(target, patch, "V1Node")["spec"] == {"taints": taints[:1]}
    assert strategic_patch(target, patch, "V1Node")["status"] == target["status"]
    assert strategic_patch(target, patch, "V1ServiceAccount")["imagePullSecrets"] == [{"name": "b"}]
    assert strategic_patch(target, patch, "V1CustomResourceDefinition")["status"] == {"conditions": []}


def test_lists_without_a_key_are_replaced_and_finalizers_are_merged():
    target = {"metadata": {"finalizers": ["a", "b"]}, "spec": {"args": [1, 2]}}
    patch = {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}, "spec": {"args": [3]}}
    assert strategic_patch(target, patch, "V1Pod") == {"metadata": {"finalizers": ["c", "b"]}, "spec": {"args": [3]}}


def test_directives_on_objects():
    target = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "x": {"a": 1}}}
    assert strategic_patch(target, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, "")["spec"][
        "strategy"
    ] == {"type": "Recreate"}
    assert strategic_patch(target, {"spec": {"x": {"$patch": "replace", "b": 2}}}, "")["spec"]["x"] == {"b": 2}
    assert strategic_patch(target, {"spec": {"x": {"$patch": "delete"}}}, "")["spec"]["x"] == {}
    with pytest.raises(PatchFailed, match=r"unknown patch type: merge in map: map\[\$patch:merge\]"):
        strategic_patch(target, {"spec": {"x": {"$patch": "merge"}}}, "")
    with pytest.raises(PatchFailed, match="invalid patch format of retainKeys"):
        strategic_patch(target, {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}, "")
    with pytest.raises(PatchFailed, match="does not contain declared merge key: name"):
        strategic_patch({"containers": [{"name": "a"}]}, {"containers": [{"image": "x"}]}, "V1PodSpec")


def test_json_patch():
    target = {"spec": {"replicas": 1, "list": [1, 2]}}
    operations = [
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "add", "path": "/spec/list/-", "value": 3},
        {"op": "remove", "path": "/spec/replicas"},
        {"op": "replace", "path": "/spec/new", "value": 7},
        {"op": "copy", "from": "/spec/new", "path": "/spec/again"},
        {"op": "move", "from": "/spec/new", "path": "/spec/b"},
    ]
    assert json_patch(target, operations) == {"spec": {"list": [1, 2, 3], "again": 7, "b": 7}}
    for bad in (
        {"op": "test", "path": "/spec/x", "value": 1},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/no/way", "value": 1},
        {"op": "add", "path": "/spec/list/9", "value": 1},
    ):
        with pytest.raises(PatchFailed):
            json_patch(copy(target), [bad])


@pytest.fixture
def world():
    world = World()
    world.kube.create(r.DEPLOYMENTS, deployment())
    return world


PATH = "/apis/apps/v1/namespaces/default/deployments/vllm"
MERGE = "application/merge-patch+json"


def test_patches_over_the_wire(world):
    image = {"spec": {"template": {"spec": {"containers": [{"name": "vllm", "image": "vllm:2"}]}}}}
    after = world.raw("PATCH", PATH, image, "application/strategic-merge-patch+json").body
    assert after["spec"]["template"]["spec"]["containers"][0]["image"] == "vllm:2"
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
    assert world.raw("PATCH", PATH, operations, "application/json-patch+json").body["spec"]["replicas"] == 0


@pytest.mark.parametrize(
    ("body", "content_type", "code", "message"),
    [
        ({"a": 1}, "application/json", 415, "415: Unsupported Media Type"),
        ("{", MERGE, 400, "error decoding patch: unexpected end of JSON input"),
        (
            "[]",
            MERGE,
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface",
        ),
        ("{}", "application/json-patch+json", 400, "error decoding patch: json: cannot unmarshal object into Go value"),
        (
            [{"op": "test", "path": "/kind", "value": "x"}],
            "application/json-patch+json",
            422,
            "the server rejected our request due to an error in our request",
        ),
        ({"metadata": {"resourceVersion": "1"}}, MERGE, 409, "Operation cannot be fulfilled on deployments.apps"),
    ],
)
def test_patches_that_are_refused(world, body, content_type, code, message):
    answer = world.raw("PATCH", PATH, body, content_type)
    assert (answer.status, answer.body["message"][: len(message)]) == (code, message)


def test_force_and_field_manager_belong_to_apply(world):
    answer = world.raw("PATCH", f"{PATH}?force=true", {}, MERGE)
    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "force")
    answer = world.raw("PATCH", PATH, {}, "application/apply-patch+yaml")
    assert answer.body["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


def test_a_patch_that_changes_nothing_writes_nothing(world):
    before = world.store.revision
    world.kube.patch(r.DEPLOYMENTS, "vllm", {"spec": {"replicas": 1}}, "default")
    assert world.store.revision == before


# -- server-side apply -----------------------------------------------------------------------------------------
def apply(world, obj, manager, **options):
    from killcheck.kube.client import Kube

    kube = Kube(world.kube.transport, field_manager=manager)
    return kube.patch(r.CONFIGMAPS, "settings", obj, "default", kind="apply", **options)


def config(**data):
    return configmap(data=data)


def managers(world):
    entries = world.raw("GET", r.CONFIGMAPS.path("default", "settings")).body["metadata"]["managedFields"]
    return {(m["manager"], m["operation"]): m["fieldsV1"].get("f:data", {}).keys() - {"."} for m in entries}


def test_apply_creates_and_owns(world):
    made = apply(world, config(a="1", b="2"), "argocd")
    assert made["data"] == {"a": "1", "b": "2"}
    assert managers(world) == {("argocd", "Apply"): {"f:a", "f:b"}}


def test_what_is_no_longer_applied_is_removed_unless_others_own_it(world):
    apply(world, config(a="1", b="2", c="3"), "argocd")
    apply(world, config(c="3"), "other")
    after = apply(world, config(a="1"), "argocd")
    assert after["data"] == {"a": "1", "c": "3"}
    assert managers(world) == {("argocd", "Apply"): {"f:a"}, ("other", "Apply"): {"f:c"}}


def test_a_conflict_names_the_other_manager_and_the_field(world):
    apply(world, config(a="1", b="1"), "argocd")
    with pytest.raises(Conflict) as caught:
        apply(world, config(a="2"), "killcheck")
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "argocd": .data.a'
    assert caught.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "argocd"', "field": ".data.a"}
    ]
    with pytest.raises(Conflict) as caught:
        apply(world, config(a="2", b="2"), "killcheck")
    assert caught.value.message == ('Apply failed with 2 conflicts: conflicts with "argocd":\n- .data.a\n- .data.b')
    assert apply(world, config(a="1"), "killcheck")["data"]["a"] == "1"  # agreeing is no conflict


def test_force_takes_the_field(world):
    apply(world, config(a="1", b="1"), "argocd")
    assert apply(world, config(a="2"), "killcheck", force=True)["data"] == {"a": "2", "b": "1"}
    assert managers(world) == {("argocd", "Apply"): {"f:b"}, ("killcheck", "Apply"): {"f:a"}}


def test_updates_and_patches_own_what_they_change(world):
    apply(world, config(a="1", b="1"), "argocd")
    world.kube.patch(r.CONFIGMAPS, "settings", {"data": {"a": "9"}}, "default")
    assert managers(world) == {("argocd", "Apply"): {"f:b"}, ("test", "Update"): {"f:a"}}
    with pytest.raises(Conflict, match=r'conflict with "test" using v1: \.data\.a'):
        apply(world, config(a="1", b="1"), "argocd")


def test_a_dry_run_of_apply_takes_nothing(world):
    apply(world, config(a="1"), "argocd")
    apply(world, config(a="2"), "killcheck", force=True, dry_run=True)
    assert managers(world) == {("argocd", "Apply"): {"f:a"}}
    assert world.kube.get(r.CONFIGMAPS, "settings", "default")["data"] == {"a": "1"}


def test_apply_merges_lists_by_their_keys(world):
    from killcheck.kube.client import Kube

    def applied(manager, env):
        container = {"name": "vllm", "env": env} | ({"image": "vllm:1"} if manager == "a" else {})
        obj = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "two"},
            "spec": {
                "selector": {"matchLabels": {"app": "two"}},
                "template": {"metadata": {"labels": {"app": "two"}}, "spec": {"containers": [container]}},
            },
        }
        after = Kube(world.kube.transport, field_manager=manager).patch(
            r.DEPLOYMENTS, "two", obj, "default", kind="apply"
        )
        return after["spec"]["template"]["spec"]["containers"]

    applied("a", [{"name": "X", "value": "1"}])
    both = applied("b", [{"name": "Y", "value": "2"}])
    assert [e["name"] for e in both[0]["env"]] == ["X", "Y"]
    assert both[0]["image"] == "vllm:1"
    assert [e["name"] for e in applied("b", [])[0]["env"]] == ["X"]


def test_apply_wants_the_right_type_and_name(world):
    with pytest.raises(BadRequest, match="invalid object type: /v1, Kind=Secret"):
        apply(world, config() | {"kind": "Secret"}, "x")
    with pytest.raises(BadRequest, match="does not match the name on the URL"):
        apply(world, config() | {"metadata": {"name": "y"}}, "x")
    with pytest.raises(ApiError, match="managedFields must be nil"):
        apply(world, config() | {"metadata": {"name": "settings", "managedFields": [{"manager": "x"}]}}, "x")


def test_managed_fields_look_like_kubernetes(world):
    entry = world.raw("GET", PATH).body["metadata"]["managedFields"][0]
    assert {k: v for k, v in entry.items() if k != "fieldsV1"} == {
        "manager": "test",
        "operation": "Update",
        "apiVersion": "apps/v1",
        "time": "2026-11-21T02:01:06Z",
        "fieldsType": "FieldsV1",
    }
    template = entry["fieldsV1"]["f:spec"]["f:template"]
    assert template["f:metadata"] == {"f:labels": {".": {}, "f:app": {}}}
    container = template["f:spec"]["f:containers"]['k:{"name":"vllm"}']
    assert {".", "f:image", "f:name"} <= container.keys()
    assert "managedFields" not in world.kube.get(r.DEPLOYMENTS, "vllm", "default")["metadata"]


def test_many_writers_in_turn_are_kept_apart(world):
    world.kube.create(r.CONFIGMAPS, configmap())
    for i in range(50):
        world.raw(
            "PATCH",
            f"{r.CONFIGMAPS.path('default', 'settings')}?fieldManager=m{i % 2}",
            {"data": {f"k{i % 2}": str(i)}},
            MERGE,
        )
    found = {who: fields for (who, _), fields in managers(world).items() if who != "test"}
    assert found == {"m0": {"f:k0"}, "m1": {"f:k1"}}


def test_invalid_values_after_a_patch_are_told_with_the_object(world):
    with pytest.raises(Invalid):
        world.kube.patch(r.DEPLOYMENTS, "vllm", [{"op": "test", "path": "/kind", "value": 1}], "default", kind="json")


def test_creating_by_apply_or_put_needs_the_right_to_create():
    from killcheck.embedded.api.http import User
    from killcheck.embedded.api.rbac import Decision

    class NoCreates:
        def decide(self, user, attributes):
            return Decision(attributes.verb != "create")

    world = World(authorizer=NoCreates())
    path = r.LEASES.path("default", "l") + "?fieldManager=x"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "default"}}
    for method, content_type in (("PATCH", "application/apply-patch+yaml"), ("PUT", "application/json")):
        refused = world.raw(method, path, lease, content_type, User("somebody"))
        assert (refused.status, "cannot create" in refused.body["message"]) == (403, True)
    world.raw("PUT", path, lease)
    assert world.raw("GET", path).status == 200


def test_a_writer_may_say_who_manages_what(world):
    apply(world, config(a="1"), "kubectl-client-side-apply")
    path = r.CONFIGMAPS.path("default", "settings")
    entry = {
        "manager": "kubectl",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "time": "2026-11-21T02:00:00Z",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }
    done = world.raw(
        "PATCH",
        path,
        [{"op": "replace", "path": "/metadata/managedFields", "value": [entry]}],
        "application/json-patch+json",
    )
    assert done.status == 200
    assert done.body["metadata"]["managedFields"] == [entry]
    cleared = world.raw("PATCH", path, {"metadata": {"managedFields": [{}]}}, "application/merge-patch+json")
    assert "managedFields" not in cleared.body["metadata"]


def test_kubectls_annotation_follows_its_server_side_apply(world):
    name = "kubectl.kubernetes.io/last-applied-configuration"
    world.kube.create(
        r.CONFIGMAPS, config(a="1") | {"metadata": {"name": "settings", "annotations": {name: "old"}}}, "default"
    )
    path = r.CONFIGMAPS.path("default", "settings")
    body = config(a="2") | {"apiVersion": "v1", "kind": "ConfigMap"}
    for manager, told in (("other", "old"), ("kubectl", '"data":{"a":"2"}')):
        done = world.raw("PATCH", f"{path}?fieldManager={manager}&force=true", body, "application/apply-patch+yaml")
        assert told in done.body["metadata"]["annotations"][name]
