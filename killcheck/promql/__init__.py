"""PromQL: a part of the language, evaluated over whatever has series; and what exporters call theirs.

What may *not* live here: what a drill produced (:mod:`killcheck.witnesses.alarms`), rules, Kubernetes.
"""
