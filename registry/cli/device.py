# SPDX-License-Identifier: Apache-2.0
"""What is known of a device, wherever it has been?"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.lists import filtered, limited, ordered, show_columns, show_history
from registry.cli.output import print_facts, print_json
from registry.client import ServerUnreachable

EPILOG = """\b
REF is a serial, a UUID or our own id.

\b
Examples:
  pratique device show 1654922006312
  pratique device history 1654922006312 --limit 0
  pratique device list --state quarantined
  pratique device note 1654922006312 "reseated on the bench"
  pratique device bundle 1654922006312 --out rma.zip
"""

FILTERS = ("id", "kind", "vendor", "serial", "uuid", "slot", "node", "state", "model", "part_number", "module_id")
COLUMNS = ("kind", "serial", "uuid", "state", "node", "slot", "model")


@click.group(epilog=EPILOG)
def device() -> None:
    """What is known of a GPU or EFA, wherever it has been."""


@device.command("list", epilog=EPILOG)
@filtered(*FILTERS, "name", "asset_tag")
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the devices, newest first."""
    show_columns(session, ("devices",), params=filters, limit=limit, columns=COLUMNS)


@device.command(epilog=EPILOG)
@click.argument("ref")
@speaks_http
def show(session: Session, ref: str) -> None:
    """Print what is known of the device REF now. A REF that fits several devices is refused, and they are listed."""
    found = session.client.get("devices", ref)
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


@device.command(epilog=EPILOG)
@click.argument("ref")
@filtered("type", "actor", "since", "until")
@click.option("--proof", metavar="SEQUENCE", help="Add to each entry the proof that this checkpoint covers it.")
@ordered
@limited
@speaks_http
def history(session: Session, ref: str, order: str, limit: int, **filters: str | None) -> None:
    """Print everything that happened to the device REF, over all nodes. Several devices that fit are merged."""
    show_history(session, ("devices", ref, "history"), order=order, limit=limit, filters=filters)


@device.command(epilog=EPILOG)
@click.argument("ref")
@click.argument("text")
@speaks_http
def note(session: Session, ref: str, text: str) -> None:
    """Write a note about the device REF. It stays in its history."""
    written = session.client.post("devices", ref, "notes", body={"text": text})
    if session.is_json:
        print_json(written)
    else:
        print_facts(written)


@device.command(epilog=EPILOG)
@click.argument("ref")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The zip file to write.")
@speaks_http
def bundle(session: Session, ref: str, out: Path) -> None:
    """Save all that is known of the device REF, its history proved, as a zip file: evidence for a return.

    The README.txt in it says what is what, and how to verify it without the service.
    """
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            size = session.client.download("devices", ref, "bundle", into=file)
        if not zipfile.is_zipfile(unfinished):
            raise ServerUnreachable(f"{session.client.url} answered with something that is no zip file")
        unfinished.replace(out)
    except OSError as error:
        raise click.ClickException(f"{out} cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    if session.is_json:
        print_json({"file": str(out), "bytes": size})
    else:
        click.echo(f"{out}: {size} bytes")
