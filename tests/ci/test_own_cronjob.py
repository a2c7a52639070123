"""The recipe that drills from inside a cluster, drilled: its script, as its ServiceAccount, on an embedded cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from own_world import QUICK, SPEC, living, nothing_left, put_account, recipe

from killcheck import fixtures
from killcheck.clock import wall_now
from killcheck.kube import manifests
from killcheck.lint.asking import lint, world_of
from killcheck.spec.specfile import loads

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture(name="living")
def fixture_living():
    with living("rbac.yaml", "drill.yaml") as cluster:
        yield cluster


def may_mount():
    unshare = shutil.which("unshare")
    return (
        bool(unshare)
        and os.geteuid() == 0
        and subprocess.run([unshare, "--mount", "true"], check=False, capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not may_mount(), reason="needs root and a mount namespace, to be a pod's process")
def test_the_cronjob_turns_the_gpus_off_and_puts_them_back(living, tmp_path):
    pod = recipe("drill.yaml")[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    account, spec = tmp_path / "account", tmp_path / "killcheck.yaml"
    token = put_account(living, pod, account)
    spec.write_text(yaml.safe_dump(QUICK))
    container = pod["containers"][0]
    script = container["command"][-1].replace("/etc/killcheck/killcheck.yaml", str(spec))
    work = tmp_path / "work"
    work.mkdir()
    host, _, port = living.wire.url.removeprefix("https://").rpartition(":")
    mounted = f'mount -t tmpfs none /var/run && mkdir -p {ACCOUNT} && mount --bind {account} {ACCOUNT} && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", mounted, "sh", *container["command"][:-1], script],
        check=False,
        cwd=work,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "KUBERNETES_SERVICE_HOST": host,
            "CI": "1",
            "KUBERNETES_SERVICE_PORT": port,
            "HOME": str(work),
            "LANG": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SURVIVED" in done.stdout
    assert re.search(r"the cluster's clock is \d+ s (ahead of|behind) this machine's", done.stdout)
    assert token not in done.stdout + done.stderr
    assert nothing_left(living) == ([], 1)


def test_killcheck_passes_its_own_lint():
    """Its CronJobs asked as if they were layers: nothing that would keep a kill path from working."""
    own = ("killcheck-drill", "killcheck-janitor")
    layers = [
        {"name": name, "type": "dead-man", "covers": ["vllm"], "cronJob": {"namespace": "killcheck", "name": name}}
        for name in own
    ]
    path = loads(yaml.safe_dump({**SPEC, "layers": [*SPEC["layers"], *layers]}))
    objects = [
        *manifests.load([fixtures.path("dead-man")]).objects,
        *recipe("rbac.yaml", "drill.yaml", "janitor.yaml", "networkpolicy.yaml"),
    ]
    objects = yaml.safe_load(
        yaml.safe_dump(objects).replace(
            "registry.example.com/killcheck:0.1.0", "registry.internal/killcheck:0.1.0@sha256:" + "ab" * 32
        )
    )
    world, notes = world_of(objects, wall_now(), kill_path=path)
    found = lint(world, notes=notes).findings
    about = [f for f in found if "killcheck/killcheck-" in f.object and not f.unproven]
    assert [f"{f.probe}: {f.message}" for f in about if f.severity != "note"] == []
