# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""InfiniBand ports: number, state, rate, addresses, partition keys; GPUDirect RDMA."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from stand_ins.infiniband import put_port, put_ports_of
from stand_ins.sized_machine import SizedMachine

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer, CannotMeasure
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.ib_ports import (
    IB_ADDRESSES,
    IB_PKEYS,
    IB_PORTS,
    IB_RATE,
    PEER_MEMORY,
    judge_rates,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.rdma import Port
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..playing import ND_A100, context


@pytest.fixture
def node_ib_ports(tmp_path: Path) -> Path:
    """A machine with its eight ports."""
    SizedMachine.of_size(tmp_path, ND_A100)
    put_ports_of(tmp_path, ND_A100)
    return tmp_path


def measure(node_ib_ports: Path) -> Answer:
    """Check the ports."""
    return IB_PORTS.measure(context(root=node_ib_ports))


def test_ib_ports_passes_with_all_ports_and_counts_no_ethernet(node_ib_ports: Path) -> None:
    answer = measure(node_ib_ports)
    assert (answer.findings, answer.good) == ((), "8 InfiniBand ports are active")
    assert (answer.readings[0].value, answer.readings[0].limit) == (8, 8)


@pytest.mark.parametrize(
    ("state", "physical", "action"),
    [
        ("DOWN", "2: Polling", None),
        ("DOWN", "3: Disabled", None),
        ("INIT", "5: LinkUp", "observe"),
        ("ARMED", "5: LinkUp", "observe"),
        ("ACTIVE", "2: Polling", None),
    ],
)
def test_ib_ports_fails_if_a_port_carries_no_data(
    node_ib_ports: Path, state: str, physical: str, action: str | None
) -> None:
    put_port(node_ib_ports, "mlx5_ib3", state=state, physical=physical)
    (found,) = measure(node_ib_ports).findings
    assert (found.verdict, found.device, found.action) == ("fail", "mlx5_ib3", action)
    assert found.summary == f"InfiniBand port mlx5_ib3 (0104:00:00.0) is {state} ({physical[3:]})"


def test_ib_ports_fails_and_names_the_address_of_a_missing_adapter(node_ib_ports: Path) -> None:
    shutil.rmtree(node_ib_ports / "sys/class/infiniband/mlx5_ib4")
    shutil.rmtree(node_ib_ports / "sys/bus/pci/devices/0105:00:00.0")
    (found,) = measure(node_ib_ports).findings
    assert found.summary == "InfiniBand adapter 0105:00:00.0 is not on the PCI bus"
    assert (IB_PORTS.action, IB_PORTS.fault) == ("replace", "NHC2004")


def test_ib_ports_fails_if_an_adapter_has_no_driver(node_ib_ports: Path) -> None:
    shutil.rmtree(node_ib_ports / "sys/class/infiniband/mlx5_ib4")
    (found,) = measure(node_ib_ports).findings
    assert (found.summary, found.action) == ("InfiniBand adapter 0105:00:00.0 has no RDMA device", "reboot")


def test_ib_ports_fails_with_missing_ports_of_unknown_address(tmp_path: Path) -> None:
    """The addresses of an MI300X's adapters are not known."""
    SizedMachine.of_size(tmp_path, ND_A100).without_devices()
    for number in range(7):
        put_port(tmp_path, f"mlx5_ib{number}", gbps=400)
    (found,) = IB_PORTS.measure(context(root=tmp_path, size="Standard_ND96isr_MI300X_v5")).findings
    assert found.summary == "7 of 8 InfiniBand ports are active, and there are no others"


def test_ib_ports_fails_if_a_port_uses_ethernet(node_ib_ports: Path) -> None:
    put_port(node_ib_ports, "mlx5_ib7", link_layer="Ethernet")
    assert [found.verdict for found in measure(node_ib_ports).findings] == ["fail"]


def test_ib_ports_cannot_measure_without_sysfs_or_size(tmp_path: Path) -> None:
    (found,) = measure(tmp_path).findings
    assert (found.verdict, found.summary) == ("unknown", "sysfs shows neither PCI nor RDMA devices")
    with pytest.raises(CannotMeasure, match="VM size"):
        IB_PORTS.measure(context(root=tmp_path, size=None))


def test_ib_ports_applies_if_infiniband_is_expected() -> None:
    assert IB_PORTS.applies(find_size(ND_A100)) == ""
    assert IB_PORTS.applies(None) == ""
    assert IB_PORTS.applies(find_size("Standard_NC96ads_A100_v4")) == "Standard_NC96ads_A100_v4 has no InfiniBand"


def test_ib_ports_a_failure_blocks_job_and_boot() -> None:
    assert (IB_PORTS.blocks_job, IB_PORTS.blocks_boot) == (True, True)


@pytest.fixture
def node_ib_rate(tmp_path: Path) -> Path:
    """A machine with its eight ports."""
    put_ports_of(tmp_path, ND_A100)
    return tmp_path


def test_ib_rate_passes_at_the_expected_rate_and_above(node_ib_rate: Path) -> None:
    put_port(node_ib_rate, "mlx5_ib2", gbps=400)
    answer = IB_RATE.measure(context(root=node_ib_rate))
    assert (answer.findings, answer.good) == ((), "8 InfiniBand ports run at 200 Gb/s")
    assert [(one.device, one.value) for one in answer.readings][2] == ("mlx5_ib2", 400)
    assert answer.limit == "at least 200 Gb/s (azurehpc-health-checks, conf/<size>.conf)"


def test_ib_rate_fails_below_the_expected_rate_and_blocks_no_job(node_ib_rate: Path) -> None:
    put_port(node_ib_rate, "mlx5_ib2", gbps=100)
    (found,) = IB_RATE.measure(context(root=node_ib_rate)).findings
    assert found.verdict == "fail"
    assert found.summary == "mlx5_ib2 (0103:00:00.0) runs at 100 Gb/s instead of 200"
    assert not IB_RATE.blocks_job
    assert not IB_RATE.blocks_boot


def test_ib_rate_cannot_measure_a_port_without_a_rate(node_ib_rate: Path) -> None:
    (node_ib_rate / "sys/class/infiniband/mlx5_ib2/ports/1/rate").write_text("", encoding="ascii")
    answer = IB_RATE.measure(context(root=node_ib_rate))
    assert [found.verdict for found in answer.findings] == ["unknown"]
    assert len(answer.readings) == 7


def test_ib_rate_cannot_measure_if_no_port_is_active(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_ib0", state="DOWN")
    assert [found.verdict for found in IB_RATE.measure(context(root=tmp_path)).findings] == ["unknown"]


PREFIX = "fe80:0000:0000:0000"


def test_ib_rate_judges_only_active_ports_and_sizes_with_a_rate() -> None:
    size = find_size("Standard_ND96asr_v4")
    assert size is not None
    slow = Port("mlx5_ib0", 1, "InfiniBand", "ACTIVE", "LinkUp", 100.0, "0101:00:00.0")
    assert [found.verdict for found in judge_rates(size, [slow])] == ["fail"]
    assert list(judge_rates(size, [replace(slow, state="DOWN")])) == []
    assert list(judge_rates(replace(size, ib_rate_gbps=None), [slow, replace(slow, rate_gbps=None)])) == []


def put_address(root: Path, number: int, lid: str | None = None, gid: str | None = None) -> None:
    """Give a port its address."""
    folder = root / f"sys/class/infiniband/mlx5_ib{number}/ports/1"
    (folder / "gids").mkdir(exist_ok=True)
    (folder / "lid").write_text(f"{lid or hex(0x21 + number)}\n", encoding="ascii")
    (folder / "gids/0").write_text(f"{gid or f'{PREFIX}:0015:5dff:fe33:ff0{number}'}\n", encoding="ascii")


@pytest.fixture
def node_ib_addresses(tmp_path: Path) -> Path:
    """A machine whose ports have their addresses."""
    put_ports_of(tmp_path, ND_A100)
    for number in range(8):
        put_address(tmp_path, number)
    return tmp_path


def test_ib_addresses_passes_with_different_addresses(node_ib_addresses: Path) -> None:
    answer = IB_ADDRESSES.measure(context(root=node_ib_addresses))
    assert (answer.findings, len(answer.readings)) == ((), 8)


@pytest.mark.parametrize(
    ("lid", "gid", "words"),
    [
        ("0x0", None, "mlx5_ib4 is active, but has no LID"),
        (None, f"{PREFIX}:0000:0000:0000:0000", "mlx5_ib4 is active, but has no GID: "),
        (None, f"{PREFIX}:0015:5dff:fe33:ff01", "mlx5_ib4 has the same GID as mlx5_ib1: "),
    ],
)
def test_ib_addresses_fails_with_a_missing_or_duplicate_address(
    node_ib_addresses: Path, lid: str | None, gid: str | None, words: str
) -> None:
    put_address(node_ib_addresses, 4, lid, gid)
    (found,) = IB_ADDRESSES.measure(context(root=node_ib_addresses)).findings
    assert (found.verdict, found.device) == ("fail", "mlx5_ib4")
    assert found.summary.startswith(words)


def test_ib_addresses_cannot_measure_a_port_without_an_lid_file(node_ib_addresses: Path) -> None:
    (node_ib_addresses / "sys/class/infiniband/mlx5_ib4/ports/1/lid").unlink()
    (found,) = IB_ADDRESSES.measure(context(root=node_ib_addresses)).findings
    assert (found.verdict, found.device) == ("unknown", "mlx5_ib4")


def test_ib_addresses_cannot_measure_if_no_port_is_active(tmp_path: Path) -> None:
    put_port(tmp_path, "mlx5_ib0", state="INIT")
    assert [found.verdict for found in IB_ADDRESSES.measure(context(root=tmp_path)).findings] == ["unknown"]


def put_keys(root: Path, device: str, *keys: str) -> None:
    """Write the key table of a port: these keys, then empty entries."""
    folder = root / f"sys/class/infiniband/{device}/ports/1/pkeys"
    folder.mkdir(exist_ok=True)
    for index, key in enumerate([*keys, "0x0000", "0x8000"]):
        (folder / str(index)).write_text(f"{key}\n", encoding="ascii")


@pytest.fixture
def node_ib_pkeys(tmp_path: Path) -> Path:
    """A machine whose ports are in one partition, as in Azure."""
    put_ports_of(tmp_path, ND_A100)
    for number in range(8):
        put_keys(tmp_path, f"mlx5_ib{number}", "0x800b", "0x7fff")
    return tmp_path


@pytest.mark.parametrize("keys", [("0x800b", "0x7fff"), ("0xffff", "0x800b"), ("0x800b",)])
def test_ib_pkeys_passes_with_one_partition_key(node_ib_pkeys: Path, keys: tuple[str, ...]) -> None:
    put_keys(node_ib_pkeys, "mlx5_ib1", *keys)
    answer = IB_PKEYS.measure(context(root=node_ib_pkeys))
    assert (answer.findings, answer.good) == ((), "8 InfiniBand ports are in partition 0x800b")
    assert {one.value for one in answer.readings} == {"0x800b"}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("0x7fff",), "mlx5_ib1 has no partition key besides the default key, but should have one: none"),
        (
            ("0x800b", "0x800c"),
            "mlx5_ib1 has 2 partition keys besides the default key, but should have one: 0x800b 0x800c",
        ),
        (
            ("0x000b", "0x7fff"),
            "mlx5_ib1 is a limited member of its partition (0x000b), and can only reach full members",
        ),
        (("0x800c", "0x7fff"), "InfiniBand ports are in different partitions: mlx5_ib1 0x000c, the others 0x000b"),
    ],
)
def test_ib_pkeys_fails_with_another_key_or_none(node_ib_pkeys: Path, keys: tuple[str, ...], words: str) -> None:
    put_keys(node_ib_pkeys, "mlx5_ib1", *keys)
    (found,) = IB_PKEYS.measure(context(root=node_ib_pkeys)).findings
    assert found.verdict == "fail"
    assert found.summary.startswith(words)


def test_ib_pkeys_cannot_measure_without_tables(tmp_path: Path) -> None:
    assert [found.verdict for found in IB_PKEYS.measure(context(root=tmp_path)).findings] == ["unknown"]
    put_ports_of(tmp_path, ND_A100)
    assert {found.verdict for found in IB_PKEYS.measure(context(root=tmp_path)).findings} == {"unknown"}


CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build\n"


def put(root: Path, driver: str = "", **modules: str) -> Path:
    """Return a machine with this driver, and with modules in these states."""
    if driver:
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text(driver, encoding="ascii")
    for name, state in modules.items():
        (root / f"sys/module/{name}").mkdir(parents=True)
        (root / f"sys/module/{name}/initstate").write_text(f"{state}\n", encoding="ascii")
    return root


@pytest.mark.parametrize("module", ["nvidia_peermem", "nv_peer_mem"])
def test_peer_memory_passes_with_the_module(tmp_path: Path, module: str) -> None:
    answer = PEER_MEMORY.measure(context(root=put(tmp_path, CLOSED, **{module: "live"})))
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [module])


def test_peer_memory_passes_with_the_open_driver(tmp_path: Path) -> None:
    answer = PEER_MEMORY.measure(context(root=put(tmp_path, OPEN, ib_uverbs="live")))
    assert (answer.findings, [one.value for one in answer.readings]) == ((), ["dmabuf"])


@pytest.mark.parametrize("modules", [{}, {"nvidia_peermem": "coming", "ib_uverbs": "live"}])
def test_peer_memory_fails_to_pass_without_module_and_open_driver(tmp_path: Path, modules: dict[str, str]) -> None:
    (found,) = PEER_MEMORY.measure(context(root=put(tmp_path, CLOSED, **modules))).findings
    assert found.verdict == "warn"
    assert found.summary.startswith("nvidia_peermem is not loaded")


def test_peer_memory_cannot_measure_without_a_driver(tmp_path: Path) -> None:
    assert [found.verdict for found in PEER_MEMORY.measure(context(root=tmp_path)).findings] == ["unknown"]


def test_peer_memory_applies_to_nvidia_gpus_with_infiniband() -> None:
    assert PEER_MEMORY.applies(find_size("Standard_ND96asr_v4")) == ""
    assert PEER_MEMORY.applies(None) == ""
    for size in ("Standard_NC96ads_A100_v4", "Standard_ND96isr_MI300X_v5", "Standard_ND96is_H100_v5"):
        assert PEER_MEMORY.applies(find_size(size)) != ""
