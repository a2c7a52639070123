"""Pod Security: recording 14, and the words of every check."""

import pytest
from access_world import executor, world

from killcheck.embedded.api.admission.podsecurity_checks import problems
from killcheck.embedded.api.status import StatusError
from killcheck.kube.objects import copy

RECORDED = (
    'allowPrivilegeEscalation != false (container "executor" must set '
    'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "executor" must set '
    'securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "executor" must set '
    'securityContext.runAsNonRoot=true), seccompProfile (pod or container "executor" must set '
    'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)
HARDENED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def labelled(**modes):
    w = world()
    namespace(w, **modes)
    return w


def namespace(w, **modes):
    labels = {f"pod-security.kubernetes.io/{mode.replace('_', '-')}": level for mode, level in modes.items()}
    return w.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}})


def job():
    template = {"spec": executor()["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "drill", "namespace": "team"},
        "spec": {"template": template},
    }


def test_an_ordinary_executor_in_a_restricted_namespace_is_refused_as_recorded():
    with pytest.raises(StatusError) as refused:
        labelled(enforce="restricted", warn="restricted").admit("CREATE", executor())
    assert refused.value.code == 403
    assert str(refused.value) == (
        f'pods "gpu-off-drill-gf697" is forbidden: violates PodSecurity "restricted:latest": {RECORDED}'
    )


@pytest.mark.parametrize(
    "obj",
    [
        job(),
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "nightly", "namespace": "team"},
            "spec": {"jobTemplate": {"spec": job()["spec"]}},
        },
    ],
)
def test_what_makes_such_pods_is_only_warned_of(obj):
    expected = [f'would violate PodSecurity "restricted:latest": {RECORDED}']
    assert labelled(enforce="restricted", warn="restricted").admit("CREATE", copy(obj))[1] == expected
    assert labelled(enforce="restricted").admit("CREATE", copy(obj))[1] == expected
    assert labelled(warn="baseline", enforce="restricted").admit("CREATE", copy(obj))[1] == []
    assert labelled().admit("CREATE", copy(obj))[1] == []


def test_a_pod_that_is_only_warned_of_comes_in():
    assert labelled(warn="restricted", warn_version="v1.30").admit("CREATE", executor())[1] == [
        f'would violate PodSecurity "restricted:v1.30": {RECORDED}'
    ]
    assert labelled(audit="restricted").admit("CREATE", executor())[1] == []


def test_a_hardened_pod_comes_in():
    pod = executor(containers=[{"name": "executor", "securityContext": HARDENED}])
    assert labelled(enforce="restricted").admit("CREATE", pod)[1] == []


def test_updates_are_judged_where_the_image_changes():
    w = labelled(enforce="restricted")
    old = executor()
    same, other = copy(old), copy(old)
    same["metadata"]["labels"] = {"a": "b"}
    other["spec"]["containers"][0]["image"] = "new"
    assert w.admit("UPDATE", same, old=old)[0] == same
    with pytest.raises(StatusError, match="violates PodSecurity"):
        w.admit("UPDATE", other, old=old)


def test_labels_that_do_not_parse_are_refused():
    w = world()
    broken = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "new",
            "labels": {
                "pod-security.kubernetes.io/enforce": "strict",
                "pod-security.kubernetes.io/warn-version": "1.2",
            },
        },
    }
    with pytest.raises(StatusError) as refused:
        w.admit("CREATE", broken)
    assert str(refused.value) == (
        'Namespace "new" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": '
        "must be one of privileged, baseline, restricted, metadata.labels[pod-security.kubernetes.io/warn-version]: "
        'Invalid value: "1.2": must be "latest" or "v1.x"]'
    )


def test_making_a_namespace_stricter_warns_of_the_pods_that_are_there():
    w = world()
    for name in ("b", "a", "c"):
        pod = executor(hostNetwork=name == "c", containers=[{"name": "x", "securityContext": HARDENED}])
        pod["metadata"]["name"] = name
        if name != "c":
            pod["spec"]["hostPID"] = True
        w.put(pod)
    old = w.store.get(("", "namespaces"), ("", "team"))
    new = copy(old)
    new["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"
    assert w.admit("UPDATE", new, old=old)[1] == [
        'existing pods in namespace "team" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): host namespaces",
    ]


def checked(*, restricted=False, minor=36, container=None, **spec):
    context = HARDENED if restricted else {}
    containers = [{"name": "c", "securityContext": context} | (container or {})]
    pod = {"metadata": spec.pop("metadata", {}), "spec": {"containers": containers} | spec}
    return [f"{p.reason} ({p.detail})" for p in problems(pod, restricted=restricted, minor=minor)]


def context(**fields):
    return {"container": {"securityContext": fields}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({}, []),
        (
            {"hostNetwork": True, "hostPID": True, "hostIPC": True},
            ["host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"],
        ),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, ['hostPath volumes (volume "v")']),
        (
            {"container": {"ports": [{"hostPort": 80}, {"hostPort": 443}]}},
            ['hostPort (container "c" uses hostPorts 443, 80)'],
        ),
        (context(privileged=True), ['privileged (container "c" must not set securityContext.privileged=true)']),
        (
            context(capabilities={"add": ["SYS_ADMIN", "CHOWN"]}),
            [
                'non-default capabilities (container "c" must not include "SYS_ADMIN" in securityContext.capabilities.add)'
            ],
        ),
        (
            context(procMount="Unmasked"),
            ['procMount (container "c" must not set securityContext.procMount to "Unmasked")'],
        ),
        (
            {"securityContext": {"seLinuxOptions": {"type": "spc_t", "user": "u"}}},
            ['seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set)'],
        ),
        (
            {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
            ['seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")'],
        ),
        (
            {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}},
            ["forbidden sysctls (kernel.msgmax)"],
        ),
        (
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            ["hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)"],
        ),
        (
            context(appArmorProfile={"type": "Unconfined"}),
            ['forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")'],
        ),
        (
            {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}}},
            [
                "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
                '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
            ],
        ),
        (
            {"container": {"livenessProbe": {"httpGet": {"host": "10.0.0.1"}}}},
            ['probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")'],
        ),
    ],
)
def test_what_baseline_forbids(pod, expected):
    assert checked(**pod) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({}, []),
        (
            {"volumes": [{"name": "v", "hostPath": {}}, {"name": "w", "nfs": {}}, {"name": "e", "emptyDir": {}}]},
            ['restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")'],
        ),
        (
            {"securityContext": {"runAsNonRoot": False}},
            ["runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"],
        ),
        ({"securityContext": {"runAsUser": 0}}, ["runAsUser=0 (pod must not set runAsUser=0)"]),
        (
            context(**HARDENED | {"capabilities": {"drop": ["ALL"], "add": ["CHOWN", "NET_BIND_SERVICE"]}}),
            ['unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)'],
        ),
        (
            context(**HARDENED | {"seccompProfile": {"type": "Unconfined"}}),
            ['seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")'],
        ),
        (
            {"hostNetwork": True, "securityContext": {"runAsUser": 0}},
            ["host namespaces (hostNetwork=true)", "runAsUser=0 (pod must not set runAsUser=0)"],
        ),
    ],
)
def test_what_restricted_forbids_besides(pod, expected):
    assert checked(restricted=True, **pod) == expected


def test_the_pods_word_covers_containers_that_say_nothing():
    pod = {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost"}}
    silent = {"securityContext": {k: v for k, v in HARDENED.items() if k not in pod}}
    assert checked(restricted=True, container=silent, securityContext=pod) == []


@pytest.mark.parametrize(
    ("minor", "pod", "found"),
    [
        (33, {"container": {"livenessProbe": {"tcpSocket": {"host": "h"}}}}, 0),
        (34, {"container": {"livenessProbe": {"tcpSocket": {"host": "h"}}}}, 1),
        (31, {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}, 1),
        (34, {"hostUsers": False, **context(procMount="Unmasked")}, 1),
        (35, {"hostUsers": False, **context(procMount="Unmasked")}, 0),
    ],
)
def test_older_versions_of_the_standard(minor, pod, found):
    assert len(checked(minor=minor, **pod)) == found
