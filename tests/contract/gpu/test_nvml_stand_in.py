# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for NVML has only functions of the real library, and behaves as its README says."""

from __future__ import annotations

import pathlib
import subprocess
import sys

from stand_ins.gpu_machine import REPOSITORY, GpuMachine

FUNCTIONS = REPOSITORY / "tests" / "stand_ins" / "nvml" / "functions.txt"
APPLICATION_CLOCKS = {
    "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceGetDefaultApplicationsClock",
    "nvmlDeviceResetApplicationsClocks",
    "nvmlDeviceSetApplicationsClocks",
}


def exported(library: pathlib.Path) -> set[str]:
    """The symbols that a library exports."""
    command = ["nm", "--dynamic", "--defined-only", "--format=just-symbols", str(library / "libnvidia-ml.so.1")]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def header_functions() -> list[str]:
    """The functions of the real library's header."""
    lines = FUNCTIONS.read_text(encoding="ascii").splitlines()
    return [line for line in lines if not line.startswith("#")]


def python(machine: GpuMachine, script: str) -> str:
    """Run a script that can use nvidia-ml-py, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", f"from pynvml import *\n{script}"],
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_stand_in_exports_only_functions_of_the_real_header(library: pathlib.Path) -> None:
    symbols = exported(library)
    assert len(symbols) > 30
    assert not symbols - set(header_functions())


def test_the_recorded_names_are_a_sorted_list_of_functions() -> None:
    names = header_functions()
    assert len(names) == 413
    assert names == sorted(set(names))
    assert all(name.startswith("nvml") for name in names)


def test_the_newest_library_differs_by_application_clocks_only(
    library: pathlib.Path, newest_library: pathlib.Path
) -> None:
    assert exported(library) - exported(newest_library) == APPLICATION_CLOCKS
    assert not exported(newest_library) - exported(library)


def test_the_real_header_has_no_function_that_reads_locked_clocks() -> None:
    # This is why the module keeps a record. If NVML adds such a function, use it instead.
    about_locks = {name for name in header_functions() if "LockedClocks" in name}
    assert about_locks == {
        "nvmlDeviceResetGpuLockedClocks",
        "nvmlDeviceResetMemoryLockedClocks",
        "nvmlDeviceSetGpuLockedClocks",
        "nvmlDeviceSetMemoryLockedClocks",
    }


def test_processes_share_one_state(machine: GpuMachine) -> None:
    handle = "nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(2)\n"
    python(machine, f"{handle}nvmlDeviceSetApplicationsClocks(gpu, 1215, 1410)")
    assert python(machine, f"{handle}print(nvmlDeviceGetApplicationsClock(gpu, NVML_CLOCK_GRAPHICS))") == "1410"


def test_without_persistence_mode_clocks_are_lost_with_the_last_client(machine: GpuMachine) -> None:
    machine.play(gpu__2__persistence=0)
    handle = "nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(2)\n"
    python(machine, f"{handle}nvmlDeviceSetApplicationsClocks(gpu, 1215, 1410)")
    assert python(machine, f"{handle}print(nvmlDeviceGetApplicationsClock(gpu, NVML_CLOCK_GRAPHICS))") == "1095"


def test_calls_before_the_initialization_fail(machine: GpuMachine) -> None:
    script = (
        "import pynvml; pynvml._LoadNvmlLibrary()\ntry: nvmlDeviceGetCount()\nexcept NVMLError as error: print(error)"
    )
    assert python(machine, script) == "Uninitialized"


def test_clocks_that_the_model_lacks_are_refused(machine: GpuMachine) -> None:
    script = (
        "nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)\n"
        "try: nvmlDeviceSetApplicationsClocks(gpu, 1215, 1400)\nexcept NVMLError as error: print(error)"
    )
    assert python(machine, script) == "Invalid Argument"
