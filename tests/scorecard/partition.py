# SPDX-License-Identifier: Apache-2.0
"""How does a network part a server from its PostgreSQL? A proxy cuts all connections, or holds all still."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

SOCKET = ".s.PGSQL.5432"
"""What PostgreSQL calls its Unix socket: https://www.postgresql.org/docs/current/runtime-config-connection.html."""

CHUNK_BYTES = 65_536


class Partition:
    """Listens in one folder as PostgreSQL does and hands on to the one in another, while the network holds."""

    def __init__(self, here: Path, there: Path) -> None:
        self.folder = here
        self._there = there / SOCKET
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(here / SOCKET))
        (here / SOCKET).chmod(0o777)
        self._listener.listen(256)
        self._flows = threading.Event()
        self._flows.set()
        self._is_cut = False
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._flows.set()

    def cut(self) -> None:
        """End all connections, and every new one at once."""
        with self._guard:
            self._is_cut = True
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """Let nothing through, and say so to nobody."""
        self._flows.clear()

    def heal(self) -> None:
        """The network holds again. What stood still goes on; what was cut is gone."""
        self._is_cut = False
        self._flows.set()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                caller.close()
                continue
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        with caller, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            with self._guard:
                self._open |= {caller, server}
            try:
                server.connect(str(self._there))
                self._pump(caller, server)
            finally:
                with self._guard:
                    self._open -= {caller, server}

    def _pump(self, caller: socket.socket, server: socket.socket) -> None:
        other = {caller: server, server: caller}
        while True:
            for one in select.select([caller, server], [], [])[0]:
                self._flows.wait()
                data = one.recv(CHUNK_BYTES)
                if not data:
                    return
                other[one].sendall(data)
