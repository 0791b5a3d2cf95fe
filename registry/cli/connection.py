# SPDX-License-Identifier: Apache-2.0
"""How does a command reach its server, and how does it end when it cannot?"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn
from urllib.parse import urlsplit

import click

from registry.cli.exits import Exit, exit_of
from registry.cli.output import plain, print_json
from registry.client import Client, ClientError, ProblemAnswer
from registry.config import ClientSettings, ConfigError

Command = Callable[..., None]

NO_ANSWER = "no_answer"
"""The `code` in place of a problem's where no server answered. No problem code of the API is called so."""


@dataclass(frozen=True, slots=True)
class Session:
    """A client, and how its answers are to be shown."""

    client: Client
    is_json: bool


def speaks_http(command: Command) -> Command:
    """Give a command the options of a connection and, as its first argument, a `Session`.

    An answer that is none is told on standard error, with `--output json` also as a document on standard output, and
    ends the command with the code of `exits`.
    """

    @click.option("--url", metavar="URL", help="Address of the server.  [PRATIQUE_URL]")
    @click.option(
        "--token-file", metavar="FILE", help="File that holds the token, - for standard input.  [PRATIQUE_TOKEN_FILE]"
    )
    @click.option("--output", type=click.Choice(["text", "json"]), default="text", help="For people, or for programs.")
    @wraps(command)
    def run(*args: Any, url: str | None, token_file: str | None, output: str, **options: Any) -> None:
        session = open_session(url, token_file, output)
        try:
            command(session, *args, **options)
        except ClientError as error:
            end_with(error, is_json=session.is_json)

    return run


def open_session(url: str | None, token_file: str | None, output: str) -> Session:
    """Make the client from options and settings. Raises click.UsageError with a sentence for each thing missing."""
    try:
        settings = ClientSettings.from_env(os.environ)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    address = url or settings.url
    if not address:
        raise click.UsageError("Where is the server? Give --url or set PRATIQUE_URL.")
    if not address.startswith(("http://", "https://")):
        raise click.UsageError(f"The address {address!r} must begin with http:// or https://.")
    if not is_address(address):
        raise click.UsageError(f"The address {address!r} names no host, or a port that there is not.")
    token = settings.token if token_file is None else read_token(token_file)
    if not token:
        raise click.UsageError("Who asks? Give --token-file or set PRATIQUE_TOKEN_FILE or PRATIQUE_TOKEN.")
    if settings.ca_file:
        check_authorities(settings.ca_file)
    return Session(Client(address, token, ca_file=settings.ca_file), is_json=output == "json")


def is_address(text: str) -> bool:
    """Does it name a host, and a port that there can be?"""
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna")
        return bool(host) and parts.port != 0 and not any(sign.isspace() for sign in text)
    except ValueError:
        return False


def check_authorities(place: str) -> None:
    """Load the certificates that the client is to trust. Raises click.UsageError with a sentence."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(**{_kind_of(place): place})
    except ssl.SSLError as error:
        raise click.UsageError(f"PRATIQUE_CA_FILE {place} holds no certificates in PEM.") from error
    except OSError as error:
        raise click.UsageError(f"PRATIQUE_CA_FILE {place} cannot be read: {error.strerror}.") from error


def _kind_of(place: str) -> str:
    return "capath" if os.path.isdir(place) else "cafile"  # noqa: PTH112 - as it came


def read_token(place: str) -> str:
    """Read a token from a file or, for `-`, from standard input. Raises click.UsageError."""
    try:
        with click.open_file(place) as stream:
            token = str(stream.read()).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no text"
        raise click.UsageError(f"The token file {place} cannot be read: {reason}.") from error
    if not token:
        raise click.UsageError(f"The token file {place} is empty.")
    if not token.isascii() or any(sign.isspace() for sign in token):
        raise click.UsageError(f"The token file {place} must hold one token and nothing else.")
    return token


def end_with(error: ClientError, *, is_json: bool, code: Exit | None = None) -> NoReturn:
    """Tell what went wrong and end the command, with `code` or the one of `exits`. Raises SystemExit."""
    if is_json:
        print_json(error.body if isinstance(error, ProblemAnswer) else {"code": NO_ANSWER, "detail": error.detail})
    word = f" ({error.code})" if isinstance(error, ProblemAnswer) else ""
    click.echo(f"pratique: {plain(error.detail)}{word}", err=True)
    if isinstance(error, ProblemAnswer):
        for one in error.errors:
            click.echo(f"  {plain(one.pointer)}: {plain(one.detail)}", err=True)
        for one in error.body.get("candidates") or ():
            click.echo(f"  candidate: {plain(one)}", err=True)
    raise SystemExit(int(exit_of(error) if code is None else code))
