# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPUs, memory, swap and load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stand_ins.machine_tree import MachineTree, smt_siblings

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.cpu_and_memory import (
    CPU,
    LOAD,
    MEMORY,
    SWAP,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize, find_size

from ..playing import ND_A100, context


def machine(path: Path, online: str, present: str = "0-95") -> MachineTree:
    """Return a machine with these CPUs, 48 in each socket."""
    tree = MachineTree(path).cpus(online, {cpu: str(cpu) for cpu in range(96)})
    tree.write("/sys/devices/system/cpu/present", f"{present}\n")
    for cpu in range(128):
        tree.write(f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", f"{cpu // 48}\n")
    return tree


def measure_cpu(tree: MachineTree) -> Answer:
    """Check the CPUs."""
    return CPU.measure(context(root=tree))


def test_cpu_passes_with_all_cpus(tmp_path: Path) -> None:
    answer = measure_cpu(machine(tmp_path, "0-95"))
    assert (answer.findings, answer.good) == ((), "96 CPUs are online")
    assert {one.name: (one.value, one.limit) for one in answer.readings} == {
        "cpus_online": (96, 96),
        "cpu_sockets": (2, 2),
        "cpu_threads": (1, 1),
    }


def test_cpu_fails_with_cpus_offline(tmp_path: Path) -> None:
    (found,) = measure_cpu(machine(tmp_path, "0-92,94-95")).findings
    assert (found.verdict, found.action) == ("fail", "reboot")
    assert found.summary == "95 of 96 CPUs are online: 93 are offline"


def test_cpu_warns_of_offline_cpus_beyond_those_expected(tmp_path: Path) -> None:
    (found,) = measure_cpu(machine(tmp_path, "0-95", "0-96")).findings
    assert (found.verdict, found.summary) == ("warn", "96 of 96 CPUs are online: 96 are offline")


def test_cpu_fails_with_fewer_cpus(tmp_path: Path) -> None:
    (found,) = measure_cpu(machine(tmp_path, "0-94", "0-94")).findings
    assert (found.verdict, found.action) == ("fail", None)
    assert found.summary == "95 CPUs exist, but Standard_ND96asr_v4 is expected to have 96"


def test_cpu_warns_of_more_cpus_threads_or_sockets(tmp_path: Path) -> None:
    (found,) = measure_cpu(machine(tmp_path / "more", "0-96", "0-96")).findings[:1]
    assert (found.verdict, found.summary) == (
        "warn",
        "97 CPUs are online, but Standard_ND96asr_v4 is expected to have 96",
    )
    tree = machine(tmp_path / "threads", "0-95").cpus("0-95", smt_siblings(48))
    assert [(found.verdict, found.summary) for found in measure_cpu(tree).findings] == [
        ("warn", "the CPUs have 2 threads per core instead of 1")
    ]
    tree = machine(tmp_path / "sockets", "0-95")
    tree.write("/sys/devices/system/cpu/cpu95/topology/physical_package_id", "2\n")
    assert [found.summary for found in measure_cpu(tree).findings] == ["the CPUs have 3 sockets instead of 2"]


def test_cpu_ignores_what_the_kernel_does_not_report(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-95")
    answer = measure_cpu(tree)
    assert (answer.findings, [one.name for one in answer.readings]) == ((), ["cpus_online"])


@pytest.mark.parametrize("size", ["Standard_ND96asr_v4"])
def test_cpu_cannot_measure_without_sysfs(tmp_path: Path, size: str) -> None:
    (found,) = CPU.measure(context(root=tmp_path, size=size)).findings
    assert found.verdict == "unknown"


EXPECTED_MIB = find_size(ND_A100).memory_mib or 0
LEAST, MOST = EXPECTED_MIB * 0.97, EXPECTED_MIB * 1.03


def measure_memory(root: Path, mib: float, size: str | VmSize = ND_A100, **settings: Any) -> Answer:
    """Check a machine with this much memory."""
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal:       {int(mib * 1024)} kB\nMemFree: 1 kB\n", encoding="ascii")
    return MEMORY.measure(context(root=root, size=size, **settings))


@pytest.mark.parametrize("mib", [EXPECTED_MIB, int(LEAST) + 1, int(MOST)])
def test_memory_passes_within_the_deviation(tmp_path: Path, mib: int) -> None:
    answer = measure_memory(tmp_path, mib)
    assert (answer.findings, answer.good) == ((), f"{mib} MiB of memory")
    assert answer.limit == f"{EXPECTED_MIB} MiB within 3 % (azurehpc-health-checks, conf/<size>.conf)"


def test_memory_fails_with_less(tmp_path: Path) -> None:
    (found,) = measure_memory(tmp_path, int(LEAST)).findings
    assert found.verdict == "fail"
    assert found.summary == f"there are {int(LEAST)} MiB of memory, but {ND_A100} has {EXPECTED_MIB} MiB"


def test_memory_warns_of_more(tmp_path: Path) -> None:
    assert [found.verdict for found in measure_memory(tmp_path, int(MOST) + 1).findings] == ["warn"]


def test_memory_a_limit_of_the_site_wins(tmp_path: Path) -> None:
    assert measure_memory(tmp_path, EXPECTED_MIB * 0.91, limits={"memory_deviation": 10}).findings == ()


@pytest.mark.parametrize(("mib", "verdicts"), [(899, ["fail"]), (900, []), (1100, []), (1101, ["warn"])])
def test_memory_at_the_limits_is_good(tmp_path: Path, mib: int, verdicts: list[str]) -> None:
    described = VmSize("Standard_Mine", memory_mib=1000)
    found = measure_memory(tmp_path, mib, described, limits={"memory_deviation": 10}).findings
    assert [one.verdict for one in found] == verdicts


def test_memory_is_skipped_without_an_allowed_deviation(tmp_path: Path) -> None:
    described = VmSize("Standard_Mine", memory_mib=1024)
    assert "memory_deviation" in measure_memory(tmp_path, 1, described).skipped


def test_memory_cannot_measure_without_proc(tmp_path: Path) -> None:
    assert [found.verdict for found in MEMORY.measure(context(root=tmp_path)).findings] == ["unknown"]


def measure_swap(root: Path, mib: int, **options: object) -> Answer:
    """Check a machine with this much swap, of which 1 MiB is used."""
    (root / "proc").mkdir(exist_ok=True)
    text = f"SwapTotal:      {mib * 1024} kB\nSwapFree:       {max(mib - 1, 0) * 1024} kB\n"
    (root / "proc/meminfo").write_text(text, encoding="ascii")
    return SWAP.measure(context(root=root, options={"swap": options}))


def test_swap_passes_without_any(tmp_path: Path) -> None:
    answer = measure_swap(tmp_path, 0)
    assert (answer.findings, answer.good) == ((), "no swap")


def test_swap_fails_to_pass_above_the_allowed_size(tmp_path: Path) -> None:
    (found,) = measure_swap(tmp_path, 1).findings
    assert (found.verdict, found.summary) == ("warn", "there are 1 MiB of swap, but at most 0 MiB are allowed")
    answer = measure_swap(tmp_path, 4096, most_mib=4096)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [4096, 1])
    assert [found.verdict for found in measure_swap(tmp_path, 4097, most_mib=4096).findings] == ["warn"]


def test_swap_cannot_measure_without_proc_or_with_an_invalid_option(tmp_path: Path) -> None:
    assert [found.verdict for found in SWAP.measure(context(root=tmp_path)).findings] == ["unknown"]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("SwapTotal:      0 kB\n", encoding="ascii")
    assert [found.verdict for found in SWAP.measure(context(root=tmp_path)).findings] == ["unknown"]
    with pytest.raises(ConfigError, match="most_mib"):
        measure_swap(tmp_path, 0, most_mib="many")


def measure_load(
    path: Path,
    load: str = "191.5 192.00 400.0 3/900 4711",
    zombies: int = 0,
    free_mib: int = 5120,
    **options: object,
) -> Answer:
    """Check the load of a machine with 96 CPUs."""
    tree = MachineTree(path).cpus("0-95")
    tree.write("/proc/loadavg", f"{load}\n")
    tree.write("/proc/meminfo", f"MemAvailable:   {free_mib * 1024} kB\n")
    tree.process(50, "0-95", state="D")
    for pid in range(zombies):
        tree.process(100 + pid, "0-95", state="Z")
    return LOAD.measure(context(root=tree, options={"load": options}))


def test_load_passes_up_to_twice_the_cpus(tmp_path: Path) -> None:
    answer = measure_load(tmp_path, zombies=3)
    assert (answer.findings, answer.good) == ((), "a load of 192 on 96 CPUs, 3 zombies")
    assert [(one.name, one.value) for one in answer.readings] == [
        ("load", 192.0),
        ("zombies", 3),
        ("processes_waiting", 1),
        ("memory_available", 5120),
    ]


def test_load_passes_if_nothing_runs(tmp_path: Path) -> None:
    assert measure_load(tmp_path, "0.00 0.00 0.00 1/90 4711").findings == ()


def test_load_fails_to_pass_above_twice_the_cpus(tmp_path: Path) -> None:
    (found,) = measure_load(tmp_path, "1 192.01 1 3/900 4711").findings
    assert (found.verdict, found.cause) == ("warn", "user")
    assert found.summary == "the 5-minute load is 192.01 on 96 CPUs, and 1 processes wait for a device"


def test_load_limits_of_the_site_win(tmp_path: Path) -> None:
    assert measure_load(tmp_path / "a", "1 200 1 3/900 4711", of_cpus=2.5).findings == ()
    options = {"zombies": 1}
    tree = MachineTree(tmp_path / "b").cpus("0-95")
    tree.write("/proc/loadavg", "1 1 1 1/1 1\n")
    tree.write("/proc/meminfo", "MemAvailable: 9999999 kB\n")
    tree.process(100, "0-95", state="Z")
    assert LOAD.measure(context(root=tree, options={"load": options})).findings == ()
    tree.process(101, "0-95", state="Z")
    (found,) = LOAD.measure(context(root=tree, options={"load": options})).findings
    assert (found.verdict, found.summary) == ("warn", "there are 2 zombie processes")


def test_load_fails_to_pass_with_little_free_memory(tmp_path: Path) -> None:
    (found,) = measure_load(tmp_path / "a", free_mib=5119).findings
    assert (found.verdict, found.cause) == ("warn", "user")
    assert found.summary == "only 5119 MiB of memory are available"
    assert measure_load(tmp_path / "b", free_mib=100, least_free_mib=100).findings == ()


def test_load_cannot_measure_without_meminfo(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-95")
    tree.write("/proc/loadavg", "1 1 1 1/1 1\n")
    assert [found.verdict for found in LOAD.measure(context(root=tree)).findings] == ["unknown"]


@pytest.mark.parametrize("load", ["", "1.0", "much more here"])
def test_load_cannot_measure_with_a_broken_loadavg(tmp_path: Path, load: str) -> None:
    assert [found.verdict for found in measure_load(tmp_path, load).findings] == ["unknown"]
