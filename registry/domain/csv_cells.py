# SPDX-License-Identifier: Apache-2.0
"""What must a cell not begin with, so that a spreadsheet shows it and does not reckon with it?"""

from __future__ import annotations

from typing import Any

BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""https://owasp.org/www-community/attacks/CSV_Injection"""


def safe_cell(value: Any) -> Any:
    """Return a value as a cell of a table: a text that would be a formula gets an apostrophe in front of it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(BEGINS_FORMULA) else value
