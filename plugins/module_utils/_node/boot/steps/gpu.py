# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs: driver loaded, answering, and all there that the VM size promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...health.check import FAIL, SKIP, WARN, Finding
from ...health.checks.gpu_count import LOAD_DRIVER, REDEPLOY, ExpectedGpus, driver_failure, expected_gpus
from ...machine.config import ConfigError
from ...machine.gpu import Driver, GpuError, GpuFacts, connect, nvidia_gpus
from ...machine.gpu.facts import NO_ANSWER
from ...machine.kernel import ABSENT, LOADED, is_loaded, load_module
from ...machine.pci import read_pci
from ...machine.root import Root
from ...machine.run import wait_until
from ...machine.unit_state import read_unit
from ...setup.gpu_boot import GpuSettings, read_settings
from ...sku import UnknownVmSize, VmSize
from ..judge_gpus import judge_driver, judge_gpus, judge_persistence
from ..size import promised_size
from ..step import Context, Outcome, Step, outcome_of

_BUS_S = 20.0
"""How long GPUs may take to appear on the PCI bus, in seconds: Hyper-V adds them one by one."""
_AMD = 0x1002
_VERSION = "/sys/module/nvidia/version"
_PERSISTENCED = "nvidia-persistenced"


def _perform(context: Context) -> Outcome:
    settings = read_settings(context.root)
    size = _size(context.root, settings)
    if settings.gpu_count is None and size is None:
        return Outcome(SKIP, "this is no compute node, and nobody says which VM size it has")
    promised = expected_gpus(settings.gpu_count, size)
    if promised is None:
        return Outcome(SKIP, f"nobody says how many GPUs {size.name if size else 'this machine'} has")
    if promised.count == 0:
        return Outcome(SKIP, f"{promised.by} promises no GPU")
    if _is_amd(size, context.root):
        return _amd(context, promised)
    return _nvidia(context, promised, settings, bool(size and size.hca_count))


def _size(root: Root, settings: GpuSettings) -> VmSize | None:
    try:
        return promised_size(root)
    except (ConfigError, UnknownVmSize):
        # The settings say what matters here.
        if settings.gpu_count is not None:
            return None
        raise


def _is_amd(size: VmSize | None, root: Root) -> bool:
    if size and size.gpu_model:
        return size.gpu_model.startswith("MI")
    return bool(_amd_gpus(root)) and not nvidia_gpus(root)


def _nvidia(context: Context, promised: ExpectedGpus, settings: GpuSettings, with_infiniband: bool) -> Outcome:
    root = context.root
    if not context.check:
        wait_until(lambda: len(nvidia_gpus(root)) >= promised.count, min(_BUS_S, context.seconds / 6))
    on_bus = nvidia_gpus(root)
    details: dict[str, Any] = {"promised": promised.count, "on_bus": list(on_bus)}
    if not on_bus:
        words = f"none of the {promised.count} GPUs that {promised.by} promises is on the PCI bus"
        return outcome_of([Finding(FAIL, words, hint=REDEPLOY)], "", details=details)
    changes, findings = _load(context, "nvidia_uvm")
    if context.check and not is_loaded(root, "nvidia"):
        return Outcome(WARN, "the driver is not loaded, so it was not asked: this run changes nothing", "", changes)
    if findings:
        return outcome_of(findings, "", changes, details)
    # Asking may take this limit four times: twice two GPUs.
    limit_s = min(settings.timeout, context.seconds / 6)
    try:
        via, versions, gpus = _ask(context, limit_s)
    except GpuError as error:
        failed = driver_failure(error, limit_s, root.text(_VERSION))
        return outcome_of([failed], "", changes, {**details, "error": error.kind})
    if with_infiniband:
        peer, doubts = _load_peermem(context)
        changes, findings = (*changes, *peer), doubts
    daemon = read_unit(_PERSISTENCED, context.run)
    findings = [
        *judge_gpus(promised, on_bus, gpus),
        *judge_driver(versions[0], settings.min_driver),
        *findings,
        *judge_persistence(daemon.words, daemon.is_active, gpus),
    ]
    details.update(via=via, driver=versions[0], library=versions[1], gpus=[_told(gpu) for gpu in gpus])
    names = sorted({gpu.name for gpu in gpus if gpu.name})
    return outcome_of(findings, f"{len(gpus)} GPUs ({', '.join(names)}), driver {versions[0]}", changes, details)


def _load(context: Context, name: str) -> tuple[tuple[str, ...], list[Finding]]:
    """Load the driver's part that programs need; it brings the driver along."""
    if is_loaded(context.root, name):
        return (), []
    if context.check:
        return (f"modprobe {name}",), []
    done = load_module(name, context.run)
    if done.state == LOADED:
        return (f"modprobe {name}",), []
    if is_loaded(context.root, "nvidia"):
        words = f"{name} cannot be loaded, and no program uses a GPU without it: {done.words}"
    else:
        words = f"NVIDIA's driver is not loaded: {done.words}"
    return (), [Finding(FAIL, words, hint=LOAD_DRIVER)]


def _load_peermem(context: Context) -> tuple[tuple[str, ...], list[Finding]]:
    """Load what lets InfiniBand adapters reach the GPUs' memory, where the driver has it.

    Without it data go by DMA-BUF, or through the host's memory.
    """
    if is_loaded(context.root, "nvidia_peermem"):
        return (), []
    if context.check:
        return ("modprobe nvidia_peermem",), []
    done = load_module("nvidia_peermem", context.run)
    if done.state in (LOADED, ABSENT):
        return (("modprobe nvidia_peermem",) if done.state == LOADED else ()), []
    action = "Load it after the InfiniBand drivers; a driver that was built without them has to be built again"
    return (), [
        Finding(WARN, f"nvidia_peermem cannot be loaded, GPUDirect RDMA may lack it: {done.words}", hint=action)
    ]


def _ask(context: Context, limit_s: float) -> tuple[str, tuple[str, str], list[GpuFacts]]:
    """Ask the driver for its versions and its GPUs; whoever does not answer is asked a second time.

    :raises GpuError: the driver failed as a whole, or did not answer twice.
    """
    try:
        via, versions, gpus = _ask_once(context, limit_s, ())
    except GpuError as error:
        if error.kind != NO_ANSWER:
            raise
        return _ask_once(context, limit_s, ())
    silent = [gpu.index for gpu in gpus if gpu.problem_kind == NO_ANSWER]
    if silent:
        again = {gpu.index: gpu for gpu in _ask_once(context, limit_s, silent)[2]}
        gpus = [replace(again.get(gpu.index, gpu), busid=gpu.busid) for gpu in gpus]
    return via, versions, gpus


def _ask_once(context: Context, limit_s: float, only: Sequence[int]) -> tuple[str, tuple[str, str], list[GpuFacts]]:
    driver: Driver = connect(context.root, limit_s)
    try:
        # In this order: one that has fallen silent would not tell them any more.
        version, library = driver.versions()
        version = version or context.root.text(_VERSION) or ""
        return driver.via, (version, library), list(driver.read(only))
    finally:
        driver.close()


def _told(gpu: GpuFacts) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "busid": gpu.busid,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "mig": gpu.mig,
        "persistence": gpu.persistence,
        "problem": gpu.problem,
    }


def _amd_gpus(root: Root) -> list[str]:
    return [device.busid for device in read_pci(root) if device.is_gpu and device.vendor == _AMD]


def _amd(context: Context, promised: ExpectedGpus) -> Outcome:
    """AMD's driver has no library that every machine has; what it took in hand, sysfs tells."""
    root = context.root
    changes: tuple[str, ...] = ()
    findings: list[Finding] = []
    if not is_loaded(root, "amdgpu"):
        changes = ("modprobe amdgpu",)
        if context.check:
            return Outcome(WARN, "the driver is not loaded: this run changes nothing", "", changes)
        done = load_module("amdgpu", context.run)
        if done.state != LOADED:
            action = "'modprobe amdgpu' and 'journalctl -k -b' say why: is the driver built for the kernel that runs?"
            return outcome_of([Finding(FAIL, f"AMD's driver is not loaded: {done.words}", hint=action)], "")

    def driven() -> list[str]:
        return [
            busid for busid in _amd_gpus(root) if root.link_name(f"/sys/bus/pci/devices/{busid}/driver") == "amdgpu"
        ]

    if not context.check:
        wait_until(lambda: len(driven()) >= promised.count, min(_BUS_S, context.seconds / 6))
    have, on_bus = driven(), _amd_gpus(root)
    if len(have) < promised.count:
        idle = [f"{busid} has no driver" for busid in on_bus if busid not in have]
        lacking = [f"{busid} is not there" for busid in promised.missing(on_bus)]
        where = ", ".join([*idle, *lacking]) or f"{len(on_bus)} on the PCI bus"
        words = f"amdgpu drives {len(have)} of {promised.count} GPUs that {promised.by} promises: {where}"
        findings = [Finding(FAIL, words, hint="'journalctl -k -b' tells what amdgpu said; restart or redeploy the VM")]
    elif len(have) > promised.count:
        findings = [Finding(WARN, f"{len(have)} GPUs, and {promised.by} promises {promised.count}")]
    details = {"promised": promised.count, "on_bus": on_bus, "driven": have}
    return outcome_of(findings, f"{len(have)} GPUs driven by amdgpu", changes, details)


STEP = Step("gpu", "Driver and number of this node's GPUs", blocking=True, limit_s=210, perform=_perform)
