# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The logs of serial consoles, which Azure's boot diagnostics keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from .clients import Clients
from .deadline import Deadline
from .errors import Asking, InventoryError, UnreadableAnswer, explain
from .targets import Target
from .workers import Job, WorkQueue

_AT_ONCE = 8
_MINUTES = 5
"""How long the signed address of a log is good."""
_MOST_BYTES = 8 * 1024 * 1024
"""Of a log; the keys are in its beginning."""
# Who has the signature may read the log, so it is in no message.
_SIGNED = re.compile(r"\?s\w+=\S*")
_KIND = "Microsoft.Compute/virtualMachines"
_MEMBER = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"


def read_logs(clients: Clients, targets: Iterable[Target], deadline: Deadline) -> dict[Target, str | InventoryError]:
    """Return the log of each machine's serial console, or why it cannot be had."""
    logs: dict[Target, str | InventoryError] = {}
    wanted = list(targets)
    work = WorkQueue(_AT_ONCE, deadline)
    # Clients are made in this thread.
    storage = clients.signed()
    for target in wanted:
        work.add(_job(clients, storage, target, logs))
    work.drain()
    work.close()
    return logs


def _job(clients: Clients, storage: Any, target: Target, logs: dict[Target, str | InventoryError]) -> Job:
    kind = _MEMBER if target.scale_set else _KIND
    asking = Asking("read the log of its serial console", f"{kind}/retrieveBootDiagnosticsData/action")
    ask = _ask(clients.compute(target.subscription), target)

    def work() -> str:
        address = str(ask().serial_console_log_blob_uri or "")
        if not clients.may_read(address):
            raise UnreadableAnswer("Azure gives no address of the log: enable boot diagnostics with managed storage.")
        return _download(storage, address)

    def failed(error: Exception) -> None:
        logs[target] = InventoryError(_SIGNED.sub("", explain(error, asking)))

    return Job(asking, work, lambda log: logs.update({target: log}), failed)


def _ask(compute: Any, target: Target) -> Callable[[], Any]:
    """Return what asks for the signed addresses of a machine's logs."""
    more = {"sas_uri_expiration_time_in_minutes": _MINUTES}
    if target.scale_set:
        members = compute.virtual_machine_scale_set_vms
        return lambda: members.retrieve_boot_diagnostics_data(target.group, target.scale_set, target.name, **more)
    return lambda: compute.virtual_machines.retrieve_boot_diagnostics_data(target.group, target.name, **more)


def _download(storage: Any, address: str) -> str:
    from azure.core.rest import HttpRequest

    response = storage.send_request(HttpRequest("GET", address), stream=True)
    try:
        if response.status_code != 200:
            # Not by raise_for_status: 403 is no missing permission here.
            raise UnreadableAnswer(f"the storage of boot diagnostics answers {response.status_code}.")
        log = b""
        for piece in response.iter_bytes():
            log += piece
            if len(log) > _MOST_BYTES:
                break
        return log.decode("utf-8", "replace")
    finally:
        response.close()
