"""Container images: how a reference reads, and what an image contains.

What may *not* live here: pulling anything.
"""
