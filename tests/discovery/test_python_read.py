"""Python executors as they are written: constants, loops, functions with arguments, lists that name what is patched."""

import pytest

from killcheck import executor
from killcheck.executor import Reading


def read(script: str, *arguments: str, **env: str) -> Reading:
    spec = {
        "containers": [
            {
                "name": "c",
                "command": ["python3", "/app/main.py", *arguments],
                "env": [{"name": key, "value": value} for key, value in env.items()],
                "volumeMounts": [{"name": "app", "mountPath": "/app"}],
            }
        ],
        "volumes": [{"name": "app", "configMap": {"name": "app"}}],
    }
    return executor.read(spec, "ml", {("ml", "app"): {"data": {"main.py": script, "lib.py": ""}}})


def sh(script: str) -> Reading:
    return executor.read({"containers": [{"name": "c", "command": ["bash", "-c", script]}]}, "ml", {})


def calls(reading: Reading) -> list[str]:
    return [str(call) for call in reading.calls]


def test_names_that_are_unpacked_and_a_list_from_the_environment() -> None:
    script = """
import os
G, V, P = "leaderworkerset.x-k8s.io", "v1", "leaderworkersets"
for name in os.environ["TARGETS"].split(","):
    api.patch_namespaced_custom_object(G, V, "ml", P, name, {"spec": {"replicas": 0}})
"""
    reading = read(script, TARGETS="a,b")
    assert calls(reading) == [f"patch leaderworkersets.leaderworkerset.x-k8s.io ml/{n}" for n in "ab"]
    assert [call.replicas for call in reading.calls] == [0, 0]


def test_functions_are_read_with_what_they_are_handed() -> None:
    script = """
import sys
def scale(namespace, name, replicas=1):
    url = f"https://h/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"
    body = {"spec": {"replicas": replicas}}
    requests.patch(url, json=body).raise_for_status()
def main():
    for name in sys.argv[1:]:
        scale("ml", name, replicas=0)
main()
"""
    reading = read(script, "a", "b")
    assert calls(reading) == ["patch deployments/scale.apps ml/a", "patch deployments/scale.apps ml/b"]
    assert {call.replicas for call in reading.calls} == {0}


def test_pairs_and_mappings_are_gone_through() -> None:
    for what in ('(("n1", "a"), ("n2", "b"))', '{"n1": "a", "n2": "b"}.items()'):
        script = f"for ns, name in {what}:\n    apps.patch_namespaced_stateful_set_scale(name, ns, {{}})\n"
        assert calls(read(script)) == ["patch statefulsets/scale.apps n1/a", "patch statefulsets/scale.apps n2/b"]


@pytest.mark.parametrize(
    ("listed", "where"),
    [
        ('list_cluster_custom_object("kubeflow.org", "v1", "notebooks")', ""),
        ('list_namespaced_custom_object("kubeflow.org", "v1", "one", "notebooks")', "one"),
    ],
)
def test_what_a_list_names_is_where_the_list_is(listed: str, where: str) -> None:
    script = f"""
for nb in crd.{listed}["items"]:
    crd.patch_namespaced_custom_object("kubeflow.org", "v1", nb["metadata"]["namespace"], "notebooks", nb["name"], {{}})
"""
    first, patch = read(script).calls
    assert (first.verb, first.everywhere, patch.namespace, patch.name) == ("list", not where, where, "")


def test_a_label_selector_of_the_list_holds_for_what_is_patched() -> None:
    script = """
for d in apps.list_namespaced_deployment("ml", label_selector="gpu=yes").items:
    apps.patch_namespaced_deployment_scale(d.metadata.name, "ml", {"spec": {"replicas": 0}})
"""
    patch = read(script).calls[-1]
    assert patch.about("ml", "x", {"gpu": "yes"})
    assert not patch.about("ml", "x", {})


def test_the_namespace_file_is_read() -> None:
    script = """
with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace") as f:
    ns = f.read().strip()
apps.patch_namespaced_deployment_scale("a", ns, {})
"""
    assert calls(read(script)) == ["patch deployments/scale.apps ml/a"]


@pytest.mark.parametrize(
    ("ending", "honest"),
    [
        ("errors.append(n)\nif errors:\n    raise SystemExit(1)", True),
        ("failed += 1\nsys.exit(1 if failed else 0)", True),
        ("ok = False\nassert ok", True),
        ("errors.append(n)\nprint(errors)", False),
        ("print('oh')\nsys.exit(0)", False),
    ],
)
def test_a_handler_that_remembers_is_no_swallower(ending: str, honest: bool) -> None:
    first, _, rest = ending.partition("\n")
    script = f"""
for n in ["a"]:
    try:
        apps.patch_namespaced_deployment_scale(n, "ml", {{}})
    except ApiException as e:
        {first}
{rest}
"""
    assert (not read(script).false_green) is honest


@pytest.mark.parametrize(
    ("script", "honest"),
    [
        ("for i in range(3):\n try:\n  OFF\n  break\n except Exception:\n  pass\nelse:\n sys.exit(1)\n", True),
        ("for i in range(3):\n try:\n  OFF\n  break\n except Exception:\n  pass\nprint('done')\n", False),
        ("for i in range(3):\n try:\n  OFF\n  sys.exit(0)\n except Exception:\n  pass\nraise SystemExit(1)\n", True),
        ("while True:\n try:\n  OFF\n  break\n except Exception:\n  time.sleep(9)\n", True),
        ("while busy():\n try:\n  OFF\n except Exception:\n  continue\n", False),
        ("ok = False\ntry:\n OFF\n ok = True\nexcept Exception:\n pass\nif not ok:\n sys.exit(1)\n", True),
        ("try:\n OFF\nexcept Exception:\n sys.exit(0)\n", False),
    ],
)
def test_where_control_goes_after_a_handler(script: str, honest: bool) -> None:
    program = script.replace("OFF", 'c.patch_namespaced_deployment_scale("a", "b", {})')
    assert (not read(program).false_green) is honest


@pytest.mark.parametrize(
    ("how", "honest"),
    [
        ("subprocess.run([*K], check=True)", True),
        ("subprocess.check_call(K)", True),
        ("subprocess.run(K)", False),
        ('os.system("kubectl delete deploy/a")', False),
        ("r = subprocess.run(K)\nsys.exit(r.returncode)", True),
        ("sys.exit(subprocess.call(K))", True),
    ],
)
def test_an_exit_code_that_nobody_looks_at(how: str, honest: bool) -> None:
    how = how.replace("[*K]", "K").replace("K", '["kubectl", "delete", "deploy/a"]')
    reading = read(f"import os, subprocess, sys\n{how}\n")
    assert "delete deployments.apps ml/a" in calls(reading)
    assert (not reading.false_green) is honest


def test_what_python_has_to_find_beside_its_standard_library() -> None:
    assert read("import os, lib, kubernetes.client\nfrom requests import get\n").modules == ("kubernetes", "requests")


# -- the shell's own lists -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "script",
    [
        "kubectl get deploy -n a -l gpu=1 -o name | xargs -r -n1 kubectl scale -n a --replicas=0",
        "kubectl get deploy -n a -l gpu=1 -o name | xargs -I{} kubectl -n a scale {} --replicas=0",
        "kubectl get deploy -n a -l gpu=1 -oname | while read -r d; do kubectl -n a scale $d --replicas=0; done",
        "for d in $(kubectl get deploy -n a -l gpu=1 -o name); do kubectl -n a scale $d --replicas=0; done",
    ],
)
def test_names_that_kubectl_lists(script: str) -> None:
    patch = sh(script).calls[-1]
    assert (str(patch), patch.named, patch.replicas) == ("patch deployments/scale.apps a -l gpu=1", True, 0)


@pytest.mark.parametrize("options", ["-euo pipefail", "-eu -o pipefail", "-o errexit -o pipefail"])
def test_how_the_shell_was_started(options: str) -> None:
    spec = {
        "containers": [
            {
                "name": "c",
                "command": ["bash", *options.split(), "-c", "kubectl delete deploy/a | tee /dev/stderr\necho done"],
            }
        ]
    }
    reading = executor.read(spec, "ml", {})
    assert "delete deployments.apps ml/a" in calls(reading)
    assert not reading.false_green


@pytest.mark.parametrize(
    ("command", "unread"),
    [
        (["node", "/app/off.js"], True),
        (["gpu-curfew", "--all"], True),
        (["ruby", "-e", "puts 1"], True),
        (["sleep", "1"], False),
        (["sh", "-c", "gpu-report; sleep 1"], False),
        (["perl", "-e", "1"], True),
    ],
)
def test_a_program_that_is_not_read_here_is_said(command: list[str], unread: bool) -> None:
    reading = executor.read({"containers": [{"name": "c", "command": command}]}, "ml", {})
    assert bool(reading.not_understood) is unread
