# SPDX-License-Identifier: Apache-2.0
"""May the service admit nodes again, although part of its history is lost?"""

from __future__ import annotations

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.output import print_json

EPILOG = """\b
Examples:
  curl -sS "$PRATIQUE_URL/health/ready" | jq .safe_mode
  pratique service acknowledge --reason "the holds of 12:00 to 13:00 were opened anew by hand"
"""


@click.group(epilog=EPILOG)
def service() -> None:
    """The service itself."""


@service.command(epilog=EPILOG)
@click.option("--reason", required=True, help="What was done about what is lost.")
@speaks_http
def acknowledge(session: Session, reason: str) -> None:
    """Leave safe mode. Takes an admin's token."""
    found = session.client.post("service", "acknowledge", body={"reason": reason})
    if session.is_json:
        print_json(found)
        return
    for one in found["lost"]:
        click.echo(f"lost: entries {one['from']} to {one['to']} ({one['cause']}), known since {one['since']}")
    click.echo("The service admits nodes again.")
