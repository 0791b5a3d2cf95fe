# SPDX-License-Identifier: Apache-2.0
"""Can a person read the document in a browser that reaches nothing but this server?"""

from __future__ import annotations

import re

import pytest

from tests.api.conftest import Asker


def test_the_page_and_all_that_it_is_made_of_come_from_here(anonymous: Asker) -> None:
    page = anonymous.get("/docs")
    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)

    assert len(parts) >= 4
    assert all(part.startswith("/") and not part.startswith("//") for part in parts)
    assert {part: anonymous.get(part).status_code for part in parts} == dict.fromkeys(parts, 200)


@pytest.mark.parametrize("path", ["/docs", "/docs/page.js", "/docs/swagger-ui-bundle.js", "/docs/LICENSE"])
def test_a_browser_is_told_to_ask_nobody_else(anonymous: Asker, path: str) -> None:
    headers = anonymous.get(path).headers

    assert headers["Content-Security-Policy"].startswith("default-src 'self'; img-src 'self' data:;")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_has_no_script_or_style_of_its_own(anonymous: Asker) -> None:
    page = anonymous.get("/docs").text

    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=", page)


@pytest.mark.parametrize("file", ["../__init__.py", "..%2F__init__.py", "index.html", "swagger-ui.js.map", "page.html"])
def test_no_other_file_is_handed_out(anonymous: Asker, file: str) -> None:
    assert anonymous.get(f"/docs/{file}").json["code"] == "not_found"
