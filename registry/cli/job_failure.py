# SPDX-License-Identifier: Apache-2.0
"""A job failed: who is to blame, and shall it be tried again?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import Document, Moment, given
from registry.cli.lists import filtered, limited, show_list
from registry.cli.output import plain, print_facts, print_json, print_table, short_time

EPILOG = """\b
Examples:
  pratique job-failure add --job-id llama-7 --node node-a --node node-b --exit-code 134 \\
      --started-at 2026-11-29T06:00:00Z --failed-at 2026-11-29T12:00:00Z --log train.err
  pratique job-failure add --from failure.json
  pratique job-failure list --attribution platform --node node-b
  pratique job-failure show 0198c0de-...
"""

COLUMNS = ("id", "job_id", "failed_at", "attribution", "cause", "confidence", "retry", "revision")
LOG_BYTES = 1 << 20
"""How much of a log is sent, its end; the server keeps less."""


@click.group("job-failure", epilog=EPILOG)
def job_failure() -> None:
    """Who is to blame for a failed job, and what to do with it: asked before it is tried again."""


@job_failure.command(epilog=EPILOG)
@click.option("--job-id", help="The job's id; with the time at which it failed it names the failure.")
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="A node that it ran on; give every one.")
@click.option("--started-at", type=Moment(), help="When it began.")
@click.option("--failed-at", type=Moment(), help="When it failed.")
@click.option("--exit-code", type=int, help="Exit code of the process that ended first.")
@click.option("--signal", help="The signal that ended it, as SIGKILL or 9.")
@click.option("--user", help="Who ran it: what programs of several people show is not the programs'.")
@click.option("--log", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its log; the end is read.")
@click.option("--from", "document", type=Document(), help="JSON of the whole failure instead, signals included.")
@speaks_http
def add(session: Session, document: object, log: Path | None, **options: Any) -> None:
    """Tell that a job failed, and print who is to blame. Nothing is put in quarantine by that."""
    found = session.client.post("job-failures", body=_failure_of(document, log, options))
    if session.is_json:
        print_json(found)
    else:
        _print_verdict(found)


@job_failure.command("list", epilog=EPILOG)
@filtered("job_id", "user", "node", "device", "attribution", "cause", "retry", "failed_at")
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the failed jobs, newest first. --device finds those that it was left out of."""
    headings = [name.replace("_", " ").upper() for name in COLUMNS]
    show_list(session, ("job-failures",), params=filters, limit=limit, headings=headings, row=_row)


@job_failure.command(epilog=EPILOG)
@click.argument("failure_id", metavar="ID")
@speaks_http
def show(session: Session, failure_id: str) -> None:
    """Print the failed job ID, the verdict with its evidence, and the verdicts before it."""
    found = session.client.get("job-failures", failure_id)
    if session.is_json:
        print_json(found)
        return
    _print_verdict(found)
    click.echo()
    rest = ("evidence", "history", "exclude", "log_excerpt", "signals", "nodes")
    print_facts({name: value for name, value in found.items() if name not in rest})
    click.echo()
    rows = [
        (one["revision"], one["at"], one["attribution"], one["cause"], f"{one['confidence']} %", one["because"])
        for one in found["history"]
    ]
    print_table(("REVISION", "AT", "ATTRIBUTION", "CAUSE", "CONFIDENCE", "BECAUSE"), rows)


def _failure_of(document: object, log: Path | None, options: dict[str, Any]) -> Any:
    """Give the failure to send. Raises click.UsageError when neither or both ways of saying it were used."""
    said = given(**options)
    if document is not None:
        if said or log is not None:
            raise click.UsageError("--from goes without the options that describe the failure.")
        return document
    missing = [name for name in ("job_id", "nodes", "started_at", "failed_at") if name not in said]
    if missing:
        named = ", ".join(f"--{name.removesuffix('s').replace('_', '-')}" for name in missing)
        raise click.UsageError(f"Say which job failed, where and when: {named} is missing.")
    said["nodes"] = list(said["nodes"])
    return said if log is None else {**said, "log_excerpt": _end_of(log)}


def _end_of(log: Path) -> str:
    """Read the end of a log, whatever is in it."""
    with log.open("rb") as stream:
        stream.seek(0, 2)
        stream.seek(max(0, stream.tell() - LOG_BYTES))
        return stream.read().decode(errors="replace")


def _print_verdict(found: Mapping[str, Any]) -> None:
    """Print one line that says all, and below it why."""
    excluded = [*found["exclude"]["nodes"], *found["exclude"]["devices"]]
    words = (found["attribution"], found["cause"] or "-", f"{found['confidence']} %", found["retry"], *excluded)
    click.echo("  ".join(plain(word) for word in words))
    for one in found["evidence"]:
        when = short_time(one["at"]) if "at" in one else "-"
        click.echo(f"  {one['weight']:>3}  {plain(one['for']):<8}  {when}  {plain(one['what'])}")


def _row(one: Mapping[str, Any]) -> list[object]:
    return [f"{one[name]} %" if name == "confidence" else one.get(name) for name in COLUMNS]
