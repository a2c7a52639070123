"""The reference path on a cluster over TLS on loopback, living by its own clock, and killchecks that can be killed."""

from __future__ import annotations

import _thread
import threading

from killcheck.fixtures import path
from mortal import Mortals

from killcheck.clock import wall_now
from killcheck.embedded.cluster import Cluster
from killcheck.kube import manifests
from killcheck.kube import resources as r

CONTEXT = "killcheck-embedded"


class WireWorld:
    """The path ``fixture`` on a living cluster, `inference` opted in; :meth:`order` is killcheck in a child process.

    ``speed``: virtual seconds in a wall second, for what is under test lives by the wall clock.
    """

    def __init__(self, folder, *, speed, exec_mode="host", fixture="dead-man"):
        self.folder = folder
        self.cluster = Cluster(start=wall_now(), exec_mode=exec_mode, speed=speed)
        self.prepare()
        home = path(fixture)
        self.cluster.load(m.obj for m in manifests.load([home]).manifests if m.obj.get("apiVersion") != "killcheck/v1")
        kube = self.cluster.kube
        kube.patch(r.NAMESPACES, "inference", {"metadata": {"labels": {"killcheck.dev/consent": "true"}}})
        # Months pass here: the schedule must not fire by itself in the middle of a test, and has to come within a year.
        seldom = {"spec": {"schedule": f"0 3 1 {(wall_now().month - 2) % 12 + 1} *"}}
        for cron_job in kube.list(r.CRONJOBS, "inference").items:
            kube.patch(r.CRONJOBS, cron_job["metadata"]["name"], seldom, "inference")
        self.kubeconfig = folder / "kubeconfig"
        self.cluster.wire.start()
        self.cluster.wire.write_kubeconfig(self.kubeconfig)
        self.spec = folder / "killcheck.yaml"
        # It rests for months, which no drill here is about.
        settled = f"""
assume:
  - {{kind: CronJob, namespace: inference, reason: it fires by hand alone here, until: {wall_now().year + 1}-12-31}}
"""
        self.spec.write_text((home / "killcheck.yaml").read_text().replace("[staging]", f"[{CONTEXT}]") + settled)
        self.over = False
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()
        self.mortals = Mortals("api")
        self.cluster.loop.advance(400)

    def prepare(self):
        """Before anything is loaded: what is beneath the cluster."""

    def _live(self):
        """Let the cluster live; should it die, nobody waits for it."""
        try:
            self.cluster.loop.run_until(lambda: self.over)
        except BaseException:
            _thread.interrupt_main()
            raise

    def order(self, cwd, *argv, **death):
        return self.mortals.order(cwd, *argv, "--kubeconfig", str(self.kubeconfig), **death)

    def close(self):
        self.mortals.close()
        self.over = True
        with self.cluster.loop.entered():
            pass
        self.thread.join()
        self.cluster.close()
