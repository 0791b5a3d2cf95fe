# SPDX-License-Identifier: Apache-2.0
"""Does a script that asks again and again fill the history?"""

from __future__ import annotations

import pytest

from registry.domain.errors import AlreadyJoined
from tests.fleet import Fleet
from tests.services.test_joining import events, join_token, trade


def test_a_script_that_lost_its_answer_and_asks_for_ever_does_not_fill_the_history(fleet: Fleet) -> None:
    held = join_token(fleet)
    trade(fleet, held)
    for _ in range(20):
        with pytest.raises(AlreadyJoined):
            trade(fleet, held)
    assert sum(one.type == "join.refused" for one in events(fleet)) == 1
