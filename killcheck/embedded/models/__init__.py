"""Models of what lives beside Kubernetes - Karpenter, KEDA, Argo CD, Kueue - each driven by its own resources.

Each is a controller: a client of the API like any other. What may *not* live here: anything that touches the store.
"""
