"""Reports: pure functions of the run record. Nothing here talks to a cluster."""
