# SPDX-License-Identifier: Apache-2.0
"""Where does a new node get the script that asks for it? From the server itself: `curl …/bootstrap.sh | sh -s -- …`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flask import Blueprint, Response

from api.contract import says

bp = Blueprint("bootstrap", __name__)

SCRIPT = "text/x-shellscript"

_PLACES = (
    Path(__file__).with_name("bootstrap.sh"),
    Path(__file__).parents[1] / "deploy" / "bootstrap.sh",
)
"""In a wheel, where the build puts it, and in the sources, where it stands."""


@bp.get("/bootstrap.sh")
@says({200: {SCRIPT: {"type": "string"}}})
def script() -> Response:
    """Give the boot script: reports with what tools there are, asks, and ends with the code of the decision."""
    return Response(_content(), content_type=f"{SCRIPT}; charset=utf-8")


@cache
def _content() -> bytes:
    return next(place for place in _PLACES if place.exists()).read_bytes()
