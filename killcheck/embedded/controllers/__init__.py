"""The controllers of kube-controller-manager and the scheduler, one file each, as clients of the API."""
