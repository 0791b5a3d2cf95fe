# SPDX-License-Identifier: Apache-2.0
"""How does a table leave that will be opened in a spreadsheet? As CSV in which no cell is a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from flask import Response

from registry.domain.csv_cells import safe_cell


def csv_answer(rows: Iterable[Sequence[str]], name: str) -> Response:
    """Answer a table as a file to save under `name`."""
    text = io.StringIO()
    csv.writer(text).writerows([safe_cell(cell) for cell in row] for row in rows)
    answer = Response(text.getvalue(), content_type="text/csv; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
