"""Hollow nodes: kubelets, what they pull from, and the processes that executors really are."""
