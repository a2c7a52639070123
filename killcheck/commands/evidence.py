"""``killcheck evidence``: a run's record and reports to S3; ``killcheck drill --evidence`` ends with the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from killcheck.commands.errors import guarded
from killcheck.commands.saying import say
from killcheck.text.files import put
from killcheck.verdict import EXIT_CODES

if TYPE_CHECKING:
    from killcheck.cloud.session import Aws
    from killcheck.results import RunResult
    from killcheck.run.session import Session

__all__ = ["command", "leave_after", "leave_evidence", "where"]


@click.command("evidence", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("record", type=click.Path(path_type=Path, exists=True), metavar="RUN")
@click.argument("url", metavar="s3://BUCKET/PREFIX")
@click.option("--region", metavar="REGION", help="The bucket's region (default: the profile's).")
@click.option("--profile", metavar="NAME", help="An AWS profile (default: what the environment has).")
@click.option("--kms-key", metavar="ARN", help="Encrypt with this key instead of S3's own.")
@click.option("--retain", metavar="DURATION", help="Lock the objects for so long, such as 90d (needs object lock).")
@click.option("--compliance", is_flag=True, help="A lock that nobody can lift (default: governance).")
@guarded
def command(record: Path, url: str, **options: Any) -> None:
    """Upload a run record and the reports beside it, without the journals. Safe to repeat: it goes on where it stopped.

    RUN is a run record or its folder.

    Exit code 0: everything is there; 4: something is not (the local files are untouched).
    """
    from killcheck.cloud.session import Aws
    from killcheck.run.kept import record_of
    from killcheck.safety.journal import state_dir

    sys.exit(
        leave_evidence(
            record_of(record, state_dir()),
            url,
            Aws(options["region"] or "", options["profile"] or ""),
            kms_key=options["kms_key"] or "",
            retain=options["retain"] or "",
            compliance=options["compliance"],
        )
    )


def where(url: str) -> str:
    """The URL, if it is one. Raises click.UsageError."""
    from killcheck.cloud.results import split

    try:
        split(url)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return url


def leave_after(session: Session, result: RunResult, url: str) -> None:
    """What a run leaves at its end, with the credentials of the spec's cloud; no verdict depends on it."""
    from killcheck.cloud.instances import access_of
    from killcheck.cloud.session import Aws

    if result.record is not None:
        access = session.kill_path.cloud
        leave_evidence(result.record, url, access_of(access) if access else Aws())


def leave_evidence(
    record: Path,
    url: str,
    aws: Aws,
    *,
    kms_key: str = "",
    retain: str = "",
    compliance: bool = False,
) -> int:
    """Upload, say on standard error what became of it, and return 0, or 4 where something did not get there."""
    from killcheck.reports.html import html
    from killcheck.reports.story import tell
    from killcheck.run.evidence import Store, files_of, leave
    from killcheck.run.record import read
    from killcheck.text.durations import parse_duration

    try:
        retain_s = parse_duration(retain) if retain else 0.0
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    store = Store(where(url), kms_key, retain_s, "COMPLIANCE" if compliance else "GOVERNANCE")
    report = record.with_name("report.html")
    if not report.exists():
        put(report, html(tell(list(read(record)))))
    told = leave(aws, store, files_of(record), run=record.parent.name)
    for one in told:
        said = f"{one.url}: {one.state}" if not one.problem else f"{one.url}: NOT UPLOADED: {one.problem}"
        say(f"evidence: {said}", err=True)
    if any(one.problem for one in told):
        same = {"--region": aws.region, "--profile": aws.profile, "--kms-key": kms_key, "--retain": retain}
        words = " ".join(f"{name} {value}" for name, value in same.items() if value)
        say(
            f"evidence: what is not there is safe in {record.parent}; try again with: killcheck evidence "
            f"{record} {url} {words}".rstrip()
            + (" --compliance" if compliance else ""),
            err=True,
        )
        return EXIT_CODES["unfinished"]
    return 0
