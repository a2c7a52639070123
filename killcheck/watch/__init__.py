"""What is watched while a drill runs: the scene in the cluster, the steady state, the timeline, the night, the bill.

What may *not* live here: verdicts, and anything that knows of faults.
"""
