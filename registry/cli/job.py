# SPDX-License-Identifier: Apache-2.0
"""How does a job fare, how much of its time was worth it, and how does a launcher tell?"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.exits import Exit
from registry.cli.kinds import Document, Moment, given
from registry.cli.lists import filtered, limited, show_list
from registry.cli.output import plain, print_facts, print_json, print_table
from registry.cli.slo import share
from registry.domain.failures import Cause
from registry.domain.job_events import JobEventKind, Outcome, PauseReason
from registry.domain.times import rfc3339

EPILOG = """\b
Examples:
  pratique job report llama-7 started --node node-a --node node-b --devices 16
  pratique job report llama-7 progress --step 1200 --checkpoint 1000
  pratique job report llama-7 paused --reason checkpoint
  pratique job report llama-7 interrupted --cause hardware --node node-b
  pratique job report llama-7 ended --outcome completed
  pratique job report llama-7 --from messages.json
  pratique job list --state running
  pratique job show llama-7
"""

COLUMNS = ("job_id", "state", "outcome", "devices", "goodput", "interruptions", "started_at", "last_at")


@click.group(epilog=EPILOG)
def job() -> None:
    """What jobs say of themselves, and how much of their time was worth it."""


@job.command("list", epilog=EPILOG)
@filtered("state", "outcome", "unit", "node", "reporter")
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the jobs, newest first."""
    headings = [name.replace("_", " ").upper() for name in COLUMNS]
    show_list(session, ("jobs",), params=filters, limit=limit, headings=headings, row=_row)


@job.command(epilog=EPILOG)
@click.argument("job_id", metavar="JOB")
@speaks_http
def show(session: Session, job_id: str) -> None:
    """Print how the job JOB fares: how much of its time was progress that survived, and what the rest went to."""
    found = session.client.get("jobs", job_id)
    if session.is_json:
        print_json(found)
        return
    allocated = found["allocated_seconds"]
    shares = {name: share(found[name]) for name in ("goodput", "ettr")}
    print_facts({name: value for name, value in {**found, **shares}.items() if name != "badput"})
    click.echo()
    rows = [
        (plain(one["kind"]), plain(one["cause"]), f"{one['seconds']:.0f}", share(one["seconds"] / allocated))
        for one in found["badput"]
    ]
    print_table(("BADPUT", "CAUSE", "SECONDS", "SHARE"), rows)


@job.command(epilog=EPILOG)
@click.argument("job_id", metavar="JOB")
@click.argument("kind", metavar="KIND", type=click.Choice([str(one) for one in JobEventKind]), required=False)
@click.option("--at", type=Moment(), help="When; left out, now.")
@click.option("--event-id", help="Id of this message: the same again changes nothing. Left out, a new one.")
@click.option("--node", "nodes", multiple=True, help="started: a node it has. progress: one that holds it back.")
@click.option("--devices", type=click.IntRange(min=1), help="started: how many GPUs it has.")
@click.option("--step", type=click.IntRange(min=0), help="Steps done.")
@click.option("--samples", type=click.IntRange(min=0), help="Samples done, for a job that counts those.")
@click.option("--checkpoint", type=click.IntRange(min=0), help="Step up to which the progress is durable.")
@click.option("--reason", type=click.Choice([str(one) for one in PauseReason]), help="paused: why.")
@click.option("--cause", type=click.Choice([str(one) for one in Cause]), help="By whose doing.")
@click.option("--outcome", type=click.Choice([str(one) for one in Outcome]), help="ended: how.")
@click.option("--released", is_flag=True, help="paused, interrupted: the GPUs were given back.")
@click.option("--message", help="What happened, in words.")
@click.option("--from", "document", type=Document(), help="JSON list of up to 1,000 messages instead.")
@speaks_http
def report(session: Session, job_id: str, kind: str | None, document: object, **options: Any) -> None:
    """Tell something of the job JOB: KIND is started, progress, paused, resumed, interrupted or ended.

    Messages may come late, twice, and in any order.
    """
    answer = session.client.post("jobs", job_id, "events", body={"events": events_of(kind, document, options)})
    if session.is_json:
        print_json(answer)
    else:
        for item in answer["items"]:
            words = (item["outcome"], item["event_id"], item.get("message"))
            click.echo("  ".join(plain(word) for word in words if word))
    if any(item["outcome"] == "refused" for item in answer["items"]):
        raise SystemExit(int(Exit.REFUSED))


def events_of(kind: str | None, document: object, options: Mapping[str, Any]) -> list[Any]:
    """Give the list to send. Raises click.UsageError when neither or both ways of saying it were used."""
    said = given(**options)
    if document is not None:
        if kind is not None or said:
            raise click.UsageError("--from goes without KIND and the options that describe one message.")
        return document if isinstance(document, list) else [document]
    if kind is None:
        raise click.UsageError("Say what happened: one of " + ", ".join(JobEventKind) + ", or --from.")
    if "event_id" in said and "at" not in said:
        raise click.UsageError("--event-id goes with --at: a repeat must say the same as the first time.")
    nodes = {"nodes": list(said.pop("nodes"))} if "nodes" in said else {}
    return [{"event_id": str(uuid.uuid4()), "kind": kind, "at": rfc3339(datetime.now(UTC)), **said, **nodes}]


def _row(one: Mapping[str, Any]) -> list[object]:
    return [share(one[name]) if name == "goodput" else one.get(name) for name in COLUMNS]
