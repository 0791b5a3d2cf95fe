# SPDX-License-Identifier: Apache-2.0
"""Can the server listen as it was told to? Asked before it starts, so that a mistake is one sentence and not a log."""

from __future__ import annotations

import errno
import re
import socket

import click

_BIND = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):(?P<port>[0-9]{1,5})")


def is_address(text: str) -> bool:
    """Tell whether `text` is HOST:PORT with a port that exists."""
    found = _BIND.fullmatch(text)
    return found is not None and int(found["port"]) <= 65535


def check_free(bind: str) -> None:
    """Try to listen on HOST:PORT. Raises click.ClickException with a sentence when that cannot be done."""
    host, _, port = bind.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise click.ClickException(f"{bind} is in use: stop whoever listens there, or choose another.") from error
        raise click.ClickException(f"Nobody can listen on {bind} here: {error.strerror}.") from error
