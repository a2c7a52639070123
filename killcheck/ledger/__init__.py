"""The ledger of a drill: everything that its verdict rests on, object by object, and what nobody here models.

Each object in scope is *modelled*, *executed*, *harmless*, *assumed* or *not modelled*; whatever is not modelled and
could put a target back on, keep one on or hold GPUs unseen makes *survived* and *covered* impossible. The API decides
who could (rights, references, selectors, owners), not a list of products. What may *not* live here: requests that
change anything, terminals, and what a drill watches (that is the scene's).
"""
