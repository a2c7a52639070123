"""What a drill watches and what it must find before it begins: the state of targets, pods and nodes.

What may *not* live here: anything that changes a target on a cluster that is somebody's, HTTP, terminals.
"""
