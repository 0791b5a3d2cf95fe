# SPDX-License-Identifier: Apache-2.0
"""Who may ask the server what? Tokens are made, listed and revoked here; a running server knows it at once."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from registry.admin.ground import SYSTEM, open_ready, output_option, read_settings, utc_now
from registry.domain.errors import InvalidField
from registry.domain.joining import USES_MAX, JoinTerms
from registry.domain.roles import Role
from registry.domain.times import parse_duration, parse_rfc3339
from registry.services import keys, tokens

_OPTIONS = {
    **{f"/{name}": f"--{name}" for name in ("role", "name", "node", "pattern", "profile", "uses")},
    "/expires_at": "--expires",
}
"""What a person calls the fields of a token here."""

EPILOG = """\b
Examples:
  pratique token create --role node --name node-a --node node-a > /etc/pratique/token
  pratique token create --role operator --name alice
  pratique token create --role join --name gpu-pool --pattern 'gpu-*' --uses 64 --expires 24h
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
@click.option("--pattern", help="Role join: names of the nodes that may join; * is any text, ? one character.")
@click.option("--profile", help="Role join: the one profile of the nodes that may join.")
@click.option("--uses", type=click.IntRange(1, USES_MAX), help="Role join: how many nodes may join.")
@click.option("--expires", metavar="TIME", help="Role join: until when, as 90m, 24h, 7d or an RFC 3339 time.")
@output_option
def create(role: str, name: str, node: str | None, output: str, **bounds: Any) -> None:
    """Make a token and print it, alone, on standard output. It is shown this once."""
    now = utc_now()
    terms = terms_of(Role(role), now=now, **bounds)
    settings = read_settings()
    with open_ready(settings) as database:
        pepper = keys.load_pepper(settings)
        try:
            view, secret = tokens.create_token(
                database, role=Role(role), name=name, node=node, terms=terms, pepper=pepper, actor=SYSTEM, now=now
            )
        except InvalidField as error:
            told = "; ".join(f"{_OPTIONS.get(one.pointer, one.pointer)} {one.detail}" for one in error.errors)
            raise click.UsageError(f"{error.detail}: {told}") from error
    click.echo(json.dumps({**view.to_json(), "token": secret}, indent=2) if output == "json" else secret)


def terms_of(
    role: Role, *, pattern: str | None, profile: str | None, uses: int | None, expires: str | None, now: datetime
) -> JoinTerms | None:
    """Make the bounds of a join token of the options. Raises click.UsageError when some lack or make no sense here."""
    needed = {"--pattern": pattern, "--uses": uses, "--expires": expires}
    if role is not Role.JOIN:
        if stray := [name for name, value in {**needed, "--profile": profile}.items() if value is not None]:
            raise click.UsageError(f"{', '.join(stray)} belongs to role join only, not to role {role}.")
        return None
    if pattern is None or uses is None or expires is None:
        lacking = ", ".join(name for name, value in needed.items() if value is None)
        raise click.UsageError(f"A join token needs {lacking} as well.")
    return JoinTerms(pattern, uses, _moment(expires, now), profile)


def _moment(text: str, now: datetime) -> datetime:
    """Read a time, or a length of time from now on."""
    for read in (parse_rfc3339, lambda text: now + parse_duration(text)):
        with suppress(ValueError, OverflowError):
            return read(text)
    raise click.BadParameter(f"{text!r} is neither a length of time like 24h nor a time.", param_hint="--expires")


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
