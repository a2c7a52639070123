"""The kill path as types: targets, layers, proof, deadlines, policy, consent; in :mod:`.specfile` its file.

What may *not* live here: anything that asks a cluster.
"""
