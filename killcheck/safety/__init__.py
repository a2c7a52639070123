"""What keeps a drill harmless: consent, leases, the journal with its undo, and what dead runs left behind.

What may *not* live here: faults. Nothing here imports what it protects from.
"""
