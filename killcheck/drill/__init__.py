"""A drill: the one sequence from consent to heal, who turned the GPUs off, and what phase was reached when.

What may *not* live here: HTTP, pytest, terminals; what a layer's trigger is, or how a fault is injected.
"""
