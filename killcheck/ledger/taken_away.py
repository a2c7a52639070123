"""Who takes a switch away by the clock: what suspends its CronJob at night, and what deletes what has grown old.

Sources: kube-green (SleepInfo ``suspendCronJobs``); the kube-downscalers (``--include-resources=cronjobs`` suspends);
kube-janitor (annotations ``janitor/ttl``, ``janitor/expires``); Kyverno (label ``cleanup.kyverno.io/ttl``).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from killcheck.entries import Becomes, Entry, Status, leaves
from killcheck.kube import downtimes
from killcheck.kube.objects import Obj, annotations_of, labels_of, ref_of
from killcheck.ledger.stakes import Stakes, home_of
from killcheck.text import lazy_re
from killcheck.watch import starts

__all__ = ["entries"]

#: Marks by which somebody deletes what carries them.
_ENDS = lazy_re.compile(r"(?i)(?:^|[/.-])(?:ttl|expires?|expiry|expires-at|delete-after)$")
_OUT_OF_IT = "leave the switch out of it (its exclusion, another namespace), or say under assume: why it stays"


@leaves("scale to zero", "CronJobs that kube-green and the kube-downscalers suspend", Becomes.OPEN)
def entries(stakes: Stakes, now: datetime) -> Iterator[Entry]:
    """An open entry for each."""
    for switch in stakes.switching():
        space = stakes.namespace(home_of(switch))
        for obj in (switch, space):
            for key, value in {**labels_of(obj), **annotations_of(obj)}.items():
                if _ENDS.search(key):
                    said = f"{ref_of(obj)} carries {key}: {value}: whoever acts on that takes the switch away"
                    yield Entry(ref_of(switch), Status.NOT_MODELLED, said, _OUT_OF_IT)
        for obj in stakes.objects if switch.get("kind") == "CronJob" else ():
            if _suspends(obj, switch, space, stakes, now):
                said = f"it suspends {ref_of(switch)} by the clock, which is not modelled here"
                yield Entry(ref_of(obj), Status.NOT_MODELLED, said, _OUT_OF_IT)


def _suspends(obj: Obj, switch: Obj, space: Obj, stakes: Stakes, now: datetime) -> bool:
    if downtimes.is_sleep_info(obj):
        return downtimes.puts_to_sleep(obj, switch)
    if not downtimes.is_downscaler(obj):
        return False
    start = starts.of_cron_job(switch)
    due = start.next(now) if start is not None else None
    try:
        read = downtimes.Downscaler.of(obj, list(stakes.config_maps.values()))
        return due is not None and read.reaches(switch, space) and read.is_down(switch, space, due)
    except ValueError:
        return False  # it writes so into its log, and leaves the object alone
