"""The pytest suites: ``pytest --pyargs killcheck.suites --killcheck-spec killcheck.yaml --killcheck-on staging``.

*install*: does each layer turn the GPUs off, once, undisturbed. *staging*: every layer under every fault that applies,
judged by the spec's policy. Choose with ``-m "killcheck"`` and ``-k``, or name the file.

What may *not* live here: logic. A suite asks the same fixtures that a team's own tests use.
"""
