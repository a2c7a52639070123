"""The pytest plugin, registered by entry point: thin, and importing late."""
