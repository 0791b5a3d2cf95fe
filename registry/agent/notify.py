# SPDX-License-Identifier: Apache-2.0
"""How does systemd learn that the agent is up, alive, or on its way out? By datagrams on the socket it names.

The protocol: https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress

READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"


class Notifier:
    """Tells the service manager, where there is one. Without `NOTIFY_SOCKET` it is silent, and it never raises."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # An @ stands for the zero byte that begins the name of a socket outside the file system.
        self._address = "\0" + address[1:] if address.startswith("@") else address

    def __call__(self, *lines: str) -> None:
        """Send assignments, say READY and `STATUS=…`."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto("\n".join(lines).encode(), socket.MSG_DONTWAIT, self._address)
