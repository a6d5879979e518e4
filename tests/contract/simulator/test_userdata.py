# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User data: what a machine can read, and when Resource Manager returns it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError

from simulator import imds
from simulator.testing import Simulator, running

GROUP = "hpcai-sim"
SCENARIO: dict[str, Any] = {
    "key_vaults": [{"name": "hpcai-sim"}],
    "virtual_machines": [{"name": "ctl", "user_data": "#cloud-config\n{}"}, {"name": "bare"}],
    "scale_sets": [
        {
            "name": "uni",
            "capacity": 1,
            "instance_ids": [0, 17],
            "user_data": {"hpcai": {"controllers": ["{address:ctl}"], "vault": "{vault}", "odd": "{address}{x:y}"}},
        },
        {"name": "flex", "capacity": 1, "orchestration_mode": "Flexible", "user_data": "of flex"},
    ],
}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator without machines."""
    with running(SCENARIO) as simulated:
        yield simulated


def compute_metadata(simulator: Simulator, instance: str, version: str = "2021-02-01") -> dict[str, Any]:
    """The part "compute" of a machine's metadata document."""
    answer = requests.get(
        f"{simulator.imds_endpoint}/metadata/instance/compute",
        params={"api-version": version},
        headers={"Metadata": "true", imds.INSTANCE_HEADER: instance},
        timeout=10,
    )
    return dict(answer.json())


def decoded(encoded: str) -> str:
    """The decoded base64 text."""
    return base64.b64decode(encoded, validate=True).decode()


def test_a_machine_reads_its_user_data_with_filled_placeholders(simulator: Simulator) -> None:
    document = json.loads(decoded(compute_metadata(simulator, "uni_0")["userData"]))
    address = simulator.instance("ctl").private_ipv4
    wanted = {"controllers": [address], "vault": "https://hpcai-sim.vault.azure.net", "odd": "{address}{x:y}"}
    assert document == {"hpcai": wanted}
    assert decoded(compute_metadata(simulator, "ctl")["userData"]) == "#cloud-config\n{}"
    assert compute_metadata(simulator, "bare")["userData"] == ""


def test_old_api_versions_return_no_user_data(simulator: Simulator) -> None:
    assert "userData" not in compute_metadata(simulator, "uni_0", "2020-09-01")


def test_resource_manager_returns_user_data_only_on_request(simulator: Simulator) -> None:
    compute = simulator.compute()
    sets, instances = compute.virtual_machine_scale_sets, compute.virtual_machine_scale_set_vms
    assert sets.get(GROUP, "uni").virtual_machine_profile.user_data is None
    shown = sets.get(GROUP, "uni", expand="userData").virtual_machine_profile.user_data
    assert shown == compute_metadata(simulator, "uni_0")["userData"]
    assert instances.get(GROUP, "uni", "0").user_data is None
    assert instances.get(GROUP, "uni", "0", expand="userData").user_data == shown
    flexible = next(iter(simulator.scale_set("flex").members.values())).name
    for name, text in (("ctl", "#cloud-config\n{}"), (flexible, "of flex")):
        assert compute.virtual_machines.get(GROUP, name).user_data is None
        assert decoded(compute.virtual_machines.get(GROUP, name, expand="userData").user_data) == text
    assert compute.virtual_machines.get(GROUP, "bare", expand="userData").user_data is None
    assert all(item.user_data is None for item in compute.virtual_machines.list_all())


def test_published_fields_include_user_data() -> None:
    with running(SCENARIO, only_published=True) as simulator:
        compute = simulator.compute()
        assert compute.virtual_machine_scale_sets.get(GROUP, "uni", expand="userData").virtual_machine_profile.user_data
        assert compute.virtual_machine_scale_set_vms.get(GROUP, "uni", "0", expand="userData").user_data
        assert compute.virtual_machines.get(GROUP, "ctl", expand="userData").user_data


def test_changed_user_data_applies_only_to_new_and_upgraded_instances(simulator: Simulator) -> None:
    compute = simulator.compute()
    before = compute_metadata(simulator, "uni_0")["userData"]
    encoded = base64.b64encode(b"another").decode()
    change = {"sku": {"capacity": 2}, "properties": {"virtualMachineProfile": {"userData": encoded}}}
    compute.virtual_machine_scale_sets.begin_update(GROUP, "uni", change).result()
    assert compute.virtual_machine_scale_sets.get(GROUP, "uni").virtual_machine_profile.user_data is None
    compute.virtual_machine_scale_sets.begin_update(GROUP, "uni", {"sku": {"capacity": 3}}).result()
    newest = list(simulator.scale_set("uni").members.values())[-1].name
    assert compute_metadata(simulator, newest)["userData"] == encoded
    assert compute_metadata(simulator, "uni_0")["userData"] == before
    assert compute.virtual_machine_scale_set_vms.get(GROUP, "uni", "0").latest_model_applied is False
    compute.virtual_machine_scale_sets.begin_update_instances(GROUP, "uni", {"instanceIds": ["0"]}).result()
    assert compute_metadata(simulator, "uni_0")["userData"] == encoded


def test_user_data_that_is_not_base64_is_refused(simulator: Simulator) -> None:
    change = {"properties": {"virtualMachineProfile": {"userData": "not base 64!"}}}
    with pytest.raises(HttpResponseError, match="Base64"):
        simulator.compute().virtual_machine_scale_sets.begin_update(GROUP, "uni", change)
