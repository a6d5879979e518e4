# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deployments of Azure Resource Manager in the stack's group, always incremental: validated, watched and explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._azure.clients import Clients, pages
from .._azure.concurrency import Deadline
from .._azure.errors import Asking, InventoryError, explain, printable
from .arm import does_not_exist
from .resource import label_of

_WATCH_S = 5.0
"""Seconds between looks at a deployment. Most resources take longer than this."""
ENDED = ("succeeded", "failed", "canceled")
"""States of deployments and of operations that have ended, in lower case."""
_PERMISSION = "Microsoft.Resources/deployments/write"
_SHORT = 1000
"""Most characters of one of Azure's messages; they end with long links. Some contain two resource ids before."""
ADVICE: Mapping[str, str] = {
    "RequestDisallowedByPolicy": "A policy forbids it. Without public addresses: network.access: private, and "
    "network.nat: false or an adopted network.",
    "AuthorizationFailed": "If only the right to write role assignments is missing: identities.assign_roles: false, "
    "and an owner runs the commands that the run then returns in role_assignments.",
    "LinkedAuthorizationFailed": "An owner of the linked scope must allow this: hpcai.azure.preflight shows how.",
    "RoleAssignmentExists": "Somebody assigned this role already. Remove that assignment, or set "
    "identities.assign_roles: false.",
    "VaultAlreadyExists": "The name of the vault is in use. Set key_vault.name.",
    "StorageAccountAlreadyTaken": "The name of the account is in use. Set storage.name.",
    "DeploymentActive": "Another run of this stack is still running. Wait until it has ended, and run this again.",
    "MissingSubscriptionRegistration": "Register the resource provider: az provider register --namespace NAMESPACE.",
    "SkuNotAvailable": "Choose another size, zone or region.",
    "QuotaExceeded": "Ask Azure for more quota, or lower the sizes.",
}
"""What to do, by Azure's code."""
_ADVICE_FOR_WORDS: Mapping[str, str] = {
    "linked to multiple zones with overlapping namespaces": "The network has such a zone already. Set "
    "shared_home.dns_zone to the id of that zone.",
}
"""What to do, by a part of Azure's message, for errors whose code says nothing."""
_NOT_YET = ("RoleDefinitionDoesNotExist", "PrincipalNotFound")
"""Codes of role assignments whose role or identity is so new that not all of Azure's servers know it. Sources:
Azure/bicep issue 9634; MicrosoftDocs/azure-docs, role-based-access-control/troubleshooting."""


class NotYetKnown(InventoryError):
    """A deployment failed only because Azure does not know a new role or identity everywhere yet."""


class Deployments:
    """The deployments of one group.

    :param clients: clients that accept any answer.
    :param group: name of the group.
    :param say: shows how far a deployment is.
    :ivar writes: number of deployments that this object started.
    """

    def __init__(
        self, clients: Clients, subscription: str, group: str, deadline: Deadline, say: Callable[[str], None]
    ) -> None:
        self._client = clients.deployments(subscription)
        self._group = group
        self._deadline = deadline
        self._say = say
        self.writes = 0

    def check(self, name: str, template: Mapping[str, Any], parameters: Mapping[str, str] | None = None) -> None:
        """Let Azure validate a template, and refuse one that would delete something.

        :param parameters: values of the template's parameters.
        :raises InventoryError: it is not valid, or would delete something. Nothing was changed.
        """
        body = _body(template, parameters)
        asking = Asking("validate the deployment", "Microsoft.Resources/deployments/validate/action")
        try:
            result = self._client.deployments.begin_validate(self._group, name, body).result()
        except Exception as error:
            raise InventoryError(_why(error, asking)) from None
        if getattr(result, "error", None):
            raise InventoryError(f"could not {asking.what}: {'; '.join(reasons(result.error))}")
        asking = Asking("preview the deployment", "Microsoft.Resources/deployments/whatIf/action")
        try:
            preview = self._client.deployments.begin_what_if(self._group, name, body).result()
        except Exception as error:
            raise InventoryError(_why(error, asking)) from None
        if getattr(preview, "error", None):
            raise InventoryError(f"could not {asking.what}: {'; '.join(reasons(preview.error))}")
        deleted = [
            label_of(str(one.resource_id))
            for one in preview.changes or []
            if str(getattr(one.change_type, "value", one.change_type)).lower() == "delete"
        ]
        if deleted:
            raise InventoryError(
                f"Azure's preview of the deployment shows that it would delete {', '.join(deleted)}. Nothing was "
                "deployed."
            )

    def run(self, name: str, template: Mapping[str, Any], parameters: Mapping[str, str] | None = None) -> None:
        """Start a deployment and wait until it has ended.

        :param parameters: values of the template's parameters.
        :raises NotYetKnown: it failed, but may succeed soon.
        :raises InventoryError: it failed, for each resource that failed with Azure's code and words.
        """
        asking = Asking(f"deploy {name}", _PERMISSION)
        self.writes += 1
        try:
            poller = self._client.deployments.begin_create_or_update(self._group, name, _body(template, parameters))
        except Exception as error:
            raise InventoryError(_why(error, asking)) from None
        try:
            self._watch(poller, name, len(template["resources"]))
        except InventoryError:
            raise
        except Exception as error:
            failed = self._failed(name)
            kind = NotYetKnown if failed and all(map(_is_not_yet, failed)) else InventoryError
            raise kind(f"{'; '.join(failed)}." if failed else _why(error, asking)) from None

    def wait_for(self, name: str, state: str) -> None:
        """Wait until a deployment of an earlier run has ended, whether or not it succeeds.

        :param state: its state as it was read.
        """
        while state.lower() not in ENDED:
            if self._deadline.remaining() <= 0:
                raise InventoryError(self._timeout(name))
            self._say("a deployment of an earlier run is still running")
            self._deadline.wait(_WATCH_S)
            try:
                found = self._client.deployments.get(self._group, name)
            except Exception as error:
                raise InventoryError(explain(error, Asking(f"read the deployment {name}", _PERMISSION))) from None
            state = str(getattr(found.properties.provisioning_state, "value", found.properties.provisioning_state))

    def forget(self, name: str) -> None:
        """Delete the record of a deployment, if there is one. Its resources stay."""
        try:
            self._client.deployments.begin_delete(self._group, name).result()
        except Exception as error:
            if does_not_exist(error):
                # The stack was deployed under another name, or Azure removed the record: a group keeps 800 of them.
                return
            asking = Asking(f"delete the record {name}", "Microsoft.Resources/deployments/delete")
            raise InventoryError(explain(error, asking)) from None

    def _watch(self, poller: Any, name: str, number: int) -> None:
        """Wait until the deployment has ended, and show how far it is. Raises the SDK's error if it failed."""
        while not poller.done():
            if self._deadline.remaining() <= 0:
                raise InventoryError(self._timeout(name))
            poller.wait(min(_WATCH_S, self._deadline.remaining()))
            if number and not poller.done():
                self._show(name, number)
        poller.result()

    def _timeout(self, name: str) -> str:
        return (
            f"the deployment {name} is still running after the {self._deadline.seconds:g} seconds of `timeout`. It "
            "continues in Azure; the next run waits for it."
        )

    def _show(self, name: str, number: int) -> None:
        try:
            items = list(self._operations(name))
        except Exception:  # only for show: the deployment itself reports errors
            return
        done = sum(1 for state, _label, _why_failed in items if state == "succeeded")
        at_work = sorted(label for state, label, _why_failed in items if state not in ENDED)
        more = f": {', '.join(at_work[:3])}{' ...' if len(at_work) > 3 else ''}" if at_work else ""
        self._say(f"{done} of {number} resources are made{more}")

    def _failed(self, name: str) -> list[str]:
        try:
            return [f"{label}: {why}" for state, label, why in self._operations(name) if state == "failed"]
        except Exception:  # then the deployment's own error is shown
            return []

    def _operations(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Yield state, resource and error of each operation."""
        for page in pages(self._client.deployment_operations.list(self._group, name)):
            for one in page:
                properties = one.properties
                target = getattr(properties, "target_resource", None)
                if target is None or not target.id:
                    continue
                message = getattr(properties, "status_message", None)
                error = getattr(message, "error", None)
                yield (
                    str(properties.provisioning_state).lower(),
                    label_of(target.id),
                    "; ".join(reasons(error)) if error else "Azure gives no reason",
                )


def _is_not_yet(failed: str) -> bool:
    """Say whether a line of ``_failed`` has such a code."""
    return any(f": {code}: " in failed for code in _NOT_YET)


def reasons(error: Any) -> list[str]:
    """Return Azure's codes and words for an error: of its innermost details, which name the cause."""
    details = [item for item in getattr(error, "details", None) or [] if item is not None]
    if details:
        return [text for item in details for text in reasons(item)]
    code = printable(getattr(error, "code", "") or "")
    words = printable(getattr(error, "message", "") or "")
    words = words if len(words) <= _SHORT else f"{words[: _SHORT - 1]}…"
    advice = advice_for(code, words)
    return [f"{code}: {words}{f' {advice}' if advice else ''}"]


def advice_for(code: str, words: str = "") -> str:
    """Return what to do about an error with this code and message, or an empty text."""
    return ADVICE.get(code) or next((advice for part, advice in _ADVICE_FOR_WORDS.items() if part in words), "")


def _why(error: Exception, asking: Asking) -> str:
    inner = getattr(error, "error", None)
    if inner is not None and getattr(error, "status_code", None) not in (401, 429) and getattr(inner, "code", None):
        return f"could not {asking.what}: {'; '.join(reasons(inner))}"
    return explain(error, asking)


def _body(template: Mapping[str, Any], parameters: Mapping[str, str] | None) -> dict[str, Any]:
    properties: dict[str, Any] = {"mode": "Incremental", "template": dict(template)}
    if parameters:
        properties["parameters"] = {name: {"value": value} for name, value in parameters.items()}
    return {"properties": properties}
