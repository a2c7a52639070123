"""The embedded cluster: a Kubernetes in this process, on a virtual clock.

Only `api/` touches the store; controllers, nodes and models are clients of the API, as in Kubernetes.
"""
