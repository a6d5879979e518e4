# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bad physical hosts in the report of all nodes."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure import hardware_faults
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.errors import InventoryError
from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.hardware_faults import Fault, Machine
from ansible_collections.hpcai.azure.plugins.plugin_utils._report import bad_hosts
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import Asked

TIME = "2026-11-22T16:40:00Z"
FAULT = Fault("gpu_count", "NHC2009", "7 of 8 GPUs", "", TIME)


def asked(host: str, vm_id: str = "vm-9", **changes: Any) -> Asked:
    """A sound node on a host."""
    node = {"name": f"on {host}", "vm_id": vm_id, "host": host}
    document = {"schema": 1, "command": "health", "time": TIME, "node": node, "checks": []} | changes
    return Asked("compute-9", {"health": document}, {"azure_vm_id": "vm-9"})


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A report's folder with a record of HOSTA."""
    seen = hardware_faults.MachineFaults(Machine("compute-3", "vm-3", "HOSTA", TIME), (FAULT,))
    record = hardware_faults.update_record({}, [seen], 90)
    (tmp_path / "hosts.json").write_text(hardware_faults.record_text(record), encoding="utf-8")
    return tmp_path


def test_node_on_a_bad_host_is_named(folder: pathlib.Path) -> None:
    (suspect,) = bad_hosts.find([asked("hosta.example"), asked("HOSTB")], str(folder))
    assert "on hosta.example came up on the physical host HOSTA" in suspect["warning"]
    assert suspect["host_name"] == "compute-9", "as the report calls it"


def test_vm_id_of_the_inventory_counts_where_the_node_does_not_know_its_own(folder: pathlib.Path) -> None:
    (suspect,) = bad_hosts.find([asked("HOSTA", vm_id="")], str(folder))
    assert suspect["vm_id"] == "vm-9"


def test_node_without_a_result_is_no_suspect(folder: pathlib.Path) -> None:
    silent = Asked("compute-1", {"unreachable": True})
    assert bad_hosts.find([silent, asked("HOSTA", schema=9)], str(folder)) == []


def test_without_a_record_nobody_is(tmp_path: pathlib.Path) -> None:
    assert bad_hosts.find([asked("HOSTA")], str(tmp_path)) == []


def test_broken_record_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hosts.json").write_text("{", encoding="utf-8")
    with pytest.raises(InventoryError, match=r"hosts\.json is no record of physical hosts"):
        bad_hosts.find([asked("HOSTA")], str(tmp_path))
