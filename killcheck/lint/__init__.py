"""Lint: every probe asked of objects, and its findings sorted by what is suppressed or known.

What may *not* live here: a question; those are in ``probes/``, one file each.
"""
