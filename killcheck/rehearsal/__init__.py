"""The rehearsal: every program that could be part of a kill path, fired once and watched, in a throw-away cluster.

A program is run unchanged, alone, at its own time and under its own account, against the embedded API server that
holds the manifests; what it asked for, what it was answered, how it ended and what followed is the record
(:mod:`killcheck.rehearsal.record`). What may *not* live here: what is made of a record (``discover/``, the probes),
and anything that reaches a real cluster.
"""
