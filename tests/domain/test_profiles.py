# SPDX-License-Identifier: Apache-2.0
"""Do the built-in profiles say what EC2 types carry, and is every mistake in an operator's own named at once?"""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.errors import InvalidField
from registry.domain.profiles import (
    BUILT_IN,
    EFA_CHECKS,
    GPU_CHECKS,
    OPTIONAL_CHECKS,
    REQUIRED_CHECKS,
    Profile,
    default_checks,
    from_json,
)


def _problems(body: object, name: str = "rack-7") -> dict[str, str]:
    with pytest.raises(InvalidField) as caught:
        from_json(name, body)
    return {error.pointer: error.detail for error in caught.value.errors}


@pytest.mark.parametrize(
    ("name", "gpus", "efas"),
    [
        ("p5.48xlarge", 8, 32),
        ("p5e.48xlarge", 8, 32),
        ("p5en.48xlarge", 8, 16),
        ("p5.4xlarge", 1, None),
        ("p4d.24xlarge", 8, 4),
        ("p4de.24xlarge", 8, 4),
        ("p6-b200.48xlarge", 8, 8),
        ("p6-b300.48xlarge", 8, None),
        ("p6e-gb200.36xlarge", 4, None),
        ("p3.2xlarge", 1, None),
        ("p3.8xlarge", 4, None),
        ("p3.16xlarge", 8, None),
        ("p3dn.24xlarge", 8, None),
        ("g4dn.xlarge", 1, None),
        ("g4dn.12xlarge", 4, None),
        ("g4dn.metal", 8, None),
        ("g5.xlarge", 1, None),
        ("g5.24xlarge", 4, None),
        ("g5.48xlarge", 8, None),
        ("g5g.8xlarge", 1, None),
        ("g5g.16xlarge", 2, None),
        ("g5g.metal", 2, None),
        ("g6.xlarge", 1, 0),
        ("g6.12xlarge", 4, None),
        ("g6.48xlarge", 8, 1),
        ("g6e.16xlarge", 1, None),
        ("g6e.48xlarge", 8, None),
        ("gr6.4xlarge", 1, None),
        ("g7.48xlarge", 8, None),
        ("g7e.12xlarge", 2, None),
        ("g7e.24xlarge", 4, None),
    ],
)
def test_a_built_in_profile_expects_what_the_type_carries(name: str, gpus: int, efas: int | None) -> None:
    profile = BUILT_IN[name]

    assert (profile.expected("gpu"), profile.expected("efa")) == (gpus, efas)
    assert profile.name == name
    assert profile.built_in
    assert profile.gpu_models == ()


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_efa_checks_are_required_only_where_efas_are_expected(name: str) -> None:
    profile = BUILT_IN[name]

    assert profile.required_checks == (REQUIRED_CHECKS if profile.efa_count else GPU_CHECKS)
    assert profile.per_boot_checks == ()


def test_no_check_is_both_required_and_optional() -> None:
    assert not set(REQUIRED_CHECKS) & set(OPTIONAL_CHECKS)


@pytest.mark.parametrize(
    ("gpus", "efas", "kinds"),
    [(8, 32, ("gpu", "efa")), (8, 0, ("gpu",)), (8, None, ("gpu",)), (0, 4, ("efa",)), (0, None, ())],
)
def test_kinds_are_expected_when_at_least_one_device_is(gpus: int, efas: int | None, kinds: tuple[str, ...]) -> None:
    profile = Profile("x", gpus, efa_count=efas)

    assert profile.expected_kinds == kinds


def test_nothing_is_expected_of_a_kind_that_the_profile_does_not_name() -> None:
    assert BUILT_IN["p5.48xlarge"].expected("nvme") is None


def test_a_profile_reads_back_what_it_shows() -> None:
    body = {
        "name": "rack-7",
        "gpu": {"count": 4, "models": ["NVIDIA H100 80GB HBM3"]},
        "efa": {"count": 0},
        "required_checks": ["gpu.count", "site.burn_in"],
        "per_boot_checks": ["dcgm.diag"],
    }

    profile = from_json("rack-7", body)

    assert profile.to_json() == body
    assert not profile.built_in


@pytest.mark.parametrize("name", ["p5.48xlarge", "g5.xlarge", "g6.xlarge"])
def test_a_built_in_profile_can_be_put_back_as_ones_own(name: str) -> None:
    profile = from_json(name, BUILT_IN[name].to_json())

    assert profile.to_json() == BUILT_IN[name].to_json()


@pytest.mark.parametrize(
    ("body", "efas", "checks"),
    [
        ({"gpu": {"count": 8}}, None, GPU_CHECKS),
        ({"gpu": {"count": 8}, "efa": {}}, None, GPU_CHECKS),
        ({"gpu": {"count": 8}, "efa": {"count": 0}}, 0, GPU_CHECKS),
        ({"gpu": {"count": 8}, "efa": {"count": 2}}, 2, GPU_CHECKS + EFA_CHECKS),
        ({"gpu": {"count": 0}, "efa": {"count": 2}}, 2, EFA_CHECKS),
        ({"gpu": {"count": 8}, "required_checks": []}, None, ()),
    ],
)
def test_what_is_left_out_follows_from_the_counts(
    body: dict[str, Any], efas: int | None, checks: tuple[str, ...]
) -> None:
    profile = from_json("rack-7", body)

    assert profile.efa_count == efas
    assert profile.required_checks == checks
    assert default_checks(0, None) == ()


def test_all_mistakes_are_named_at_once() -> None:
    problems = _problems(
        {
            "name": "other",
            "gpu": {"count": True, "models": ["", 7], "a/b~c": 1},
            "efa": {"count": 1025},
            "required_checks": ["gpu.count", "GPU ECC", "gpu.count"],
            "per_boot_checks": "dcgm.diag",
            "extra": 1,
        },
    )

    assert set(problems) == {
        "/name",
        "/gpu/count",
        "/gpu/models/0",
        "/gpu/models/1",
        "/gpu/a~1b~0c",
        "/efa/count",
        "/required_checks/1",
        "/required_checks/2",
        "/per_boot_checks",
        "/extra",
    }


@pytest.mark.parametrize("count", [True, -1, 1025, 8.0, "8", None])
def test_a_count_is_a_whole_number_within_reason(count: object) -> None:
    assert set(_problems({"gpu": {"count": count}})) == {"/gpu/count"}


@pytest.mark.parametrize("body", [None, [], "p5", 8])
def test_a_profile_is_an_object(body: object) -> None:
    assert set(_problems(body)) == {""}


@pytest.mark.parametrize("body", [{"gpu": 8}, {"gpu": None}])
def test_gpu_is_an_object(body: object) -> None:
    assert "/gpu" in _problems(body)


def test_gpus_must_be_spoken_of() -> None:
    assert set(_problems({"efa": {"count": 1}})) == {"/gpu"}


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 129, "p5\n"])
def test_a_name_fits_into_an_address(name: str) -> None:
    assert set(_problems({"gpu": {"count": 1}}, name)) == {"/name"}


@pytest.mark.parametrize(
    ("models", "model", "fits"),
    [
        ((), "anything", True),
        ((), None, True),
        (("NVIDIA H100 80GB HBM3",), "NVIDIA H100 80GB HBM3", True),
        (("NVIDIA H100 80GB HBM3",), " nvidia h100  80gb hbm3", True),
        (("NVIDIA H100 80GB HBM3",), "NVIDIA H100", False),
        (("NVIDIA H100 80GB HBM3",), None, False),
        (("Tesla T4", "NVIDIA A10G"), "NVIDIA A10G", True),
    ],
)
def test_a_model_fits_when_it_is_named_or_none_is(models: tuple[str, ...], model: str | None, fits: bool) -> None:
    assert Profile("x", 1, gpu_models=models).model_matches(model) is fits
