"""What a v1.36.2 API server was seen to answer to patches that do not fit, and to its own groups."""

import pytest
from api_world import World

from killcheck.embedded.api.kinds import builtin
from killcheck.embedded.cluster import Cluster

JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PATH = "/api/v1/namespaces/default/configmaps"
SCHEME = 'in scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'


@pytest.fixture
def world():
    made = World()
    held = {"metadata": {"name": "a", "labels": {"p": "q"}}, "data": {"x": "1"}}
    assert made.raw("POST", PATH, held).status == 201
    return made


def said(world, patch, content_type, path=PATH + "/a"):
    answer = world.raw("PATCH", path, patch, content_type)
    return answer.status, answer.body.get("message", "")


@pytest.mark.parametrize(
    ("patch", "content_type", "why"),
    [
        ({"kind": "1"}, MERGE, f'no kind "1" is registered for version "v1" {SCHEME}'),
        (
            {"kind": "1", "metadata": {"labels": {"a": 1}}},
            MERGE,
            f'no kind "1" is registered for version "v1" {SCHEME}',
        ),
        (
            [{"op": "replace", "path": "/apiVersion", "value": "x/v9"}],
            JSON,
            f'no kind "ConfigMap" is registered for version "x/v9" {SCHEME}',
        ),
        (
            {"kind": 5},
            MERGE,
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of "
            "type string",
        ),
        (
            {"metadata": {"uid": "-a"}, "apiVersion": [{}]},
            MERGE,
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go struct field "
            ".apiVersion of type string",
        ),
    ],
)
def test_a_patch_to_a_kind_that_there_is_not_is_refused(world, patch, content_type, why):
    status, message = said(world, patch, content_type)
    assert status == 422
    assert message.endswith(f'": {why}')


def test_a_strategic_patch_leaves_the_kind_as_it_is(world):
    assert said(world, {"kind": "1"}, STRATEGIC) == (200, "")


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        ({"op": "test", "path": "/data/none", "value": None}, 200),
        ({"op": "test", "path": "/data/none"}, 200),
        ({"op": "test", "path": "/data/none", "value": "1"}, 422),
        ({"op": "test", "path": "/none/none", "value": None}, 422),
        ({"op": "copy", "path": "/metadata/finalizers", "from": ""}, 422),
        ({"op": "remove", "path": ""}, 422),
    ],
)
def test_a_null_is_as_good_as_no_member_and_the_whole_is_in_no_other(world, operation, status):
    assert said(world, [operation], JSON)[0] == status


def test_what_a_json_patch_went_into_is_quoted_sorted_and_the_first_misfit_is_told(world):
    patch = [
        {"op": "move", "path": "/metadata/finalizers", "from": "/metadata/labels/p"},
        {"op": "add", "path": "/metadata/name", "value": {}},
    ]
    status, message = said(world, patch, JSON)
    assert status == 422
    assert '\\"metadata\\":{\\"creationTimestamp\\"' in message
    assert message.endswith(
        "cannot unmarshal string into Go struct field ObjectMeta.metadata.finalizers of type []string"
    )


def test_a_text_is_quoted_as_it_was_sent(world):
    assert r"\\u00e9" in said(world, {"data": ["\u00e9"]}, MERGE)[1]  # its JSON has no letter beyond ASCII
    assert "\u00e9" in said(world, '{"data": ["\u00e9"]}'.encode(), MERGE)[1]


def test_a_strategic_patch_is_quoted_without_the_nulls_that_met_nothing(world):
    message = said(world, {"data": {"0": {"name": None}, "1": None}}, STRATEGIC)[1]
    assert "map[data:map[0:map[] 1:<nil>]]" in message


def test_a_lease_is_renewed_at_a_time_with_millionths(world):
    lease = {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    answer = world.raw("POST", leases, lease)
    assert answer.status == 400
    assert 'cannot parse "Z" as ".000000"' in answer.body["message"]
    lease["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
    assert world.raw("POST", leases, lease).status == 201


@pytest.mark.parametrize(
    ("kind", "body", "status", "field"),
    [
        (
            "pods",
            {"spec": {"containers": [{"name": "c", "image": "x"}]}},
            {"conditions": [{"type": "", "status": "True"}]},
            "status.conditions[0].Type",
        ),
        (
            "services",
            {"spec": {"ports": [{"port": 80}]}},
            {"loadBalancer": {"ingress": [{"ip": "10.1.2.3"}]}},
            "status.loadBalancer.ingress",
        ),
    ],
)
def test_a_status_that_nobody_may_report_is_refused(world, kind, body, status, field):
    path = f"/api/v1/namespaces/default/{kind}"
    assert world.raw("POST", path, {"metadata": {"name": "s"}} | body).status == 201
    code, message = said(world, {"status": status}, MERGE, f"{path}/s/status")
    assert (code, field in message) == (422, True)


def test_every_group_has_its_api_service_and_an_empty_table_of_roles_no_rows(world):
    with Cluster() as cluster:
        found = cluster.server.handle(table("/apis/apiregistration.k8s.io/v1/apiservices")).body
        assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Service", "Available", "Age"]
        rows = {row["cells"][0]: row["cells"][1:3] for row in found["rows"]}
        assert rows["v1."] == rows["v1.apps"] == rows["v2.autoscaling"] == ["Local", "True"]
        served = {kind.resource.api_version.rpartition("/") for kind in builtin()}
        assert set(rows) == {f"{v}.{g}" for g, _, v in served if g != "apiregistration.k8s.io"}
    roles = world.raw("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", accept=TABLE)
    assert roles.body["rows"] is None
    assert world.raw("GET", PATH + "?labelSelector=no", accept=TABLE).body["rows"] == []


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def table(path):
    from open_door import ADMIN

    from killcheck.embedded.api.http import Request

    return Request("GET", path, headers={"accept": TABLE}, user=ADMIN)
