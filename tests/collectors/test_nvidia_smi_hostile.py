# SPDX-License-Identifier: Apache-2.0
"""Are bodies that were made to hurt refused before they cost much time?"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from registry.collectors import nvidia_smi_csv, nvidia_smi_list, nvidia_smi_q, nvidia_smi_xml
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Inventory

HEAD = b'<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="0000:01:00.0">'
TAIL = b"</gpu></nvidia_smi_log>"
HUGE = {
    "many elements": HEAD + b"<a/>" * 1_100_000 + TAIL,
    "deep": HEAD + b"<a>" * 1_000_000 + TAIL,
    "a long tag": HEAD + b"<" + b"a" * 4_000_000 + b"/>" + TAIL,
    "many attributes": HEAD + b"<a " + b" ".join(b'a%d=""' % at for at in range(300_000)) + b"/>" + TAIL,
    "a long serial": HEAD + b"<serial>" + b"1" * 4_000_000 + b"</serial>" + TAIL,
    "many gpus": HEAD + b"</gpu><gpu>" * 300_000 + TAIL,
    "many warnings": HEAD + TAIL + b"\nWARNING: again" * 300_000,
}


TEXT = b"==============NVSMI LOG==============\nAttached GPUs : 1\nGPU 00000000:01:00.0\n"
CASES = [(nvidia_smi_xml.parse, data) for data in HUGE.values()]
CASES += [
    (nvidia_smi_q.parse, TEXT + b"    a" + b" " * 4_000_000 + b"x"),
    (nvidia_smi_q.parse, TEXT + b"    a : b\n" * 300_000),
    (nvidia_smi_csv.parse, b"serial" + b" " * 4_000_000 + b"x\n1\n"),
    (nvidia_smi_csv.parse, b"serial" + b"," * 4_000_000),
    (nvidia_smi_csv.parse, b'serial\n"' + b"a\n" * 2_000_000),
    (nvidia_smi_list.parse, b"GPU 0: " + b"a (" * 1_000_000),
]
IDS = [*HUGE, "a long line", "the same line", "a long header", "many columns", "an endless field", "a long name"]


@pytest.mark.parametrize(("parse", "data"), CASES, ids=IDS)
def test_it_is_refused_in_bounded_time(parse: Callable[[bytes], Inventory], data: bytes) -> None:
    begun = time.monotonic()

    with pytest.raises(PartUnreadable):
        parse(data)

    assert time.monotonic() - begun < 20
