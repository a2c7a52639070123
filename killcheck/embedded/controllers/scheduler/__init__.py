"""The scheduler: which node each pod goes to, and why it goes to none.

``scheduler`` is the controller; ``backlog`` the pods that wait, ``nodes`` what is on each node, ``filters`` and its
neighbours which nodes fit, ``scores`` which fits best, ``preemption`` who has to make room.
Source throughout: pkg/scheduler of Kubernetes v1.36 with its default profile; recordings 16 and 32.
"""

from killcheck.embedded.controllers.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
