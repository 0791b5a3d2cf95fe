# SPDX-License-Identifier: Apache-2.0
"""How does a new node come by a token of its own? It trades a join token for one and keeps it for itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import given
from registry.cli.output import print_json
from registry.cli.report import read_boot_id
from registry.client import ServerUnreachable

EPILOG = """\b
Examples:
  pratique join gpu-17 --provider-id i-0abc --profile p5.48xlarge \\
      --token-file /run/secrets/join --into /etc/pratique/token
  test -s token || pratique join "$(hostname)" --provider-id i-0abc --into token < join-token --token-file -
"""


@click.command(epilog=EPILOG)
@click.argument("node")
@click.option("--provider-id", required=True, help="Id of the instance, as the provider names it.")
@click.option("--profile", help="What sort of node this is; needed where the join token is bound to one.")
@click.option("--boot-id", help="Id of this boot; left out, the kernel is asked.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="New file for the token; nobody else may read it.",
)
@speaks_http
def join(session: Session, node: str, provider_id: str, profile: str | None, boot_id: str | None, into: Path) -> None:
    """Trade the join token for one of NODE's own, and keep it in a file that nobody else may read.

    The token is shown to nobody and given once for each instance: when the file is lost, an administrator has to revoke
    the token before this instance can join again.
    """
    body = given(node=node, provider_id=provider_id, profile=profile, boot_id=boot_id or read_boot_id())
    # Before the trade: a token that cannot be kept is lost.
    with _new_file(into) as file:
        made = session.client.post("join", body=body)
        token = made.pop("token", None)
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise ServerUnreachable(f"{session.client.url} answered with something that holds no token")
        file.write(f"{token}\n")
    if session.is_json:
        print_json({**made, "token_file": str(into)})
    else:
        click.echo(f"{node} joined as {provider_id}; its token is in {into}")


@contextmanager
def _new_file(place: Path) -> Iterator[TextIO]:
    """Open a file that was not there, for its owner alone; whatever is raised meanwhile, it is not there afterwards.

    What was written is on the disk when the block is left. Raises click.UsageError.
    """
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise click.UsageError(
            f"{place} is there already: this node has joined, or keeps something else in it."
        ) from error
    except OSError as error:
        raise click.UsageError(f"{place} cannot be written: {error.strerror}.") from error
    try:
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor has no path
            yield file
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        place.unlink()
        raise
