# SPDX-License-Identifier: Apache-2.0
"""Who is told of events as they happen?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from registry.cli.confirm import confirmable, consent
from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import Duration, given
from registry.cli.lists import filtered, limited, show_columns
from registry.cli.output import print_facts, print_json
from registry.domain.webhooks import Algorithm, Format

EPILOG = """\b
Examples:
  pratique webhook create --to-file hook.url --type 'quarantine.*' > hook.secret
  pratique webhook create --to-file slack.url --format slack --type quarantine.opened
  pratique webhook test 0198c0de-...
  pratique webhook deliveries 0198c0de-... --state dead
  pratique webhook replay 0198c0de-... --all
  pratique webhook rotate 0198c0de-... --keep 1h > hook.secret
  pratique webhook change 0198c0de-... --on
  pratique webhook remove 0198c0de-...
"""

COLUMNS = ("id", "description", "url", "enabled", "pending", "dead", "delivered", "failing_since")
OF_DELIVERIES = ("id", "event", "type", "state", "attempts", "status", "retry_at", "error")

_ID = click.argument("webhook_id", metavar="ID")
_TO = click.option("--to", help="Where to send to: http:// or https://. One that holds a secret is given by a file.")
_TO_FILE = click.option("--to-file", type=click.File(), help="A file with the address in it; - is standard input.")
_DESCRIPTION = click.option("--description", help="What it is for.")


@click.group(epilog=EPILOG)
def webhook() -> None:
    """Who is told of events as they happen: addresses, what they are told, and what did not arrive."""


@webhook.command(epilog=EPILOG)
@_TO
@_TO_FILE
@_DESCRIPTION
@click.option(
    "--format",
    "format_",
    type=click.Choice([str(one) for one in Format]),
    help="The shape of messages; cloudevents is usual.",
)
@click.option(
    "--algorithm", type=click.Choice([str(one) for one in Algorithm]), help="What signs them; hmac-sha256 is usual."
)
@click.option("--type", "types", multiple=True, help="Only events of this type; `node.*` is all of a noun. Repeatable.")
@click.option("--cause", "causes", multiple=True, help="Only events of this cause. Repeatable.")
@click.option("--profile", "profiles", multiple=True, help="Only events of nodes of this profile. Repeatable.")
@speaks_http
def create(session: Session, to: str | None, to_file: Any, format_: str | None, **options: Any) -> None:
    """Tell an address of what happens from now on. What its signatures are checked with is printed, this once."""
    address = _address(to, to_file)
    if address is None:
        raise click.UsageError("give --to or --to-file")
    lists = {name: list(options.pop(name)) for name in ("types", "causes", "profiles")}
    made = session.client.post("webhooks", body=given(url=address, format=format_, **options, **lists))
    _print_key(session, made)


@webhook.command("list", epilog=EPILOG)
@filtered("format", "enabled", "description")
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the subscriptions, newest first."""
    show_columns(session, ("webhooks",), params=filters, limit=limit, columns=COLUMNS)


@webhook.command(epilog=EPILOG)
@_ID
@speaks_http
def show(session: Session, webhook_id: str) -> None:
    """Print the subscription ID."""
    _print(session, session.client.get("webhooks", webhook_id))


@webhook.command(epilog=EPILOG)
@_ID
@_TO
@_TO_FILE
@_DESCRIPTION
@click.option("--on/--off", "enabled", default=None, help="Switch it on, where it goes on as it stopped, or off.")
@click.option("--skip", is_flag=True, help="Leave out what has happened meanwhile, dead letters too.")
@speaks_http
def change(
    session: Session,
    webhook_id: str,
    to: str | None,
    to_file: Any,
    description: str | None,
    *,
    enabled: bool | None,
    skip: bool,
) -> None:
    """Send to another address, or switch the subscription ID on or off."""
    body = given(url=_address(to, to_file), description=description, skip=skip)
    if enabled is not None:
        body["enabled"] = enabled
    _print(session, session.client.patch("webhooks", webhook_id, body=body))


@webhook.command(epilog=EPILOG)
@_ID
@click.option("--keep", type=Duration(), help="For how long the old secret signs as well, like 1h; a day is usual.")
@speaks_http
def rotate(session: Session, webhook_id: str, keep: Any) -> None:
    """Sign with a new secret, which is printed, this once."""
    body = {} if keep is None else {"keep_seconds": int(keep.total_seconds())}
    _print_key(session, session.client.post("webhooks", webhook_id, "rotate", body=body))


@webhook.command(epilog=EPILOG)
@_ID
@speaks_http
def test(session: Session, webhook_id: str) -> None:
    """Have a message sent that only tries the way; `deliveries` tells within seconds how that went."""
    _print(session, session.client.post("webhooks", webhook_id, "test", body={}))


@webhook.command(epilog=EPILOG)
@_ID
@filtered("state", "type", "event")
@limited
@speaks_http
def deliveries(session: Session, webhook_id: str, limit: int, **filters: str | None) -> None:
    """Print what did not arrive at the first try, newest first: what waits, and the dead letters."""
    show_columns(session, ("webhooks", webhook_id, "deliveries"), params=filters, limit=limit, columns=OF_DELIVERIES)


@webhook.command(epilog=EPILOG)
@_ID
@click.option("--delivery", "deliveries", multiple=True, help="This dead letter. Repeatable.")
@click.option("--all", "is_all", is_flag=True, help="Every dead letter.")
@speaks_http
def replay(session: Session, webhook_id: str, deliveries: tuple[str, ...], *, is_all: bool) -> None:
    """Send dead letters on their way again."""
    if is_all == bool(deliveries):
        raise click.UsageError("give either --delivery or --all")
    body = given(deliveries=list(deliveries))
    _print(session, session.client.post("webhooks", webhook_id, "replay", body=body))


@webhook.command(epilog=EPILOG)
@_ID
@confirmable
@speaks_http
def remove(session: Session, webhook_id: str, *, yes: bool) -> None:
    """Tell the subscription ID of nothing any more, and forget its secret and dead letters."""
    consent(f"Subscription {webhook_id} is forgotten, with what it was not told.", "remove", yes=yes)
    session.client.delete("webhooks", webhook_id)
    if session.is_json:
        print_json({"id": webhook_id, "removed": True})
        return
    click.echo(f"Subscription {webhook_id} is removed.")


def _address(to: str | None, file: Any) -> str | None:
    if to is not None and file is not None:
        raise click.UsageError("give either --to or --to-file")
    return to if file is None else file.read().strip()


def _print_key(session: Session, made: Mapping[str, Any]) -> None:
    """Print the secret, or the public key, alone on standard output, so that it can go into a file."""
    if session.is_json:
        print_json(made)
        return
    click.echo(made["secret"] or made["keys"][0]["public_key"])
    click.echo(f"Subscription {made['id']} is told at {made['url']}", err=True)


def _print(session: Session, found: Mapping[str, Any]) -> None:
    if session.is_json:
        print_json(found)
        return
    words = {name: ", ".join(found[name]) for name in ("types", "causes", "profiles") if name in found}
    keys = {"keys": len(found["keys"])} if "keys" in found else {}
    print_facts({**found, **words, **keys})
