# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Numbers and layouts of NVML, compared with NVIDIA's own bindings. tests/contract/gpu tests the calls."""

from __future__ import annotations

import ctypes
import importlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError, nvml, nvml_health
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import nvml_library as library

pynvml = importlib.import_module("pynvml")


def layout(structure: type[ctypes.Structure] | type[ctypes.Union]) -> list[tuple[str, int, int]]:
    """The fields of a structure: name, offset, size."""
    fields = [(str(field[0]), getattr(structure, str(field[0]))) for field in structure._fields_]
    return [(name, field.offset, field.size) for name, field in fields]


@pytest.mark.parametrize(
    ("ours", "theirs", "version"),
    [
        (library.PciInfo, "nvmlPciInfo_t", None),
        (library.ProcessInfo, "c_nvmlProcessInfo_v3_t", None),
        (library.ProcessInfo, "c_nvmlProcessInfo_v2_t", None),
        (library.FieldNumber, "c_nvmlValue_t", None),
        (library.FieldValue, "c_nvmlFieldValue_t", None),
        (library.Memory, "c_nvmlMemory_v2_t", "nvmlMemory_v2"),
        (library.MarginTemperature, "c_nvmlMarginTemperature_v1_t", "nvmlMarginTemperature_v1"),
        (library.Temperature, "c_nvmlTemperature_v1_t", "nvmlTemperature_v1"),
        (library.FabricInfo, "c_nvmlGpuFabricInfo_t", None),
        (library.FabricInfoV2, "c_nvmlGpuFabricInfo_v2_t", "nvmlGpuFabricInfo_v2"),
        (library.SramErrors, "c_nvmlEccSramErrorStatus_v1_t", "nvmlEccSramErrorStatus_v1"),
    ],
)
def test_structures_have_the_same_layout_as_nvidias(ours: type, theirs: str, version: str | None) -> None:
    assert layout(ours) == layout(getattr(pynvml, theirs))
    assert ctypes.sizeof(ours) == ctypes.sizeof(getattr(pynvml, theirs))
    number = library.version_of(ours)
    assert number == (getattr(pynvml, version) if version else 0)


def test_errors_have_nvidias_names() -> None:
    names = {name: value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
    assert {value: name.removeprefix("NVML_ERROR_").lower() for name, value in names.items()} == library.ERRORS


def test_constants_have_the_same_values_as_nvidias() -> None:
    assert (nvml.CLOCK_GRAPHICS, nvml.CLOCK_MEMORY) == (pynvml.NVML_CLOCK_GRAPHICS, pynvml.NVML_CLOCK_MEM)
    assert (nvml_health._DRAM, nvml_health._SRAM) == (
        pynvml.NVML_MEMORY_LOCATION_DRAM,
        pynvml.NVML_MEMORY_LOCATION_SRAM,
    )
    assert nvml_health._GPU_SENSOR == pynvml.NVML_TEMPERATURE_GPU
    slowdown, most = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX
    assert (slowdown, most) == nvml_health._THRESHOLDS
    fields = ("RETIRED_SBE", "RETIRED_DBE", "RETIRED_PENDING")
    assert tuple(getattr(pynvml, f"NVML_FI_DEV_{name}") for name in fields) == nvml_health._RETIRED_PAGES
    assert nvml_health._LINK_COUNT == pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT
    for kind, number in nvml_health._LINK_ERRORS.items():
        assert number == getattr(pynvml, f"NVML_FI_DEV_NVLINK_{kind.upper()}_ERROR_COUNT_TOTAL")
    margins = ("SLOWDOWN", "GPU_MAX")
    assert tuple(getattr(pynvml, f"NVML_FI_DEV_TEMPERATURE_{name}_TLIMIT") for name in margins) == nvml_health._MARGINS


def test_the_error_of_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARY", "libno-such-library.so.1")
    with pytest.raises(GpuError, match=r"^libno-such-library.so.1: .*: install NVIDIA's driver") as caught:
        library.Nvml()
    assert caught.value.kind == "library_not_found"
