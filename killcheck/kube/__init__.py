"""Any Kubernetes API: client, watches, selectors, quantities. Nothing here knows what a drill is."""
