# SPDX-License-Identifier: Apache-2.0
"""What should a node of a type carry, and which checks must it bring?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import Document
from registry.cli.output import print_facts, print_json, print_table

EPILOG = """\b
Examples:
  pratique profile list
  pratique profile show p5.48xlarge
  pratique profile set lab-8x --gpus 8 --efas 0
  pratique profile set lab-8x --from lab-8x.json
"""


@click.group(epilog=EPILOG)
def profile() -> None:
    """What a node of a type should carry."""


@profile.command("list", epilog=EPILOG)
@speaks_http
def list_(session: Session) -> None:
    """Print the profiles, built-in ones included."""
    found = list(session.client.items("profiles"))
    if session.is_json:
        print_json({"items": found, "more": False})
    else:
        print_table(("NAME", "GPUS", "EFAS", "REQUIRED CHECKS", "ONCE PER BOOT"), map(_row, found))


@profile.command(epilog=EPILOG)
@click.argument("name")
@speaks_http
def show(session: Session, name: str) -> None:
    """Print the profile NAME."""
    found = session.client.get("profiles", name)
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


@profile.command("set", epilog=EPILOG)
@click.argument("name")
@click.option("--gpus", type=click.IntRange(min=0), help="Number of GPUs.")
@click.option(
    "--efas", type=click.IntRange(min=0), help="Number of EFA adapters; left out, none are expected nor unexpected."
)
@click.option("--model", "models", multiple=True, help="GPU model that may be there; left out, any may.")
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="CHECK",
    help="Check every run must bring; left out, the usual ones.",
)
@click.option("--per-boot", multiple=True, metavar="CHECK", help="Check that must come out clean once in each boot.")
@click.option("--from", "document", type=Document(), help="JSON of the whole profile instead.")
@speaks_http
def set_(session: Session, name: str, document: object, **options: Any) -> None:
    """Write the profile NAME. Nodes that use it are judged by it from then on."""
    found = session.client.put("profiles", name, body=body_of(document, options))
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


def body_of(document: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Give the profile to send. Raises click.UsageError when neither or both ways of saying it were used."""
    described = {name: value for name, value in options.items() if value not in (None, ())}
    if document is not None:
        if described or not isinstance(document, dict):
            raise click.UsageError("--from takes a JSON object, and goes without the options that describe a profile.")
        return document
    if options["gpus"] is None:
        raise click.UsageError("Say how many GPUs: --gpus, or the whole profile with --from.")
    body: dict[str, Any] = {"gpu": {"count": options["gpus"]}}
    if options["models"]:
        body["gpu"]["models"] = list(options["models"])
    if options["efas"] is not None:
        body["efa"] = {"count": options["efas"]}
    if options["required"]:
        body["required_checks"] = list(options["required"])
    if options["per_boot"]:
        body["per_boot_checks"] = list(options["per_boot"])
    return body


def _row(one: Mapping[str, Any]) -> tuple[object, ...]:
    checks = (", ".join(one.get(field) or ()) for field in ("required_checks", "per_boot_checks"))
    return one.get("name"), one["gpu"]["count"], (one.get("efa") or {}).get("count"), *checks
