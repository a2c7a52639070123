"""Text in and out: YAML with its lines, durations, files, nearest names, errors with their place, redaction.

What may *not* live here: anything that knows of Kubernetes or of kill paths.
"""
