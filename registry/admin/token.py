# SPDX-License-Identifier: Apache-2.0
"""Who may ask the server what? Tokens are made, listed and revoked here; a running server knows it at once."""

from __future__ import annotations

import json

import click

from registry.admin.ground import SYSTEM, open_ready, output_option, read_settings, utc_now
from registry.domain.roles import Role
from registry.services import keys, tokens

EPILOG = """\b
Examples:
  pratique token create --role node --name node-a --node node-a > /etc/pratique/token
  pratique token create --role operator --name alice
  pratique token list
  pratique token revoke 0198c0de-...
"""


@click.group(epilog=EPILOG)
def token() -> None:
    """Hand out credentials and take them back."""


@token.command(epilog=EPILOG)
@click.option("--role", type=click.Choice([str(role) for role in Role]), required=True, help="What it is good for.")
@click.option("--name", required=True, help="Whose it is; the history names its acts by this.")
@click.option("--node", help="The one node it speaks for; required for role node, and for no other.")
@output_option
def create(role: str, name: str, node: str | None, output: str) -> None:
    """Make a token and print it, alone, on standard output. It is shown this once."""
    settings = read_settings()
    with open_ready(settings) as database:
        pepper = keys.load_pepper(settings)
        view, secret = tokens.create_token(
            database, role=Role(role), name=name, node=node, pepper=pepper, actor=SYSTEM, now=utc_now()
        )
    click.echo(json.dumps({**view.to_json(), "token": secret}, indent=2) if output == "json" else secret)


@token.command("list", epilog=EPILOG)
@output_option
def list_(output: str) -> None:
    """Print the tokens, revoked ones included, without their secrets."""
    with open_ready(read_settings()) as database:
        found = [view.to_json() for view in tokens.list_tokens(database)]
    if output == "json":
        click.echo(json.dumps({"items": found}, indent=2))
        return
    for one in found:
        click.echo("  ".join(f"{name}={value}" for name, value in one.items() if value is not None))


@token.command(epilog=EPILOG)
@click.argument("token_id", metavar="ID")
@output_option
def revoke(token_id: str, output: str) -> None:
    """Make the token ID worthless, at once."""
    with open_ready(read_settings()) as database:
        tokens.revoke_token(database, token_id, actor=SYSTEM, now=utc_now())
    click.echo(json.dumps({"revoked": token_id}, indent=2) if output == "json" else f"revoked {token_id}")
