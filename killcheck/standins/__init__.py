"""Clouds on loopback: stand-ins of AWS, of instance metadata and of sign-in portals, for drills and tests.

What may *not* live here: the way to a real account.
"""
