"""The way of an alert, as far as objects say it: who loads its rule, scrapes its series, sends it, and who is told.

What may *not* live here: whether a rule fires on what a drill saw; that is :mod:`killcheck.witnesses`.
"""
