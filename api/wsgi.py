# SPDX-License-Identifier: Apache-2.0
"""What does gunicorn load? The application with the settings of the environment. No connection is opened here."""

from __future__ import annotations

import os

from api.app import create_app
from registry.config import Settings

WORKERS = "WEB_CONCURRENCY"
"""How many processes answer; `pratique serve` sets it, by gunicorn's own name for it."""

application = create_app(Settings.from_env(), workers=int(os.environ.get(WORKERS, "1")))
"""The WSGI application."""
