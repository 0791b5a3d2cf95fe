# SPDX-License-Identifier: Apache-2.0
"""What can be set from outside, and what is wrong with what was set? Every fault is told at once, with its remedy."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from registry.domain.node_naming import is_way
from registry.domain.policy import Policy
from registry.domain.policy_file import PolicyError, parse_policy, thresholds_in
from registry.domain.web_address import is_web_address

PREFIX = "PRATIQUE_"
POSTGRESQL = ("postgresql://", "postgres://")
LOG_LEVELS = ("debug", "info", "warning", "error")
SECRET_KEY_LENGTH_MIN = 32
"""Characters of a pepper: 32 random hex digits are 128 bits, which nobody tries out."""

_SIGNING_KEY = re.compile(r"[0-9a-fA-F]{64}")
"""The 32 bytes of an Ed25519 private key as hex: https://www.rfc-editor.org/rfc/rfc8032#section-5.1.5."""

_FROM_KUBERNETES = re.compile(r"PRATIQUE_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")
"""What Kubernetes adds to each container beside a Service called `pratique`:
https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables."""

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):[1-9][0-9]{0,4}")
_PASSWORD = re.compile(r"(://[^:/@]*:)[^/]*(?=@)|((?:^|[?&])password=)[^&]*")


@dataclass(frozen=True, slots=True)
class Number:
    """A setting that is a whole number within bounds."""

    name: str
    default: int
    least: int
    most: int
    meaning: str


DAY = 86_400
NUMBERS = (
    Number("PASS_COUNT", 2, 1, 100, "clean runs that a node needs"),
    Number("PASS_GAP_SECONDS", 30, 0, DAY, "least time from the start of one counted run to that of the next"),
    Number("PASS_MAX_AGE_SECONDS", 900, 1, DAY, "oldest run that may count, and longest silence that passes survive"),
    Number("REPORT_STALE_SECONDS", 120, 1, DAY, "silence after which a node is stale"),
    Number("MAX_BODY_BYTES", 16 * 1024 * 1024, 1024, 1024**3, "largest body of a request"),
    Number(
        "RATE_LIMIT_PER_SECOND",
        0,
        0,
        1_000_000,
        "requests a second that one token may make of one server; 0 is no limit",
    ),
    Number("CHECKPOINT_EVENTS", 10_000, 1, 10_000_000, "entries of the history that may wait for a signed checkpoint"),
    Number("CHECKPOINT_SECONDS", 300, 1, DAY, "longest that an entry of the history waits for a signed checkpoint"),
)
TEXTS = {
    "DATABASE_URL": "where the records are: sqlite:////absolute/path or postgresql://…",
    "DATA_DIR": "folder of the SQLite database and of the keys that `migrate` makes",
    "POLICY_FILE": "TOML file of the policy: thresholds, effects of fault codes, rules",
    "METRICS_BIND": "HOST:PORT at which /metrics is answered, and only there; not set: beside the rest",
    "CHECKPOINT_FILE": "file that signed checkpoints are added to, line by line; `off` is none",
    "CHECKPOINT_URL": "address that signed checkpoints are sent to: http:// or https://",
    "ALLOW_PRIVATE_SINKS": "hosts and networks, with commas between, that may be sent to although they are not public",
    "NODE_NAME_FROM": "how a Kubernetes Node is called here: `name`, `providerID` or `label:KEY`",
    "PUBLIC_URL": "address at which people reach this service: messages to subscriptions link to it",
    "LOG_LEVEL": f"how much is logged: {', '.join(LOG_LEVELS)}",
}
SECRETS = {
    "SECRET_KEY": f"the pepper of tokens, at least {SECRET_KEY_LENGTH_MIN} characters",
    "SIGNING_KEY": "the Ed25519 private key of checkpoints, 64 hexadecimal digits",
}
CLIENT_TEXTS = {
    "URL": "address of the server",
    "CA_FILE": "certificates that the client trusts in place of the usual ones",
}
CLIENT_SECRETS = {"TOKEN": "the token that a command shows"}
AGENT_TEXTS = {
    "AGENT_NODE": "name under which the node reports",
    "AGENT_PROVIDER_ID": "id of the instance, as the provider names it",
    "AGENT_PROFILE": "what sort of node it is",
    "AGENT_ZONE": "where it stands",
    "AGENT_ROOT": "folder below which /sys, /proc and /dev of the node are",
    "AGENT_STATE_DIR": "folder of what waits to be sent",
    "AGENT_STATE_FILE": "file that always holds the newest decision",
    "AGENT_ON_CHANGE": "command that is run when the decision becomes another",
}
AGENT_DIAG_LEVEL = Number("AGENT_DIAG_LEVEL", 0, 0, 4, "level of the `dcgmi diag` of each boot; 0 is none")
AGENT_DIAG_ANYTIME = Number(
    "AGENT_DIAG_ANYTIME",
    0,
    0,
    1,
    "1 lets `dcgmi diag` of level 2 and up begin on an admitted node, whose jobs it disturbs",
)

_NOT_OURS = frozenset({"PRATIQUE_CORPUS"})
"""Read by the tests only."""

SETTING_NAMES: tuple[str, ...] = tuple(
    PREFIX + name
    for name in (
        *(number.name for number in NUMBERS),
        *TEXTS,
        *CLIENT_TEXTS,
        *AGENT_TEXTS,
        AGENT_DIAG_LEVEL.name,
        AGENT_DIAG_ANYTIME.name,
        *(secret + end for secret in (*SECRETS, *CLIENT_SECRETS) for end in ("", "_FILE")),
    )
)
"""Every variable that is read."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one variable. `value` is None for a secret and for what is missing."""

    variable: str
    value: str | None
    remedy: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f" is {self.value!r}"
        return f"{self.variable}{shown}: {self.remedy}"


class ConfigError(Exception):
    """The settings cannot be used; `problems` names each variable with its remedy."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the server. What is secret is never in its `repr`."""

    database_url: str = field(repr=False)
    data_dir: Path
    pass_count: int = 2
    pass_gap_seconds: int = 30
    pass_max_age_seconds: int = 900
    report_stale_seconds: int = 120
    max_body_bytes: int = 16 * 1024 * 1024
    rate_limit_per_second: int = 0
    secret_key: str | None = field(default=None, repr=False)
    signing_key: str | None = field(default=None, repr=False)
    checkpoint_events: int = 10_000
    checkpoint_seconds: int = 300
    checkpoint_file: Path | None = None
    checkpoint_url: str | None = field(default=None, repr=False)
    allow_private_sinks: tuple[str, ...] = ()
    node_name_from: str = "name"
    public_url: str | None = None
    log_level: str = "info"
    metrics_bind: str | None = None
    policy_file: Path | None = None
    policy_as_written: Policy = field(default_factory=Policy, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings; an empty variable counts as not set. Raises ConfigError with every fault there is."""
        source = _Source(os.environ if environ is None else environ)
        data_dir = Path(source.text("DATA_DIR", "pratique-data")).absolute()
        policy_file = source.text("POLICY_FILE", "")
        policy, named = source.policy(policy_file)
        settings = cls(
            database_url=source.text("DATABASE_URL", f"sqlite:///{data_dir / 'pratique.db'}"),
            data_dir=data_dir,
            **{number.name.lower(): source.number_or(number, policy, named) for number in NUMBERS},
            secret_key=source.secret("SECRET_KEY"),
            signing_key=source.secret("SIGNING_KEY"),
            checkpoint_file=_file_or_off(source.text("CHECKPOINT_FILE", str(data_dir / "checkpoints.jsonl"))),
            checkpoint_url=source.text("CHECKPOINT_URL", "") or None,
            allow_private_sinks=_words(source.text("ALLOW_PRIVATE_SINKS", "")),
            node_name_from=source.text("NODE_NAME_FROM", "name"),
            public_url=source.text("PUBLIC_URL", "").rstrip("/") or None,
            log_level=source.text("LOG_LEVEL", "info").lower(),
            metrics_bind=source.text("METRICS_BIND", "") or None,
            policy_file=Path(policy_file).absolute() if policy_file else None,
            policy_as_written=policy,
        )
        source.refuse_unknown()
        source.problems += settings.faults()
        source.raise_problems()
        return settings

    @property
    def is_postgresql(self) -> bool:
        """Whether the records are in PostgreSQL, so that several servers may share them."""
        return self.database_url.startswith(POSTGRESQL)

    @property
    def shown_database_url(self) -> str:
        """The address of the database without its password."""
        return _hide_password(self.database_url)

    @property
    def policy(self) -> Policy:
        """The policy that follows from these settings: that of the file, and the thresholds that have a variable."""
        return replace(
            self.policy_as_written,
            pass_count=self.pass_count,
            pass_gap_seconds=self.pass_gap_seconds,
            pass_max_age_seconds=self.pass_max_age_seconds,
            report_stale_seconds=self.report_stale_seconds,
        )

    def faults(self) -> list[Problem]:
        """Say what is wrong with the texts and secrets."""
        found = []
        if not self.is_postgresql and not re.match(r"sqlite:////.", self.database_url):
            remedy = "give sqlite:////absolute/path or postgresql://user@host/name."
            found.append(Problem(f"{PREFIX}DATABASE_URL", self.shown_database_url, remedy))
        if self.metrics_bind is not None and not _ADDRESS.fullmatch(self.metrics_bind):
            found.append(Problem(f"{PREFIX}METRICS_BIND", self.metrics_bind, "give HOST:PORT, with a port above 0."))
        if self.checkpoint_url is not None and not is_web_address(self.checkpoint_url):
            remedy = "give http://HOST[:PORT]/PATH or https://…, without a user in it."
            found.append(Problem(f"{PREFIX}CHECKPOINT_URL", None, remedy))
        if not is_way(self.node_name_from):
            found.append(Problem(f"{PREFIX}NODE_NAME_FROM", self.node_name_from, "give name, providerID or label:KEY."))
        if self.public_url is not None and not is_web_address(self.public_url):
            remedy = "give http://HOST[:PORT] or https://…, without a user in it."
            found.append(Problem(f"{PREFIX}PUBLIC_URL", None, remedy))
        if self.log_level not in LOG_LEVELS:
            found.append(Problem(f"{PREFIX}LOG_LEVEL", self.log_level, f"give one of {', '.join(LOG_LEVELS)}."))
        return found + self._faults_of_secrets()

    def _faults_of_secrets(self) -> list[Problem]:
        found = []
        if self.secret_key is not None and len(self.secret_key) < SECRET_KEY_LENGTH_MIN:
            remedy = f"it is too short: give at least {SECRET_KEY_LENGTH_MIN} random characters."
            found.append(Problem(f"{PREFIX}SECRET_KEY", None, remedy))
        if self.signing_key is not None and not _SIGNING_KEY.fullmatch(self.signing_key):
            found.append(Problem(f"{PREFIX}SIGNING_KEY", None, "give 64 hexadecimal digits."))
        return found + [
            Problem(f"{PREFIX}{name}", None, f"it is missing: with PostgreSQL all servers must be given {meaning}.")
            for name, meaning in SECRETS.items()
            if self.is_postgresql and getattr(self, name.lower()) is None
        ]


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of whoever asks a server."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> ClientSettings:
        """Read the settings; an empty variable counts as not set. Raises ConfigError with every fault there is."""
        source = _Source(os.environ if environ is None else environ)
        settings = cls(
            url=source.text("URL", "") or None, token=source.secret("TOKEN"), ca_file=source.text("CA_FILE", "") or None
        )
        source.refuse_unknown()
        source.raise_problems()
        return settings


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of a node's agent, beside those of a client. `root` and `state_dir` have defaults, the rest none."""

    node: str | None = None
    provider_id: str | None = None
    profile: str | None = None
    zone: str | None = None
    root: Path = Path("/")
    state_dir: Path = Path("/var/lib/pratique-agent")
    state_file: Path | None = None
    on_change: str | None = None
    diag_level: int = 0
    diag_anytime: bool = False

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> AgentSettings:
        """Read the settings; an empty variable counts as not set. Raises ConfigError with every fault there is."""
        source = _Source(os.environ if environ is None else environ)
        file = source.text("AGENT_STATE_FILE", "")
        settings = cls(
            node=source.text("AGENT_NODE", "") or None,
            provider_id=source.text("AGENT_PROVIDER_ID", "") or None,
            profile=source.text("AGENT_PROFILE", "") or None,
            zone=source.text("AGENT_ZONE", "") or None,
            root=Path(source.text("AGENT_ROOT", "/")),
            state_dir=Path(source.text("AGENT_STATE_DIR", "/var/lib/pratique-agent")),
            state_file=Path(file) if file else None,
            on_change=source.text("AGENT_ON_CHANGE", "") or None,
            diag_level=source.number(AGENT_DIAG_LEVEL),
            diag_anytime=source.number(AGENT_DIAG_ANYTIME) == 1,
        )
        source.refuse_unknown()
        source.raise_problems()
        return settings


class _Source:
    """The environment, and what was found wrong in it so far."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._values = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
        self.problems: list[Problem] = []

    def text(self, name: str, default: str) -> str:
        return self._values.get(PREFIX + name, "").strip() or default

    def number(self, number: Number) -> int:
        text = self.text(number.name, str(number.default))
        if re.fullmatch(r"[0-9]{1,18}", text) and number.least <= int(text) <= number.most:
            return int(text)
        remedy = f"give a whole number from {number.least} to {number.most}: {number.meaning}."
        self.problems.append(Problem(PREFIX + number.name, text, remedy))
        return number.default

    def policy(self, file: str) -> tuple[Policy, frozenset[str]]:
        """Read the policy file, if there is one; returns the policy and the thresholds that the file names."""
        text = self._content(PREFIX + "POLICY_FILE", file) if file else ""
        try:
            return parse_policy(text or ""), thresholds_in(text or "")
        except PolicyError as error:
            self.problems += [Problem(f"{PREFIX}POLICY_FILE", file, str(one)) for one in error.problems]
            return Policy(), frozenset()

    def number_or(self, number: Number, policy: Policy, named: frozenset[str]) -> int:
        """Read a number; one that the policy file names as well is in two places, and both may be meant."""
        field_name = number.name.lower()
        if field_name not in named:
            return self.number(number)
        if given := self.text(number.name, ""):
            self.problems.append(
                Problem(PREFIX + number.name, given, "the policy file sets it as well: keep one of the two.")
            )
        value: int = getattr(policy, field_name)
        return value

    def secret(self, name: str) -> str | None:
        variable, file_variable = PREFIX + name, f"{PREFIX}{name}_FILE"
        value, file = self.text(name, ""), self.text(f"{name}_FILE", "")
        if value and file:
            self.problems.append(Problem(variable, None, f"{file_variable} is set as well: keep one of the two."))
        if not file:
            return value or None
        content = self._content(file_variable, file)
        if content is None:
            return None
        if not content:
            self.problems.append(Problem(file_variable, file, "the file is empty."))
        return content or None

    def _content(self, variable: str, file: str) -> str | None:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it holds no text"
            self.problems.append(Problem(variable, file, f"the file cannot be read: {reason}."))
            return None

    def refuse_unknown(self) -> None:
        for name in sorted(self._values):
            if name in SETTING_NAMES or name in _NOT_OURS or _FROM_KUBERNETES.fullmatch(name):
                continue
            # The value is not shown: under a wrong name it may be anything, a secret too.
            self.problems.append(Problem(name, None, "there is no such setting: correct the name or remove it."))

    def raise_problems(self) -> None:
        if self.problems:
            raise ConfigError(tuple(self.problems))


def _file_or_off(text: str) -> Path | None:
    return None if text == "off" else Path(text).absolute()


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip().lower() for word in text.split(",") if word.strip())


def _hide_password(url: str) -> str:
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}…", url)
