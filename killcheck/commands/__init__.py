"""The commands of the CLI, one file each: options in, exit code out. What may *not* live here: logic."""
