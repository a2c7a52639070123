"""Executors really run: their commands unchanged, on this host, against the API over TLS, in the cluster's time."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from host_world import LINUX, namespaces_work
from node_world import pod

from killcheck.clock import wall_seconds
from killcheck.embedded import wire
from killcheck.embedded.limits import DRILL_IT
from killcheck.embedded.nodes import proctree, quiescence
from killcheck.embedded.nodes.execution import NetworkPolicy
from killcheck.embedded.nodes.hostprograms import HostPrograms
from killcheck.kube import resources as r

SA = "/var/run/secrets/kubernetes.io/serviceaccount"
CURL = f'curl -fsS --cacert {SA}/ca.crt -H "Authorization: Bearer $(cat {SA}/token)"'
SCALE = "https://kubernetes.default.svc/api/v1/namespaces/team/configmaps/target"


# -- the kill itself ---------------------------------------------------------------------------------------
def test_bash_and_curl_patch_the_api_with_the_pods_own_token(host):
    host.allow()
    code, log = host.run_pod(f"""
        set -eu
        {CURL} -H "Content-Type: application/merge-patch+json" -X PATCH {SCALE} -d '{{"data":{{"replicas":"0"}}}}'
    """)
    assert (code, '"replicas": "0"' in log) == (0, True)
    assert host.kube.get(r.CONFIGMAPS, "target", "team")["data"] == {"replicas": "0"}


def test_a_container_may_call_the_api_servers_address_what_it_likes(host):
    """As in ``env: [{name: KUBERNETES_SERVICE_HOST, value: kubernetes.default.svc}]``: a name is looked up."""
    host.allow()
    code, log = host.run_pod(
        f"{CURL.replace('-fsS', '-fsS -o /dev/null')} {SCALE.replace('kubernetes.default.svc', '$KUBERNETES_SERVICE_HOST')}",
        env=[{"name": "KUBERNETES_SERVICE_HOST", "value": "kubernetes.default.svc"}],
    )
    assert (code, log) == (0, "")


def test_a_403_fails_with_f_and_succeeds_without(host):
    code, log = host.run_pod(f"{CURL} {SCALE}")
    assert (code, log) == (22, "curl: (22) The requested URL returned error: 403\n")
    host.kube.delete(r.PODS, "job", "team")
    host.run(5)
    code, log = host.run_pod(f"{CURL.replace('-fsS', '-sS')} {SCALE}")
    assert code == 0
    assert '"reason": "Forbidden"' in log


def test_python_urllib(host):
    host.allow()
    code, log = host.run_pod(
        image="python:3.12-slim",
        command=[
            "python3",
            "-c",
            textwrap.dedent(f"""
        import ssl, urllib.request
        context = ssl.create_default_context(cafile="{SA}/ca.crt")
        headers = {{"Authorization": "Bearer " + open("{SA}/token").read()}}
        with urllib.request.urlopen(urllib.request.Request("{SCALE}", headers=headers), context=context) as answer:
            print(answer.status, open("{SA}/namespace").read())
    """),
        ],
    )
    assert (code, log) == (0, "200 team\n")


def test_kubectl_finds_the_cluster_by_itself(host):
    if not HostPrograms().find("kubectl"):
        pytest.skip("no kubectl here")
    host.allow()
    code, log = host.run_pod(image="bitnamilegacy/kubectl:1.33", command=["kubectl", "get", "configmaps", "-o", "name"])
    assert (code, log) == (0, "configmap/kube-root-ca.crt\nconfigmap/target\n")


def test_an_untrusted_ca_is_refused(host):
    code, log = host.run_pod("curl -fsS https://kubernetes.default.svc/api")
    assert code == 60
    assert log.startswith("curl: (60) SSL certificate problem: ")


def test_an_address_beyond_the_cluster_swallows_packets_and_curl_waits_in_the_clusters_time(host):
    begun, wall = host.loop.monotonic(), wall_seconds()
    code, log = host.run_pod("curl -fsS -m 120 http://203.0.113.7/")
    assert code == 28
    assert "Failed to connect to 203.0.113.7 port 80" in log
    assert 120 <= host.loop.monotonic() - begun < 130
    assert wall_seconds() - wall < 110


# -- memory ------------------------------------------------------------------------------------------------
def limited(limit, megabytes):
    return {
        "resources": {"limits": {"memory": limit}},
        "command": ["python3", "-c", f"import time; kept = bytearray({megabytes} << 20); time.sleep(3); print('done')"],
    }


@pytest.mark.skipif(not LINUX, reason="nobody says here how much memory a process has")
def test_more_memory_than_the_limit_is_oom_killed(host):
    assert host.run_pod(**limited("32Mi", 200)) == (137, "")
    ended = host.state("job")["terminated"]
    assert (ended["reason"], "signal" in ended) == ("OOMKilled", False)
    assert host.pod("job")["status"]["phase"] == "Failed"


@pytest.mark.parametrize("limit", ["256Mi", None])
def test_memory_within_the_limit_is_its_own_matter(host, limit):
    options = limited(limit, 40)
    if limit is None:
        del options["resources"]
    assert host.run_pod(**options) == (0, "done\n")


# -- what is in the image, and around it -------------------------------------------------------------------
def test_a_command_that_the_image_lacks_is_127(host):
    code, log = host.run_pod(f"set -eu\nX=1\n{CURL} {SCALE}", image="python:3.12-slim")
    assert code == 127
    assert "curl: not found" in log


def test_the_environment_is_the_manifests_and_nothing_else(host, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    code, log = host.run_pod(
        "env; ls -a $HOME; echo $(GREETING) $$",
        env=[
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "GREETING", "value": "hello-$(NAME)"},
        ],
    )
    assert code == 0
    names = {line.partition("=")[0] for line in log.splitlines() if "=" in line}
    assert {"PATH", "HOME", "HOSTNAME", "NAME", "GREETING", "KUBERNETES_SERVICE_HOST"} <= names
    assert not {n for n in names if n.startswith("AWS") or n in ("KUBECONFIG", "SSH_AUTH_SOCK", "USER")}
    assert "hush" not in log
    assert "GREETING=hello-job" in log


def test_mounts_are_at_their_paths(host):
    host.add(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "script", "namespace": "team"},
            "data": {"kill.sh": "#!/bin/sh\ncat /config/word /work/made; test -s $0\n", "word": "mounted\n"},
        }
    )
    code, log = host.run_pod(
        "echo made > /work/made; /scripts/kill.sh",
        volumes=[
            {"name": "script", "configMap": {"name": "script", "defaultMode": 0o755}},
            {"name": "work", "emptyDir": {}},
        ],
        volumeMounts=[
            {"name": "script", "mountPath": "/scripts"},
            {"name": "work", "mountPath": "/work"},
            {"name": "script", "mountPath": "/config/word", "subPath": "word"},
        ],
    )
    assert (code, log) == (0, "mounted\nmade\n")


#: What somebody who is not root finds: a script as it does it, and what comes of it.
NOT_ROOT = {
    "date >> /var/log/off.log": (1, "Permission denied"),
    "touch /off": (1, "Permission denied"),
    "echo a > /tmp/a; echo b > /work/b; echo c > /var/cache/c; cat /tmp/a /work/b /var/cache/c": (0, "a\nb\nc"),
    "cat /secret/word": (1, "Permission denied"),
    "cat /open/word": (0, "mounted"),
}


@pytest.mark.skipif(not namespaces_work(), reason="no user namespaces here")
@pytest.mark.parametrize("script", NOT_ROOT)
def test_what_is_roots_is_not_of_another_user(host, script):
    if host.host.isolation == "unisolated":
        pytest.skip("nobody is another user there")
    meta = {"name": "words", "namespace": "team"}
    host.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"word": "mounted\n"}})
    volumes = [
        {"name": "work", "emptyDir": {}},
        {"name": "secret", "configMap": {"name": "words", "defaultMode": 0o400}},
        {"name": "open", "configMap": {"name": "words"}},
    ]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("work", "secret", "open")]
    code, log = host.run_pod(
        script,
        image="alpine/k8s:1.32.0",
        main={"securityContext": {"runAsUser": 1000}},
        volumes=volumes,
        volumeMounts=[*mounts, {"name": "work", "mountPath": "/var/cache"}],
    )
    assert code == NOT_ROOT[script][0], log
    assert NOT_ROOT[script][1] in log


@pytest.mark.parametrize("place", ["/lib/kill", "/usr/share/kill", "/usr/lib/python3/of/ours", "/usr/local/bin/off.sh"])
@pytest.mark.one_in(2)
def test_a_volume_finds_its_place_below_folders_that_are_this_hosts(host, place):
    host.add(
        {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "data": {"off.sh": "echo off"},
            "metadata": {"name": "script", "namespace": "team"},
        }
    )
    single = {"subPath": "off.sh"} if place.endswith(".sh") else {}
    code, log = host.run_pod(
        f"sh {place}{'' if single else '/off.sh'}; ls /usr/lib | grep -c .; python3 -c 'import json'",
        volumes=[{"name": "script", "configMap": {"name": "script"}}],
        volumeMounts=[{"name": "script", "mountPath": place, **single}],
    )
    assert code == 0, log
    assert log.startswith("off\n")


def test_a_signal_is_128_and_more(host):
    assert host.run_pod("(kill -9 $BASHPID); exit 137", image="debian:12")[0] == 137


def test_what_it_writes_to_its_termination_log_is_its_message(host):
    host.run_pod("echo because > /dev/termination-log; exit 3")
    assert host.state("job")["terminated"]["message"] == "because\n"


def test_a_command_that_the_host_lacks_leaves_the_outcome_unknown(host):
    host.add(pod("job", image="amazon/aws-cli:2", command=["aws", "ec2", "describe-instances"], policy="Never"))
    assert host.loop.run_until(lambda: bool(host.nodes.unknown), 60)
    host.run(3600)
    assert "running" in host.state("job")
    assert host.nodes.unknown == [
        f"Pod/team/job: it calls aws, which its image has and which cannot be run here: {DRILL_IT}"
    ]


def test_what_the_images_own_python_makes_otherwise_leaves_the_outcome_unknown(host):
    host.add(pod("job", image="python:3.9-slim", command=["python", "-c", "import tomllib"], policy="Never"))
    assert host.loop.run_until(lambda: bool(host.nodes.unknown), 60)
    assert "python:3.9-slim has Python 3.9" in host.nodes.unknown[0]


def test_in_an_image_without_time_zones_each_is_utc(host):
    assert host.run_pod("TZ=Asia/Tokyo date +%z", image="alpine:3.20") == (0, "+0000\n")
    assert "alpine:3.20 has no time zones: TZ=Asia/Tokyo is UTC in it" in str(host.nodes.assumptions)


def test_a_disk_that_is_full_leaves_the_outcome_unknown(host, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("killcheck.embedded.nodes.sandbox.isolated", full)
    monkeypatch.setattr("killcheck.embedded.nodes.sandbox.relocated", full)
    host.add(pod("job", image="localhost:5000/rec/executor:1", command=["true"], policy="Never"))
    assert host.loop.run_until(lambda: bool(host.nodes.unknown), 60)
    assert "the programs of this run have filled the disk that they share" in host.nodes.unknown[0]


def test_what_is_assumed_of_an_image_that_ran_is_said(host):
    host.run_pod("true")
    alone = "what was run here was not isolated: it could do all that killcheck's own user can"
    assert [said for said in host.nodes.assumptions if said != alone] == [
        "nothing is known of image localhost:5000/rec/executor:1: assumed that it exists and contains what this host "
        "has"
    ]
    assert (alone in host.nodes.assumptions) == (host.host.level == "unisolated")


def test_nothing_outside_the_cluster_is_reached_and_that_is_said(host):
    code, log = host.run_pod("curl -sS https://api.example.com/")
    assert (code, log) == (6, "curl: (6) Could not resolve host: api.example.com\n")
    assert any("looked for api.example.com" in text for text in host.nodes.assumptions)


# -- time --------------------------------------------------------------------------------------------------
def test_a_sleep_passes_in_the_clusters_time(host):
    begun = wall_seconds()
    code, log = host.run_pod("date -u +%T; sleep 3600; date -u +%T; date -u -d '5 minutes ago' +%T")
    assert code == 0
    first, second, ago = ([int(part) for part in line.split(":")] for line in log.split())
    assert second[0] - first[0] == 1
    assert first[1:] == second[1:]
    assert ago[1] == 55
    assert wall_seconds() - begun < 3000


def test_pythons_clock_is_the_clusters(host):
    code, log = host.run_pod(
        image="python:3.12-slim",
        command=[
            "python3",
            "-c",
            textwrap.dedent("""
        import time, datetime
        begun, mono, day = time.time(), time.monotonic(), datetime.datetime.now()
        time.sleep(7200)
        print(round(time.time() - begun), round(time.monotonic() - mono), datetime.datetime.now() - day, day.year)
        utc = datetime.datetime.now(datetime.timezone.utc)  # an extension written in Rust asks for the very type
        print({type(one) is datetime.datetime for one in (day, utc, utc.astimezone() + datetime.timedelta(1))})
    """),
        ],
    )
    assert (code, log) == (0, "7200 7200 2:00:00 2026\n{True}\n")


def test_timeout_counts_in_the_clusters_time(host):
    code, _ = host.run_pod("timeout 60 sleep 1000; echo $?; timeout 60 sleep 5; echo $?; timeout 60 sh -c 'exit 4'")
    assert (code, host.log("job")) == (4, "124\n0\n")


def test_a_retry_loop_waits_without_hanging_the_night(host):
    host.wire.interceptor = lambda request: wire.Response(503, {"kind": "Status", "code": 503})
    host.loop.call_later(100, lambda: setattr(host.wire, "interceptor", None))
    host.allow()
    begun = host.loop.monotonic()
    code, _ = host.run_pod(f"{CURL} --retry 10 {SCALE}")
    assert code == 0
    assert 100 < host.loop.monotonic() - begun < 250


def test_an_answer_that_never_comes_ends_with_max_time(host):
    host.wire.interceptor = lambda request: wire.HANG
    begun = host.loop.monotonic()
    code, log = host.run_pod(f"{CURL} --max-time 30 {SCALE}")
    assert (code, log) == (28, "curl: (28) Operation timed out after 30000 milliseconds with 0 bytes received\n")
    assert 30 <= host.loop.monotonic() - begun < 40


def test_kubectl_wait_waits_in_the_clusters_time(host):
    if not HostPrograms().find("kubectl"):
        pytest.skip("no kubectl here")
    host.grant("pods", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}])
    host.add(pod("vllm", command=["sleep", "infinity"], grace=300))
    host.run(5)
    host.kube.delete(r.PODS, "vllm", "team")
    begun = host.loop.monotonic()
    code, log = host.run_pod(
        "kubectl wait --for=delete pod/vllm --timeout=60s; echo $?; kubectl wait --for=delete pod/vllm --timeout=1h",
        image="bitnamilegacy/kubectl:1.33",
    )
    assert (code, log) == (0, ("error: timed out waiting for the condition on pods/vllm\n1\npod/vllm condition met\n"))
    assert 290 < host.loop.monotonic() - begun < 310


def test_kubectl_scale_waits_in_the_clusters_time(host):
    """It polls by a clock of its own: that takes no two minutes of the wall's, nor does the night pass meanwhile."""
    if not HostPrograms().find("kubectl"):
        pytest.skip("no kubectl here")
    host.grant(
        "scale",
        rules=[
            {
                "apiGroups": ["apps"],
                "resources": ["deployments", "deployments/scale"],
                "verbs": ["get", "patch", "update"],
            }
        ],
    )
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    host.kube.create(
        r.DEPLOYMENTS,
        {
            "metadata": {"name": "vllm", "namespace": "team"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
        },
    )
    host.kube.patch(r.DEPLOYMENTS, "vllm", {"status": {"replicas": 1}}, "team", subresource="status")
    begun, wall = host.loop.monotonic(), wall_seconds()
    code, log = host.run_pod(
        "kubectl scale deployment/vllm --replicas=0; echo $?; kubectl scale deployment/vllm --replicas=0 --timeout=2m",
        image="bitnamilegacy/kubectl:1.33",
    )
    assert (code, log) == (1, 'deployment.apps/vllm scaled\n0\nerror: timed out waiting for "vllm" to be synced\n')
    assert 120 <= host.loop.monotonic() - begun < 130
    assert wall_seconds() - wall < 110


# -- the network -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("api", "dns", "code", "words"),
    [
        ("refuse", "allow", 7, "Failed to connect to kubernetes.default.svc port 443"),
        ("drop", "allow", 28, "Failed to connect to kubernetes.default.svc port 443 after 10000 ms"),
        ("allow", "refuse", 6, "Could not resolve host: kubernetes.default.svc"),
    ],
)
def test_curls_exit_codes_for_a_broken_network(host, api, dns, code, words):
    host.nodes.network = lambda pod: NetworkPolicy(api, dns)
    ended, log = host.run_pod(f"{CURL} --connect-timeout 10 {SCALE}")
    assert ended == code
    assert words in log


PROXY = {"name": "HTTPS_PROXY", "value": "http://192.0.2.7:3128"}


@pytest.mark.parametrize(
    ("options", "codes", "limits"),
    [
        ({"hostNetwork": True}, {6}, 0),
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, {0}, 0),
        ({"dnsPolicy": "Default"}, {6}, 0),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.96.7.7"]}}, {6}, 1),
        ({"hostAliases": [{"ip": "192.0.2.7", "hostnames": ["kubernetes.default.svc"]}]}, {7, 28}, 0),
        ({"env": [PROXY]}, {7, 28}, 0),
        ({"env": [PROXY, {"name": "NO_PROXY", "value": "localhost,.svc"}]}, {0}, 0),
    ],
    ids=["host network", "with host net", "node's", "own server", "alias", "proxy", "past the proxy"],
)
@pytest.mark.one_in(2)
def test_a_pods_own_way_to_the_api_server(host, options, codes, limits):
    """kubelet's getPodDNSType; curl's ENVIRONMENT: with a network of its own and without it ends the same."""
    host.allow()
    asks = f"{CURL} -k -m 20 -o /dev/null https://kubernetes.default.svc/version"
    if host.host.isolation != "unisolated":
        asks = f'grep -q "\t$HOSTNAME$" /etc/hosts || exit 99; {asks}'  # a pod knows itself by its name
    code, log = host.run_pod(asks, **options)
    assert code in codes, log
    assert len(host.host.limits.met) == limits


def test_a_look_up_that_nobody_answers_takes_its_time(host):
    if host.host.isolation == "unisolated":
        pytest.skip("names are looked up by the host's resolver here")
    host.nodes.network = lambda pod: NetworkPolicy("allow", "drop")
    begun = host.loop.monotonic()
    code, log = host.run_pod(f"{CURL} {SCALE}")
    assert (code, log) == (6, "curl: (6) Could not resolve host: kubernetes.default.svc\n")
    # Twice five seconds for the first domain of the search list, and as often for the name as it is.
    assert 20 < host.loop.monotonic() - begun < 24


# -- its end -----------------------------------------------------------------------------------------------
def test_a_deleted_pod_takes_its_processes_along(host):
    host.add(pod("job", command=["sh", "-c", "sleep 9999 & sleep 9999; exit 1"], policy="Never", grace=20))
    host.run(5)
    running = next(iter(host.host.processes.values()))
    pids = proctree.tree(running.pid)
    assert len(pids) >= 2
    host.kube.delete(r.PODS, "job", "team")
    host.run(25)
    assert host.gone("job")
    until = wall_seconds() + 120.0  # what was killed may not have had its turn to end
    while left := [
        pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
    ]:
        assert wall_seconds() < until, left


@pytest.mark.skipif(not LINUX, reason="of /proc")
def test_however_many_children_a_process_has_all_are_seen():
    many = 1000  # their numbers fill more than a page
    forks = f"exec 3<&0; i=0; while [ $i -lt {many} ]; do read line <&3 & i=$((i+1)); done; echo; wait"
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", forks], stdin=pipe, stdout=pipe, start_new_session=True) as parent:
        parent.stdout.readline()
        assert len(proctree.tree(parent.pid)) == many + 1


def deleted(host):
    """A pod that ends when it is told to has been deleted: its exit code."""
    ended = []
    host.kube.watch(r.PODS, lambda e: ended.append(e.object), lambda _: None, namespace="team")
    host.kube.delete(r.PODS, "job", "team")
    host.run(5)
    assert host.gone("job")
    return ended[-1]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]


OBEYS = ["sh", "-c", "trap 'echo bye; exit 0' TERM; while :; do sleep 1; done"]


def test_a_handler_of_sigterm_runs(host):
    host.add(pod("job", command=OBEYS, policy="Never", grace=60))
    host.run(5)
    assert deleted(host) == 0


def test_busy_work_does_not_hang_the_night(host, monkeypatch):
    monkeypatch.setattr(quiescence, "LIMIT_S", 0.3)
    host.add(pod("job", command=["sh", "-c", "while :; do :; done"], policy="Never", grace=1))
    host.run(3600)
    assert any("worked for" in text for text in host.nodes.assumptions)


def test_a_signal_that_is_slow_to_arrive_is_waited_for(host):
    """The helper that passes it on has no processor for a while: that is no time that passes in the cluster."""
    host.add(pod("job", command=OBEYS, policy="Never", grace=30))
    host.run(5)
    helper = host.host.spawner.pid
    os.kill(helper, signal.SIGSTOP)
    awake = threading.Timer(0.3, os.kill, (helper, signal.SIGCONT))
    awake.start()
    code = deleted(host)
    awake.join()
    assert code == 0


@pytest.mark.parametrize("helper_too", [False, True])
def test_a_killed_killcheck_leaves_nothing(tmp_path, helper_too):
    """kill -9: the helper sees its socket close, kills what runs, and removes its folder; the kernel, where it cannot."""
    if helper_too and not namespaces_work():
        pytest.skip("no user namespaces here")
    program = tmp_path / "victim.py"
    here = Path(__file__).parent
    program.write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(here)!r})
        from host_world import Host
        from node_world import pod
        from killcheck.embedded.nodes import proctree
        world = Host("sandbox")
        world.add(pod("job", command=["sh", "-c", "setsid sh -c 'sleep 9999; exit 1' & wait"], policy="Never"))
        world.run(5)
        running = next(iter(world.host.processes.values()))
        leaf = proctree.tree(running.pid)[-1]
        print(leaf, world.host.spawner.pid, world.host.spawner.folder, flush=True)
        sys.stdin.read()
    """)
    )
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as victim:
        pid, helper, folder = victim.stdout.readline().split()
        if helper_too:
            os.kill(int(helper), signal.SIGKILL)
        os.kill(victim.pid, signal.SIGKILL)
    deadline = wall_seconds() + 10
    while wall_seconds() < deadline and (
        (Path(folder).exists() and not helper_too) or _alive(int(helper)) or _alive(int(pid))
    ):
        os.sched_yield()
    assert not Path(folder).exists() or (helper_too and not any(Path(folder).iterdir()))
    shutil.rmtree(folder, ignore_errors=True)
    assert not _alive(int(pid))
    assert not _alive(int(helper))


def _alive(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
