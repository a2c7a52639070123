"""In a container: ``nslookup NAME``, which asks the cluster's DNS; the host may have none.

Source: busybox networking/nslookup.c (exit code 1 where no answer has an address).
"""

from __future__ import annotations

import _socket
import sys


def main(argv: list[str]) -> int:
    """0 where the name has an address, 1 where it has none."""
    words = [word for word in argv if not word.startswith("-")]
    if not words:
        sys.stderr.write("Usage: nslookup [HOST] [SERVER]\n")
        return 1
    try:
        found = _socket.getaddrinfo(words[0], None, _socket.AF_INET, _socket.SOCK_STREAM)
    except OSError:
        sys.stderr.write(f"** server can't find {words[0]}: NXDOMAIN\n")
        return 1
    sys.stdout.write(f"Name:\t{words[0]}\n" + "".join(f"Address: {one[4][0]}\n" for one in found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
