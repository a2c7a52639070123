"""What an item came to in a drill, by the spec's own count."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from killcheck.capabilities.programs import Ran
from killcheck.spec.items import Items
from killcheck.spec.killpath import Command
from killcheck.watch.items import ItemsDone

NOW = datetime(2026, 1, 15, tzinfo=UTC)


class Says:
    """Answers each run with the next text."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    def run(self, command: Command) -> Ran:
        return Ran(command, NOW, NOW, 0, self.answers.pop(0))


@pytest.mark.parametrize(
    ("answers", "usd", "told", "each"),
    [
        (("10", "30"), 0.5, "20 item(s) were done for $0.50: $0.025 an item, more than the $0.02 that", 0.025),
        (("10", "110"), 0.5, "100 item(s) were done for $0.50: $0.005 an item", 0.005),
        (("10", "10"), 0.5, "no item was done for $0.50", None),
        (("10", "12"), None, "2 item(s) were done; what they cost is not known", None),
        (("10", "9"), 0.5, "went from 10 to 9: they only grow", None),
        (("10", "many"), 0.5, "how many items were done is not known", None),
    ],
)
def test_items_are_priced_by_what_was_seen(answers, usd, told, each):
    done = ItemsDone(Items(Command(("count",)), 0.02), Says(*answers))
    done.begin()
    done.end(usd)
    assert told in done.told()
    assert done.bill()["usd_per_item_seen"] == each


def test_nobody_counts_and_nothing_is_said():
    done = ItemsDone(None, None)
    done.begin()
    done.end(1.0)
    assert (done.told(), done.bill()) == (None, {})
