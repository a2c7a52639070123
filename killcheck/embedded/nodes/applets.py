"""What an applet of busybox does not know, where a program of this host stands for it that knows more.

GNU's wget has ``--method``, its date reads "2 hours ago", its grep has ``-P``: a script that works with those does
nothing in Alpine's images. So in an image whose command is an applet, what the applet refuses is refused first, in its
words. Only what is certain of every version since 1.35 is in this table; what is not here goes to the host's program.
Sources: busybox networking/wget.c, coreutils/date.c, findutils/grep.c, findutils/xargs.c, coreutils/sort.c and others
(the strings that they give getopt32 and getopt32long), tried with 1.35. What may *not* live here: running anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from killcheck.embedded.nodes.execution import Launch

__all__ = ["APPLETS", "Applet", "called"]


class Applet(Struct, frozen=True):
    """``short`` as for getopt(3), ``long`` with a colon where a value follows; ``ahead``: options end at a first word.

    ``refused``: an extended regular expression for values of ``-d`` that it cannot read.
    """

    short: str
    long: tuple[str, ...] = ()
    ahead: bool = False
    refused: str = ""


_GREP = Applet("acHhnlLoqvsrRiwFEzIxA:B:C:m:e:f:", ("color",))
#: Words such as "yesterday", "2 hours ago" and "UTC", a sign in front, nothing at all. Not: a month with its day and
#: year, and the T and Z of ISO 8601, which newer ones read.
_NO_DATE = r"^$|^[+-]|^[^A-Za-z]*[A-Za-z]{2,}$|[A-Za-z]{4,}|(^|[^A-Za-z])(ago|now|day|UTC|GMT|min|sec)"
APPLETS = {
    "wget": Applet(
        "cqSO:o:P:Y:U:T:t:n:",
        (
            *("continue", "quiet", "server-response", "output-document:", "output-file:", "directory-prefix:"),
            *("proxy:", "user-agent:", "timeout:", "tries:", "header:", "post-data:", "post-file:", "spider"),
            *("no-check-certificate", "passive-ftp", "no-cache", "no-clobber", "no-host-directories", "no-parent"),
            "no-verbose",
        ),
    ),
    "date": Applet("Rs:ud:r:I::D:", ("rfc-822", "rfc-2822", "date:", "set:", "utc", "reference:"), refused=_NO_DATE),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "xargs": Applet("0rtpxe::E:I:i::n:s:P:a:oL:", ("no-run-if-empty",), ahead=True),
    "sort": Applet("bcdfghik:mno:rst:uzMS:T:V"),
    "head": Applet("n:c:qvz0123456789"),
    "tail": Applet("fc:n:s:qvF0123456789"),
    "sed": Applet("i::nrEsf:e:", ("in-place", "regexp-extended", "quiet", "silent", "expression:", "file:")),
    "cut": Applet("b:c:f:d:snD:F:O:", ("output-delimiter:",)),
    "mktemp": Applet("dqtup:"),
    "base64": Applet("dw:"),
    "timeout": Applet("s:k:p", ahead=True),
    "stat": Applet("c:ltfLZ"),
    "wc": Applet("clwLm"),
    "uniq": Applet("cdf:s:w:uzi"),
    "tee": Applet("ai"),
    "rm": Applet("fiRr"),
}


def called(launch: Launch, names: Iterable[str]) -> frozenset[str]:
    """Those of some applets that a container's command line, variables or mounted files speak of."""
    wanted = [name for name in names if name in APPLETS]
    if not wanted:
        return frozenset()
    word = re.compile(rf"(?<![\w.-])({'|'.join(wanted)})(?![\w-])")
    texts = [*launch.argv, *launch.env.values()]
    texts += [f.content.decode("utf-8", "replace") for m in launch.mounts for f in m.volume.files.values()]
    return frozenset(found for text in texts for found in word.findall(text))
