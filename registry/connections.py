# SPDX-License-Identifier: Apache-2.0
"""Which connections does a client hold, and how is one cut that gives no end of an answer?

A socket that somebody waits on in another thread is woken by shutting it down; nothing else of requests reaches it
before its answer is whole.
"""

from __future__ import annotations

import socket
import weakref
from contextlib import suppress
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

FAULTS = (requests.RequestException, HTTPError, OSError, ValueError, RecursionError)
"""What a request may end with, odd answers and addresses included."""


class Lines:
    """The connections that were opened."""

    def __init__(self) -> None:
        self._opened: weakref.WeakSet[HTTPConnection] = weakref.WeakSet()

    def note(self, connection: HTTPConnection) -> None:
        """Remember one for as long as it is used."""
        self._opened.add(connection)

    def cut(self) -> None:
        """Shut all of them down; the next request opens another."""
        for connection in list(self._opened):
            if isinstance(connection.sock, socket.socket):
                with suppress(OSError):
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
        self._opened.clear()


class Adapter(HTTPAdapter):
    """Sends as requests does, and notes each connection in `lines`."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make the pools, of connections that are noted."""
        super().init_poolmanager(*args, **options)
        lines = self._lines

        class Plain(HTTPConnection):
            def connect(self) -> None:
                lines.note(self)
                super().connect()

        class Secure(HTTPSConnection):
            def connect(self) -> None:
                lines.note(self)
                super().connect()

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
