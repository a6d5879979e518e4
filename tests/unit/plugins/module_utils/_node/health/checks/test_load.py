# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Load, zombies and free memory: few, many, not to be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand_ins.machine_tree import MachineTree

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.load import CHECK

from ..playing import context


def measure(
    path: Path,
    load: str = "191.5 192.00 400.0 3/900 4711",
    zombies: int = 0,
    free_mib: int = 5120,
    **options: object,
) -> Answer:
    """A machine of 96 CPUs."""
    tree = MachineTree(path).cpus("0-95")
    tree.write("/proc/loadavg", f"{load}\n")
    tree.write("/proc/meminfo", f"MemAvailable:   {free_mib * 1024} kB\n")
    tree.process(50, "0-95", state="D")
    for pid in range(zombies):
        tree.process(100 + pid, "0-95", state="Z")
    return CHECK.measure(context(root=tree, options={"load": options}))


def test_passes_up_to_twice_the_cpus(tmp_path: Path) -> None:
    answer = measure(tmp_path, zombies=3)
    assert (answer.findings, answer.good) == ((), "a load of 192 on 96 CPUs, 3 zombies")
    assert [(one.name, one.value) for one in answer.readings] == [
        ("load", 192.0),
        ("zombies", 3),
        ("processes_waiting", 1),
        ("memory_available", 5120),
    ]


def test_passes_where_nothing_runs(tmp_path: Path) -> None:
    assert measure(tmp_path, "0.00 0.00 0.00 1/90 4711").findings == ()


def test_fails_to_be_good_above_it(tmp_path: Path) -> None:
    (found,) = measure(tmp_path, "1 192.01 1 3/900 4711").findings
    assert (found.verdict, found.cause) == ("warn", "user")
    assert found.summary == "the load of five minutes is 192.01 on 96 CPUs, 1 processes wait for a device"


def test_the_sites_own_limits_go_first(tmp_path: Path) -> None:
    assert measure(tmp_path / "a", "1 200 1 3/900 4711", of_cpus=2.5).findings == ()
    options = {"zombies": 1}
    tree = MachineTree(tmp_path / "b").cpus("0-95")
    tree.write("/proc/loadavg", "1 1 1 1/1 1\n")
    tree.write("/proc/meminfo", "MemAvailable: 9999999 kB\n")
    tree.process(100, "0-95", state="Z")
    assert CHECK.measure(context(root=tree, options={"load": options})).findings == ()
    tree.process(101, "0-95", state="Z")
    (found,) = CHECK.measure(context(root=tree, options={"load": options})).findings
    assert (found.verdict, found.summary) == ("warn", "2 processes have ended and nobody takes note")


def test_fails_to_be_good_with_little_memory_left(tmp_path: Path) -> None:
    (found,) = measure(tmp_path / "a", free_mib=5119).findings
    assert (found.verdict, found.cause) == ("warn", "user")
    assert found.summary == "5119 MiB of memory can still be had"
    assert measure(tmp_path / "b", free_mib=100, least_free_mib=100).findings == ()


def test_cannot_measure_without_the_memorys_figures(tmp_path: Path) -> None:
    tree = MachineTree(tmp_path).cpus("0-95")
    tree.write("/proc/loadavg", "1 1 1 1/1 1\n")
    assert [found.verdict for found in CHECK.measure(context(root=tree)).findings] == ["unknown"]


@pytest.mark.parametrize("load", ["", "1.0", "much more here"])
def test_cannot_measure_what_is_not_there(tmp_path: Path, load: str) -> None:
    assert [found.verdict for found in measure(tmp_path, load).findings] == ["unknown"]
