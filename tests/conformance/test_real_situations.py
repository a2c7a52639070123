"""Recorded situations on a real control plane with our hollow nodes: ``pytest tests/conformance --kubeconfig F``.

Those that run no executor: their pods wait, are refused, are stopped or collected. What comes out must be what was
recorded, and so what the embedded cluster's own API server and controllers bring about (``test_situations``).
"""

from datetime import timedelta

import pytest
from compare import differences
from real_cluster import RealCluster
from recorded import recording
from replay import Replay
from situations import SITUATIONS

from killcheck.kube import resources as r
from killcheck.text.values import replace

NAMES = (
    "11-serviceaccount-missing",
    "12b-resourcequota-must-specify",
    "13-limitrange-rejects",
    "14-podsecurity-restricted",
    "16-unschedulable-nodeselector",
    "16b-unschedulable-gpu",
    "16c-unschedulable-taint",
    "16d-insufficient-cpu",
    "20b-active-deadline-on-image-pull",
    "22-pod-finalizer",
)
#: The machine under a real control plane is not ours alone: what a watch brings may be late.
SLACK_S = 3.0


class RealReplay(Replay):
    """The same steps at the same moments, on the host's clock."""

    def __init__(self, found, situation, kubeconfig):
        super().__init__(found, situation)
        self.kubeconfig = kubeconfig

    def run(self):
        steps = sorted(self._steps(), key=lambda step: step[:2])
        self.cluster = RealCluster(self.kubeconfig)
        loop = self.cluster.loop
        try:
            self.cluster.forget(self.namespace)
            lead = max(6.0, 3.0 - steps[0][0])
            self.recording.trigger = loop.now() + timedelta(seconds=lead)
            self._ground()
            for at, _, act in steps:
                loop.sleep(max(0.0, at - self.now()))
                act()
            loop.sleep(max(0.0, self.recording.end + self.situation.extra_s - self.now()))
            self._collect_events()
        finally:
            self.cluster.forget(self.namespace)
            self.cluster.made += [(r.NODES, o["metadata"]["name"]) for o in self.recording.setup if o["kind"] == "Node"]
            self.cluster.close()
        return self.seen

    def _collect_events(self):
        """Without the node controller's word that it met our nodes: it looks at them every five seconds."""
        super()._collect_events()
        self.seen.events = [told for told in self.seen.events if told.reason != "RegisteredNode"]


@pytest.mark.parametrize("name", NAMES)
def test_what_was_recorded_comes_out_of_a_real_control_plane(name, control_plane):
    (situation,) = [one for one in SITUATIONS if one.name == name]
    situation = replace(situation, tolerance_s=situation.tolerance_s + SLACK_S)
    real = recording(name)
    found = differences(real, RealReplay(real, situation, control_plane).run(), situation)
    assert not found, "\n" + "\n".join(found)
