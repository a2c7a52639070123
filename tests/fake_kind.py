#!/usr/bin/env python3
"""Stands in for the ``kind`` command: takes what kind takes (v0.30's commands and flags), keeps its clusters in a file,
and writes down each call. It starts nothing: who uses it has the cluster's API and its node containers.
"""

import json
import os
import sys
from itertools import pairwise
from pathlib import Path

HOME = Path(os.environ["FAKE_KIND_HOME"])


def clusters():
    file = HOME / "clusters"
    return file.read_text().split() if file.exists() else []


def main(argv):
    stdin = sys.stdin.read() if "-" in argv else ""
    with (HOME / "calls").open("a") as calls:
        calls.write(json.dumps({"argv": argv, "stdin": stdin}) + "\n")
    flags = dict(pairwise(argv))
    name = flags.get("--name", "kind")
    if argv[:2] == ["get", "clusters"]:
        print("\n".join(clusters()) if clusters() else "", end="")
        if not clusters():
            print("No kind clusters found.", file=sys.stderr)
    elif argv[:2] == ["create", "cluster"]:
        if name in clusters():
            sys.exit(f'ERROR: failed to create cluster: node(s) already exist for a cluster with the name "{name}"')
        json.loads(stdin)  # a YAML reader takes JSON
        (HOME / "clusters").write_text("\n".join([*clusters(), name]))
        Path(flags["--kubeconfig"]).write_text((HOME / "kubeconfig").read_text())
    elif name not in clusters():
        sys.exit(f'ERROR: could not locate any control plane nodes for cluster named "{name}"')
    elif argv[:2] == ["get", "kubeconfig"]:
        print((HOME / "kubeconfig").read_text(), end="")
    elif argv[:2] == ["get", "nodes"]:
        print("\n".join(json.loads((HOME / "nodes").read_text())))
    elif argv[:2] == ["delete", "cluster"]:
        (HOME / "clusters").write_text("\n".join(c for c in clusters() if c != name))
    else:
        sys.exit(f"ERROR: unknown command {argv}")


main(sys.argv[1:])
