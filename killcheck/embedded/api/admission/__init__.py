"""What happens to a write between authorization and the store: one plugin a file, run by the chain.

No plugin writes to the store or calls the API.
"""
