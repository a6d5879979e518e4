# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A Uniform scale set in Resource Manager: reading it with its instances, and changing it. Counts its requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, TypeVar

from ..machine import imds
from ..machine.arm import ArmError, ForeignHost, ResourceManager, innermost
from .reconcile import AzureError, Changed
from .settings import PUBLIC_CLOUD, ElasticSet, Settings
from .views import FAILED, Instance, Operation, SetView

_T = TypeVar("_T")

COMPUTE_API = "2024-07-01"
"""The first versions whose scale sets have an etag are of 2024."""
NETWORK_API = "2018-10-01"
"""The version of the list of a set's interfaces (vmssNetworkInterface.json in azure-rest-api-specs)."""
OPERATION_RIGHT = "Microsoft.Compute/locations/operations/read"
_UNREADABLE = (400, 403, 404, 410)
"""Repeating a request with such an answer does not help."""


class ScaleSets:
    """The elastic scale sets."""

    def __init__(self, manager: ResourceManager) -> None:
        self._manager = manager
        self._addresses: dict[str, dict[str, str]] = {}

    def view(self, options: ElasticSet, operations: Mapping[str, str]) -> SetView:
        """Return the set, its instances and the operations. See ``reconcile.Azure``."""
        return _asked(lambda: self._view(options, operations))

    def _view(self, options: ElasticSet, operations: Mapping[str, str]) -> SetView:
        answers: dict[str, Operation] = {}
        refused = ""
        for order, url in operations.items():
            answers[order], why = self._operation(url)
            refused = refused or why
        # The set first: if it changes before its instances are listed, its etag is out of date, and Azure refuses.
        read = self._manager.get(f"{options.id}?api-version={COMPUTE_API}")
        sku = read.body.get("sku")
        if not isinstance(sku, Mapping) or not isinstance(sku.get("capacity"), int) or not read.etag:
            raise ArmError(f"{options.id}: no capacity or no etag in the answer")
        instances = self._list(options, "&$expand=instanceView")
        known = self._addresses.get(options.id, {})
        if any(one.vm_id not in known for one in instances):
            known = self._read_addresses(options, instances)
        placed = [_at(one, known.get(one.vm_id, "")) for one in instances]
        state = str((read.body.get("properties") or {}).get("provisioningState") or "")
        if state == FAILED and any(not one.status for one in answers.values()):
            failure = self._failure(options)
            answers = {order: one if one.status else failure for order, one in answers.items()}
        return SetView(read.etag, sku["capacity"], tuple(placed), answers, state == "Updating", refused)

    def instances(self, options: ElasticSet) -> list[Instance]:
        """Return the instances without their addresses. See ``reconcile.Azure``."""
        return _asked(lambda: self._list(options, ""))

    def grow(self, options: ElasticSet, capacity: int, etag: str) -> str:
        """Set the capacity. See ``reconcile.Azure``."""
        path = f"{options.id}?api-version={COMPUTE_API}"
        sent = _asked(lambda: self._manager.change("PATCH", path, {"sku": {"capacity": capacity}}, etag))
        return sent.headers.get("azure-asyncoperation", "")

    def delete(self, options: ElasticSet, ids: list[str]) -> None:
        """Delete instances, which lowers the capacity. See ``reconcile.Azure``."""
        path = f"{options.id}/delete?api-version={COMPUTE_API}"
        _asked(lambda: self._manager.change("POST", path, {"instanceIds": ids}))

    def _list(self, options: ElasticSet, expand: str) -> list[Instance]:
        path = f"{options.id}/virtualMachines?api-version={COMPUTE_API}{expand}"
        return [_instance(one) for one in self._manager.pages(path)]

    def _read_addresses(self, options: ElasticSet, instances: list[Instance]) -> dict[str, str]:
        path = f"{options.id}/networkInterfaces?api-version={NETWORK_API}"
        by_id: dict[str, str] = {}
        for interface in self._manager.pages(path):
            properties = interface.get("properties") or {}
            machine = str((properties.get("virtualMachine") or {}).get("id") or "").lower()
            address = _address(properties)
            if machine and address and (properties.get("primary") or machine not in by_id):
                by_id[machine.rpartition("/")[2]] = address
        found = {one.vm_id: by_id[one.id] for one in instances if one.id in by_id}
        self._addresses[options.id] = found
        return found

    def _operation(self, url: str) -> tuple[Operation, str]:
        """Return an operation, and why this identity may not read it."""
        try:
            body = self._manager.get(url).body
        except ArmError as error:
            # Azure has forgotten it, or this identity may not read it, or it is on another host: then the state of the
            # set, or the deadline of its order, decides. Without a view, the set would do nothing any more, not even
            # delete idle machines.
            if error.status in _UNREADABLE or isinstance(error, ForeignHost):
                return Operation(""), f"{error.code}: {OPERATION_RIGHT}" if error.status == 403 else ""
            raise
        code, message = innermost(body.get("error"))
        return Operation(str(body.get("status") or ""), code, message), ""

    def _failure(self, options: ElasticSet) -> Operation:
        """Return the last change of a failed set, with Azure's code: ``ProvisioningState/failed/CODE``."""
        try:
            body = self._manager.get(f"{options.id}/instanceView?api-version={COMPUTE_API}").body
        except ArmError as error:
            if error.status not in _UNREADABLE:
                raise
            return Operation(FAILED, "", f"the scale set failed, and its instance view cannot be read: {error}")
        for one in body.get("statuses") or []:
            state, _slash, code = str(one.get("code") or "").partition("/")[2].partition("/")
            if state.lower() == FAILED.lower():
                return Operation(FAILED, code, " ".join(str(one.get("message") or "").split())[:300])
        return Operation(FAILED)


def _asked(request: Callable[[], _T]) -> _T:
    try:
        return request()
    except ArmError as error:
        kind = Changed if error.status == 412 else AzureError
        # Without an answer, or with an error of Azure itself, nobody knows whether it did it.
        code = error.code or (f"HTTP{error.status}" if error.status else "")
        raise kind(str(error), "" if error.status >= 500 else code, error.retry_s, error.words) from None
    except imds.ImdsError as error:
        raise AzureError(str(error)) from None


def _instance(given: Mapping[str, Any]) -> Instance:
    properties = given.get("properties") or {}
    vm_id, number = properties.get("vmId"), given.get("instanceId")
    if not vm_id or not str(number or "").isdecimal():
        raise ArmError("an instance has no vmId or no decimal instanceId: only Uniform scale sets can be elastic")
    statuses = (properties.get("instanceView") or {}).get("statuses") or []
    codes = [str(one.get("code") or "") for one in statuses if isinstance(one, Mapping)]
    power = [code.partition("/")[2].lower() for code in codes if code.lower().startswith("powerstate/")]
    host_name = str((properties.get("osProfile") or {}).get("computerName") or "")
    state = str(properties.get("provisioningState") or "")
    return Instance(str(number), str(vm_id).lower(), state, power[-1] if power else "", "", host_name)


def _at(one: Instance, address: str) -> Instance:
    return Instance(one.id, one.vm_id, one.state, one.power, address, one.host_name)


def _address(properties: Mapping[str, Any]) -> str:
    found = ""
    for one in properties.get("ipConfigurations") or []:
        inner = one.get("properties") or {}
        address = str(inner.get("privateIPAddress") or "")
        if address and (inner.get("primary") or not found):
            found = address
    return found


def connect(settings: Settings) -> ScaleSets:
    """Return the scale sets, asked with this machine's managed identity."""

    # Only a simulator on this machine has another URL than its tokens' resource.
    resource = settings.endpoint if settings.endpoint.startswith("https:") else PUBLIC_CLOUD

    def fetch() -> str:
        return imds.read_token(f"{resource}/", settings.client_id or None, limit_s=10.0)

    return ScaleSets(ResourceManager(settings.endpoint, fetch))
