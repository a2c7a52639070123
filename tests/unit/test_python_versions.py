"""What two versions of Python make otherwise of one program."""

from __future__ import annotations

import pytest

from killcheck.executor.python_versions import unlike

OLD, HERE, NEW = (3, 9), (3, 11), (3, 13)


@pytest.mark.parametrize(
    ("text", "image", "what"),
    [
        (
            "import os\nmatch os.name:\n    case 'posix':\n        pass\n",
            OLD,
            "Pattern matching is only supported in Python 3.10",
        ),
        ("import os\ndef f(n: str | None = None): ...\n", OLD, "line 2: str | None"),
        ("from datetime import datetime\ndatetime.fromisoformat(s)\n", OLD, "line 2: fromisoformat of what ends in Z"),
        ("import datetime\nnow = datetime.datetime.now(datetime.UTC)\n", OLD, "datetime.UTC"),
        ("from datetime import UTC\n", OLD, "datetime.UTC"),
        ("import tomllib\n", OLD, "tomllib"),
        ("import os\nfor a, b in zip(x, y, strict=True): ...\n", OLD, "zip.strict"),
        ("#!/bin/sh\npython3 - <<'EOF'\nimport tomllib\nEOF\n", OLD, "tomllib"),
        ("set -e; python -c 'from zoneinfo import ZoneInfo'", (3, 8), "zoneinfo"),
        ("import os\nname.removeprefix('x')\n", (3, 8), "removeprefix"),
        ("from itertools import batched\n", NEW, "itertools.batched"),
        ("import telnetlib\n", NEW, "telnetlib"),
        ("import os\nan unheard-of grammar\n", NEW, "cannot be read as Python 3.11"),
        ("import os\nprint(os.name)\n", (2, 7), "Python 2 and 3"),
    ],
)
def test_what_one_of_them_lacks_is_named(text: str, image: tuple[int, int], what: str) -> None:
    assert what in str(unlike(["python", "-c", text], image, HERE))
    assert unlike([text], HERE, HERE) is None


@pytest.mark.parametrize(
    "text",
    [
        "import json, os, ssl, urllib.request\nargs.parser = cgi = {}\nself.cache = f(strict=True)\n",
        "from __future__ import annotations\ndef f(n: str | None = None): ...\n",
        "from datetime import datetime\ndatetime.fromisoformat(s.replace('Z', '+00:00'))\n",
        "import os\nx: int = 1 | 2\ndef f():\n    y: list[int] | None = None\n",
        "#!/bin/bash\nkubectl get pods | while read -r p; do echo match; done\n",
    ],
)
def test_what_is_the_same_in_both_is_no_question(text: str) -> None:
    assert (unlike([text], OLD, HERE), unlike([text], NEW, HERE)) == (None, None)
