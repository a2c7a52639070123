"""The pytest suites: ``pytest --pyargs killcheck.suites --killcheck-spec killcheck.yaml --killcheck-on staging``.

*install*: is every target covered, does each layer turn the GPUs off, once, undisturbed. *staging*: that, and every
layer under every fault that applies, judged by the spec's policy. *release*: that, what reading finds, and every fence.
Choose with ``--killcheck-suite``, by marker (``-m "killcheck(suite='install')"``), or name the file.

What may *not* live here: logic. A suite asks the same fixtures that a team's own tests use.
"""
