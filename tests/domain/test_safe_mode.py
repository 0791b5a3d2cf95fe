# SPDX-License-Identifier: Apache-2.0
"""Is every loss found, and named by the entries that are lost?"""

from __future__ import annotations

import pytest

from registry.domain.safe_mode import Head, Loss, LossCause, find_loss

OURS = {1: "a", 2: "b", 3: "c", 4: "d"}


@pytest.mark.parametrize(
    ("seen", "loss"),
    [
        ((), None),
        ((Head(4, "d"),), None),
        ((Head(2, "b"),), None),
        ((Head(3, "c"), Head(9, "x")), None),
        ((Head(6, "f"),), Loss(LossCause.ENDS_EARLY, 5, 6)),
        ((Head(6, "f"), Head(4, "d"), Head(2, "b")), Loss(LossCause.ENDS_EARLY, 5, 6)),
        ((Head(3, "x"),), Loss(LossCause.OTHER_HISTORY, 1, 3)),
        ((Head(4, "x"), Head(2, "b")), Loss(LossCause.OTHER_HISTORY, 3, 4)),
        ((Head(6, "x"), Head(4, "y"), Head(3, "c")), Loss(LossCause.OTHER_HISTORY, 4, 6)),
        ((Head(2, "x"), Head(7, "y")), Loss(LossCause.OTHER_HISTORY, 1, 7)),
    ],
)
def test_the_newest_head_that_was_seen_decides(seen: tuple[Head, ...], loss: Loss | None) -> None:
    assert find_loss(seen, 4, OURS.get) == loss


def test_an_empty_database_lost_everything() -> None:
    assert find_loss((Head(5, "e"),), 0, {}.get) == Loss(LossCause.ENDS_EARLY, 1, 5)
