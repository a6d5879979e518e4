# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot diagnostics: the real SDK gets signed addresses, and a log can be read only with its signature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError

from simulator.backends.recording import RecordingBackend
from simulator.testing import Simulator, running

SCENARIO: dict[str, Any] = {
    "virtual_machines": [{"name": "ctl"}],
    "scale_sets": [{"name": "compute", "capacity": 1}, {"name": "dark", "capacity": 1, "boot_diagnostics": False}],
}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A machine, and two scale sets with one instance each."""
    with running(SCENARIO, backend=RecordingBackend()) as simulator:
        yield simulator


def address(simulator: Simulator, name: str = "compute", **options: Any) -> str:
    """The address of the log of a set's first instance."""
    members = simulator.compute().virtual_machine_scale_set_vms
    return str(members.retrieve_boot_diagnostics_data("hpcai-sim", name, "0", **options).serial_console_log_blob_uri)


def get(url: str, **headers: str) -> requests.Response:
    """The answer of the storage."""
    return requests.get(url, headers=headers, timeout=10)


def test_the_log_contains_the_host_keys_of_the_machine(simulator: Simulator) -> None:
    log = get(address(simulator)).text

    (key,) = simulator.instance("compute_0").host_keys
    assert f"-----BEGIN SSH HOST KEY KEYS-----\r\n{key}\r\n-----END" in log
    single = simulator.compute().virtual_machines.retrieve_boot_diagnostics_data("hpcai-sim", "ctl")
    assert simulator.instance("ctl").host_keys[0] in get(single.serial_console_log_blob_uri).text


def test_a_reimaged_machine_has_new_host_keys(simulator: Simulator) -> None:
    before = simulator.instance("compute_0").host_keys

    simulator.compute().virtual_machine_scale_set_vms.begin_reimage("hpcai-sim", "compute", "0").result()

    assert simulator.instance("compute_0").host_keys != before


def test_a_signature_is_valid_only_for_its_log_and_time(simulator: Simulator) -> None:
    url = address(simulator)
    other = simulator.instance("ctl").vm_id

    for wrong in (
        url.partition("?")[0],
        url.replace("sig=", "sig=0"),
        url.replace("se=", "se=9"),
        url.replace(simulator.instance("compute_0").vm_id, other),
    ):
        assert get(wrong).status_code == 403
    assert get(url).status_code == 200


def test_storage_refuses_a_token(simulator: Simulator) -> None:
    assert get(address(simulator), Authorization=f"Bearer {simulator.token}").status_code == 403


def test_the_request_log_contains_no_signature(simulator: Simulator) -> None:
    get(address(simulator))

    assert "sig=" not in str(simulator.requests())


@pytest.mark.parametrize(("name", "minutes", "status"), [("dark", 5, 409), ("compute", 0, 400), ("compute", 1441, 400)])
def test_requests_that_azure_refuses_get_no_address(simulator: Simulator, name: str, minutes: int, status: int) -> None:
    with pytest.raises(HttpResponseError) as raised:
        address(simulator, name, sas_uri_expiration_time_in_minutes=minutes)

    assert raised.value.status_code == status
