"""A Docker Engine under the protocol that all of killcheck speaks: its containers as pods, through the same ``Kube``.

So a Docker host without Kubernetes is drilled by the same sequence, journalled, leased and healed by the same code as a
cluster is. Nothing is stored here: every list is the engine's own list, every watch its own event stream.

What may *not* live here: verdicts, drills, anything that changes the engine other than at an API request.
"""
