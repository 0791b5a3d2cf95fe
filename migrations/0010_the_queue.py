# SPDX-License-Identifier: Apache-2.0
"""What the breaker withheld and nobody has settled, in the order in which people work through it."""

from typing import Any


def up(migrator: Any, db: Any) -> None:
    """Make the index. It holds only what stands, which is little, however much was ever withheld."""
    db.execute_sql("CREATE INDEX withheld_standing ON withheld (id) WHERE ended_at IS NULL")
