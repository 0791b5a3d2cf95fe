# SPDX-License-Identifier: Apache-2.0
"""What does each message of the driver mean: which code, which GPU, which evidence, and does it block?"""

from __future__ import annotations

import pytest

from tests.collectors.kernel_logs import APPLICATION, OFF_BUS, SLOT, evidence, only, read, results, said


@pytest.mark.parametrize(
    ("message", "code", "slot"),
    [
        ("NVRM: Xid (PCI:0000:5a:00): 48, pid=12, name=python, DBE", "xid_48", SLOT),
        ("NVRM: Xid (PCI:0000:5a:00.0): 48", "xid_48", SLOT),
        ("NVRM: Xid (0000:5a:00): 48, Ch 00000001", "xid_48", SLOT),
        ("NVRM: Xid (PCI:000B:00:00): 48, DBE", "xid_48", "000b:00:00.0"),
        ("NVRM: Xid (PCI:0010:0c:01.0): 48, DBE", "xid_48", "0010:0c:01.0"),
        ("NVRM: Xid (PCI:0000:5a:00): 154 (", "xid_154", SLOT),
        ("NVRM: Xid (PCI:0000:5a:00): 74, pid=", "xid_74", SLOT),
        ('NVRM: Xid (PCI:0000:5a:00): 48"}', "xid_48", SLOT),
        ("NVRM: Xid (PCI:0000:5a:00): 79 Recommended Action=CONTACT_SUPPORT", "xid_79", SLOT),
        ("NVRM: Xid (PCI:0000:5a:00): 079, GPU has fallen off the bus.", "xid_79", SLOT),
        ("NVRM: Xid (PCI:0000:5a:00): 43217, a number nobody knows", "xid_43217", SLOT),
        ("NVRM: Xid (PCI:0000:5a:00 GPU-I:05): 48, pid=12, name=python, DBE", "xid_48", SLOT),
        ("NVRM: Xid (PCI:0000:5a:00 GPU-I:05 GPU-CI:00): 43, pid=12", "xid_43", SLOT),
        ("NVRM: GPU at 0000:5a:00.0 has fallen off the bus.", "gpu.fallen_off_bus", SLOT),
        ("NVRM: GPU at PCI:0000:5a:00: GPU has fallen off the bus.", "gpu.fallen_off_bus", SLOT),
        ("NVRM: GPU 0000:5a:00.0: GPU has fallen off the bus.", "gpu.fallen_off_bus", SLOT),
        ("NVRM: Xid : 32, pid=2280", "xid_32", None),
        ("NVRM: Xid (PCI:${slot}): 119, Timeout", "xid_119", None),
        ("NVRM: Xid (PCI:0000:5a:00): 31, GPU has fallen off the bus", "xid_31", SLOT),
        ("NVRM: GPU 0000:5a:00.0: RmInitAdapter failed! (0x24:0x72:1568)", "gpu.init_failed", SLOT),
        ("nvidia 0000:5a:00.0: probe with driver nvidia failed with error -1", "gpu.init_failed", SLOT),
        ("nvidia: probe of 000a:00:00.0 failed with error -22", "gpu.init_failed", "000a:00:00.0"),
        (
            (
                "NVRM: The NVIDIA GPU 0000:5a:00.0 (PCI ID: 10de:2330) installed in this system is not supported "
                "by the NVIDIA 580 driver release."
            ),
            "gpu.init_failed",
            SLOT,
        ),
        ("NVRM: RmInitAdapter failed! (0x26:0xffff:1133)", "gpu.init_failed", None),
        (
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)",
            "gpu.requires_reset",
            None,
        ),
    ],
)
def test_the_number_and_the_place_are_read(message: str, code: str, slot: str | None) -> None:
    failure = only(read(said(message)))

    assert (failure.code, failure.slot, failure.message) == (code, slot, message)


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: Xid (PCI:0000:5a:00): abc, pid=2280",
        "NVRM: Xid (PCI:0000:5a:00): INVALID",
        "NVRM: Xid (PCI:0000:5a:00): 0, none",
        "NVRM: Xid (PCI:0000:5a:00): 7x",
        "NVRM: Xid (PCI:0000:5a",
        "NVRM: Xid error: something",
        "NVRM: Xid (invalid): some error",
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): xyz, Fatal",
    ],
)
def test_an_xid_without_its_number_is_unknown_and_no_pass(message: str) -> None:
    findings = read(said(message))

    assert findings.failures == ()
    assert results(findings) == [("unknown", None, None)]
    assert [notice.code for notice in findings.warnings] == ["xid_unread"]


def test_a_fault_outweighs_a_line_that_cannot_be_read() -> None:
    assert results(read(said("NVRM: Xid error", OFF_BUS))) == [("fail", SLOT, "xid_79")]


@pytest.mark.parametrize(
    "message",
    [
        "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
        "trainer[2536]: segfault at 7f797fe0 ip 00007f7c sp 00007f7c error 4 in libnccl.so.2[7f7c7ac0+d3d3000]",
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        "NVRM: memdescPrintMemdesc: contains page starting @0x158e01000",
        "nvidia-nvswitch2: open (major=510)",
        "NVRM: GPU at PCI:0000:5a:00: GPU-123",
    ],
)
def test_other_messages_tell_of_no_fault(message: str) -> None:
    findings = read(said(message))

    assert (findings.failures, results(findings)) == ((), [("pass", None, None)])


@pytest.mark.parametrize("number", [13, 31, 43, 45, 94, 154])
def test_what_programs_cause_or_the_gpu_contained_is_recorded_and_passes(number: int) -> None:
    findings = read(said(f"NVRM: Xid (PCI:0000:5a:00): {number}, pid=4711, name=trainer, Ch 00000008"))

    assert only(findings).code == f"xid_{number}"
    assert results(findings) == [("pass", None, None)]


@pytest.mark.parametrize("number", [48, 63, 64, 79, 95, 119, 145, 99999])
def test_what_blocks_fails_the_check_of_its_gpu_alone(number: int) -> None:
    findings = read(said(APPLICATION.replace("5a", "6b"), f"NVRM: Xid (PCI:0000:5a:00): {number}, text"))

    assert results(findings) == [("fail", SLOT, f"xid_{number}")]


def test_one_result_per_gpu_names_the_gravest_code() -> None:
    findings = read(
        said(
            "NVRM: Xid (PCI:0000:5a:00): 63, Row Remapper: pending",
            "NVRM: Xid (PCI:0000:5a:00): 64, Row Remapper: failed",
            "NVRM: Xid (PCI:0000:5a:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003)",
            OFF_BUS.replace("5a", "6b"),
        )
    )

    assert results(findings) == [("fail", SLOT, "xid_64"), ("fail", "0000:6b:00.0", "xid_79")]


def test_63_and_64_stay_apart() -> None:
    failures = read(said("NVRM: Xid (PCI:0000:5a:00): 63, x", "NVRM: Xid (PCI:0000:5a:00): 64, x")).failures

    assert [one.code for one in failures] == ["xid_63", "xid_64"]


# --- evidence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pid", "process"),
    [
        ("pid='<unknown>', name=<unknown>, Ch 1", "<unknown>", "<unknown>"),
        ("pid=4711, name=nvc:[driver], Timeout", "4711", "nvc:[driver]"),
        ("pid=4711, Ch 1", "4711", None),
        ("pid='4711', name=a b, Ch 1", "4711", "a b"),
        ("Graphics SM Warp Exception, pid=1, name=x", None, None),
    ],
)
def test_the_process_is_kept_where_the_driver_names_it(text: str, pid: str | None, process: str | None) -> None:
    kept = evidence(only(read(said(f"NVRM: Xid (PCI:0000:5a:00): 13, {text}"))))

    assert (kept.get("pid"), kept.get("process")) == (pid, process)


NVLINK = [
    ("145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 10 (0x04082907 0x0)", ("RLW_SRC_TRACK", "nonfatal", 10)),
    ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x0)", ("NETIR_LINK_EVT", "fatal", 9)),
    ("149, NETIR Fatal XC0 i0 Link -1 (0x000fe406", ("NETIR", "fatal", -1)),
    ("146, TLW_RX/TLW_RX_PIPE0 Fatal XC0 i0 Link 00 (0x0)", ("TLW_RX/TLW_RX_PIPE0", "fatal", 0)),
    ("145, pid=87, name=ray::Worker, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0)", ("RLW_RXPIPE", "nonfatal", 13)),
    ("145, RLW_SRC_TRACK Nonfatal XC1 i0", ("RLW_SRC_TRACK", "nonfatal", None)),
    ("149, a message of another form", (None, None, None)),
]


@pytest.mark.parametrize(("text", "expected"), NVLINK)
def test_an_nvlink_error_names_unit_severity_and_link(text: str, expected: tuple[object, ...]) -> None:
    kept = evidence(only(read(said(f"NVRM: Xid (PCI:0000:5a:00): {text}"))))

    assert (kept.get("unit"), kept.get("severity"), kept.get("link")) == expected
    assert "injected" not in kept


INJECTED = "NVRM: Xid (PCI:0000:5a:00): 145, RLW_SRC_TRACK Nonfatal XC1 i1 Link 10 (0x04082907 0x00000008)"


def test_an_injected_error_is_recorded_as_such_and_fails_nothing() -> None:
    findings = read(said(INJECTED))

    assert (only(findings).code, evidence(only(findings))["injected"]) == ("xid_145", True)
    assert results(findings) == [("pass", None, None)]


def test_a_real_error_of_the_same_code_is_not_hidden_by_an_injected_one() -> None:
    findings = read(said(INJECTED, INJECTED.replace("i1", "i0")))

    assert [evidence(one).get("injected") for one in findings.failures] == [True, None]
    assert results(findings) == [("fail", SLOT, "xid_145")]


@pytest.mark.parametrize("name", [",A Fatal XC0 i1", "A Fatal XC0 i1,", "SAW Fatal XC i1", "x,MSE Fatal XC0"])
def test_no_name_of_a_process_makes_an_error_look_injected(name: str) -> None:
    assert len(name) <= 15

    findings = read(said(f"NVRM: Xid (PCI:0000:5a:00): 145, pid=1, name={name}, RLW_CTRL Fatal XC0 i0 Link 00 (0x0)"))

    assert "injected" not in evidence(only(findings))
    assert results(findings) == [("fail", SLOT, "xid_145")]


def test_the_newest_recovery_action_is_kept() -> None:
    line = "NVRM: Xid (PCI:0000:5a:00): 154, GPU recovery action changed from {} to {}"
    drain, reset = "0x4 (Drain and Reset)", "0x1 (GPU Reset Required)"

    failure = only(read(said(line.format("0x0 (None)", drain), line.format(drain, reset))))

    assert failure.count == 2
    assert evidence(failure)["recovery_action_before"] == "Drain and Reset"
    assert evidence(failure)["recovery_action"] == "GPU Reset Required"


def test_a_gpu_that_the_driver_will_not_run_is_one_fault_in_its_words_and_the_kernels() -> None:
    """C37."""
    findings = read(
        said(
            "NVRM: The NVIDIA GPU 000a:00:00.0 (PCI ID: 10de:2330)",
            "NVRM: installed in this system is not supported by the",
            "NVRM: NVIDIA 580.105.08 driver release.",
            "nvidia 000a:00:00.0: probe with driver nvidia failed with error -1",
        )
    )

    failure = only(findings)
    assert (failure.code, failure.slot, failure.count) == ("gpu.init_failed", "000a:00:00.0", 2)
    assert failure.message == "NVRM: installed in this system is not supported by the"


@pytest.mark.parametrize(
    "message",
    [
        "snd_hda_intel 0000:5a:00.1: probe with driver snd_hda_intel failed with error -2",
        "nvidia-nvlink: probe of 0000:5a:00.0 failed with error -1",
        "NVRM: NVIDIA 580.105.08 driver release is not supported by anything",
    ],
)
def test_what_another_driver_cannot_take_is_no_gpus_fault(message: str) -> None:
    assert read(said(message)).failures == ()


def test_a_part_of_a_partitioned_gpu_is_kept_beside_the_gpu() -> None:
    said_of = evidence(only(read(said("NVRM: Xid (PCI:0000:5a:00 GPU-I:07 GPU-CI:01): 94, pid=12"))))

    assert (said_of["gpu_instance"], said_of["compute_instance"]) == (7, 1)
    assert "place" not in said_of
