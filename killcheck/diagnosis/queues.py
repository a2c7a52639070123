"""Why what a queue admitted is still on: the queue holds, and does not drain."""

from __future__ import annotations

from killcheck.diagnosis.case import Case, Diagnosis
from killcheck.kube.errors import KubeError
from killcheck.kube.objects import name_of
from killcheck.watch import queues

__all__ = ["held_not_drained"]


def held_not_drained(case: Case) -> Diagnosis | None:
    """Kueue's ``Hold`` admits nothing more and evicts nothing: only ``HoldAndDrain`` does.

    Source: kubernetes-sigs/kueue apis/kueue (StopPolicy).
    """
    if case.stuck_at not in ("scale_written", "pods_terminating", "pods_gone"):
        return None
    for target in case.scene.kill_path.covered_by(case.layer.layer):
        for obj in case.scene.objects_of(target) if target.kind else ():
            try:
                held = queues.on_hold(case.scene.cluster.kube, obj)
            except KubeError:
                continue
            if held:
                what = f"{held[0]['kind']} {name_of(held[0])}"
                return Diagnosis(
                    cause=f"{what} is on Hold: nothing more is admitted, and what was admitted keeps its GPUs",
                    evidence=(f"{what}: spec.stopPolicy: Hold", f"{target}: asks for {case.scene.replicas(target)}"),
                    remedy="set stopPolicy: HoldAndDrain: it evicts what runs, too",
                    failures=(32,),
                )
    return None
