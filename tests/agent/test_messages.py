# SPDX-License-Identifier: Apache-2.0
"""Does the JSON of a report say what was seen, and can the server read all of it?"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.reports_body import report_of
from registry.agent.looking import Look
from registry.agent.messages import Message, Sender, Span, clean, evidence_of, message_of, stamped
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Kind, Report, ReportedFailure
from tests.agent.scripted import GPU, NODE, fault, look
from tests.clock import NOON

SENDER = Sender(NODE, "i-1", "p5.48xlarge", "boot-1", "us-east-1a")


def message(seen: Look, **changes: Any) -> Message:
    made = message_of(seen, SENDER, report_id="r", run_id="run", span=Span(10, 14), **changes)
    return stamped(made, seq=17, now=NOON, monotonic=15)


def read(sent: Message) -> Report:
    """Read it as the server does, after its way over the wire."""
    raw = json.dumps(sent, allow_nan=False).encode()
    return report_of(json.loads(raw), NODE, raw)


def test_the_server_reads_what_the_agent_saw() -> None:
    entry = DeviceEntry(
        Kind.EFA,
        "amazon",
        slot="0000:50:00.0",
        name="rdmap80s0",
        mac="02:de:00:00:00:01",
        firmware={"efa": "0"},
        readings={"lifespan": 12, "state": "ACTIVE"},
    )
    check = CheckResult("efa.link", CheckStatus.PASS, entry.slot, message="up")
    failure = fault(count=3, last_at=NOON + timedelta(seconds=1), evidence={"source": "kernel_log"}, message="fell off")
    seen = Look(
        lists={"gpu": (GPU,), "efa": (entry,)},
        partial=frozenset({"gpu"}),
        checks=(check,),
        failures=(failure,),
        host={"dmi": {"serial": "C1"}},
    )

    report = read(message(seen))

    assert report.entries == (entry, GPU)
    assert (report.covers, report.partial) == ({"gpu", "efa"}, {"gpu"})
    assert (report.checks, report.failures) == ((check,), (failure,))
    assert (report.host, report.zone, report.seq) == ({"dmi": {"serial": "C1"}}, "us-east-1a", 17)
    assert (report.boot_id, report.provider_id, report.run_id) == ("boot-1", "i-1", "run")
    assert [report.started_at, report.finished_at, report.sent_at] == [
        NOON - timedelta(seconds=5),
        NOON - timedelta(seconds=1),
        NOON,
    ]


def test_a_kind_without_devices_is_listed_as_none_and_one_that_was_not_read_is_not_listed() -> None:
    assert (read(message(Look(lists={"efa": ()}))).covers, read(message(Look())).entries) == ({"efa"}, None)


def test_evidence_of_a_refused_message_has_no_list() -> None:
    bare = evidence_of(message(look(failures=(fault(),), partial=frozenset({"gpu"}))), "r-2")

    report = read(bare)

    assert (report.entries, report.covers, report.partial) == (None, None, frozenset())
    assert [one.code for one in report.failures] == ["xid_79"]
    assert report.report_id == "r-2"


def test_a_reading_that_is_no_number_is_left_out() -> None:
    entry = DeviceEntry("gpu", "nvidia", readings={"power_watts": float("nan"), "temperature_celsius": 31})

    assert message(Look(lists={"gpu": (entry,)}))["devices"][0]["readings"] == {"temperature_celsius": 31}


@given(
    st.text(max_size=5000), st.dictionaries(st.text(max_size=9), st.text() | st.lists(st.text()) | st.integers(0, 9))
)
def test_whatever_a_tool_prints_beside_the_facts_can_be_sent(text: str, evidence: dict[str, Any]) -> None:
    check = CheckResult("dcgm.health", CheckStatus.FAIL, message=text)
    failure = ReportedFailure("f", "dcgm_fr_x", slot=GPU.slot, message=text, evidence=evidence)

    report = read(message(look(checks=(check,), failures=(failure,))))

    assert report.checks[0].message == clean(text)
    assert report.failures[0].code == "dcgm_fr_x"
