# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes on physical hosts that had a hardware fault, for the report.

The record of such hosts lies in the report's folder; hpcai.azure.vmss_impact keeps it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .._azure import hardware_faults
from .._azure.errors import InventoryError
from .._azure.hardware_faults import faults_of, machine_of
from .gather import Asked


def find(asked: Iterable[Asked], folder: str) -> list[dict[str, Any]]:
    """Return the nodes without a hardware fault on a host that had one, each with a warning of one line.

    ``host_name`` is the node's name in the inventory, as it is in the report.

    :raises InventoryError: the record cannot be read.
    """
    file = Path(folder) / hardware_faults.RECORD_FILE
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise InventoryError(f"{file} cannot be read: {error}") from None
    record = hardware_faults.read_record(text, str(file))
    return [
        {"host_name": one.host, **suspect}
        for one in asked
        if (seen := _seen(one)) is not None
        for suspect in hardware_faults.suspects(record, [seen])
    ]


def _seen(one: Asked) -> hardware_faults.MachineFaults | None:
    document = one.result.get("health")
    if not isinstance(document, Mapping):
        return None
    try:
        machine = machine_of(document, one.host)
    except InventoryError:
        # The report shows such a node as one that gave no result.
        return None
    known = dataclasses.replace(machine, vm_id=machine.vm_id or str(one.inventory.get("azure_vm_id") or ""))
    return hardware_faults.MachineFaults(known, tuple(faults_of(document)))
