# SPDX-License-Identifier: Apache-2.0
"""What would the server say to nodes and hardware, if they asked now? Nothing is written."""

from __future__ import annotations

from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import Document
from registry.cli.output import print_decision, print_json
from registry.cli.targets import identifier as read_identifier

EPILOG = """\b
Examples:
  pratique admission preview --node node-a --node node-b
  pratique admission preview --identifier gpu:serial:1654922006312
  pratique admission preview --from candidates.json --output json
"""


@click.group(epilog=EPILOG)
def admission() -> None:
    """What would you say to these nodes and serials?"""


@admission.command(epilog=EPILOG)
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="A node by its name.")
@click.option("--identifier", "identifiers", multiple=True, metavar="KIND:TYPE:VALUE", help="Hardware, seen or not.")
@click.option("--from", "document", type=Document(), help="JSON list of up to 1,000 candidates instead.")
@speaks_http
def preview(session: Session, nodes: tuple[str, ...], identifiers: tuple[str, ...], document: object) -> None:
    """Print a decision for each candidate. Ends with 0 whatever they are: `pratique admit` is for boot scripts."""
    found = session.client.post("admissions", body={"candidates": candidates_of(nodes, identifiers, document)})
    if session.is_json:
        print_json(found)
        return
    for text, decision in zip([*nodes, *identifiers] or [""] * len(found["items"]), found["items"], strict=True):
        print_decision({**decision, "node": decision["node"] or text})


def candidates_of(nodes: tuple[str, ...], identifiers: tuple[str, ...], document: object) -> list[Any]:
    """Give the list to send. Raises click.UsageError when neither or both ways of naming were used."""
    named = [
        *({"node": name} for name in nodes),
        *({"identifiers": [read_identifier(text)]} for text in identifiers),
    ]
    if bool(named) == (document is not None):
        raise click.UsageError("Name candidates with --node and --identifier, or give a list with --from.")
    if document is None:
        return named
    return document if isinstance(document, list) else [document]
