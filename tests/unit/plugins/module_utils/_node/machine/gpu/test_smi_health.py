# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs' health out of what nvidia-smi prints: columns by name, fields that a driver lacks, words for nothing."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu.smi_health import read_health, read_links

PCI = ("0001:00:00.0", "0002:00:00.0")
VALUES = {
    "pci.bus_id": "00000001:00:00.0",
    "index": "0",
    "name": "NVIDIA A100-SXM4-40GB",
    "clocks_event_reasons.active": "0x0000000000000048",
    "clocks_throttle_reasons.active": "0x0000000000000048",
    "persistence_mode": "Enabled",
    "mig.mode.current": "[N/A]",
    "power.draw": "[Unknown Error]",
    "temperature.gpu": "35",
    "fabric.state": "N/A",
}


class Smi:
    """nvidia-smi of a driver that lacks some fields."""

    def __init__(self, *lacking: str, rows: str = "", lost: str = "") -> None:
        self.lacking, self.rows, self.lost = lacking, rows, lost
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str) -> str:
        self.asked.append(arguments)
        query = next((one for one in arguments if one.startswith("--query-gpu=")), None)
        if query is None:
            return self.rows if arguments[0].startswith("--query-remapped-rows") else ""
        if self.lost and (arguments[0] == f"--id={self.lost}" or not arguments[0].startswith("--id")):
            raise GpuError("gpu_is_lost", "nvidia-smi: GPU is lost")
        fields = query.split("=")[1].split(",")
        for field in fields:
            if field in self.lacking:
                raise GpuError("unknown", f'nvidia-smi: Field "{field}" is not a valid field to query.')
        return ", ".join(VALUES.get(field, "0") for field in fields) + "\n"


def test_what_nvidia_smi_has_no_value_for_is_unknown() -> None:
    (one,) = read_health(Smi(), PCI[:1])
    assert (one.busid, one.reasons, one.persistence, one.temperature) == ("0001:00:00.0", 0x48, True, 35)
    assert (one.mig, one.power, one.fabric, one.slowdown_at, one.problem) == (None, None, None, None, None)


def test_a_gpu_that_it_does_not_show_cannot_be_read() -> None:
    _first, second = read_health(Smi(), PCI)
    assert (second.index, second.busid, second.problem) == (1, "0002:00:00.0", "nvidia-smi does not show it")


def test_a_lost_gpu_that_silences_the_whole_answer_does_not_hide_the_others() -> None:
    first, second = read_health(Smi(lost=PCI[1]), PCI)
    assert (first.problem, first.temperature) == (None, 35)
    assert (second.problem_kind, second.busid) == ("gpu_is_lost", PCI[1])


def test_fields_that_the_driver_does_not_know_are_left_out() -> None:
    smi = Smi("fabric.state", "fabric.status", "clocks_event_reasons.active")
    (one,) = read_health(smi, PCI[:1])
    assert (one.reasons, one.temperature, one.fabric) == (0x48, 35, None)
    assert len(smi.asked) == 4 + 2


def test_a_field_that_has_no_other_name_either_is_unknown() -> None:
    (one,) = read_health(Smi("clocks_event_reasons.active", "clocks_throttle_reasons.active"), PCI[:1])
    assert (one.reasons, one.temperature) == (None, 35)


def test_another_error_is_no_reason_to_ask_again() -> None:
    def refuse(*arguments: str) -> str:
        raise GpuError("driver_not_loaded", "not loaded")

    with pytest.raises(GpuError, match="not loaded"):
        read_health(refuse, PCI)


@pytest.mark.parametrize(
    ("said", "pending", "failure"), [("1, 0", True, False), ("0, 1", False, True), ("Yes, No", True, False)]
)
def test_remapped_rows_are_four_columns_of_their_own(said: str, pending: bool, failure: bool) -> None:
    (one,) = read_health(Smi(rows=f"00000001:00:00.0, 3, 513, {said}\n"), PCI[:1])
    assert one.rows is not None
    assert (one.rows.corrected, one.rows.uncorrected) == (3, 513)
    assert (one.rows.pending, one.rows.failure) == (pending, failure)
    # What remaps rows retires no pages.
    assert one.pages is None


@pytest.mark.parametrize("rows", ["", "00000001:00:00.0, [N/A], [N/A], [N/A], [N/A]\n", "00000001:00:00.0, 1, 2\n"])
def test_rows_that_are_not_told_are_unknown(rows: str) -> None:
    (one,) = read_health(Smi(rows=rows), PCI[:1])
    assert one.rows is None


def test_an_answer_of_another_shape_is_an_error() -> None:
    with pytest.raises(GpuError, match="answered something else than"):
        read_health(lambda *arguments: "0, 1, 2\n", PCI)


def test_links() -> None:
    status = (
        "GPU 0: A (UUID: GPU-0)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n"
        "GPU 1: B (UUID: GPU-1)\n\t Link 0: 25 GB/s\n"
    )
    errors = (
        "GPU 0: A (UUID: GPU-0)\n\t Link 0: Replay Errors: 2\n\t Link 0: Recovery Errors: 0\n\t Link 0: CRC Errors: 1\n"
        "\t Link 1: Replay Errors: 3\n\t Link 1: Data Link: 4\nGPU 1: B (UUID: GPU-1)\n"
    )
    first, second = read_links(lambda *arguments: errors if "--errorcounters" in arguments else status)
    assert (first.active, first.errors) == ((True, False), {"replay": 5, "recovery": 0, "crc_flit": 1})
    assert (second.index, second.active, second.errors) == (1, (True,), {})
    assert read_links(lambda *arguments: "NVML: all links are inactive\n") == ()
