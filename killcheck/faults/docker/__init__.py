"""Faults of what lives on a Docker Engine: containers, images, registries, nodes of kind.

One small file a fault, or a family whose members differ in a line.
"""
