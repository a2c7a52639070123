"""Who else is asked whether the GPUs are off: the cloud (P3), the alarm (P5), the bucket of results.

What may *not* live here: the pods' and nodes' own word (P1, P2, P4); that is the scene's.
"""
