"""Faults of machines outside Kubernetes: their command lines, timers, disks, and the clouds' answers.

One small file a fault, or a family whose members differ in a line.
"""
