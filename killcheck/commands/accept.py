"""``killcheck accept``: the exposures of a run that a team lives with for a while."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands import completing, named
from killcheck.commands.errors import guarded
from killcheck.commands.saying import say
from killcheck.text.files import put
from killcheck.verdict import EXIT_CODES

if TYPE_CHECKING:
    from killcheck.run.accepting import Accepting

__all__ = ["command"]


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        raise click.BadParameter(f"expected a day such as 2030-03-31, not {text!r}") from None


def _said(least: int) -> Callable[[click.Context, click.Parameter, str], str]:
    """An option's text, of as many characters as the file of accepted exposures takes (``accepted_models``)."""

    def checked(_context: click.Context, _option: click.Parameter, text: str) -> str:
        if len(text.strip()) < least:
            raise click.BadParameter(f"expected at least {least} characters, found {text!r}")
        return text

    return checked


@click.command("accept", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", required=False, type=click.Path(path_type=Path, exists=True), metavar="[RUN]")
@click.option(
    "--spec", type=click.Path(path_type=Path, exists=True), help="Whose policy it is (default: as for drill)."
)
@click.option("--owner", required=True, callback=_said(2), help="Who answers for it: a person or a team.")
@click.option("--reason", required=True, callback=_said(3), help="Why it is lived with.")
@click.option(
    "--until",
    required=True,
    callback=lambda _context, _option, text: _day(text),
    metavar="YYYY-MM-DD",
    help="The last day on which it holds; after it the gate fails again.",
)
@click.option(
    "--layer",
    "layers",
    shell_complete=completing.layers,
    multiple=True,
    metavar="NAME",
    help="Only this layer (repeatable).",
)
@click.option(
    "--under",
    "faults",
    shell_complete=completing.faults,
    multiple=True,
    metavar="FAULT",
    help="Only under this fault (repeatable).",
)
@named.unsealed
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@guarded
def command(
    record: Path | None, spec: Path | None, until: datetime, *, dry_run: bool, unsealed: bool, **options: Any
) -> None:
    """Accept what a run left exposed, each with an owner, a reason and a last day.

    RUN is a run record or its folder (default: the newest under .killcheck/runs). The exposures go into
    killcheck.accepted.yaml beside the spec, which every command reads with it; review and commit that file. Reports
    say accepted, apart from exposed. An exposure for another cause than the accepted one fails.

    RUN must have been sealed here, or by a machine with the same KILLCHECK_KEY (exit code 3 otherwise).

    Exposed without a fault, inconclusive and dirty cannot be accepted. What is proven now is taken out of the file.

    \b
    Examples:
      killcheck accept --owner ops --reason "one switch" --until 2030-03-31
      killcheck accept .killcheck/runs/ID --under pool-floor --owner ops \\
        --reason "wanted" --until 2030-01-31
    """
    from killcheck.clock import wall_now
    from killcheck.reports.story import tell
    from killcheck.run.accepting import accept
    from killcheck.run.chain import Chain
    from killcheck.run.chosen import spec_in
    from killcheck.run.kept import record_of
    from killcheck.run.record import believed, read
    from killcheck.safety.journal import state_dir
    from killcheck.spec import specfile
    from killcheck.spec.specfile import accepted

    last = until.date()
    if last < wall_now().date():
        raise click.UsageError(f"--until {last} is past: it would accept nothing")
    spec = spec_in(spec) if spec else _spec()
    path = specfile.load(spec)
    file = accepted.beside(spec)
    named_record, chain = record_of(record, state_dir()), Chain()
    story = tell(read(named_record, chain))
    if story.started.kill_path != path.name:
        said = f"the run is of {story.started.kill_path}, and {spec} is of {path.name}"
        raise click.UsageError(f"{said}: drill that spec first (killcheck drill {spec}), or name a run of it")
    believed(named_record, chain, anyway=unsealed)
    earlier = accepted.read(file)
    done = accept(story, earlier, until=last, **options)
    text = accepted.dump(done.rules)
    accepted.rules(text, file)  # what every command would refuse from now on is not written
    if not dry_run and done.rules != earlier:
        put(file, text)
    _tell(done, file, last, dry_run=dry_run)
    if done.rules and not dry_run:
        say(f"next: commit {file}; killcheck history --spec {spec} tells what is accepted", hang=6)
    if done.refused:
        sys.exit(EXIT_CODES["exposed"])


def _spec() -> Path:
    from killcheck.run.chosen import find_spec
    from killcheck.run.session import NO_SPEC

    found = find_spec(Path())
    if found is None:
        raise click.UsageError(NO_SPEC)
    return found


def _tell(done: Accepting, file: Path, last: date, *, dry_run: bool) -> None:
    for rule in done.new:
        say(f"accepted  {rule.layer} under {rule.fault}: {rule.causes[0]}", hang=10)
    for rule in done.better:
        say(f"better    {rule.layer} under {rule.fault}: proven now, no longer accepted", hang=10)
    for why in done.refused:
        say(f"refused   {why}", hang=10)
    counts = f"{len(done.new)} new until {last}, {len(done.kept)} kept"
    say(f"{file}: {len(done.rules)} exposure(s) {'would be' if dry_run else 'are'} accepted: {counts}", hang=10)
