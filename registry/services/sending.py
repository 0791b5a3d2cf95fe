# SPDX-License-Identifier: Apache-2.0
"""May a document leave for this address, and what was answered? One POST to an address that was looked at before.

The name is resolved once, and what is connected to is what was looked at, so that a name which answers differently the
second time changes nothing. Redirects are not followed: any answer but 2xx is a refusal.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 10.0
"""For all of it but the resolving, which the system bounds itself."""

STATUS_LINE_BYTES = 512
"""More than any status line needs that a machine wrote."""

HEAD_BYTES = 16 * 1024
"""How much of an answer's head is looked through for `Retry-After`."""

JSON_TYPE = {"Content-Type": "application/json"}

METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
"""A public address behind which each machine of Azure finds what is its own:
https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16. Those of other clouds are link-local
or private (169.254.169.254, fd00:ec2::254, 100.100.100.200)."""

GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is given to anybody on the internet. What lies outside is ours or nobody's, also where it is not
called private, as IPv4 in one of its many other spellings (`::127.0.0.1`, `64:ff9b:1::/48`):
https://www.iana.org/assignments/ipv6-address-space/ipv6-address-space.xhtml."""

NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 written as IPv6: https://www.rfc-editor.org/rfc/rfc6052#section-2.1."""

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]


class NotSent(Exception):
    """A document was not taken. The reason names no more of the address than its host."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered. `retry_after` is that header as it came, looked for where something went wrong."""

    status: int
    retry_after: str | None = None

    @property
    def is_taken(self) -> bool:
        """Whether the document arrived: 2xx."""
        return 200 <= self.status < 300


def resolve(host: str, port: int) -> list[str]:
    """Ask the system for the addresses of a host. Raises NotSent."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotSent(f"{host} has no address: {error}") from error
    return [str(one[4][0]) for one in found]


def post(
    url: str,
    body: bytes,
    *,
    allowed: Sequence[str] = (),
    resolve: Resolve = resolve,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> None:
    """Send a JSON document. Raises NotSent unless it was answered with 2xx in time.

    `allowed` are hosts and networks that may be sent to although they are not of the public internet.
    """
    answer = send(url, body, JSON_TYPE, allowed=allowed, resolve=resolve, timeout_seconds=timeout_seconds)
    if not answer.is_taken:
        raise NotSent(f"{urlsplit(url).hostname} answered {answer.status}")


def send(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    allowed: Sequence[str] = (),
    resolve: Resolve = resolve,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Answer:
    """Send a document and return what was answered. Raises NotSent when nothing was, or the address is refused.

    `headers` are ours, of one line each; none of them is about the connection.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    address = choose(host, resolve(host, port), allowed)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    request = _request(parts.netloc, target, headers, body)
    deadline = time.monotonic() + timeout_seconds
    try:
        with socket.create_connection((address, port), timeout=timeout_seconds) as plain:
            if not is_tls:
                return _exchange(plain, request, deadline)
            plain.settimeout(_left(deadline))
            with ssl.create_default_context().wrap_socket(plain, server_hostname=host) as secured:
                return _exchange(secured, request, deadline)
    except OSError as error:  # what TLS raises is one, too
        raise NotSent(f"{host} cannot be reached: {error}") from error


def choose(host: str, addresses: Sequence[str], allowed: Sequence[str]) -> str:
    """Choose the address to connect to. Raises NotSent when one of them is not of the public internet nor allowed."""
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        if host not in allowed and not _is_within(address, allowed) and not is_public(address):
            raise NotSent(f"{host} is at {text}, which is not public; PRATIQUE_ALLOW_PRIVATE_SINKS does not name it")
    if not addresses:
        raise NotSent(f"{host} has no address")
    return addresses[0]


def is_public(address: Address) -> bool:
    """Say whether anybody on the internet may be at an address: no loopback, private, link-local, shared or multicast
    one, and no machine's own metadata. One that is written inside another counts as itself.
    """
    inner = _unwrap(address)
    if isinstance(inner, ipaddress.IPv6Address) and inner not in GLOBAL_UNICAST:
        return False
    return inner.is_global and not inner.is_multicast and inner not in METADATA


def _unwrap(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None) or address


def _is_within(address: Address, allowed: Sequence[str]) -> bool:
    return any(_unwrap(address) in network for one in allowed if (network := network_of(one)) is not None)


def network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Read a network or an address; None for what is a name."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _request(netloc: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
    told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST {target} HTTP/1.1\r\nHost: {netloc}\r\nUser-Agent: pratique\r\n{told}"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


def _exchange(connection: socket.socket, request: bytes, deadline: float) -> Answer:
    """Send a request and read the status, whatever comes after it. Raises OSError, TimeoutError among them.

    Of an answer that is not yes the rest of the head is read, too. One of 1xx is none yet: the answer comes after it
    (RFC 9110, 15.2).
    """
    connection.settimeout(_left(deadline))
    connection.sendall(request)
    received, is_final = b"", False
    while not is_final:
        received = _read_until(b"\r\n", connection, received, STATUS_LINE_BYTES, deadline)
        version, _, rest = received.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise OSError("no answer of HTTP")
        answer = Answer(int(rest[:3]))
        if answer.is_taken:
            return answer
        received = _read_until(b"\r\n\r\n", connection, received, HEAD_BYTES, deadline)
        head, _, received = received.partition(b"\r\n\r\n")
        is_final = answer.status >= 200
    return Answer(answer.status, _header(head, b"retry-after"))


def _left(deadline: float) -> float:
    """Return for how many seconds it may still take. Raises TimeoutError when it is over."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


def _read_until(end: bytes, connection: socket.socket, received: bytes, most: int, deadline: float) -> bytes:
    """Read until something comes, the other side ends, or it is too much. Raises OSError."""
    while end not in received and len(received) < most:
        connection.settimeout(_left(deadline))
        piece = connection.recv(STATUS_LINE_BYTES)
        if not piece:
            break
        received += piece
    return received


def _header(head: bytes, name: bytes) -> str | None:
    """Return a header of an answer's head as it came."""
    for line in head.split(b"\r\n")[1:]:
        called, _, value = line.partition(b":")
        if called.strip().lower() == name:
            return value.strip().decode("ascii", "replace")
    return None
