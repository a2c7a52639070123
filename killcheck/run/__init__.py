"""A run: what the user named, one or more drills, their record, and what is made of many: matrix, gate, explore.

What may *not* live here: options of the command line, output for a person.
"""
