# SPDX-License-Identifier: Apache-2.0
"""Does a node that has nothing yet get the boot script, whole and to the byte?"""

from __future__ import annotations

from tests.api.conftest import Asker
from tests.project import ROOT


def test_the_script_is_handed_out_to_anybody_as_it_stands_in_the_sources(anonymous: Asker) -> None:
    answer = anonymous.get("/bootstrap.sh")

    assert answer.status_code == 200
    assert answer.mimetype == "text/x-shellscript"
    assert answer.data == (ROOT / "deploy" / "bootstrap.sh").read_bytes()
