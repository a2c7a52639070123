"""Many clusters, many kill paths: what a ``fleet.yaml`` names, drilled side by side or as one Kubernetes Job.

A shard is one drill command. Each runs in a process of its own, with consent, Leases and journal as everywhere.
What may *not* live here: how a drill is made or judged.
"""
