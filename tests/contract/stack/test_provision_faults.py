# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs that fail: what they say, what they have made, and that the next run goes on from there."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.concurrency import Deadline
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import deployments
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import resource as kinds
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack import session as sessions
from ansible_collections.hpcai.azure.plugins.plugin_utils._stack.deployments import Deployments
from simulator.arm.provision import whatif

from .cloud import Azure, smallest

PUBLIC = {"ssh_from": ["192.0.2.0/24"]}
IN_THE_DEPLOYMENT = 21
"""Resources of the smallest stack that are in its deployment."""


def failure(azure: Azure, stated: dict[str, Any] | None = None, **options: Any) -> str:
    """The message of a run that must fail. It is one line."""
    with pytest.raises(InventoryError) as refused:
        azure.run(stated, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def complete(azure: Azure, stated: dict[str, Any] | None = None) -> None:
    """Check that the stack is complete and that there is nothing left to do."""
    azure.simulator.clear()
    done = azure.run(stated)
    assert done["changed"] is False, done["diff"]
    assert azure.sent() == []


@pytest.mark.parametrize("position", [1, 5, IN_THE_DEPLOYMENT])
def test_deployment_that_fails_is_continued(azure: Azure, position: int) -> None:
    azure.simulator.add_fault(
        "PUT /",
        after=position - 1,
        times=1,
        service="deployment",
        status=409,
        code="SkuNotAvailable",
        message="The requested size is currently not available in southcentralus.",
    )
    message = failure(azure)

    assert "SkuNotAvailable: The requested size is currently not available in southcentralus." in message
    assert "Choose another size, zone or region." in message
    assert "Made and recorded: resourceGroups/hpcai, " in message
    assert message.endswith("Correct this, and run it again: it continues from there.")
    failed = message.split(":", 1)[0]
    made = {one["resource"] for one in azure.run(state="planned")["changes"]}
    again = azure.run()

    assert failed in [one["label"] for one in again["changes"]]
    assert {one["resource"] for one in again["changes"]} == made
    complete(azure)


@pytest.mark.parametrize("missing", ["secrets", "providers/Microsoft.Authorization/roleAssignments"])
def test_no_machine_is_made_before_it_can_get_the_munge_key(azure: Azure, missing: str) -> None:
    """A first boot without the key fails, and only slurmd tries again."""
    azure.simulator.add_fault(
        f"PUT .*/vaults/[^/]*/{missing}/", service="deployment", status=409, code="Conflict", message="Try again."
    )
    assert "Conflict: Try again." in failure(azure)
    assert azure.simulator.model.instances() == []
    azure.simulator.clear()
    azure.run()

    assert [one.name for one in azure.simulator.model.instances()] == ["hpcai-controller", "hpcai-login-1"]
    complete(azure)


def test_run_that_was_killed_while_azure_works_is_continued(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    azure.simulator.add_fault("PUT .*/natGateways/", "slow", delay_s=1.5, service="deployment")

    def killed(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Deployments, "_watch", killed)
        with pytest.raises(KeyboardInterrupt):
            azure.run()
    monkeypatch.setattr(deployments, "_WATCH_S", 0.1)
    foreseen = azure.run(check=True)
    assert "A deployment of an earlier run is still running." in foreseen["notes"]
    azure.simulator.clear()
    azure.run()

    # Only what the killed run had not started: the record.
    assert [path.rsplit("/", 1)[-1] for _method, path in azure.sent()] == ["hpcai-hpcai-record"]
    complete(azure)


def test_two_runs_at_once_do_not_disturb_each_other(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    azure.simulator.add_fault(
        "PUT .*/deployments/hpcai-hpcai[?]",
        times=1,
        status=409,
        code="DeploymentActive",
        message="Unable to edit or replace deployment 'hpcai-hpcai': previous deployment is still active.",
    )
    message = failure(azure)

    assert "Another run of this stack is still running. Wait until it has ended, and run this again." in message
    azure.run()
    complete(azure)


def test_quota_that_is_used_up_after_the_validation_is_explained(azure: Azure) -> None:
    azure.simulator.add_fault(
        "PUT .*/virtualMachines/hpcai-controller",
        service="deployment",
        times=1,
        status=409,
        code="QuotaExceeded",
        message="Operation could not be completed as it results in exceeding approved Total Regional Cores quota.",
    )
    message = failure(azure)

    assert message.startswith("virtualMachines/hpcai-controller: QuotaExceeded: Operation could not be completed")
    assert "Ask Azure for more quota, or lower the sizes." in message
    azure.run()
    complete(azure)


def test_throttling_for_minutes_is_waited_for(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Hurried(Deadline):
        """Its waits take no time."""

        def __init__(self, seconds: float) -> None:
            super().__init__(seconds, lambda: time.monotonic() + sum(waits), waits.append)

    monkeypatch.setattr(sessions, "Deadline", Hurried)
    busy: dict[str, Any] = {"status": 429, "code": "TooManyRequests", "headers": {"Retry-After": "25"}}
    # Reads, each write, and the questions how far the deployment is.
    azure.simulator.add_fault("GET .*providers/Microsoft.Network", times=12, **busy)
    azure.simulator.add_fault("PUT .*/(resourceGroups|userAssignedIdentities|deployments)/", times=8, **busy)
    azure.simulator.add_fault("(POST|GET) .*/(deployments/|operation)", times=8, **busy)
    azure.run(timeout=3600)

    assert waits.count(25) == 28
    complete(azure)


def test_throttling_beyond_the_timeout_changes_nothing(azure: Azure) -> None:
    azure.simulator.add_fault("GET", status=429, code="TooManyRequests", headers={"Retry-After": "90"})
    message = failure(azure, timeout=5)

    assert "asks to wait 90 seconds" in message
    assert azure.sent() == []


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "InvalidAuthenticationTokenTenant", "Azure refused the token; sign in again"),
        (404, "SubscriptionNotFound", "it is not in the directory of this identity"),
    ],
)
def test_wrong_tenant_is_explained(azure: Azure, status: int, code: str, words: str) -> None:
    azure.simulator.add_fault("GET /subscriptions/[^/]*[?]", status=status, code=code, message="Wrong issuer.")

    assert words in failure(azure)
    assert azure.sent() == []


def test_missing_package_is_one_clear_error(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.mgmt.resource.deployments", None)
    message = failure(azure)

    assert message.startswith("the Python package azure-mgmt-resource-deployments is missing on the control node")
    assert azure.simulator.requests() == []


def test_blocked_name_of_the_vault_is_found_before_the_first_write(azure: Azure) -> None:
    keys: dict[str, Any] = {"storage": {"containers": []}, "shared_home": {"source": "none"}}
    wanted = smallest(**keys)
    azure.run(wanted)
    azure.run(wanted, state="absent")
    azure.simulator.clear()
    message = failure(azure, wanted)

    assert message.startswith("Nothing was changed. the name hpcai-")
    assert "az keyvault purge --name hpcai-" in message
    assert azure.sent() == []
    azure.run(smallest(**keys, key_vault={"name": "another-name"}))


def test_purged_vault_frees_its_name(azure: Azure) -> None:
    wanted = smallest(storage={"containers": []}, shared_home={"source": "none"})
    azure.run(wanted)
    result = azure.run(wanted, state="absent", purge_vault=True)

    assert result["notes"] == []
    azure.run(wanted)
    complete(azure, wanted)


def test_policy_against_public_addresses_is_explained(azure: Azure) -> None:
    azure.simulator.limits.policies = [{"name": "no-public-ip", "type": kinds.PUBLIC_ADDRESS}]
    message = failure(azure, smallest(network=PUBLIC))

    assert "RequestDisallowedByPolicy" in message
    assert "network.access: private" in message
    private = smallest(network={"access": "private", "nat": False})
    azure.run(private)
    complete(azure, private)


def test_missing_right_for_roles_is_explained_and_its_commands_are_returned(azure: Azure) -> None:
    azure.simulator.limits.permissions = [
        {"actions": ["*"], "notActions": ["Microsoft.Authorization/*/Write", "Microsoft.Authorization/*/Delete"]}
    ]
    message = failure(azure)

    assert "identities.assign_roles: false" in message
    without = smallest(identities={"assign_roles": False})
    result = azure.run(without)
    assert len(result["role_assignments"]) == 4
    principal = azure.get(azure.names().nodes_identity, "2023-01-31")["properties"]["principalId"]
    assert sum(f"--assignee-object-id {principal}" in one for one in result["role_assignments"]) == 3
    complete(azure, without)


def test_identity_with_rights_on_the_group_only_makes_the_vault(azure: Azure) -> None:
    # Deleted vaults belong to the subscription, so that a Contributor of an adopted group may not read them.
    azure.simulator.add_fault("GET .*/deletedVaults/", status=403, code="AuthorizationFailed", message="No.")

    assert azure.run()["changed"] is True
    complete(azure)


def test_error_while_reading_changes_nothing(azure: Azure) -> None:
    azure.run()
    azure.simulator.clear()
    azure.simulator.add_fault("GET .*/virtualNetworks/", status=403, code="AuthorizationFailed", message="No.")

    assert "Give the identity the action Microsoft.Network/virtualNetworks/read" in failure(azure)
    assert azure.sent() == []


def test_answer_of_a_proxy_is_not_a_missing_resource(azure: Azure) -> None:
    azure.run()
    azure.simulator.clear()
    azure.simulator.add_fault("GET .*/virtualNetworks/", status=404, code="Blocked", message="Not on this network.")

    assert "could not read virtualNetworks/hpcai-vnet: 404 Blocked: Not on this network." in failure(azure)
    assert azure.sent() == []


def test_preview_that_deletes_something_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    preview = SimpleNamespace(
        error=None,
        changes=[
            SimpleNamespace(
                resource_id="/subscriptions/s/resourceGroups/g/providers/A/disks/new", change_type="Create"
            ),
            SimpleNamespace(
                resource_id="/subscriptions/s/resourceGroups/g/providers/A/disks/old", change_type="Delete"
            ),
        ],
    )
    calls = SimpleNamespace(
        begin_validate=lambda *_a: SimpleNamespace(result=lambda: None),
        begin_what_if=lambda *_a: SimpleNamespace(result=lambda: preview),
    )
    clients: Any = SimpleNamespace(deployments=lambda _subscription: SimpleNamespace(deployments=calls))

    with pytest.raises(InventoryError, match=r"it would delete disks/old\. Nothing was deployed\.$"):
        Deployments(clients, "s", "g", Deadline(5), print).check("x", {"resources": []})


def deployed(azure: Azure) -> list[str]:
    """The requests that concern the stack's deployment, without those that only read it."""
    return [
        f"{one['method']} {one['path'].rpartition('/')[2]}"
        for one in azure.simulator.requests()
        if "/deployments/hpcai-hpcai" in one["path"].lower() and one["method"] != "GET"
    ]


def test_deployment_is_validated_and_previewed_before_it_starts(azure: Azure) -> None:
    azure.run()

    deployment = azure.simulator.model.deployments[azure.names().of(kinds.DEPLOYMENT, "hpcai-hpcai").lower()]
    assert len(deployment.template["resources"]) == IN_THE_DEPLOYMENT
    assert deployed(azure) == ["POST validate", "POST whatIf", "PUT hpcai-hpcai", "PUT hpcai-hpcai-record"]


def test_run_whose_preview_deletes_something_deploys_nothing(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = whatif.preview

    def with_deletion(*arguments: Any) -> dict[str, Any]:
        answer = shown(*arguments)
        old = {"resourceId": azure.names().of(kinds.DISK, "old"), "changeType": "Delete"}
        answer["properties"]["changes"].append(old)
        return answer

    azure.run(smallest(login={"count": 0}))
    azure.simulator.clear()
    with monkeypatch.context() as patched:
        patched.setattr(whatif, "preview", with_deletion)
        assert "it would delete disks/old. Nothing was deployed." in failure(azure)
    assert deployed(azure) == ["POST validate", "POST whatIf"]
    assert azure.sent() == []
    azure.run()
    complete(azure)


def test_run_beside_another_one_does_not_make_the_same_again(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    check, runs = Deployments.check, [1]

    def meanwhile(*arguments: Any) -> None:
        check(*arguments)
        if runs.pop():
            runs.append(0)
            azure.run()

    with monkeypatch.context() as patched:
        patched.setattr(Deployments, "check", meanwhile)
        message = failure(azure)

    # It would store a second munge key, and shrink a set that has grown meanwhile.
    assert f"and {IN_THE_DEPLOYMENT - 8} more changed while Azure checked the deployment. It was not started" in message
    complete(azure)


def test_subnet_that_was_added_during_the_checks_stays(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    azure.run()
    network = azure.names().network
    body = azure.get(network)
    del body["properties"]["subnets"][0]["properties"]["natGateway"]
    azure.put(network, {key: body[key] for key in ("location", "tags", "properties")})
    check = Deployments.check

    def meanwhile(*arguments: Any) -> None:
        check(*arguments)
        azure.put(f"{network}/subnets/foreign", {"properties": {"addressPrefix": "10.42.100.0/24"}})

    azure.simulator.clear()
    with monkeypatch.context() as patched:
        patched.setattr(Deployments, "check", meanwhile)
        assert "virtualNetworks/hpcai-vnet changed while Azure checked the deployment" in failure(azure)
    assert deployed(azure) == ["POST validate", "POST whatIf"]
    azure.run()
    subnets = {one["name"]: one["properties"] for one in azure.get(network)["properties"]["subnets"]}
    assert {"foreign", "cluster"} <= subnets.keys()
    assert "natGateway" in subnets["cluster"]
    complete(azure)


def test_failed_run_that_made_nothing_says_so(subscribe: Callable[..., Azure]) -> None:
    azure = subscribe()
    azure.simulator.add_fault("PUT .*/resourceGroups/hpcai[?]", status=403, code="AuthorizationFailed", message="No.")

    assert "Nothing was made. Correct this, and run it again." in failure(azure)
    assert json.dumps(azure.sent()).count("PUT") == 1
