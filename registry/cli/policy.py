# SPDX-License-Identifier: Apache-2.0
"""Which thresholds are decisions made by?"""

from __future__ import annotations

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.output import print_facts, print_json, print_table

EPILOG = """\b
Examples:
  pratique policy show
  pratique policy show --output json | jq -r .digest
"""


@click.group(epilog=EPILOG)
def policy() -> None:
    """Which thresholds are in force."""


@policy.command(epilog=EPILOG)
@speaks_http
def show(session: Session) -> None:
    """Print every threshold, the digest that decisions name them by, and what each fault code does."""
    found = session.client.get("policy")
    if session.is_json:
        print_json(found)
        return
    print_facts({name: value for name, value in found.items() if not isinstance(value, dict)})
    print_table(("CODE", "EFFECT"), sorted(found["effects"].items()))
