# SPDX-License-Identifier: Apache-2.0
"""Does any input at all do more than be read or be refused?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.collectors import nvidia_smi_csv, nvidia_smi_list, nvidia_smi_q, nvidia_smi_xml
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Inventory
from tests.collectors.documents import csv_document, list_document, q_document, xml_document
from tests.collectors.junk import Edit, damaged, edits_of
from tests.collectors.machines import change, h100_gpus

MACHINE = change(h100_gpus(2, lost={1}), 0, slices=("MIG-3f0e6a52-0000-5000-8000-000000000001",))
FORMS: dict[str, tuple[Callable[[bytes], Inventory], bytes]] = {
    "xml": (nvidia_smi_xml.parse, xml_document(MACHINE)),
    "q": (nvidia_smi_q.parse, q_document(MACHINE)),
    "csv": (nvidia_smi_csv.parse, csv_document(MACHINE)),
    "list": (nvidia_smi_list.parse, list_document(MACHINE)),
}
WORDS = r"""<  >  &  </gpu>  <gpu>  <!--  ]]>  <!DOCTYPE x [  <?xml ?>  "  ,  :  GPU 0  N/A  ERR!  GPU is lost  Yes  [
WARNING: infoROM is corrupted at gpu  Unable to determine the device handle for gpu""".replace("\n", "  ").split("  ")
PIECES = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from(WORDS).map(lambda word: f"\n{word} ".encode()),
    st.sampled_from(WORDS).map(str.encode),
    st.sampled_from([b"\0", b"\r", b"\n", b"    ", b" : ", b"9" * 5000, b"\xff\xfe"]),
)
EDITS = edits_of(PIECES)
CALM = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(parse: Callable[[bytes], Inventory], data: bytes) -> Inventory | None:
    """Parse the data; None when it was refused. Any other exception ends the test."""
    try:
        inventory = parse(data)
    except PartUnreadable as refusal:
        reason = refusal.detail
    else:
        assert inventory.entries or inventory.attached == 0
        return inventory
    assert 0 < len(reason) < 1000
    return None


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(data=st.binary(max_size=400))
def test_bytes_are_read_or_refused(form: str, data: bytes) -> None:
    read(FORMS[form][0], data)


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(edits=EDITS)
def test_damaged_documents_are_read_or_refused(form: str, edits: list[Edit]) -> None:
    parse, data = FORMS[form]
    data = damaged(data, edits)
    read(parse, data)


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(share=st.floats(0, 0.97))
def test_a_document_that_stops_early_never_lists_fewer_gpus_as_the_whole(form: str, share: float) -> None:
    parse, data = FORMS[form]

    inventory = read(parse, data[: int(len(data) * share)])

    # Only a table or list that stops between two lines can look whole; the server counts them against the profile.
    # The text may stop within the processes of its last GPU, which are not read.
    assert inventory is None or form in {"csv", "list"} or inventory == parse(data)
