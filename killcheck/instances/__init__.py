"""Machine types of every cloud: what each holds and costs, and which of them a set of requirements lets through.

What may *not* live here: asking an account, or anything about one cluster.
"""
