"""A cluster over TLS on loopback, living by its own clock, and the process that forks killchecks to be killed."""

from __future__ import annotations

import _thread
import json
import subprocess
import sys
import threading
from pathlib import Path

from killcheck.fixtures import path

from killcheck.clock import wall_now
from killcheck.embedded.cluster import EmbeddedCluster
from killcheck.kube import manifests
from killcheck.kube import resources as r

MORTAL = Path(__file__).parent.parent / "safety" / "mortal.py"
CONTEXT = "killcheck-embedded"
#: Virtual seconds in a wall second: what is under test lives by the wall clock.
SPEED = 60.0


class LiveWorld:
    """The reference path on a living cluster, `inference` opted in; ``run`` is killcheck in a child process."""

    def __init__(self, folder, *, exec_mode="none", speed=SPEED):
        self.folder = folder
        self.cluster = EmbeddedCluster(start=wall_now(), exec_mode=exec_mode, speed=speed)
        home = path("dead-man")
        self.cluster.load(
            m.obj for m in manifests.load([home]).manifests if m.obj.get("apiVersion") != "killcheck/v1")
        self.cluster.kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": "true"}}})
        self.kubeconfig = folder / "kubeconfig"
        self.cluster.wire.start()
        self.cluster.wire.write_kubeconfig(self.kubeconfig)
        self.spec = folder / "killcheck.yaml"
        self.spec.write_text((home / "killcheck.yaml").read_text().replace("[staging]", f"[{CONTEXT}]"))
        self.over = False
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()
        self.process = subprocess.Popen(
            [sys.executable, str(MORTAL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.cluster.loop.advance(400)

    def _live(self):
        try:
            self.cluster.loop.run_until(lambda: self.over)
        except BaseException:
            _thread.interrupt_main()
            raise

    def run(self, cwd, *argv, at=0, when="before"):
        cwd.mkdir(exist_ok=True)
        order = {"argv": [*argv, "--kubeconfig", str(self.kubeconfig)], "cwd": str(cwd), "at": at, "when": when}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def fence(self, cwd, *argv, spec=None, **death):
        return self.run(cwd, "fence", str(spec or self.spec), "--on", CONTEXT, "--live", *argv, **death)

    def there(self):
        """Everything that a canary could leave."""
        with self.cluster.loop.entered():
            kube = self.cluster.kube
            left = [p["metadata"]["name"] for p in kube.list(r.PODS, "inference").items
                    if "killcheck.dev/canary" in p["metadata"].get("labels", {})]
            for resource, label in ((r.CONFIGMAPS, "killcheck.dev/run"), (r.LEASES, "killcheck.dev/lease")):
                left += [one["metadata"]["name"] for one in kube.list(resource, "inference", labels=label).items]
            return left

    def machines(self):
        with self.cluster.loop.entered():
            return sorted(c["metadata"]["name"] for c in self.cluster.kube.list(r.NODECLAIMS).items)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.over = True
        with self.cluster.loop.entered():
            pass
        self.thread.join()
        self.cluster.close()
