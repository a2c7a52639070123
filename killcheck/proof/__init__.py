"""A proof that can be shown: what a run record says, as an in-toto statement that is signed, and checked offline.

What may *not* live here: how a drill is judged; anything that changes a cluster.
"""
