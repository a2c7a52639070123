"""Machines outside Kubernetes: programs that a spec names, timers, units, and what is counted there.

What may *not* live here: Kubernetes.
"""
