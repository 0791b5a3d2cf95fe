# SPDX-License-Identifier: Apache-2.0
"""How does a server run that has a fault put into it? As `pratique serve` does; SCORECARD_FAULT names the fault."""

from __future__ import annotations

import os
from typing import Any

from tests.scorecard import faults


def make_application() -> Any:
    """Put the fault in, and make the application as gunicorn loads it."""
    faults.put_in(os.environ["SCORECARD_FAULT"])
    from api.wsgi import application  # noqa: PLC0415 - reads the environment when it is imported

    return application


def main() -> None:
    """Run the command `pratique` with this application in place of its own."""
    from registry.admin import serve  # noqa: PLC0415 - gunicorn imports this module for the application alone
    from registry.main import main as pratique  # noqa: PLC0415 - as above

    serve.APPLICATION = "tests.scorecard.faulty:make_application()"
    pratique(prog_name="pratique")


if __name__ == "__main__":
    main()
