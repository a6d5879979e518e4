# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CPUs: all online, some offline, fewer, more, in other sockets, not to be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree, smt_siblings

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.cpu import CHECK

from ..playing import context


def machine(path: Path, online: str, present: str = "0-95") -> MachineTree:
    """A machine with so many CPUs, half of them in each of two sockets."""
    tree = MachineTree(path).cpus(online, {cpu: str(cpu) for cpu in range(96)})
    tree.write("/sys/devices/system/cpu/present", f"{present}\n")
    for cpu in range(128):
        tree.write(f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", f"{cpu // 48}\n")
    return tree


def measure(tree: MachineTree) -> Answer:
    """Look at the CPUs."""
    return CHECK.measure(context(root=tree))


def test_passes_with_all_cpus(tmp_path: Path) -> None:
    answer = measure(machine(tmp_path, "0-95"))
    assert (answer.findings, answer.good) == ((), "96 CPUs are online")
    assert {one.name: (one.value, one.limit) for one in answer.readings} == {
        "cpus_online": (96, 96),
        "cpu_sockets": (2, 2),
        "cpu_threads": (1, 1),
    }


def test_fails_with_cpus_offline(tmp_path: Path) -> None:
    (found,) = measure(machine(tmp_path, "0-92,94-95")).findings
    assert (found.verdict, found.action) == ("fail", "reboot")
    assert found.summary == "95 of 96 CPUs are online: 93 are offline"


def test_cpus_offline_beyond_those_promised_are_worth_a_warning(tmp_path: Path) -> None:
    (found,) = measure(machine(tmp_path, "0-95", "0-96")).findings
    assert (found.verdict, found.summary) == ("warn", "96 of 96 CPUs are online: 96 are offline")


def test_fails_with_fewer_cpus(tmp_path: Path) -> None:
    (found,) = measure(machine(tmp_path, "0-94", "0-94")).findings
    assert (found.verdict, found.action) == ("fail", None)
    assert found.summary == "95 of 96 CPUs that Standard_ND96asr_v4 promises are there"


def test_more_cpus_and_other_cores_are_worth_a_warning(tmp_path: Path) -> None:
    (found,) = measure(machine(tmp_path / "more", "0-96", "0-96")).findings[:1]
    assert (found.verdict, found.summary) == ("warn", "97 CPUs are online, and Standard_ND96asr_v4 promises 96")
    tree = machine(tmp_path / "threads", "0-95").cpus("0-95", smt_siblings(48))
    assert [(found.verdict, found.summary) for found in measure(tree).findings] == [
        ("warn", "the CPUs have 2 threads of a core instead of 1")
    ]
    tree = machine(tmp_path / "sockets", "0-95")
    tree.write("/sys/devices/system/cpu/cpu95/topology/physical_package_id", "2\n")
    assert [found.summary for found in measure(tree).findings] == ["the CPUs have 3 sockets instead of 2"]


def test_what_the_kernel_does_not_tell_is_not_judged(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-95")
    answer = measure(tree)
    assert (answer.findings, [one.name for one in answer.readings]) == ((), ["cpus_online"])


@pytest.mark.parametrize("size", ["Standard_ND96asr_v4"])
def test_cannot_measure_without_sysfs(tmp_path: Path, size: str) -> None:
    (found,) = CHECK.measure(context(root=tmp_path, size=size)).findings
    assert found.verdict == "unknown"
