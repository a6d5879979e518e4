# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step gpu: the driver is loaded, all GPUs answer, and there are as many as expected of the VM size."""

from __future__ import annotations

from typing import Any

from ...health.check import FAIL, SKIP, WARN, Finding
from ...health.checks.gpu_count import (
    LOAD_DRIVER,
    ExpectedGpus,
    driver_failure,
    expected_gpus,
    is_amd,
    judge_amd,
    judge_nvidia,
    missing_on_bus,
    read_amd,
    reason_without_gpus,
)
from ...health.checks.gpu_identity import judge_driver
from ...health.checks.gpu_state import judge_persistence
from ...health.gpu_answers import findings_in
from ...health.gpus import Gpus
from ...machine.config import ConfigError
from ...machine.gpu import Driver, GpuError, nvidia_gpus
from ...machine.kernel import ABSENT, LOADED, REFUSED, SIGNED_ONLY, has_secure_boot, is_loaded, load_module
from ...machine.root import Root
from ...machine.run import wait_until
from ...machine.unit_state import read_unit
from ...setup.gpu_boot import DAEMON, GpuSettings, read_settings
from ...sku import UnknownVmSize, VmSize
from ..size import expected_size
from ..step import Context, Outcome, Step, outcome_of

_BUS_S = 20.0
"""Seconds to wait for GPUs on the PCI bus, because Hyper-V adds them one by one."""
_VERSION = "/sys/module/nvidia/version"
_DESCRIBED = ("index", "busid", "uuid", "name", "mig", "persistence", "problem")
"""Properties of each GPU in the step's details."""


def _perform(context: Context) -> Outcome:
    settings = read_settings(context.root)
    size = _size(context.root, settings)
    if settings.gpu_count is None and size is None:
        return Outcome(SKIP, "this is not a compute node, and its VM size is not known")
    expected = expected_gpus(settings.gpu_count, size)
    if expected is None or not expected.count:
        return Outcome(SKIP, reason_without_gpus(expected, size))
    if is_amd(context.root, size):
        return _amd(context, expected)
    return _nvidia(context, expected, settings, bool(size and size.hca_count))


def _size(root: Root, settings: GpuSettings) -> VmSize | None:
    try:
        return expected_size(root)
    except (ConfigError, UnknownVmSize):
        # The VM size is not needed if the settings have the number of GPUs.
        if settings.gpu_count is not None:
            return None
        raise


def _nvidia(context: Context, expected: ExpectedGpus, settings: GpuSettings, with_infiniband: bool) -> Outcome:
    root = context.root
    if not context.check:
        wait_until(lambda: len(nvidia_gpus(root)) >= expected.count, min(_BUS_S, context.seconds / 6))
    on_bus = nvidia_gpus(root)
    details: dict[str, Any] = {"promised": expected.count, "on_bus": list(on_bus)}
    if not on_bus:
        return outcome_of(list(missing_on_bus(expected, on_bus)), "", details=details)
    changes, findings = _load(context, "nvidia_uvm")
    if context.check and not is_loaded(root, "nvidia"):
        words = "the driver is not loaded, and check mode does not load it, so the GPUs were not queried"
        return Outcome(WARN, words, "", changes)
    if findings:
        return outcome_of(findings, "", changes, details)
    # The queries can reach this timeout four times: two GPUs, two attempts each.
    asked = Gpus(root, min(settings.timeout, context.seconds / 6))
    try:
        # The versions first, because a driver that stops answering would not return them later.
        version, library = asked.versions()
        gpus = asked.all()
    except GpuError as error:
        failed = driver_failure(error, asked.limit_s, root.text(_VERSION))
        return outcome_of([failed], "", changes, {**details, "error": error.kind})
    finally:
        asked.close()
    version = version or root.text(_VERSION) or ""
    findings = list(judge_nvidia(expected, on_bus, gpus))
    # Without a minimum, any version is accepted, also one that cannot be compared.
    findings += findings_in(judge_driver(version, settings.min_driver)) if settings.min_driver else []
    if with_infiniband:
        peer, doubts = _load_peermem(context)
        changes, findings = (*changes, *peer), [*findings, *doubts]
    # If the persistence daemon runs, it keeps the driver's state, so persistence mode does not matter.
    if not read_unit(DAEMON, context.run).is_active:
        findings += [finding for gpu in gpus for finding in findings_in(judge_persistence(gpu))]
    described = [{name: getattr(gpu, name) for name in _DESCRIBED} for gpu in gpus]
    details.update(via=Driver.via, driver=version, library=library, gpus=described)
    names = sorted({gpu.name for gpu in gpus if gpu.name})
    return outcome_of(findings, f"{len(gpus)} GPUs ({', '.join(names)}), driver {version}", changes, details)


def _load(context: Context, name: str) -> tuple[tuple[str, ...], list[Finding]]:
    """Load the driver's module that programs need; the kernel loads the driver with it."""
    if is_loaded(context.root, name):
        return (), []
    if context.check:
        return (f"modprobe {name}",), []
    done = load_module(name, context.run)
    if done.state == LOADED:
        return (f"modprobe {name}",), []
    if is_loaded(context.root, "nvidia"):
        words = f"cannot load {name}, which every GPU program needs: {done.words}"
    else:
        words = f"NVIDIA's driver is not loaded: {done.words}"
    is_unsigned = done.state == REFUSED and has_secure_boot(context.root)
    return (), [Finding(FAIL, words, hint=SIGNED_ONLY if is_unsigned else LOAD_DRIVER)]


def _load_peermem(context: Context) -> tuple[tuple[str, ...], list[Finding]]:
    """Load the module that lets InfiniBand adapters access the GPUs' memory, if the driver has it.

    Without it, data are transferred with DMA-BUF, or through the host's memory.
    """
    if is_loaded(context.root, "nvidia_peermem"):
        return (), []
    if context.check:
        return ("modprobe nvidia_peermem",), []
    done = load_module("nvidia_peermem", context.run)
    if done.state in (LOADED, ABSENT):
        return (("modprobe nvidia_peermem",) if done.state == LOADED else ()), []
    action = "Load it after the InfiniBand drivers. If NVIDIA's driver was built without them, build it again"
    return (), [Finding(WARN, f"cannot load nvidia_peermem, which GPUDirect RDMA may need: {done.words}", hint=action)]


def _amd(context: Context, expected: ExpectedGpus) -> Outcome:
    root = context.root
    changes: tuple[str, ...] = ()
    if not is_loaded(root, "amdgpu"):
        changes = ("modprobe amdgpu",)
        if context.check:
            return Outcome(WARN, "the driver is not loaded, and check mode does not load it", "", changes)
        done = load_module("amdgpu", context.run)
        if done.state != LOADED:
            action = "Find the cause with 'modprobe amdgpu' and 'journalctl -k -b'; build the driver for this kernel"
            return outcome_of([Finding(FAIL, f"AMD's driver is not loaded: {done.words}", hint=action)], "")
    if not context.check:
        wait_until(lambda: len(read_amd(root)[1]) >= expected.count, min(_BUS_S, context.seconds / 6))
    on_bus, driven = read_amd(root)
    details = {"promised": expected.count, "on_bus": on_bus, "driven": driven}
    findings = list(judge_amd(expected, on_bus, driven))
    return outcome_of(findings, f"{len(driven)} GPUs use the driver amdgpu", changes, details)


STEP = Step("gpu", "Driver and number of this node's GPUs", blocking=True, limit_s=210, perform=_perform)
