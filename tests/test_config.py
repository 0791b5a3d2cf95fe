# SPDX-License-Identifier: Apache-2.0
"""Are settings read, bounded, kept secret, and all their faults told at once?"""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.config import NUMBERS, SETTING_NAMES, ClientSettings, ConfigError, Settings
from registry.domain.policy import Policy

PEPPER = "0123456789abcdef" * 2
KEYS = {"PRATIQUE_SECRET_KEY": PEPPER, "PRATIQUE_SIGNING_KEY": "ab" * 32}


def faults(**environ: str) -> dict[str, str]:
    """What is wrong, by variable."""
    with pytest.raises(ConfigError) as caught:
        Settings.from_env({f"PRATIQUE_{name}": value for name, value in environ.items()})
    return {problem.variable.removeprefix("PRATIQUE_"): str(problem) for problem in caught.value.problems}


def test_without_settings_the_defaults_hold() -> None:
    settings = Settings.from_env({"PATH": "/bin", "PRATIQUE_PASS_COUNT": ""})

    assert settings.data_dir == Path("pratique-data").absolute()
    assert settings.database_url == f"sqlite:///{settings.data_dir}/pratique.db"
    assert settings.database_url.startswith("sqlite:////")
    assert settings.policy == Policy()
    assert (settings.max_body_bytes, settings.rate_limit_per_second, settings.log_level) == (16 * 2**20, 0, "info")
    assert (settings.secret_key, settings.signing_key, settings.is_postgresql) == (None, None, False)


def test_defaults_of_the_table_are_those_of_the_class_and_of_the_policy() -> None:
    made = Settings(database_url="sqlite:////x", data_dir=Path("/x"))

    assert {number.name: number.default for number in NUMBERS} == {
        number.name: getattr(made, number.name.lower()) for number in NUMBERS
    }
    assert made.policy == Policy()


def test_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "pepper").write_text(PEPPER + "\n")
    settings = Settings.from_env(
        {
            "PRATIQUE_DATABASE_URL": "postgresql://joe:geheim@db/pratique",
            "PRATIQUE_DATA_DIR": str(tmp_path),
            "PRATIQUE_SECRET_KEY_FILE": str(tmp_path / "pepper"),
            "PRATIQUE_SIGNING_KEY": "ab" * 32,
            "PRATIQUE_PASS_COUNT": "3",
            "PRATIQUE_PASS_GAP_SECONDS": "0",
            "PRATIQUE_PASS_MAX_AGE_SECONDS": "60",
            "PRATIQUE_REPORT_STALE_SECONDS": "10",
            "PRATIQUE_MAX_BODY_BYTES": "4096",
            "PRATIQUE_RATE_LIMIT_PER_SECOND": "7",
            "PRATIQUE_LOG_LEVEL": "DEBUG",
        }
    )

    assert settings.secret_key == PEPPER
    assert settings.policy == Policy(pass_count=3, pass_gap_seconds=0, pass_max_age_seconds=60, report_stale_seconds=10)
    assert (settings.max_body_bytes, settings.rate_limit_per_second, settings.log_level) == (4096, 7, "debug")
    assert (settings.is_postgresql, settings.data_dir) == (True, tmp_path)


def test_all_faults_are_told_at_once_with_variable_value_and_remedy() -> None:
    found = faults(
        PASS_COUNT="0", PASS_GAP_SECONDS="half", REPORT_STALE_SECONDS="-1", MAX_BODY_BYTES="9" * 30, LOG_LEVEL="loud",
        DATABASE_URL="mysql://a/b", SECRET_KEY="short", SIGNING_KEY="xyz", PASS_CUONT="2",
    )  # fmt: skip

    assert sorted(found) == [
        "DATABASE_URL", "LOG_LEVEL", "MAX_BODY_BYTES", "PASS_COUNT", "PASS_CUONT", "PASS_GAP_SECONDS",
        "REPORT_STALE_SECONDS", "SECRET_KEY", "SIGNING_KEY",
    ]  # fmt: skip
    assert found["PASS_COUNT"].startswith("PRATIQUE_PASS_COUNT is '0': give a whole number from 1 to 100")
    assert "no such setting" in found["PASS_CUONT"]


@pytest.mark.parametrize("number", ["1.5", "1e3", " ", "٣", "0x10", "+1", "1_0"])
def test_a_number_is_written_in_plain_digits(number: str) -> None:
    if not number.strip():
        assert Settings.from_env({"PRATIQUE_PASS_COUNT": number}).pass_count == 2
        return
    assert "PASS_COUNT" in faults(PASS_COUNT=number)


@pytest.mark.parametrize("url", ["sqlite:///relative.db", "sqlite:////", "sqlite://", "/tmp/x.db", "postgres"])
def test_other_addresses_of_databases_are_refused(url: str) -> None:
    assert "sqlite:////absolute/path" in faults(DATABASE_URL=url)["DATABASE_URL"]


@pytest.mark.parametrize("way", ["uid", "label:", "label:a b", "providerid"])
def test_other_ways_to_call_a_kubernetes_node_are_refused(way: str) -> None:
    assert "label:KEY" in faults(NODE_NAME_FROM=way)["NODE_NAME_FROM"]
    assert Settings.from_env({"PRATIQUE_NODE_NAME_FROM": "label:fleet/name"}).node_name_from == "label:fleet/name"


def test_with_postgresql_both_keys_must_be_given() -> None:
    found = faults(DATABASE_URL="postgresql://db/x")

    assert sorted(found) == ["SECRET_KEY", "SIGNING_KEY"]
    assert Settings.from_env({"PRATIQUE_DATABASE_URL": "postgres://db/x", **KEYS}).is_postgresql


def test_secrets_are_never_shown() -> None:
    url = "postgresql://joe:ge/h@eim@db/x?password=auch"
    settings = Settings.from_env({"PRATIQUE_DATABASE_URL": url, **KEYS})
    client = ClientSettings.from_env({"PRATIQUE_TOKEN": "prq_geheim"})

    for secret in (PEPPER, "ab" * 32, "ge/h", "auch", "prq_geheim"):
        assert secret not in repr(settings) + repr(client)
    assert Settings.from_env(
        {"PRATIQUE_DATABASE_URL": "postgresql://joe:x%40y@db/x?password=auch", **KEYS}
    ).shown_database_url == ("postgresql://joe:…@db/x?password=…")
    told = faults(
        SECRET_KEY="geheim", SIGNING_KEY="geheim", DATABASE_URL="mysql://joe:geheim@db/x", SECRET_KYE="geheim"
    )
    assert "geheim" not in repr(told)


def test_a_file_with_a_secret_must_be_there_hold_text_and_stand_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")

    assert "cannot be read" in faults(SECRET_KEY_FILE=str(tmp_path / "none"))["SECRET_KEY_FILE"]
    assert "cannot be read" in faults(SECRET_KEY_FILE=str(tmp_path / "bytes"))["SECRET_KEY_FILE"]
    assert "empty" in faults(SECRET_KEY_FILE=str(tmp_path / "empty"))["SECRET_KEY_FILE"]
    (tmp_path / "good").write_text(PEPPER)
    assert "keep one" in faults(SECRET_KEY_FILE=str(tmp_path / "good"), SECRET_KEY=PEPPER)["SECRET_KEY"]


def test_what_kubernetes_and_the_client_set_is_no_mistake() -> None:
    Settings.from_env(
        {
            "PRATIQUE_SERVICE_HOST": "10.0.0.1",
            "PRATIQUE_SERVICE_PORT": "8080",
            "PRATIQUE_SERVICE_PORT_HTTP": "8080",
            "PRATIQUE_PORT": "tcp://10.0.0.1:8080",
            "PRATIQUE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
            "PRATIQUE_PORT_8080_TCP_ADDR": "10.0.0.1",
            "PRATIQUE_URL": "https://pratique.example",
            "PRATIQUE_TOKEN": "prq_",
        }
    )


def test_the_client_has_settings_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("prq_x\n")
    settings = ClientSettings.from_env(
        {"PRATIQUE_URL": "https://x", "PRATIQUE_TOKEN_FILE": str(tmp_path / "token"), "PRATIQUE_CA_FILE": "/ca.pem"}
    )

    assert (settings.url, settings.token, settings.ca_file) == ("https://x", "prq_x", "/ca.pem")
    assert ClientSettings.from_env({}) == ClientSettings()
    with pytest.raises(ConfigError, match="PRATIQUE_ULR"):
        ClientSettings.from_env({"PRATIQUE_ULR": "https://x"})


def test_every_name_is_listed_once() -> None:
    assert len(SETTING_NAMES) == len(set(SETTING_NAMES))
    assert all(name.startswith("PRATIQUE_") for name in SETTING_NAMES)


def test_a_policy_file_decides_with_the_variables_that_it_does_not_name(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[thresholds]\npass_count = 4\nbreaker_fleet_percent = 7\n[effects]\nxid_31 = "hold"\n')
    settings = Settings.from_env({"PRATIQUE_POLICY_FILE": str(file), "PRATIQUE_PASS_GAP_SECONDS": "0"})

    policy = settings.policy
    assert (policy.pass_count, policy.pass_gap_seconds, policy.breaker_fleet_percent) == (4, 0, 7)
    assert policy.look_up("xid_31").effect == "hold"
    assert (settings.pass_count, settings.policy_file) == (4, file)


def test_a_wrong_policy_file_refuses_the_start_and_names_every_fault(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[thresholds]\npass_cuont = 3\n[effects]\nxid_79 = "reboot"\n')
    with pytest.raises(ConfigError) as caught:
        Settings.from_env({"PRATIQUE_POLICY_FILE": str(file), "PRATIQUE_LOG_LEVEL": "loud"})
    told = str(caught.value)
    assert all(word in told for word in ("thresholds.pass_cuont", "effects.xid_79", "LOG_LEVEL", str(file)))


def test_a_policy_file_that_is_not_there_and_a_number_in_two_places_are_faults(tmp_path: Path) -> None:
    assert "cannot be read" in faults(POLICY_FILE=str(tmp_path / "none.toml"))["POLICY_FILE"]
    file = tmp_path / "policy.toml"
    file.write_text("[thresholds]\npass_count = 4\n")
    assert "keep one" in faults(POLICY_FILE=str(file), PASS_COUNT="4")["PASS_COUNT"]


def test_checkpoints_go_into_the_data_folder_unless_said_otherwise() -> None:
    usual = Settings.from_env({"PRATIQUE_DATA_DIR": "/srv/records"})
    off = Settings.from_env({"PRATIQUE_CHECKPOINT_FILE": "off"})
    other = Settings.from_env(
        {
            "PRATIQUE_CHECKPOINT_FILE": "/mnt/worm/checkpoints.jsonl",
            "PRATIQUE_CHECKPOINT_URL": "https://audit.example/in?token=secret",
            "PRATIQUE_ALLOW_PRIVATE_SINKS": "10.0.0.0/8, Audit.internal,",
        }
    )

    assert usual.checkpoint_file == Path("/srv/records/checkpoints.jsonl")
    assert (usual.checkpoint_url, usual.allow_private_sinks) == (None, ())
    assert off.checkpoint_file is None
    assert other.checkpoint_file == Path("/mnt/worm/checkpoints.jsonl")
    assert other.allow_private_sinks == ("10.0.0.0/8", "audit.internal")
    assert "secret" not in repr(other)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://audit.example/", "audit.example", "https://", "https://user:secret@audit.example/"),
        *(
            "https://audit.example:99999/",
            "https://[:::]/",
            "https://audit.example/a b",
            "https://audit.example/\r\nX: y",
        ),
    ],
)
def test_an_address_that_nothing_can_be_sent_to_is_refused_and_not_told(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Settings.from_env({"PRATIQUE_CHECKPOINT_URL": url})

    assert [one.variable for one in refused.value.problems] == ["PRATIQUE_CHECKPOINT_URL"]
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://10.0.0.1:8080", "https://[2001:db8::1]:443/in", "https://audit.example/a?b=c"])
def test_an_address_of_the_web_is_taken(url: str) -> None:
    assert Settings.from_env({"PRATIQUE_CHECKPOINT_URL": url}).checkpoint_url == url


def test_the_address_of_the_service_itself_is_one_of_the_web_without_a_last_slash() -> None:
    assert Settings.from_env({"PRATIQUE_PUBLIC_URL": "https://pratique.example/"}).public_url == (
        "https://pratique.example"
    )
    assert Settings.from_env({}).public_url is None
    with pytest.raises(ConfigError, match="PRATIQUE_PUBLIC_URL") as refused:
        Settings.from_env({"PRATIQUE_PUBLIC_URL": "https://user:secret@pratique.example"})
    assert "secret" not in str(refused.value)
