"""``killcheck history``: many runs as one story."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from killcheck.commands.errors import guarded
from killcheck.commands.files import FILE, one_on_stdout, write
from killcheck.commands.named import unsealed
from killcheck.commands.saying import say
from killcheck.verdict import EXIT_CODES

if TYPE_CHECKING:
    from killcheck.history.index import History
    from killcheck.history.series import Series, Story

__all__ = ["command", "index_folder"]


@click.command("history", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("places", nargs=-1, metavar="[PLACE]...")
@click.option(
    "--spec",
    type=click.Path(path_type=Path, exists=True),
    help="Whose policy says what is accepted by now (default: killcheck.yaml here or above, if there is one).",
)
@click.option("--since", metavar="DURATION", help="Only nights of the last so long, such as 90d (default: all).")
@click.option("--stale-after", default="30d", show_default=True, metavar="DURATION", help="How old a proof may be.")
@click.option("--layer", "layers", multiple=True, metavar="LAYER", help="Only this layer; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
@click.option("--html", type=FILE, help="One self-contained page.")
@click.option("--prometheus", type=FILE, help="Prometheus text: when each was last proven, and what it took.")
@click.option("--badge", type=FILE, help="A badge for a README, as SVG.")
@click.option("--region", default="", metavar="REGION", help="The bucket's region (default: the profile's).")
@click.option("--profile", default="", metavar="NAME", help="An AWS profile (default: what the environment has).")
@unsealed
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@guarded
def command(places: tuple[str, ...], since: str | None, stale_after: str, no_color: bool, **wanted: Any) -> None:
    """Tell many runs as one story: what is proven, since when, what it takes, and what changed when it broke.

    PLACE is a folder with run records at any depth, or s3://BUCKET/PREFIX as killcheck evidence fills it; several
    are told together. Without one: the runs under .killcheck. Records count that this machine sealed when their run
    ended, or another with the same KILLCHECK_KEY; what others prove is unsealed, and so not proven.

    Of the spec's kill path, what its policy accepts today is accepted, also where the night was drilled before.

    Exit code 0: the last night of each layer and fault proved it (or the policy accepts it), not too long ago;
    1: one stands exposed; 3: one is not proven, its proof is too old, or a record cannot be read or was changed.

    \b
    Examples:
      killcheck history
      killcheck history s3://evidence/nights --since 90d --html nights.html
      killcheck history --stale-after 7d --prometheus history.prom
    """
    from killcheck.clock import wall_now

    now = wall_now().timestamp()
    begin = 0.0 if since is None else now - _seconds(since, "--since")
    quiet = one_on_stdout(wanted, ("html", "prometheus", "badge"), document=wanted["as_json"])
    story = _told(places, now, _seconds(stale_after, "--stale-after"), begin, wanted)
    _write(story, wanted)
    if wanted["as_json"]:
        click.echo(json.dumps(_document(story), indent=2))
    elif not quiet:
        from killcheck.history.console import show
        from killcheck.reports.screen import screen

        show(story, screen(color=False if no_color else None))
    sys.exit(_code(story))


def _seconds(text: str, option: str) -> float:
    from killcheck.text.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None


def _told(places: tuple[str, ...], now: float, stale_after_s: float, since: float, wanted: dict[str, Any]) -> Story:
    """Raises UsageError for a layer that no record knows, SpecError for a spec that is none."""
    from killcheck.cloud.session import Aws
    from killcheck.history.index import gather
    from killcheck.history.lived_with import by_policy
    from killcheck.history.places import place_of
    from killcheck.history.series import told
    from killcheck.run.chosen import find_spec, spec_in
    from killcheck.safety.journal import state_dir
    from killcheck.spec import specfile
    from killcheck.text.suggestions import did_you_mean
    from killcheck.text.values import replace

    aws = Aws(wanted["region"], wanted["profile"])
    found = [place_of(one, aws) for one in places or (str(state_dir()),)]
    history = gather(found, index_folder(), anyway=wanted["unsealed"])
    _tell_of_unsealed(history, anyway=wanted["unsealed"])
    spec = spec_in(wanted["spec"]) if wanted["spec"] else find_spec(Path())
    if spec is not None:
        kill_path = specfile.load(spec)
        today = datetime.fromtimestamp(now, UTC).date()
        history = by_policy(history, kill_path.name, kill_path.policy.on(today), anyway=wanted["unsealed"])
    known = {night.layer for night in history.nights}
    for name in wanted["layers"]:
        if name not in known:
            raise click.UsageError(f"no record knows a layer {name!r}{did_you_mean(name, known)}")
    if wanted["layers"]:
        history = replace(history, nights=tuple(night for night in history.nights if night.layer in wanted["layers"]))
    return told(history, now=now, stale_after_s=stale_after_s, since=since)


def _tell_of_unsealed(history: History, *, anyway: bool) -> None:
    runs = len({night.run for night in history.nights if not night.sealed})
    if runs and anyway:
        say(f"killcheck: {runs} run(s) are believed that this machine did not seal (--unsealed)", err=True)
    elif runs:
        say(
            f"killcheck: {runs} run(s) are not sealed by this machine: killed, of another machine, or made up. They "
            "prove nothing here: share KILLCHECK_KEY with what drilled, or say --unsealed",
            err=True,
        )


def index_folder() -> Path | None:
    """Where this user's indexes are kept; None where there is no home for them."""
    from killcheck.safety.keys import KeyProblem, key_path

    try:
        return key_path().parent / "history"
    except KeyProblem:
        return None


def _write(story: Story, wanted: dict[str, Any]) -> None:
    from killcheck.history.badge import badge
    from killcheck.history.metrics import metrics
    from killcheck.history.page import page

    for name, made in (("html", page), ("prometheus", metrics), ("badge", badge)):
        if wanted[name]:
            write(wanted[name], made(story))


def _code(story: Story) -> int:
    from killcheck.history.series import Stand

    if story.stand is Stand.EXPOSED:
        return EXIT_CODES["exposed"]
    return EXIT_CODES["proven" if story.stand in (Stand.PROVEN, Stand.ACCEPTED) else "inconclusive"]


def _document(story: Story) -> dict[str, Any]:
    return {
        "schema": "killcheck.history/v1",
        "stand": story.stand.value,
        "at_risk_usd": round(story.at_risk_usd, 2),
        "mean_age_s": None if story.mean_age_s is None else round(story.mean_age_s, 1),
        "runs": story.runs,
        "nights": len(story.nights),
        "series": [_series(one) for one in story.series],
        "unreadable": list(story.unreadable),
        "earlier": {stand.value: story.earlier.count(stand) for stand in dict.fromkeys(story.earlier)},
    }


def _series(one: Series) -> dict[str, Any]:

    last = one.last
    return {
        "kill_path": last.kill_path,
        "cluster": last.cluster,
        "layer": last.layer,
        "faults": list(last.faults),
        "title": last.title,
        "stand": one.stand.value,
        "nights": len(one.nights),
        "last": last.to_json(),
        "last_proven": one.last_proven.to_json() if one.last_proven else None,
        "to_zero": to_builtins(one.to_zero) if one.to_zero else None,
        "to_drained": to_builtins(one.to_drained) if one.to_drained else None,
        "deadline_in_s": one.deadline_in_s,
        "mean_age_s": None if one.mean_age_s is None else round(one.mean_age_s, 1),
        "at_risk_usd": one.at_risk_usd,
        "breaks": [to_builtins(found) for found in one.breaks],
    }
