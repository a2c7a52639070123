"""Names that nobody uses: functions, methods, classes and properties of the product that nothing else mentions.

`make lint` runs it. Who mentions one counts as its user: tests, recipes and documentation's scripts too. What is called
by a name that is put together at run time is excused by a pattern, with who calls it.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).parents[1]
PRODUCT = ("killcheck", "probes", "suites", "fixtures")
USERS = ("tests", "benchmarks", "docs", "ci")
KINDS = {"function", "method", "class", "property"}
#: Names by pattern, and who calls them.
CALLED = {
    r"__\w+__": "Python",
    r"pytest_\w+|embedded_cluster|dynamic_client": "pytest",
    r"_on_\w+": "reports.terminal, by the event's class",
    r"read_\w+": "executor.kubectl_calls, by the verb",
    r"visit_\w+": "ast.NodeVisitor",
    r"construct_yaml_\w+": "PyYAML, which is given them as constructors",
    r"_dir|_tmpfs|_seal|_proc": "embedded.nodes.rootfs, by the step's name",
    r"_printable": "pydantic, as a validator",
    r"utcnow": "an executor's own program",
    r"server_bind|log_message|address_string|get_app|handle_error": "http.server",
    r"format_commands|on_broken_pipe": "click and rich",
    # An undo is data: the journal calls a capability's method by its name (killcheck/safety/vocabulary.py).
    r"put_before|take_from|lose_script|find_script|leave_lock|remove_lock": "the journal, on programs",
    r"set_clock|leave_at_slot|come_back": "the journal, on timers",
    r"set_access|set_load|restore_cache": "the journal, on the registry",
}
#: Names that are dead and not yet gone: why, and the last day on which that holds.
UNTIL: dict[str, tuple[str, str]] = {}


def _unlisted(text: str) -> str:
    """A module whose ``__all__`` lists classes alone: a fault or a probe is found by its file, a function is called."""
    return re.sub(r"^__all__ = \[[^\]]*\]", lambda listed: re.sub(r'"_*[a-z]\w*",?', "", listed[0]), text, flags=re.M)


def dead() -> list[str]:
    """One line a name: where it is, and what is wrong."""
    look = Vulture()
    for room in (*PRODUCT, *USERS):
        for file in sorted((ROOT / room).rglob("*.py")):
            look.scan(_unlisted(file.read_text("utf-8")), filename=file)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    found = []
    for item in look.get_unused_code(min_confidence=60):
        place = Path(item.filename).relative_to(ROOT)
        excused = any(re.fullmatch(pattern, item.name) for pattern in CALLED)
        if (
            place.parts[0] not in PRODUCT
            or item.typ not in KINDS
            or excused
            or UNTIL.get(item.name, ("", ""))[1] >= today
        ):
            continue
        found.append(f"{place}:{item.first_lineno}: nobody uses {item.typ} {item.name}")
    return found


if __name__ == "__main__":
    told = dead()
    sys.stdout.write("".join(f"{line}\n" for line in told))
    sys.exit(bool(told))
