"""Faults of what lives in Kubernetes: the executor's image, credentials, network, schedule; nodes and rivals.

One small file a fault, or a family whose members differ in a line.
"""
