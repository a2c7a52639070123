"""Models of what lives beside Kubernetes - Karpenter, KEDA, Argo CD, Kueue - each driven by its own custom resources."""
