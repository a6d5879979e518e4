# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""All GPUs that are expected are there: on the PCI bus, and for their driver."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ...machine.gpu import GpuError, GpuHealth, nvidia_gpus
from ...machine.gpu.facts import LOST, MISMATCH, NO_ANSWER, NO_DRIVER, NO_LIBRARY, NO_PERMISSION
from ...machine.kernel import read_boot_id
from ...machine.pci import read_pci
from ...machine.root import Root
from ...setup.gpu_boot import read_settings
from ...sku.types import VmSize
from ..applies import has_amd_gpus
from ..check import FAIL, REBOOT, REPLACE, TIERS, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..gpus import CHECK_LIMIT_S

_AMD = 0x1002
_LOOK = "'journalctl -k -b' tells what the driver said (NVRM, Xid)"
_REDEPLOY = f"{_LOOK}; restart the VM from Azure, and redeploy it if it stays so"
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
    expected = expected_gpus(stated, context.size if stated is not None else context.known_size)
    if expected is None or not expected.count:
        return Answer(skipped=reason_without_gpus(expected, context.size))
    if is_amd(context.root, context.size):
        on_bus, driven = read_amd(context.root)
        have: int | None = len(driven)
        findings = list(judge_amd(expected, on_bus, driven))
    else:
        have, findings = _nvidia(context, expected)
    limit = f"{expected.count} ({expected.by})"
    readings = () if have is None else (Reading("gpu_count", have, limit=expected.count),)
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


def reason_without_gpus(expected: ExpectedGpus | None, size: VmSize | None) -> str:
    """Return why no GPU is looked for, where it is not known how many there must be, or none must be."""
    if expected is None:
        return f"nobody says how many GPUs {size.name if size else 'this machine'} has"
    return f"no GPU is expected ({expected.by})"


def is_amd(root: Root, size: VmSize | None) -> bool:
    """Whether AMD's GPUs are to be looked for; of a size whose model is not known the PCI bus is asked."""
    if size and size.gpu_model:
        return has_amd_gpus(size)
    return bool(_amd_on_bus(root)) and not nvidia_gpus(root)


def _nvidia(context: Context, expected: ExpectedGpus) -> tuple[int | None, list[Finding]]:
    on_bus = context.gpus.on_bus()
    try:
        gpus = context.gpus.all()
    except GpuError as error:
        found = list(missing_on_bus(expected, on_bus))
        return (len(on_bus) if found else None), [*found, driver_failure(error, context.gpus.limit_s)]
    return len(_not_lost(gpus)), list(judge_nvidia(expected, on_bus, gpus))


def judge_nvidia(expected: ExpectedGpus, on_bus: Sequence[str], gpus: Sequence[GpuHealth]) -> Iterator[Finding]:
    """Yield what is wrong with the number of NVIDIA GPUs, and with each of them.

    :param on_bus: PCI addresses of the GPUs that the bus shows.
    :param gpus: what the driver says of each. MIG instances are none of them: they are parts of one.
    """
    yield from missing_on_bus(expected, on_bus)
    yield from _known(expected, on_bus, gpus)
    yield from (_unread(expected, gpu, gpus) for gpu in gpus if gpu.problem)
    yield from _too_many(expected, len(_not_lost(gpus)))


def missing_on_bus(expected: ExpectedGpus, on_bus: Sequence[str]) -> Iterator[Finding]:
    """Yield a failure where the PCI bus shows fewer GPUs than there must be."""
    if len(on_bus) < expected.count:
        missing = expected.missing(on_bus)
        where = f"{', '.join(missing)} not on the PCI bus" if missing else f"no more on the PCI bus ({expected.by})"
        words = f"{len(on_bus)} of {expected.count} GPUs: {where}"
        yield Finding(FAIL, words, missing[0] if len(missing) == 1 else "", _REDEPLOY)


def _known(expected: ExpectedGpus, on_bus: Sequence[str], gpus: Sequence[GpuHealth]) -> Iterator[Finding]:
    """Yield what is wrong with the number that the driver knows, of those that the bus shows."""
    visible = min(len(on_bus), expected.count)
    if len(gpus) < visible:
        known = [gpu.busid for gpu in gpus]
        unknown = [busid for busid in on_bus if busid not in known]
        words = f"{len(gpus)} of {expected.count} GPUs: the driver does not know {', '.join(unknown)}"
        yield Finding(FAIL, words, unknown[0] if len(unknown) == 1 else "", _REDEPLOY)


def _not_lost(gpus: Sequence[GpuHealth]) -> list[GpuHealth]:
    return [gpu for gpu in gpus if gpu.problem_kind != LOST]


def _too_many(expected: ExpectedGpus, have: int) -> Iterator[Finding]:
    if have > expected.count:
        hint = "Compare the VM size with hpcai_vm_sizes and gpu_count: Slurm uses no more than it was told of"
        yield Finding(WARN, f"{have} GPUs, and {expected.count} are expected ({expected.by})", hint=hint)


def _unread(expected: ExpectedGpus, gpu: GpuHealth, gpus: Sequence[GpuHealth]) -> Finding:
    if gpu.problem_kind == LOST:
        words = f"{len(_not_lost(gpus))} of {expected.count} GPUs: {gpu.label} fell off the bus: lost"
        return Finding(FAIL, words, gpu.device, _REDEPLOY)
    if gpu.problem_kind == NO_ANSWER:
        return Finding(FAIL, f"{gpu.label} did not answer twice running", gpu.device, _REDEPLOY, fault="NHC2015")
    return Finding(FAIL, f"{gpu.label} cannot be read: {gpu.problem}", gpu.device, _REDEPLOY, fault="NHC2015")


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
        return Finding(FAIL, words, hint=_REDEPLOY, fault="NHC2015")
    if error.kind == NO_DRIVER:
        return Finding(FAIL, f"NVIDIA's driver is not loaded ({error})", hint=LOAD_DRIVER, fault="")
    if error.kind == MISMATCH:
        which = f" (driver {loaded})" if loaded else ""
        words = f"NVIDIA's library and the loaded driver{which} are of different versions"
        hint = "Restart the machine: a package of the driver was exchanged while the old one was in use"
        return Finding(FAIL, words, hint=hint, fault="")
    return Finding(FAIL, f"NVIDIA's driver failed: {error}", hint=_REDEPLOY, fault="NHC2015")


def read_amd(root: Root) -> tuple[list[str], list[str]]:
    """Return the PCI addresses of AMD's GPUs, and of those that have their driver.

    AMD's driver has no library that every machine has; sysfs shows which GPUs it drives.
    """
    on_bus = _amd_on_bus(root)
    folder = "/sys/bus/pci/devices"
    return on_bus, [busid for busid in on_bus if root.link_name(f"{folder}/{busid}/driver") == "amdgpu"]


def _amd_on_bus(root: Root) -> list[str]:
    return [device.busid for device in read_pci(root) if device.is_gpu and device.vendor == _AMD]


def judge_amd(expected: ExpectedGpus, on_bus: Sequence[str], driven: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong with the number of AMD's GPUs."""
    yield from missing_on_bus(expected, on_bus)
    idle = [busid for busid in on_bus if busid not in driven]
    if idle:
        words = f"{len(driven)} of {expected.count} GPUs: the driver amdgpu does not have {', '.join(idle)}"
        hint = "'journalctl -k -b' tells what amdgpu said; restart or redeploy the VM"
        yield Finding(FAIL, words, idle[0] if len(idle) == 1 else "", hint)
    yield from _too_many(expected, len(driven))


def _escalated(context: Context, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What a restart of the machine has not mended takes another machine."""
    boot_id = read_boot_id(context.root)
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
        "As many GPUs as the VM size is expected to have (or gpu_count in /etc/hpcai/gpu.json) are on the PCI bus, and "
        "the driver knows each of them and can read it. A driver or GPU that does not answer twice running fails. "
        "Source of the number: the facts of the VM size."
    ),
    tiers=TIERS,
    measure=_measure,
    limit_s=CHECK_LIMIT_S,
    action=REBOOT,
    fault="NHC2009",
    asks_device=True,
    blocks_job=True,
    blocks_boot=True,
)
