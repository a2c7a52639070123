"""Decoding of built-in types: what Go's structures make of an object, and Go's words where they cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from killcheck.embedded.api import schemas, schemas_generate
from killcheck.embedded.api.kinds import builtin
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import Obj, copy

HERE = Path(schemas.__file__).parent
RECORDINGS = Path(__file__).parents[2] / "conformance" / "recordings"


def test_the_files_are_what_the_generator_makes_of_the_installed_client() -> None:
    types, words = schemas_generate.generate()
    assert schemas.load() == types
    assert json.loads((HERE / "descriptions.json").read_text("utf-8")) == words


def test_every_kind_and_every_field_has_its_type() -> None:
    known = schemas.load()
    assert [kind.schema for kind in builtin() if kind.schema not in known] == []
    for name in known:
        for spec in schemas.fields(name).values():
            referred = schemas_generate.referred(spec.base)
            assert not referred or referred in known


def job(**container: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "x", "namespace": "gpu"},
        "spec": {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "executor:1"} | container]}
            }
        },
    }


def refused(schema: str, obj: Obj) -> str:
    with pytest.raises(StatusError) as caught:
        schemas.decode(schema, obj)
    assert caught.value.code == 400
    return str(caught.value)


AT = "json: cannot unmarshal"


# The first ten are recording 31-yaml-off-is-boolean; the others follow from the same rules of encoding/json.
@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (
            job(name=False),
            f"{AT} bool into Go struct field Container.spec.template.spec.containers.name of type string",
        ),
        (
            job(name=1000.0),
            f"{AT} number into Go struct field Container.spec.template.spec.containers.name of type string",
        ),
        (
            job(env=[{"name": "GPU", "value": False}]),
            f"{AT} bool into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
        ),
        (
            job(env=[{"name": "GPU", "value": 0}]),
            f"{AT} number into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
        ),
        (
            job(args=["scale", False]),
            f"{AT} bool into Go struct field Container.spec.template.spec.containers.args of type string",
        ),
        (
            job(args=["--replicas", 0]),
            f"{AT} number into Go struct field Container.spec.template.spec.containers.args of type string",
        ),
        (
            job() | {"metadata": {"labels": {"gpu": True}}},
            f"{AT} bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            job() | {"spec": {"backoffLimit": "2"}},
            f"{AT} string into Go struct field JobSpec.spec.backoffLimit of type int32",
        ),
        (
            job() | {"spec": {"backoffLimit": 2**31}},
            f"{AT} number 2147483648 into Go struct field JobSpec.spec.backoffLimit of type int32",
        ),
        (
            job() | {"spec": {"activeDeadlineSeconds": 1.5}},
            f"{AT} number 1.5 into Go struct field JobSpec.spec.activeDeadlineSeconds of type int64",
        ),
        (job() | {"spec": []}, f"{AT} array into Go struct field Job.spec of type v1.JobSpec"),
        (
            job(imagePullPolicy=True),
            f"{AT} bool into Go struct field Container.spec.template.spec.containers.imagePullPolicy of type v1.PullPolicy",
        ),
        (
            job(ports={}),
            f"{AT} object into Go struct field Container.spec.template.spec.containers.ports of type []v1.ContainerPort",
        ),
        (
            job(resources={"limits": []}),
            f"{AT} array into Go struct field ResourceRequirements.spec.template.spec.containers.resources.limits"
            " of type v1.ResourceList",
        ),
        (
            job() | {"metadata": {"annotations": "none"}},
            f"{AT} string into Go struct field ObjectMeta.metadata.annotations of type map[string]string",
        ),
        (
            job(livenessProbe={"httpGet": {"port": True}}),
            f"{AT} bool into Go struct field HTTPGetAction.spec.template.spec.containers.livenessProbe.ProbeHandler"
            ".httpGet.port of type int32",
        ),
        (
            job(resources={"limits": {"nvidia.com/gpu": "eight"}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            job() | {"metadata": {"creationTimestamp": "today"}},
            'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
        ),
        (
            job() | {"metadata": {"deletionTimestamp": "2026-13-01T00:00:00Z"}},
            'parsing time "2026-13-01T00:00:00Z": month out of range',
        ),
    ],
)
def test_a_wrong_type_is_refused_in_go_words(obj: Obj, words: str) -> None:
    assert refused("V1Job", obj) == words


def test_cronjob_words_name_the_structure_that_has_the_field() -> None:
    assert refused("V1CronJob", {"spec": {"suspend": "true"}}) == (
        "json: cannot unmarshal string into Go struct field CronJobSpec.spec.suspend of type bool"
    )


def test_secrets_are_base64() -> None:
    assert refused("V1Secret", {"data": {"token": "not base64!"}}) == "illegal base64 data at input byte 3"
    assert refused("V1Secret", {"data": {"token": 5}}) == (
        "json: cannot unmarshal number into Go struct field Secret.data of type []uint8"
    )


def test_unknown_fields_are_named_and_dropped() -> None:
    obj = job(imagePullPolice="Always")
    obj["spec"]["template"]["spec"]["containers"].append({"name": "d", "env": [{"nmae": "A"}, {"name": "B"}]})
    obj["sepc"] = None
    decoded = schemas.decode("V1Job", obj)
    assert decoded.unknown == [
        "spec.template.spec.containers[0].imagePullPolice",
        "spec.template.spec.containers[1].env[0].nmae",
        "sepc",
    ]
    containers = decoded.obj["spec"]["template"]["spec"]["containers"]
    assert "imagePullPolice" not in containers[0]
    assert containers[1]["env"] == [{"name": ""}, {"name": "B"}]
    assert "sepc" not in decoded.obj


def test_free_maps_have_no_unknown_keys() -> None:
    crd = {
        "spec": {
            "versions": [
                {
                    "name": "v1",
                    "schema": {"openAPIV3Schema": {"properties": {"spec": {"type": "object", "propreties": {}}}}},
                }
            ]
        }
    }
    decoded = schemas.decode("V1CustomResourceDefinition", crd)
    assert decoded.unknown == ["spec.versions[0].schema.openAPIV3Schema.properties.spec.propreties"]
    assert schemas.decode("V1ConfigMap", {"data": {"anything": "goes"}}).unknown == []


def test_empty_values_go_the_way_they_go_through_go() -> None:
    decoded = schemas.decode(
        "V1Pod",
        {
            "spec": {
                "hostNetwork": False,
                "nodeName": "",
                "nodeSelector": {},
                "tolerations": [],
                "securityContext": {},
                "automountServiceAccountToken": False,
                "priority": 0,
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "c", "args": [], "env": [{"name": "A", "value": ""}], "workingDir": None}],
            }
        },
    )
    assert decoded.obj == {
        "metadata": {},
        "status": {},
        "spec": {
            "securityContext": {},
            "automountServiceAccountToken": False,
            "priority": 0,
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "env": [{"name": "A"}], "resources": {}}],
        },
    }


def test_what_is_always_written_is_written() -> None:
    deployment = schemas.decode("V1Deployment", {"spec": {"replicas": 0, "template": {"spec": {}}}}).obj
    assert deployment["spec"] == {
        "replicas": 0,
        "selector": None,
        "strategy": {},
        "template": {"metadata": {}, "spec": {"containers": None}},
    }
    assert deployment["status"] == {}
    assert schemas.decode("V1DaemonSet", {}).obj["status"] == {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }


def test_an_applied_configuration_stays_as_it_is() -> None:
    config = {
        "metadata": {"name": "x", "labels": {}},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "args": [], "stdin": False, "workingDir": ""}]}}},
    }
    assert schemas.decode("V1Deployment", config, partial=True).obj == config


def test_quantities_and_times_become_canonical() -> None:
    decoded = schemas.decode(
        "V1Pod",
        {
            "metadata": {"creationTimestamp": "2026-11-21T03:00:00.7+01:00"},
            "spec": {
                "containers": [{"name": "c", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi", "a/b": 1}}}]
            },
        },
    )
    assert decoded.obj["metadata"]["creationTimestamp"] == "2026-11-21T02:00:00Z"
    assert decoded.obj["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi", "a/b": "1"}
    lease = schemas.decode("V1Lease", {"spec": {"renewTime": "2026-11-21T02:00:00.000001Z"}})
    assert lease.obj["spec"]["renewTime"] == "2026-11-21T02:00:00.000001Z"


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.json")), ids=lambda path: path.stem)
def test_what_a_real_server_wrote_is_decoded_unchanged(path: Path) -> None:
    recording = json.loads(path.read_text("utf-8"))
    names = {"Event": "CoreV1Event", "ResourceClaim": "ResourceV1ResourceClaim"}
    for obj in [*recording["objects"], *recording.get("deleted_objects", [])]:
        version = obj["apiVersion"].rpartition("/")[2]
        decoded = schemas.decode(names.get(obj["kind"], version.upper() + obj["kind"]), obj)
        assert decoded.unknown == []
        assert decoded.obj == obj


def test_the_input_is_left_alone() -> None:
    obj = job(args=[], resources={"limits": {"cpu": "0.5"}}, nothing=1)
    before = copy(obj)
    schemas.decode("V1Job", obj)
    assert obj == before


keys = st.sampled_from(["metadata", "spec", "containers", "name", "labels", "template", "replicas", "x"])
json_values = st.recursive(
    st.sampled_from([None, True, 0, 1.5, "", "a", 2**40]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "x"]), json_values))
def test_any_object_is_decoded_or_refused_and_decoding_twice_changes_nothing(obj: Obj) -> None:
    try:
        once = schemas.decode("V1Deployment", obj).obj
    except StatusError as error:
        once = {"a refusal is": 400} if error.code != 400 else schemas.decode("V1Deployment", {}).obj
    again = schemas.decode("V1Deployment", once)
    assert again.unknown == []
    assert again.obj == once
