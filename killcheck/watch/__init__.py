"""What is seen of a kill path while it is watched, and for how long: from the trigger to the end of the night.

What may *not* live here: anything that changes a target, and verdicts.
"""
