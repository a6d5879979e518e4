# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs are the expected model, with one firmware, a driver that is new enough, and valid InfoROMs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ...machine.gpu import GpuHealth
from ...setup.gpu_boot import read_settings, version_of
from ...sku.types import VmSize
from ..applies import with_nvidia_gpus
from ..check import (
    BOOT,
    DEEP,
    FAIL,
    NOTHING,
    OBSERVE,
    PERIODIC,
    REPLACE,
    UNKNOWN,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)
from ..gpu_answers import Observation, gather, not_reported, read_gpus, unreadable
from ..gpus import CHECK_LIMIT_S
from ..settings import FILE

_OPTION = "min_vbios"
_GIGABYTES = re.compile(r"(\d+) ?GB", re.IGNORECASE)
_VBIOS = re.compile(r"[0-9a-f]{1,4}(\.[0-9a-f]{1,4}){1,7}", re.IGNORECASE)


def _measure(context: Context) -> Answer:
    gpus = read_gpus(context)
    readable = [gpu for gpu in gpus if not gpu.problem]
    observations: list[Observation] = []
    for gpu in gpus:
        observations += unreadable(gpu) or _model(context.size, gpu)
    observations += _firmware(readable, str(context.option(GPU_IDENTITY, _OPTION)))
    observations += judge_driver(context.gpus.versions()[0], read_settings(context.root).min_driver)
    if context.tier in (BOOT, DEEP):
        observations += _inforoms(context, readable)
    names = ", ".join(sorted({gpu.name for gpu in readable if gpu.name}))
    return gather(
        observations, f"{len(readable)} GPUs ({names}), driver {context.gpus.versions()[0]}", _limit(context.size)
    )


def _limit(size: VmSize | None) -> str:
    return f"{size.gpu_model} ({size.name})" if size and size.gpu_model else ""


def _model(size: VmSize | None, gpu: GpuHealth) -> list[Observation]:
    if not gpu.name:
        return [not_reported(gpu, "its model", "name")]
    observations: list[Observation] = [Reading("gpu_model", gpu.name, device=gpu.device)]
    if gpu.serial:
        # Azure's support asks for it in reports about the GPU.
        observations.append(Reading("gpu_serial", gpu.serial, device=gpu.device))
    if size and size.gpu_model and not _is_model(gpu.name, size):
        words = f"{gpu.label} is a {gpu.name}, but {size.name} has {size.gpu_model}"
        observations.append(
            Finding(FAIL, words, gpu.device, "Compare the machine's VM size with the VM size in the inventory")
        )
    return observations


def _is_model(name: str, size: VmSize) -> bool:
    """Return whether the driver's model name fits the VM size's model; only chip and memory size are compared."""
    chip = re.split(r"[ -]", size.gpu_model or "")[0]
    memory = _GIGABYTES.search(name)
    if memory and size.gpu_memory_gb and int(memory[1]) != size.gpu_memory_gb:
        return False
    return chip.upper() in name.upper()


def vbios_of(text: str) -> tuple[int, ...]:
    """Return the numbers of a firmware version, whose parts are hexadecimal; empty if the text is not a version."""
    return tuple(int(number, 16) for number in text.split(".")) if _VBIOS.fullmatch(text) else ()


def _firmware(gpus: Sequence[GpuHealth], least: str) -> Iterator[Observation]:
    versions = Counter(gpu.vbios for gpu in gpus if gpu.vbios)
    usual = versions.most_common(1)[0][0] if versions else None
    if least and not vbios_of(least):
        words = f"options.{GPU_IDENTITY.name}.{_OPTION} is {least!r}, but must be a version such as 92.00.45.00.03"
        yield Finding(UNKNOWN, words, hint=f"Correct it in {FILE}")
    for gpu in gpus:
        if not gpu.vbios:
            yield not_reported(gpu, "the version of its firmware", "vbios")
            continue
        yield Reading("gpu_vbios", gpu.vbios, device=gpu.device)
        if gpu.vbios != usual:
            words = f"{gpu.label} has firmware {gpu.vbios}, but other GPUs of this machine have {usual}"
            yield Finding(WARN, words, gpu.device, "Report it to Azure; until then this GPU may behave differently")
        if least and not vbios_of(gpu.vbios):
            words = f"{gpu.label} reports no valid version of its firmware ({gpu.vbios})"
            yield Finding(UNKNOWN, words, gpu.device)
        elif least and vbios_of(gpu.vbios) < vbios_of(least):
            words = f"{gpu.label} has firmware {gpu.vbios}, older than {least}, which min_vbios requires"
            yield Finding(FAIL, words, gpu.device, "Redeploy the VM, or lower min_vbios", fault="NHC2010")


def judge_driver(version: str, least: str | None) -> Iterator[Observation]:
    """Yield the driver's version, and a finding if it is too old.

    :param least: the oldest accepted version; None for any.
    """
    hint = "Install a newer driver in the image, or lower gpu_min_driver"
    if not version_of(version):
        yield Finding(UNKNOWN, f"the driver reports no valid version ({version or 'nothing'})", hint=hint)
        return
    yield Reading("gpu_driver", version)
    if least and version_of(version) < version_of(least):
        words = f"driver {version} is older than {least}, which gpu_min_driver requires"
        yield Finding(FAIL, words, hint=hint, action=NOTHING, fault="")


def _inforoms(context: Context, gpus: Sequence[GpuHealth]) -> Iterator[Observation]:
    answers = context.gpus.inforoms()
    for gpu in gpus:
        answer = answers.get(gpu.index)
        if answer is False:
            words = f"{gpu.label} has a corrupted InfoROM"
            yield Finding(FAIL, words, gpu.device, "Redeploy or replace the VM", REPLACE, "NHC2008")
        elif isinstance(answer, str):
            yield Finding(UNKNOWN, f"{gpu.label} does not report the state of its InfoROM: {answer}", gpu.device)
        elif answer:
            yield Reading("gpu_inforom", "valid", device=gpu.device)


GPU_IDENTITY = Check(
    name="gpu_identity",
    title="Model, firmware and driver of the GPUs",
    explain=(
        "Each GPU has the model and the memory expected of the VM size. All GPUs have the same firmware (VBIOS); "
        "otherwise the check warns. The firmware is at least the version in the option min_vbios. The driver is at "
        "least the version in the variable gpu_min_driver of the role gpu. If such a version is not set, any version "
        "passes. Versions are compared as numbers. In the tiers boot and deep, each GPU also verifies the checksums of "
        "its InfoROM."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=OBSERVE,
    fault="NHC2010",
    options={_OPTION: ""},
)
