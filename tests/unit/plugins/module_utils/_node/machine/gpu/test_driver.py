# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which driver is used, and what is known about a GPU that cannot be read."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import gpu
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError, driver
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

PCI = ("0001:00:00.0", "0002:00:00.0")


class FakeWorker:
    """A worker with given answers."""

    closed = False

    def __init__(self, answers: dict[Any, Any]) -> None:
        self.answers = answers

    def ask(self, request: str, *arguments: Any) -> Any:
        """Answer, or raise."""
        answer = self.answers.get((request, *arguments), self.answers.get(request))
        if isinstance(answer, GpuError):
            raise answer
        return answer

    def close(self) -> None:
        """Record that it was closed."""
        self.closed = True


def facts(index: int, busid: str) -> dict[str, Any]:
    """The facts of a GPU, as a worker returns them."""
    names = ("uuid", "name", "mig", "persistence", "highest", "application", "application_reason", "default", "current")
    return {
        **dict.fromkeys((*names, "slowed")),
        "index": index,
        "busid": busid,
        "mig_instances": [],
        "supported": {"1215": [1095, 1410]},
    }


def nvml(monkeypatch: pytest.MonkeyPatch, answers: dict[Any, Any], pci: tuple[str, ...] = PCI) -> driver.Driver:
    """A driver with a fake worker."""
    monkeypatch.setattr(driver, "Worker", lambda *_: FakeWorker(answers))
    return driver.Driver(pci=pci)


LOST = GpuError("gpu_is_lost", "GPU is lost")


@pytest.mark.parametrize(
    ("pci", "busid"),
    [
        (PCI, "0002:00:00.0"),
        # The PCI devices are not the driver's GPUs, so nothing is concluded.
        (("0001:00:00.0",), None),
        (("000a:00:00.0", "000b:00:00.0"), None),
    ],
)
def test_a_lost_gpu_has_the_pci_address_that_no_other_gpu_has(
    monkeypatch: pytest.MonkeyPatch, pci: tuple[str, ...], busid: str | None
) -> None:
    answers = {"count": 2, ("read", 0): facts(0, PCI[0]), ("read", 1): LOST}
    first, second = nvml(monkeypatch, answers, pci).read()
    assert (first.busid, first.problem) == (PCI[0], None)
    assert (second.index, second.busid, second.problem) == (1, busid, "GPU is lost")
    assert second.problem_kind == "gpu_is_lost"


SILENT = GpuError("no_answer", "the driver did not answer within 3 s")


@pytest.mark.parametrize(
    ("silent", "not_asked"), [((1, 2), [3, 4]), ((1, 3), []), ((3, 4), []), ((0, 1), [2, 3, 4])], ids=str
)
def test_after_two_silent_gpus_in_a_row_no_further_gpu_is_queried(
    monkeypatch: pytest.MonkeyPatch, silent: tuple[int, ...], not_asked: list[int]
) -> None:
    """Each silent GPU takes its whole timeout, and a boot does not have that much time."""
    answers: dict[Any, Any] = {("read", index): facts(index, f"000{index}:00:00.0") for index in range(5)}
    answers.update({("read", index): SILENT for index in silent}, count=5)
    found = nvml(monkeypatch, answers, ()).read()
    assert [gpu.index for gpu in found if (gpu.problem or "").startswith("not queried")] == not_asked
    assert {gpu.index for gpu in found if gpu.problem_kind == "no_answer"} == {*silent, *not_asked}
    assert [gpu.index for gpu in nvml(monkeypatch, answers, ()).read([4, *silent])] == sorted({4, *silent})


def test_numbers_as_keys_are_restored_after_json(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = nvml(monkeypatch, {("read", 1): facts(1, PCI[1])}).read([1])
    assert one.supported == {1215: (1410, 1095)}
    assert str(one.highest) == "memory 1215 MHz, graphics 1410 MHz"


def test_processes_are_unknown_if_any_gpu_does_not_report_them(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"count": 2, ("processes", 0): [7], ("busid", 0): PCI[0], ("processes", 1): None, ("busid", 1): PCI[1]}
    assert nvml(monkeypatch, answers).processes() is None
    answers[("processes", 1)] = LOST
    assert nvml(monkeypatch, answers).processes() == {7: (PCI[0],)}


@pytest.mark.parametrize("kind", ["library_not_found", "no_answer"])
def test_a_driver_that_does_not_answer_is_an_error_and_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, kind: str
) -> None:
    fake_worker = FakeWorker({"versions": GpuError(kind, "why")})
    monkeypatch.setattr(driver, "Worker", lambda *_: fake_worker)
    with pytest.raises(GpuError, match=r"^why$"):
        gpu.connect(Root(str(tmp_path)))
    assert fake_worker.closed


def test_the_processes_of_a_captured_tree_are_unknown(tmp_path: pathlib.Path) -> None:
    assert gpu.compute_processes(Root(str(tmp_path))) is None


def test_only_nvidias_gpus_count(tmp_path: pathlib.Path) -> None:
    for busid, code, vendor in (
        ("0001:00:00.0", "0x030200", "0x10de"),
        ("0002:00:00.0", "0x120000", "0x1002"),
        ("0003:00:00.0", "0x068000", "0x10de"),
    ):
        device = tmp_path / "sys/bus/pci/devices" / busid
        device.mkdir(parents=True)
        (device / "class").write_text(code, encoding="ascii")
        (device / "vendor").write_text(vendor, encoding="ascii")
    assert gpu.nvidia_gpus(Root(str(tmp_path))) == ("0001:00:00.0",)
