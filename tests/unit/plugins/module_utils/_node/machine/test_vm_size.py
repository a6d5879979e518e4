# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VM size a machine has: the order of the sources, and what is remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import vm_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ImdsError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.vm_size import (
    VmSizeUndetermined,
    remember,
    size_facts,
    vm_size_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import UnknownVmSize

COMPUTE = {"vmSize": "standard_nd96asr_V4", "vmId": "1-2-3", "name": "set_4", "tags": "secret:yes"}


class Running(Root):
    """A tree that counts as the running machine's own."""

    is_this_machine = True

    def at(self, path: str) -> str:
        return f"{self.path}{path}"


@pytest.fixture
def running(tmp_path: Path) -> Running:
    """An empty machine."""
    return Running(str(tmp_path))


def write(root: Root, path: str, document: Any) -> None:
    """Write a file of the machine."""
    file = Path(root.at(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")


def answers() -> dict[str, Any]:
    """A metadata service that answers."""
    return dict(COMPUTE)


def silent() -> NoReturn:
    """A metadata service that does not answer."""
    raise ImdsError("no answer in 2 s: timed out.")


def never() -> NoReturn:
    """A metadata service that must not be asked."""
    pytest.fail("the metadata service was asked")


def test_a_given_name_is_used_without_other_sources(running: Running) -> None:
    write(running, "/etc/hpcai/node.json", "no JSON")
    found = vm_size_of(running, "nd96asr_V4", never)
    assert (found.name, found.origin, found.compute) == ("Standard_ND96asr_v4", "given", None)


def test_the_nodes_settings_come_before_the_metadata_service(running: Running) -> None:
    write(running, "/etc/hpcai/node.json", {"schema": 1, "vm_size": "standard_nc96ads_a100_v4"})
    found = vm_size_of(running, None, never)
    assert (found.name, found.origin) == ("Standard_NC96ads_A100_v4", "node.json")


def test_the_metadata_service_comes_before_the_remembered_size(running: Running) -> None:
    write(running, vm_size.INSTANCE_FILE, {"schema": 1, "vm_size": "Standard_ND40rs_v2"})
    found = vm_size_of(running, None, answers)
    assert (found.name, found.origin, found.compute) == ("Standard_ND96asr_v4", "imds", COMPUTE)


def test_the_remembered_size_is_used_if_the_service_is_silent(running: Running) -> None:
    remember(running, COMPUTE)
    found = vm_size_of(running, None, silent)
    assert (found.name, found.origin) == ("Standard_ND96asr_v4", "remembered")


def test_with_remembered_first_the_service_is_asked_only_if_needed(running: Running) -> None:
    assert vm_size_of(running, None, answers, remembered_first=True).origin == "imds"
    remember(running, COMPUTE)
    assert size_facts(running, ask=silent, remembered_first=True)[1].origin == "remembered"
    write(running, "/etc/hpcai/node.json", {"schema": 1, "vm_size": "Standard_ND40rs_v2"})
    assert vm_size_of(running, None, silent, remembered_first=True).origin == "node.json"


def test_a_captured_tree_does_not_ask_this_machines_service(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    with pytest.raises(VmSizeUndetermined, match="is not the running machine"):
        vm_size_of(root, None, never)
    remember(root, COMPUTE)
    assert vm_size_of(root, None, never).origin == "remembered"


def test_an_image_does_not_pass_on_the_size_of_its_source_machine(running: Running) -> None:
    write(running, "/sys/class/dmi/id/product_uuid", "AAAA\n")
    remember(running, COMPUTE)
    assert vm_size_of(running, None, silent).origin == "remembered"
    write(running, "/sys/class/dmi/id/product_uuid", "aaaa\n")
    assert vm_size_of(running, None, silent).origin == "remembered"
    write(running, "/sys/class/dmi/id/product_uuid", "bbbb\n")
    with pytest.raises(VmSizeUndetermined):
        vm_size_of(running, None, silent)


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"vm_size": 3}'])
def test_a_remembered_size_that_cannot_be_read_is_ignored(running: Running, text: str) -> None:
    write(running, vm_size.INSTANCE_FILE, text)
    with pytest.raises(
        VmSizeUndetermined, match=r"not known: no answer in 2 s: timed out\. Set vm_size, as an option or in"
    ):
        vm_size_of(running, None, silent)


def test_an_undetermined_size_is_a_config_error() -> None:
    # hpcnode turns a ConfigError into the exit status for "unknown".
    assert issubclass(VmSizeUndetermined, ConfigError)


def test_only_needed_facts_are_remembered_and_only_changes_written(running: Running) -> None:
    remember(running, COMPUTE)
    file = Path(running.at(vm_size.INSTANCE_FILE))
    assert json.loads(file.read_text()) == {
        "schema": 1,
        "vm_size": "standard_nd96asr_V4",
        "vm_id": "1-2-3",
        "name": "set_4",
    }
    assert file.stat().st_mode & 0o7777 == 0o644
    inode = file.stat().st_ino
    remember(running, COMPUTE)
    assert file.stat().st_ino == inode
    remember(running, {**COMPUTE, "name": "set_5"})
    assert json.loads(file.read_text())["name"] == "set_5"


def test_reading_the_size_writes_nothing(running: Running) -> None:
    vm_size_of(running, None, answers)
    assert list(Path(running.path).iterdir()) == []


def test_facts_come_from_the_table_or_from_a_description(running: Running) -> None:
    size, name = size_facts(running, None, None, answers)
    assert (size.name, size.gpu_count, name.origin) == ("Standard_ND96asr_v4", 8, "imds")
    by_hand = {"Standard_Simulated": {"vcpus": 2}}
    write(running, "/etc/hpcai/node.json", {"schema": 1, "vm_size": "simulated", "vm_sizes": by_hand})
    assert size_facts(running)[0].vcpus == 2
    assert size_facts(running, described={"Standard_Simulated": {"vcpus": 3}})[0].vcpus == 3


def test_an_unknown_size_names_the_nearest_ones(running: Running) -> None:
    with pytest.raises(UnknownVmSize, match="Standard_ND96asr_v4"):
        size_facts(running, "ND96asrx_v4")
