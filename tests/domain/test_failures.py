# SPDX-License-Identifier: Apache-2.0
"""Does every known fault code do what the policy promises, and an unknown one no less than it must?"""

from __future__ import annotations

import pytest

from registry.domain.catalogue import CROSSWALK, GROUPS, NO_FAULTS
from registry.domain.catalogue_dcgm import DCGM_GROUPS
from registry.domain.failures import (
    CATALOGUE,
    Cause,
    Effect,
    FirstAction,
    Severity,
    is_valid_code,
    look_up,
)

# The numbers of NVIDIA's table that are in use: https://docs.nvidia.com/deploy/xid-errors/
XIDS = tuple(
    number
    for first, last in (
        *((8, 8), (11, 11), (13, 14), (25, 25), (31, 32), (37, 41), (43, 46), (48, 48), (54, 54), (60, 60)),
        *((62, 64), (66, 72), (74, 80), (82, 86), (88, 89), (92, 110), (119, 121), (126, 137), (139, 172)),
    )
    for number in range(first, last + 1)
)

APPLICATION = ("xid_11", "xid_13", "xid_25", "xid_31", "xid_43", "xid_45", "xid_60", "xid_69", "xid_80", "xid_137")

EFFECTS = {
    Effect.PERMANENT: (
        "xid_64",
        "xid_79",
        "xid_157",
        "gpu.fallen_off_bus",
        "gpu.row_remap.failed",
        "dcgm_fallen_off_bus",
        "dcgm_row_remap_failure",
        "dcgm_uncorrectable_row_remap_limit",
        "dcgm_volatile_dbe_detected",
        "dcgm_faulty_memory",
    ),
    Effect.QUARANTINE: (
        *(f"xid_{number}" for number in (46, 48, 54, 62, 63, 74, 95, 109, 110, 119, 120, 136, 140, 142, 143)),
        *("xid_155", "xid_156", "xid_158"),
        "gpu.sdc_suspected",
        "gpu.requires_reset",
        "gpu.unknown_device",
        "gpu.nvml_unknown",
        "gpu.row_remap.pending",
        "dcgm_pending_row_remap",
        "dcgm_uncontained_error",
        "dcgm_gpu_recovery_reboot",
    ),
    Effect.HOLD: ("gpu.missing", "gpu.inforom", "efa.link_down", "identity.changed", "xid_145", "dcgm_nvlink_down"),
    Effect.RECORD: (
        "xid_94",
        "xid_92",
        "xid_154",
        "app.fault",
        "monitor.silent",
        "dcgm_contained_error",
        "dcgm_hostengine_conn",
        "dcgm_persistence_mode",
        "dcgm_ecc_disabled",
        "dcgm_retest_requested",
        "gpu_reset",
        "driver_loaded",
    ),
}


@pytest.mark.parametrize("number", XIDS)
def test_every_xid_in_use_is_in_the_catalogue(number: int) -> None:
    row = CATALOGUE[f"xid_{number}"]

    assert row.sources
    assert row.is_fault


@pytest.mark.parametrize(("code", "effect"), [(code, effect) for effect, codes in EFFECTS.items() for code in codes])
def test_a_code_has_the_effect_that_the_policy_promises(code: str, effect: Effect) -> None:
    assert look_up(code).effect is effect


@pytest.mark.parametrize("code", APPLICATION)
def test_an_xid_of_the_application_is_recorded_and_blocks_nothing(code: str) -> None:
    row = look_up(code)

    assert row.effect is Effect.RECORD
    assert row.cause is Cause.USER
    assert row.kind == "app.fault"
    assert row.first_action is FirstAction.KILL_JOB


@pytest.mark.parametrize("code", ["xid_65", "xid_9999", "sxid_99999", "dcgm_invented", "gpu.smells_odd", "whatever"])
def test_an_unknown_code_is_kept_and_holds(code: str) -> None:
    row = look_up(code)

    assert is_valid_code(code)
    assert (row.code, row.kind, row.effect) == (code, None, Effect.HOLD)
    assert (row.cause, row.severity) == (Cause.UNKNOWN, Severity.WARNING)
    assert "not in the catalogue" in row.title
    assert row.is_fault


def test_effects_are_ordered_and_all_but_the_mildest_block() -> None:
    assert [effect.value for effect in sorted(Effect, key=lambda e: e.rank)] == [
        "record",
        "hold",
        "quarantine",
        "permanent",
    ]
    assert [effect.is_blocking for effect in Effect] == [False, True, True, True]


def test_63_ends_with_a_reset_and_passes_but_64_wants_a_person() -> None:
    assert look_up("xid_63").release_policy == "after_passes"
    assert look_up("xid_64").release_policy == "manual"


@pytest.mark.parametrize("code", ["gpu_reset", "driver_loaded"])
def test_a_new_beginning_is_no_fault_and_proves_the_restart(code: str) -> None:
    row = look_up(code)

    assert not row.is_fault
    assert row.proves_restart
    assert not row.effect.is_blocking


def test_no_fault_proves_a_restart() -> None:
    proofs = {code for code, row in CATALOGUE.items() if row.proves_restart}

    assert proofs == {"gpu_reset", "driver_loaded"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("xid_79", "gpu.fallen_off_bus"),
        ("dcgm_fallen_off_bus", "gpu.fallen_off_bus"),
        ("xid_48", "gpu.ecc.dbe"),
        ("dcgm_volatile_dbe_detected", "gpu.ecc.dbe"),
        ("xid_64", "gpu.row_remap.failed"),
        ("gpu.row_remap.failed", "gpu.row_remap.failed"),
        ("xid_8", None),
        ("gpu_reset", None),
        ("no.such", None),
    ],
)
def test_names_of_one_fault_share_a_kind(code: str, kind: str | None) -> None:
    assert look_up(code).kind == kind


def test_a_setting_is_never_blamed_on_the_device() -> None:
    settings = ("dcgm_persistence_mode", "dcgm_ecc_disabled", "dcgm_pcie_width", "dcgm_bad_cuda_env")

    assert {look_up(code).cause for code in settings} == {Cause.PLATFORM}


def test_a_monitor_that_cannot_look_is_never_blamed_on_the_device() -> None:
    blind = [row for row in CATALOGUE.values() if row.kind == "monitor.silent"]

    assert len(blind) == 3
    assert {(row.cause, row.effect) for row in blind} == {(Cause.PLATFORM, Effect.RECORD)}


def test_what_is_permanent_is_always_the_hardwares() -> None:
    assert {row.cause for row in CATALOGUE.values() if row.effect is Effect.PERMANENT} == {Cause.HARDWARE}


def test_no_code_stands_in_two_groups() -> None:
    codes = [code for group in (*GROUPS, *DCGM_GROUPS, *NO_FAULTS) for code in group.titles]

    assert len(codes) == len(set(codes)) == len(CATALOGUE)


def test_the_crosswalk_joins_known_codes_to_known_kinds_and_no_code_to_two() -> None:
    codes = [code for joined in CROSSWALK.values() for code in joined]

    assert set(CROSSWALK) <= set(CATALOGUE)
    assert set(codes) <= set(CATALOGUE)
    assert len(codes) == len(set(codes))


def test_all_133_errors_of_dcgm_4_6_are_in_the_catalogue() -> None:
    assert sum(code.startswith("dcgm_") and not code.startswith("dcgm_health_") for code in CATALOGUE) == 133


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_every_row_has_a_valid_code_and_a_title_of_one_line(code: str) -> None:
    row = CATALOGUE[code]

    assert is_valid_code(code)
    assert 5 <= len(row.title) <= 100
    assert not row.title.endswith(".")


@pytest.mark.parametrize(
    "code",
    [
        *(
            "",
            "xid_",
            "xid_0",
            "xid_079",
            "xid79",
            "xid_ab",
            "sxid_",
            "sxid_01",
            "dcgm_",
            "dcgm",
            "Xid_79",
        ),
        *("gpu missing", "gpu-missing", ".gpu", "gpu.", "gpu..x", "xid_79\n", "x" * 65, "xid_٧٩", "größe"),
    ],
)
def test_a_code_of_another_shape_is_refused(code: str) -> None:
    assert not is_valid_code(code)


@pytest.mark.parametrize("code", ["xid_1", "xid_1722", "sxid_20034", "dcgm_x", "dcgm.health", "gpu.a.b_c", "x" * 64])
def test_a_code_of_the_right_shape_is_valid_whether_known_or_not(code: str) -> None:
    assert is_valid_code(code)
