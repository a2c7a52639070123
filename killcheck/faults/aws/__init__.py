"""Faults of an AWS account: credentials, instance metadata, spot.

One small file a fault, or a family whose members differ in a line.
"""
