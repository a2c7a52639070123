"""Hollow nodes: kubelets, what they pull from, and the processes that executors really are."""

from killcheck.embedded.nodes.kubelets import NodeAgents

__all__ = ["NodeAgents"]
