"""Where a drill runs: a real cluster by kubeconfig, kind, or the embedded one; one protocol, three implementations."""
