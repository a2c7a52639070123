"""What keeps killcheck safe among strangers: whose word is believed, what may be written, what is accounted for.

Nothing here knows what a fault or a layer is, and nothing here decides a verdict.
"""
