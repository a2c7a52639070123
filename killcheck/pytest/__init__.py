"""The pytest plugin and what its fixtures hand out.

What may *not* live here: anything that an unrelated project would pay for; the plugin imports the rest when a test
asks for a drill.
"""
