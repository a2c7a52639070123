"""What a place to drill on can do: the protocol of a cluster, and each capability that a fault may need.

What may *not* live here: any implementation; those are in the room of the place that has the capability.
"""
