# SPDX-License-Identifier: Apache-2.0
"""Is this an address on the web that something can be sent to?"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_WEB_ADDRESS = re.compile(
    r"https?://([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?([/?][!-\"$-~]*)?"
)
"""Of printable ASCII, without a user and without a fragment."""


def is_web_address(text: str) -> bool:
    """Say whether a text is an http:// or https:// address without a user, a fragment, and anything unprintable."""
    try:
        return _WEB_ADDRESS.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:  # a port beyond all ports, or brackets around no address
        return False


def shorten_address(text: str) -> str:
    """Return an address without its path and query, which may be a secret: `https://hooks.example/…`."""
    parts = urlsplit(text)
    has_more = parts.path not in {"", "/"} or parts.query
    return f"{parts.scheme}://{parts.netloc}{'/…' if has_more else '/'}"
