# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvidia-smi as the way to the driver: its words, of which the exit status says little.

The sentences are real ones, as public reports of their users quote them (searched on 2026-11-21): "Setting locked
Memory clocks is not supported for GPU ..." with exit status 0 and "Treating as warning and moving on." after it,
"[Requested functionality has been deprecated]" for application clocks, "Unable to determine the device handle for
GPU1: 0000:34:00.0: Unknown Error". Rows are put together here in nvidia-smi's form.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import Clocks, GpuError, SmiDriver
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

DEPRECATED = "[Requested functionality has been deprecated]"
PCI = ("0001:00:00.0", "0002:00:00.0")


def row(index: int, application: str = "1215, 1095", mig: str = "Disabled", persistence: str = "Enabled") -> str:
    """A line that answers the question for all fields."""
    return (
        f"{index}, GPU-{index}, 0000000{index + 1}:00:00.0, NVIDIA A100-SXM4-40GB, {mig}, {persistence}, 1215, 1410, "
        f"{application}, {application}, 1215, 210\n"
    )


class Smi:
    """Answers by the first argument that is known, and remembers what it was asked."""

    def __init__(self, **answers: Result | str) -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Result:
        self.asked.append(list(command[1:]))
        for argument in command[1:]:
            name = argument.lstrip("-").split("=")[0].replace("-", "_")
            answer = self.answers.get(argument.replace("--id=", "id_"), self.answers.get(name))
            if isinstance(answer, str):
                return Result(tuple(command), 0, answer, "")
            if answer is not None:
                return answer
        return Result(tuple(command), 0, "", "")


def failing(rc: int, stdout: str = "", stderr: str = "") -> Result:
    """What a failed command answers."""
    return Result(("nvidia-smi",), rc, stdout, stderr)


def test_reads_gpus_and_their_clocks() -> None:
    smi = Smi(query_gpu=row(0) + row(1, mig="Enabled"), query_supported_clocks="GPU-0, 1215, 1395\nGPU-0, 1215, 1380\n")
    first, second = SmiDriver(smi, PCI).read()
    assert (first.index, first.uuid, first.busid, first.name) == (0, "GPU-0", "0001:00:00.0", "NVIDIA A100-SXM4-40GB")
    assert (first.mig, first.persistence, first.slowed) == (False, True, None)
    assert first.supported == {1215: (1395, 1380)}
    assert first.highest == Clocks(1215, 1395)
    assert (first.application, first.default, first.current) == (
        Clocks(1215, 1095),
        Clocks(1215, 1095),
        Clocks(1215, 210),
    )
    assert (second.mig, second.highest) == (True, Clocks(1215, 1410))


@pytest.mark.parametrize("words", ["[N/A]", "[Not Supported]", DEPRECATED, "[Insufficient Permissions]"])
def test_words_instead_of_application_clocks_are_not_taken_for_clocks(words: str) -> None:
    (gpu,) = SmiDriver(Smi(query_gpu=row(0, application=f"{words}, {words}")), PCI[:1]).read()
    assert (gpu.application, gpu.default, gpu.application_reason) == (None, None, f"nvidia-smi: {words}")


def test_what_is_not_told_is_unknown() -> None:
    (gpu,) = SmiDriver(Smi(query_gpu=row(0, mig="[N/A]", persistence="[N/A]")), PCI[:1]).read()
    assert (gpu.mig, gpu.persistence) == (None, None)


def test_only_some_gpus_can_be_read() -> None:
    assert [gpu.index for gpu in SmiDriver(Smi(query_gpu=row(0) + row(1)), PCI).read([1])] == [1]


def test_a_lost_gpu_in_the_answer_is_told() -> None:
    lost = ", ".join(["1", "[GPU is lost]", "00000002:00:00.0", *["[GPU is lost]"] * 11])
    first, second = SmiDriver(Smi(query_gpu=f"{row(0)}{lost}\n"), PCI).read()
    assert (first.problem, second.problem) == (None, "nvidia-smi: GPU is lost")


@pytest.mark.parametrize("rc", [0, 255])
def test_a_lost_gpu_that_silences_the_answer_does_not_hide_the_others(rc: int) -> None:
    words = "Unable to determine the device handle for GPU1: 0002:00:00.0: Unknown Error\n"
    smi = Smi(query_gpu=failing(rc, stdout=words))
    smi.answers["id_0001:00:00.0"] = row(0)
    first, second = SmiDriver(smi, PCI).read()
    assert (first.problem, first.uuid) == (None, "GPU-0")
    assert (second.index, second.busid, second.uuid) == (1, "0002:00:00.0", None)
    assert second.problem == f"nvidia-smi: {words.strip()}"
    assert second.problem_kind == "gpu_is_lost"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (failing(124, stderr="no answer within 30 s"), "no_answer", "nvidia-smi: no answer within 30 s"),
        (
            failing(
                9, stdout="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure"
            ),
            "driver_not_loaded",
            "couldn't communicate",
        ),
        (
            failing(18, stdout="Failed to initialize NVML: Driver/library version mismatch"),
            "lib_rm_version_mismatch",
            "mismatch",
        ),
        (failing(4, stdout="Failed to initialize NVML: Insufficient Permissions"), "no_permission", "Permissions"),
        (failing(3), "unknown", "exit status 3"),
    ],
)
def test_a_driver_that_cannot_be_used_is_told(answer: Result, kind: str, words: str) -> None:
    with pytest.raises(GpuError, match=words) as error:
        SmiDriver(Smi(query_gpu=answer), PCI).read()
    assert error.value.kind == kind


def test_the_drivers_version_is_that_of_any_gpu() -> None:
    smi = Smi(query_gpu="550.90.12\n550.90.12\n")
    assert SmiDriver(smi, PCI).versions() == ("550.90.12", "")
    assert SmiDriver(Smi(query_gpu=failing(6, stdout="No devices were found\n")), PCI).versions() == ("", "")
    lost = failing(15, stdout="Unable to determine the device handle for GPU1: 0002:00:00.0: GPU is lost.\n")
    assert SmiDriver(Smi(query_gpu=lost), PCI).versions() == ("", "")
    with pytest.raises(GpuError, match="no answer"):
        SmiDriver(Smi(query_gpu=failing(124, stderr="no answer within 30 s")), PCI).versions()


def test_no_devices_is_no_gpu() -> None:
    assert SmiDriver(Smi(query_gpu=failing(6, stdout="No devices were found\n")), ()).read() == ()


def test_another_answer_than_fields_is_not_guessed_at() -> None:
    with pytest.raises(GpuError, match="something else than 14 fields"):
        SmiDriver(Smi(query_gpu="0, GPU-0\n"), PCI).read()


@pytest.mark.parametrize(
    ("what", "values", "option"),
    [
        ("set_persistence", (1,), "--persistence-mode=1"),
        ("set_application", (1215, 1410), "--applications-clocks=1215,1410"),
        ("reset_application", (), "--reset-applications-clocks"),
        ("lock_graphics", (1410,), "--lock-gpu-clocks=1410,1410"),
        ("unlock_graphics", (), "--reset-gpu-clocks"),
        ("lock_memory", (1215,), "--lock-memory-clocks=1215,1215"),
        ("unlock_memory", (), "--reset-memory-clocks"),
    ],
)
def test_changes_go_to_one_gpu_by_its_address(what: str, values: tuple[int, ...], option: str) -> None:
    smi = Smi(query_gpu=row(0) + row(1))
    driver = SmiDriver(smi, PCI)
    driver.read()
    driver.change(what, 1, *values)
    assert smi.asked[-1] == ["--id=0002:00:00.0", option]


WARNED = "Treating as warning and moving on.\nAll done.\n"
NO_MEMORY_LOCK = f"Setting locked Memory clocks is not supported for GPU 00000001:00:00.0.\n{WARNED}"
NO_APPLICATION = f"Setting applications clocks is not supported for GPU 00000001:00:00.0.\n{WARNED}"
NOT_ROOT = "The current user does not have permission to change clocks for GPU 00000001:00:00.0.\n"
LOST = "Unable to determine the device handle for GPU 0001:00:00.0: GPU is lost.  Reboot the system to recover\n"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (failing(0, stdout=NO_MEMORY_LOCK), "not_supported"),
        (failing(0, stdout=NO_APPLICATION), "not_supported"),
        (failing(3, stdout="The requested functionality has been deprecated\n"), "deprecated"),
        (failing(4, stdout=f"{NOT_ROOT}Terminating early due to previous errors.\n"), "no_permission"),
        (failing(15, stdout=LOST), "gpu_is_lost"),
        (failing(124, stderr="no answer within 30 s"), "no_answer"),
    ],
)
def test_words_and_not_the_exit_status_decide_about_a_change(answer: Result, kind: str) -> None:
    with pytest.raises(GpuError) as error:
        SmiDriver(Smi(lock_memory_clocks=answer), PCI).change("lock_memory", 0, 1215)
    assert error.value.kind == kind


@pytest.mark.parametrize(
    "said",
    [
        'GPU clocks set to "(gpuClkMin 1740, gpuClkMax 1740)" for GPU 00000000:61:00.0\nAll done.\n',
        'Applications clocks set to "(MEM 1215, SM 1410)" for GPU 00000001:00:00.0\nAll done.\n',
        'GPU clocks set to "(gpuClkMin 1410, gpuClkMax 1410)" for GPU 00000009:01:00.0\n\n'
        "Warning: persistence mode is disabled on device 00000009:01:00.0. See the Known Issues section.\nAll done.\n",
    ],
)
def test_a_change_that_was_made_is_taken_as_made(said: str) -> None:
    SmiDriver(Smi(lock_gpu_clocks=said), PCI).change("lock_graphics", 0, 1410)


def test_processes_are_told_by_address() -> None:
    smi = Smi(query_compute_apps="100, 00000001:00:00.0\n100, 00000002:00:00.0\n7, 00000001:00:00.0\n")
    assert SmiDriver(smi, PCI).processes() == {100: ("0001:00:00.0", "0002:00:00.0"), 7: ("0001:00:00.0",)}
    assert SmiDriver(Smi(), PCI).processes() == {}


@pytest.mark.parametrize("answer", [failing(9, stdout="no driver"), "[N/A], 00000001:00:00.0\n", "7, [N/A]\n"])
def test_processes_that_are_not_told_are_unknown(answer: Result | str) -> None:
    assert SmiDriver(Smi(query_compute_apps=answer), PCI).processes() is None
