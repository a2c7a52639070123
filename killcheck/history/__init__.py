"""Many runs as one story: per layer and fault the verdict over time, what it took, and what changed when it broke.

A run record is read once; what its drills came to is kept in an index outside of the checkout (:mod:`.index`).
Everything that is told is a pure function of the nights (:mod:`.series`).
"""
