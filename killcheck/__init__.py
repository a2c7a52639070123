"""killcheck."""
