"""``killcheck runs``."""

from __future__ import annotations

import json

import click

from killcheck.commands.errors import guarded
from killcheck.commands.saying import say

__all__ = ["command"]


@click.command("runs", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Remove all but the last N of them now.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@guarded
def command(keep: int | None, as_json: bool) -> None:
    """List the runs under .killcheck, the newest first.

    The last 20 stay; the environment variable KILLCHECK_KEEP_RUNS says another number (0: all). A run that is not over
    stays, and so does one that may have left something to put back.

    \b
    Examples:
      killcheck runs
      killcheck report                 the newest one, told again
      killcheck runs --keep 5
    """
    from killcheck.run import kept
    from killcheck.safety.journal import state_dir

    if keep is not None:
        for gone in kept.tidy(state_dir(), keep):
            say(f"killcheck: removed {gone}", err=True)
    found = list(kept.described(state_dir()))
    if as_json:
        click.echo(json.dumps([one.to_json() for one in found], indent=2))
        return
    if not found:
        say(f"there are no runs under {state_dir() / 'runs'}: killcheck drill makes one")
    for one in found:
        say(
            f"{one.at[:16].replace('T', ' ')}  {one.verdict:<12}  {one.drills:>3} drill(s)  {_size(one.size):>8}  "
            f"{one.kill_path} on {one.cluster}{'' if one.sealed else ', not sealed here'}"
        )
        say(f"    {one.record}")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
