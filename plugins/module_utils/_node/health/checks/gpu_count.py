# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""All GPUs that are promised are there: on the PCI bus, and for their driver."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ...machine.gpu import GpuError, GpuHealth
from ...machine.gpu.facts import LOST, MISMATCH, NO_ANSWER, NO_DRIVER, NO_LIBRARY, NO_PERMISSION
from ...machine.pci import read_pci
from ...setup.gpu_boot import read_settings
from ...sku.types import VmSize
from ..check import FAIL, REBOOT, REPLACE, TIERS, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..gpus import PATIENCE_S

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_AMD = 0x1002
_LOOK = "'journalctl -k -b' tells what the driver said (NVRM, Xid)"
REDEPLOY = f"{_LOOK}; restart the VM from Azure, and redeploy it if it stays so"
LOAD_DRIVER = (
    "'modprobe nvidia' and 'journalctl -k -b' say why: is the driver built for the kernel that runs (dkms status)?"
)
"""What to do about a driver that is not loaded."""
_FAILED_IN = "failed in boot"


@dataclass(frozen=True)
class ExpectedGpus:
    """The GPUs that a machine must have.

    :ivar count: their number.
    :ivar busids: their PCI addresses; empty where nobody says.
    :ivar by: who says so, as words of a sentence.
    """

    count: int
    busids: tuple[str, ...]
    by: str

    def missing(self, found: Collection[str]) -> list[str]:
        """Return the expected addresses that were not found; none where the machine numbers its devices otherwise."""
        return [busid for busid in self.busids if busid not in found] if set(found) <= set(self.busids) else []


def _measure(context: Context) -> Answer:
    stated = read_settings(context.root).gpu_count
    promised = expected_gpus(stated, context.size if stated is not None else context.known_size)
    if promised is None:
        return Answer(skipped=f"nobody says how many GPUs {context.known_size.name} has")
    if not promised.count:
        return Answer(skipped=f"{promised.by} promises no GPU")
    if ((context.size and context.size.gpu_model) or "").startswith("MI"):
        have, findings = _amd(context, promised)
    else:
        have, findings = _nvidia(context, promised)
    limit = f"{promised.count} ({promised.by})"
    readings = () if have is None else (Reading("gpu_count", have, limit=promised.count),)
    return Answer(f"{have} GPUs", readings, _escalated(context, findings), limit)


def expected_gpus(stated: int | None, size: VmSize | None) -> ExpectedGpus | None:
    """Return the GPUs that a machine must have; None where nobody says.

    :param stated: their number as the site has set it; it goes before that of the VM size.
    """
    if stated is not None:
        return ExpectedGpus(stated, (), "gpu_count of /etc/hpcai/gpu.json")
    if size is None or size.gpu_count is None:
        return None
    return ExpectedGpus(size.gpu_count, tuple(gpu.busid for gpu in size.gpus or ()), size.name)


def _nvidia(context: Context, promised: ExpectedGpus) -> tuple[int | None, list[Finding]]:
    on_bus = context.gpus.on_bus()
    found = list(_on_bus(promised, on_bus))
    try:
        gpus = context.gpus.all()
    except GpuError as error:
        return (len(on_bus) if found else None), [*found, driver_failure(error, context.gpus.limit_s)]
    have = [gpu for gpu in gpus if gpu.problem_kind != LOST]
    found += _known(promised, on_bus, gpus)
    found += [_unread(promised, gpu, gpus) for gpu in gpus if gpu.problem]
    if len(have) > promised.count:
        hint = "Compare the VM size with hpcai_vm_sizes and gpu_count: Slurm uses no more than it was told of"
        found.append(Finding(WARN, f"{len(have)} GPUs, and {promised.by} promises {promised.count}", hint=hint))
    return len(have), found


def _on_bus(promised: ExpectedGpus, on_bus: Sequence[str]) -> Iterator[Finding]:
    if len(on_bus) < promised.count:
        missing = promised.missing(on_bus)
        where = f"{', '.join(missing)} not on the PCI bus" if missing else f"no more on the PCI bus ({promised.by})"
        words = f"{len(on_bus)} of {promised.count} GPUs: {where}"
        yield Finding(FAIL, words, missing[0] if len(missing) == 1 else "", REDEPLOY)


def _known(promised: ExpectedGpus, on_bus: Sequence[str], gpus: Sequence[GpuHealth]) -> Iterator[Finding]:
    """Yield what is wrong with the number that the driver knows, of those that the bus shows."""
    there = min(len(on_bus), promised.count)
    if len(gpus) < there:
        known = [gpu.busid for gpu in gpus]
        unknown = [busid for busid in on_bus if busid not in known]
        words = f"{len(gpus)} of {promised.count} GPUs: the driver does not know {', '.join(unknown)}"
        yield Finding(FAIL, words, unknown[0] if len(unknown) == 1 else "", REDEPLOY)


def _unread(promised: ExpectedGpus, gpu: GpuHealth, gpus: Sequence[GpuHealth]) -> Finding:
    if gpu.problem_kind == LOST:
        have = len([one for one in gpus if one.problem_kind != LOST])
        words = f"{have} of {promised.count} GPUs: {gpu.label} fell off the bus: lost"
        return Finding(FAIL, words, gpu.device, REDEPLOY)
    if gpu.problem_kind == NO_ANSWER:
        return Finding(FAIL, f"{gpu.label} did not answer twice running", gpu.device, REDEPLOY, fault="NHC2015")
    return Finding(FAIL, f"{gpu.label} cannot be read: {gpu.problem}", gpu.device, REDEPLOY, fault="NHC2015")


def driver_failure(error: GpuError, limit_s: float, loaded: str | None = None) -> Finding:
    """Return what it means that the driver as a whole could not be asked. None of it is a fault of the hardware yet.

    :param loaded: version of the kernel module that is loaded; None where none is, or it does not say.
    """
    if error.kind == NO_LIBRARY:
        hint = "Install NVIDIA's driver with its library, libnvidia-ml.so.1"
        return Finding(UNKNOWN, f"the driver cannot be asked: {error}", hint=hint)
    if error.kind == NO_PERMISSION:
        return Finding(UNKNOWN, f"the driver does not talk to this user ({error})", hint="Run it as root")
    if error.kind == NO_ANSWER:
        words = f"NVIDIA's driver did not answer twice running, {limit_s:g} s each time"
        return Finding(FAIL, words, hint=REDEPLOY, fault="NHC2015")
    if error.kind == NO_DRIVER:
        return Finding(FAIL, f"NVIDIA's driver is not loaded ({error})", hint=LOAD_DRIVER, fault="")
    if error.kind == MISMATCH:
        which = f" (driver {loaded})" if loaded else ""
        words = f"NVIDIA's library and the loaded driver{which} are of different versions"
        hint = "Restart the machine: a package of the driver was exchanged while the old one was in use"
        return Finding(FAIL, words, hint=hint, fault="")
    return Finding(FAIL, f"NVIDIA's driver failed: {error}", hint=REDEPLOY, fault="NHC2015")


def _amd(context: Context, promised: ExpectedGpus) -> tuple[int | None, list[Finding]]:
    """AMD's driver has no library that every machine has; what it took in hand, sysfs tells."""
    on_bus = [device.busid for device in read_pci(context.root) if device.is_gpu and device.vendor == _AMD]
    folder = "/sys/bus/pci/devices"
    driven = [busid for busid in on_bus if context.root.link_name(f"{folder}/{busid}/driver") == "amdgpu"]
    found = list(_on_bus(promised, on_bus))
    idle = [busid for busid in on_bus if busid not in driven]
    if idle:
        words = f"{len(driven)} of {promised.count} GPUs: the driver amdgpu does not have {', '.join(idle)}"
        found.append(Finding(FAIL, words, idle[0] if len(idle) == 1 else "", REDEPLOY))
    return len(driven), found


def _escalated(context: Context, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What a restart of the machine has not mended takes another machine."""
    boot_id = context.root.text(_BOOT_ID) or ""
    failing = any(finding.verdict == FAIL for finding in findings)
    first = context.history.get(_FAILED_IN)
    context.history.keep(_FAILED_IN, (first or boot_id) if failing else None, for_good=True)
    if not (failing and first and boot_id and first != boot_id):
        return tuple(findings)
    return tuple(
        replace(one, action=REPLACE, hint=f"A restart has not mended it: redeploy or replace the VM. {_LOOK}")
        if one.verdict == FAIL and one.fault != ""
        else one
        for one in findings
    )


GPU_COUNT = Check(
    name="gpu_count",
    title="Number of GPUs",
    explain=(
        "As many GPUs as the VM size promises (or gpu_count in /etc/hpcai/gpu.json) are on the PCI bus, and the driver "
        "knows each of them and can read it. A driver or GPU that does not answer twice running fails. "
        "Source of the number: the facts of the VM size."
    ),
    tiers=TIERS,
    measure=_measure,
    limit_s=PATIENCE_S,
    action=REBOOT,
    fault="NHC2009",
    asks_device=True,
    blocks_job=True,
    blocks_boot=True,
)
