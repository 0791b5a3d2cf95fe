# SPDX-License-Identifier: Apache-2.0
"""Does the chart render what Kubernetes takes, guard what it should, and refuse what could lock a cluster up?"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.admin.migrate import migrate
from registry.admin.serve import serve
from registry.cli.controller import controller
from registry.config import SETTING_NAMES
from registry.domain.taints import MANAGED, MANAGED_LABEL, TAINT_KEY, closing_patch, find_openings, read_marks
from tests.api.webhooks.test_kubernetes import BORN_OPEN, NAMES, OPENING, read
from tests.deploy.chart import CHART, LARGE, Matcher, Refused, needs_helm, of_kind, render, webhooks
from tests.project import ROOT

VERSIONS = ("1.30", "1.37")
"""Of Kubernetes: the first whose API servers have match conditions, and the newest that there are schemas of."""

pytestmark = needs_helm

SMALL: dict[str, Any] = {}
VALUES = pytest.mark.parametrize("values", [SMALL, LARGE], ids=["small", "large"])


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Values with others laid over them, as Helm does it."""
    made = copy.deepcopy(base)
    for name, value in change.items():
        both = isinstance(value, dict) and isinstance(made.get(name), dict)
        made[name] = merged(made[name], value) if both else value
    return made


def pods(documents: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for document in of_kind(documents, "Deployment", "Job"):
        yield document["metadata"]["name"], document["spec"]["template"]["spec"]


def containers(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for _, pod in pods(documents):
        yield from (*pod.get("initContainers", ()), *pod["containers"])


@pytest.mark.parametrize("version", VERSIONS)
@VALUES
def test_what_is_rendered_is_what_kubernetes_takes(values: dict[str, Any], version: str) -> None:
    for document in render(values):
        kubernetes_validate.validate(document, version, strict=True)


PLAIN = [
    document
    for file in (ROOT / "deploy" / "agent-daemonset.yaml", ROOT / "deploy" / "kubernetes" / "controller.yaml")
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("document", PLAIN, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_what_is_shipped_as_it_is_is_what_kubernetes_takes_too(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


def test_the_small_form_is_one_server_with_a_volume_and_no_part_that_wants_a_token() -> None:
    documents = render(SMALL)

    assert sorted(document["kind"] for document in documents) == [
        *("Deployment", "NetworkPolicy", "PersistentVolumeClaim", "Service", "ServiceAccount")
    ]
    (deployment,) = of_kind(documents, "Deployment")
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert [one["args"][0] for one in containers(documents)] == ["migrate", "serve"]


def test_the_large_form_migrates_before_its_servers_and_as_the_owner() -> None:
    (job,) = of_kind(render(LARGE), "Job")

    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["migrate", "--grant-to=pratique"]
    (url,) = [one for one in container["env"] if one["name"] == "PRATIQUE_DATABASE_URL"]
    assert url["valueFrom"]["secretKeyRef"]["name"] == "db-owner"


@VALUES
def test_every_setting_and_option_is_one_that_there_is(values: dict[str, Any]) -> None:
    commands: dict[str, click.Command] = {"serve": serve, "migrate": migrate, "controller": controller}
    for container in containers(render(values)):
        known = {name for one in commands[container["args"][0]].params for name in one.opts}
        assert {arg.partition("=")[0] for arg in container["args"][1:]} <= known
        names = [one["name"] for one in container.get("env", ())]
        assert set(names) <= set(SETTING_NAMES)
        assert len(names) == len(set(names))


@VALUES
def test_the_volumes_that_are_mounted_are_there(values: dict[str, Any]) -> None:
    for name, pod in pods(render(values)):
        there = {volume["name"] for volume in pod["volumes"]}
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert {mount["name"] for mount in container["volumeMounts"]} <= there, name


@VALUES
def test_our_own_pods_keep_away_from_the_nodes_that_wait_for_us(values: dict[str, Any]) -> None:
    """C111: the service must be able to start while every managed node waits for it."""
    apart = {"key": MANAGED_LABEL, "operator": "NotIn", "values": [MANAGED]}
    for name, pod in pods(render(values)):
        terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert all(apart in term["matchExpressions"] for term in terms), name


@VALUES
def test_our_own_pods_may_do_no_more_than_they_need(values: dict[str, Any]) -> None:
    documents = render(values)
    for name, pod in pods(documents):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is (name == "pratique-controller")
    for container in containers(documents):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not [one for one in container.get("env", ()) if "SECRET" in str(one.get("value", ""))]


def test_the_controllers_rights_are_the_least_that_work() -> None:
    documents = render(LARGE)

    (cluster,) = of_kind(documents, "ClusterRole")
    (role,) = of_kind(documents, "Role")
    assert cluster["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert role["rules"] == [
        {**leases, "resourceNames": ["pratique-controller"], "verbs": ["get", "update"]},
        {**leases, "verbs": ["create"]},
    ]


def test_a_single_server_is_no_reason_to_keep_its_node_from_being_drained() -> None:
    one = merged(LARGE, {"server": {"replicas": 1}, "controller": {"replicas": 1}})

    assert not of_kind(render(one), "PodDisruptionBudget")
    assert [budget["spec"]["maxUnavailable"] for budget in of_kind(render(LARGE), "PodDisruptionBudget")] == [1, 1]


def test_the_chart_is_of_the_version_that_it_installs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))

    assert (
        chart["appVersion"]
        == tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    )


def test_a_changed_policy_begins_new_pods() -> None:
    def seen(policy: str) -> str:
        first = of_kind(render(merged(LARGE, {"policy": policy})), "Deployment")
        server = next(one for one in first if one["metadata"]["name"] == "pratique")
        return str(server["spec"]["template"]["metadata"]["annotations"]["checksum/policy"])

    (policy,) = of_kind(render(LARGE), "ConfigMap")
    assert policy["data"]["policy.toml"] == LARGE["policy"]
    assert seen("[thresholds]\n") != seen(LARGE["policy"])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a server on managed nodes": ({"server": {"nodeSelector": {MANAGED_LABEL: MANAGED}}}, "asks for managed nodes"),
    "a controller on managed nodes": (
        {"controller": {"nodeSelector": {MANAGED_LABEL: MANAGED}}},
        "controller.nodeSelector asks for managed nodes",
    ),
    "a toleration of our taint": (
        {"server": {"tolerations": [{"key": TAINT_KEY, "operator": "Exists"}]}},
        "server.tolerations tolerate",
    ),
    "a toleration of every taint": ({"server": {"tolerations": [{"operator": "Exists"}]}}, "server.tolerations"),
    "a controller that tolerates every taint": (
        {"controller": {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}},
        "controller.tolerations",
    ),
    "an interval in which a hold reaches nobody": ({"controller": {"intervalSeconds": 3600}}, "intervalSeconds"),
    "a webhook about more than our nodes": ({"webhook": {"objectSelector": {}}}, "objectSelector"),
    "a webhook about everything": ({"webhook": {"rules": []}}, "rules"),
    "a webhook that is waited for": ({"webhook": {"timeoutSeconds": 30}}, "timeoutSeconds"),
    "a webhook without TLS": ({"tls": {"existingSecret": ""}}, "tls.existingSecret"),
    "a webhook that nobody trusts": ({"webhook": {"caBundle": ""}}, "webhook.caBundle"),
    "a webhook without a token": ({"webhook": {"token": ""}}, "webhook.tokenSecret.name"),
    "a webhook whose token cannot be read": (
        {"webhook": {"token": "", "tokenSecret": {"name": "webhook-token"}}},
        "the Secret webhook-token has no token",
    ),
    "a controller without a token": ({"controller": {"tokenSecret": {"name": ""}}}, "controller.tokenSecret.name"),
    "several servers on SQLite": ({"database": {"kind": "sqlite"}}, "SQLite takes one server"),
    "PostgreSQL without an address": (
        {"database": {"postgresql": {"urlSecret": {"name": ""}}}},
        "database.postgresql.urlSecret.name",
    ),
    "PostgreSQL without keys": ({"keys": {"existingSecret": ""}}, "keys.existingSecret"),
    "a secret among the settings": ({"settings": {"SECRET_KEY": "x" * 32}}, "SECRET_KEY"),
    "a value that there is not": ({"replicas": 3}, "replicas"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_or_could_lock_a_cluster_up_is_refused_with_the_reason(name: str) -> None:
    change, reason = REFUSED[name]

    with pytest.raises(Refused) as refused:
        render(merged(LARGE, change))

    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "harmless",
    [
        {"nodeSelector": {MANAGED_LABEL: "false"}},
        {"tolerations": [{"key": "dedicated", "operator": "Equal", "value": "services", "effect": "NoSchedule"}]},
        {"tolerations": [{"operator": "Exists", "effect": "PreferNoSchedule"}]},
    ],
)
def test_what_is_harmless_is_not_refused(harmless: dict[str, Any]) -> None:
    assert render(merged(LARGE, {"server": harmless, "controller": harmless}))


# ---------------------------------------------------------------- what the webhooks ask about


def test_nothing_but_our_own_nodes_is_ever_asked_about() -> None:
    """C111: system nodes, system pods and our own pods never wait for the service, whether it runs or not."""
    for webhook in webhooks().values():
        assert webhook["objectSelector"] == {"matchLabels": {MANAGED_LABEL: MANAGED}}
        assert {resource.partition("/")[0] for rule in webhook["rules"] for resource in rule["resources"]} == {"nodes"}
        assert {group for rule in webhook["rules"] for group in rule["apiGroups"]} == {""}
        assert (webhook["sideEffects"], webhook["timeoutSeconds"]) == ("None", 2)
        assert (webhook["matchPolicy"], webhook["admissionReviewVersions"]) == ("Equivalent", ["v1"])
        assert webhook["failurePolicy"] == "Ignore" or webhook["matchConditions"]


def test_the_webhooks_ask_at_the_addresses_that_are_served() -> None:
    paths = {name: webhook["clientConfig"]["service"]["path"] for name, webhook in webhooks().items()}

    assert set(paths.values()) == {f"/k8s/prq_webhook_abc123/nodes/{what}" for what in ("validate", "mutate")}
    assert paths["born"].endswith("/mutate")
    by_header = of_kind(
        render(merged(LARGE, {"webhook": {"token": "", "sendsBearer": True}})), "MutatingWebhookConfiguration"
    )
    assert by_header[0]["webhooks"][0]["clientConfig"]["service"]["path"] == "/k8s/nodes/mutate"


def test_what_an_api_server_asks_about_is_what_depends_on_the_answer() -> None:
    asked = {name: {review for review in NAMES if Matcher(one).asks(read(review))} for name, one in webhooks().items()}

    assert asked == {"closed": OPENING, "uncordon": {"kubectl-uncordon"}, "born": BORN_OPEN}


KEYS = st.sampled_from([TAINT_KEY, "nvidia.com/gpu"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.lists(st.fixed_dictionaries({"key": KEYS, "effect": EFFECTS}), max_size=3)
LABELS = st.sampled_from([{}, {MANAGED_LABEL: MANAGED}, {MANAGED_LABEL: "no"}])
NODES = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({}, optional={"labels": LABELS})},
    optional={"spec": st.fixed_dictionaries({}, optional={"taints": TAINTS, "unschedulable": st.booleans()})},
)


def test_the_conditions_say_what_the_rules_say() -> None:
    """The same question stands twice, in the expressions of the API server and in our rules: they never disagree."""
    matchers = {name: Matcher(webhook) for name, webhook in webhooks().items()}

    @settings(max_examples=150)
    @given(before=NODES, after=NODES)
    def agree(before: dict[str, Any], after: dict[str, Any]) -> None:
        marks = read_marks(before), read_marks(after)
        assert matchers["closed"].meets(after, before) is bool(find_openings(*marks))
        assert matchers["uncordon"].meets(after, before) is (marks[0].is_cordoned and not marks[1].is_cordoned)
        if marks[1].is_managed:
            assert matchers["born"].meets(after, None) is bool(closing_patch(after))

    agree()
