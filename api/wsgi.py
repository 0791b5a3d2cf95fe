# SPDX-License-Identifier: Apache-2.0
"""What does gunicorn load? The application with the settings of the environment. No connection is opened here."""

from __future__ import annotations

from api.app import create_app
from registry.config import Settings

application = create_app(Settings.from_env())
"""The WSGI application."""
