# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node has, compared with slurm.conf."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import hardware
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.conf_text import parse_conf
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hardware import NodeHardware

# slurmd -C of Slurm 22.05.8 on a virtual machine.
PRINTED = (
    "NodeName=compute-0 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=24043\n"
    "UpTime=0-03:23:31\n"
)
COUNTS = {"CPUs": 2, "Boards": 1, "SocketsPerBoard": 1, "CoresPerSocket": 2, "ThreadsPerCore": 1, "RealMemory": 24043}


def lacks(line: str, counts: dict[str, int], conf: str = "", missing: tuple[str, ...] = ()) -> list[str]:
    """What the node compute-0 lacks compared with a node line."""
    parsed = parse_conf(f"{conf}\nNodeName=compute-0 {line}\n")
    return hardware.differences(parsed, "compute-0", NodeHardware(counts, missing))


def test_the_output_of_slurmd_is_parsed() -> None:
    assert hardware.parse_counts(PRINTED) == COUNTS
    assert hardware.parse_counts("") == {}


def test_more_than_configured_or_not_configured_is_no_difference() -> None:
    """The simulated nodes see the CPUs and the memory of the whole machine; their line has no sockets."""
    assert lacks("CPUs=2 RealMemory=1945", COUNTS) == []
    assert lacks("CPUs=2", {**COUNTS, "SocketsPerBoard": 2}) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("CPUs=4", ["CPUs is 2, configured 4"]),
        ("CPUs=2 RealMemory=30000", ["RealMemory is 24043, configured 30000"]),
        ("CPUs=2 Sockets=2 CoresPerSocket=1 ThreadsPerCore=1", ["Sockets is 1, configured 2",
                                                                "CoresPerSocket is 2, configured 1"]),
        ("Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2", ["ThreadsPerCore is 1, configured 2"]),
    ],
)  # fmt: skip
def test_less_than_configured_and_another_layout_are_differences(line: str, found: list[str]) -> None:
    assert lacks(line, COUNTS) == found


def test_a_spare_node_may_have_10_percent_less_memory_as_in_slurmctld() -> None:
    counts = {**COUNTS, "RealMemory": 1900}
    assert lacks("RealMemory=1945 State=CLOUD", counts) == []
    assert lacks("RealMemory=1945 State=UNKNOWN", counts) == ["RealMemory is 1900, configured 1945"]
    assert lacks("RealMemory=1945", counts, "SlurmctldParameters=node_reg_mem_percent=95.5") == []


def test_sockets_that_slurmd_counts_differently_are_not_compared() -> None:
    line = "CPUs=2 Sockets=2 CoresPerSocket=1 ThreadsPerCore=1"
    assert lacks(line, COUNTS, "SlurmdParameters=numa_node_as_socket") == []


def test_with_config_overrides_only_missing_files_count() -> None:
    overridden = "SlurmdParameters=config_overrides"
    assert lacks("CPUs=4 RealMemory=30000", COUNTS, overridden) == []
    assert lacks("CPUs=4", COUNTS, overridden, ("/dev/nvidia7",)) == ["/dev/nvidia7 is missing"]


def test_missing_device_files_of_gres_conf_are_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    gres = (
        "NodeName=compute-[0,3] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"
        "NodeName=compute-5 Name=gpu File=/dev/nvidia[0-7]\n"
        "AutoDetect=off\n"
    )
    assert hardware.missing_files(gres, "compute-3", Root(str(tmp_path))) == ["/dev/nvidia1"]
    assert hardware.missing_files("Name=gpu File=/dev/nvidia0\n", "compute-3", Root(str(tmp_path))) == []


def test_the_reason_begins_with_its_subject() -> None:
    conf = parse_conf("NodeName=compute-0 CPUs=4 RealMemory=30000\n")
    reported = hardware.from_result({"hardware": COUNTS, "missing_files": [], "waits": []})
    reason = "hpcai: hardware: CPUs is 2, configured 4; RealMemory is 24043, configured 30000"
    assert hardware.reason_against(conf, "compute-0", reported) == reason
    enough = parse_conf("NodeName=compute-0 CPUs=2\n")
    assert hardware.reason_against(enough, "compute-0", reported) is None
    waiting = hardware.from_result({"hardware": COUNTS, "waits": ["job_container.conf changed"]})
    assert hardware.reason_against(enough, "compute-0", waiting) == "hpcai: slurmd: job_container.conf changed"
