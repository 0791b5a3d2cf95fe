# SPDX-License-Identifier: Apache-2.0
"""How do tests behave like a person whose browser runs no scripts? They open pages, read text and send forms."""

from __future__ import annotations

import html
import re
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

_CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')
_TAG = re.compile(r"<[^>]*>")


class Visitor:
    """Somebody with a browser; signed in where a token is given."""

    def __init__(self, app: Flask, token: str | None = None) -> None:
        self.client = app.test_client()
        if token is not None:
            answer = self.client.post("/console/login", data={"token": token})
            assert answer.status_code == 303, answer.text
            self.csrf = self._csrf()

    def get(self, path: str, **options: Any) -> TestResponse:
        """Open an address, following nothing."""
        return self.client.get(path, **options)

    def page(self, path: str) -> str:
        """Open a page that must be there, and return its text without tags, its blanks made single."""
        answer = self.client.get(path, follow_redirects=True)
        assert answer.status_code == 200, words_of(answer)
        return words_of(answer)

    def post(self, path: str, data: dict[str, Any] | None = None, **options: Any) -> TestResponse:
        """Send a form with the mark of this session."""
        return self.client.post(path, data={"csrf": self.csrf, **(data or {})}, **options)

    def act(self, path: str, data: dict[str, Any] | None = None) -> str:
        """Send a form that must be carried out, and return the words of the page it leads to."""
        answer = self.post(path, data)
        assert answer.status_code == 303, words_of(answer)
        return self.page(answer.headers["Location"])

    def _csrf(self) -> str:
        found = _CSRF.search(self.client.get("/console/search").text)
        assert found is not None
        return found[1]


def words_of(answer: TestResponse) -> str:
    """What a person reads of a page."""
    return " ".join(html.unescape(_TAG.sub(" ", answer.text)).split())
