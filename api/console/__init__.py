# SPDX-License-Identifier: Apache-2.0
"""Which pages do people have? One file each, put together here: `register` once, `finish` for every answer."""

from __future__ import annotations

from http import HTTPStatus

from flask import Blueprint, Flask, redirect
from flask.typing import ResponseReturnValue
from jinja2 import StrictUndefined

from api.console import (
    audit,
    conflicts,
    device,
    devices,
    explorer,
    fleet,
    forms,
    node,
    nodes,
    pages,
    queue,
    repairs,
    search,
    session,
    words,
)
from api.console.pages import HOME, finish
from api.context import now

BLUEPRINTS = (
    fleet.bp,
    devices.bp,
    device.bp,
    nodes.bp,
    node.bp,
    queue.bp,
    conflicts.bp,
    repairs.bp,
    audit.bp,
    explorer.bp,
    search.bp,
    session.bp,
)
"""Every page, in the order of the menu."""

MENU = (
    ("Fleet", HOME),
    ("Devices", "/console/devices"),
    ("Nodes", "/console/nodes"),
    ("Queue", "/console/queue"),
    ("Conflicts", "/console/conflicts"),
    ("Repairs", "/console/repairs"),
    ("Audit", "/console/audit"),
    ("Explorer", "/console/explorer"),
)
"""What stands at the top of every page."""

assets = Blueprint("console_assets", __name__, static_folder="static", template_folder="templates")

__all__ = ["BLUEPRINTS", "finish", "register"]


def register(app: Flask) -> None:
    """Put the pages below /console, and what their templates say things with."""
    env = app.jinja_env
    env.undefined = StrictUndefined
    env.trim_blocks = env.lstrip_blocks = True
    env.globals.update(
        menu=MENU,
        given=forms.given,
        complaint=forms.complaint,
        is_refused=forms.is_refused,
        address_with=pages.address_with,
        age=lambda at: words.age(at, now()),
        heading=words.heading,
    )
    env.filters.update(
        tone=words.tone,
        sign=words.sign,
        plain=words.plain,
        capital=words.capital,
        ending=words.ending,
        typed=words.typed,
        exact=words.exact,
        clock=words.clock,
        duration=words.duration,
        number=words.number,
        percent=words.percent,
        segment=words.segment,
    )
    for blueprint in (assets, *BLUEPRINTS):
        app.register_blueprint(blueprint, url_prefix=HOME[:-1])
    app.add_url_rule("/", "console_front", _lead_in)


def _lead_in() -> ResponseReturnValue:
    """Lead whoever typed the bare address into a browser to the pages."""
    return redirect(HOME, HTTPStatus.SEE_OTHER)
