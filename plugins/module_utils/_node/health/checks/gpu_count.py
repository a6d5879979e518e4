# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""All expected GPUs are on the PCI bus, and their driver can use them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ...machine.gpu import GpuError, GpuHealth, nvidia_gpus
from ...machine.gpu.facts import LOST, MISMATCH, NO_ANSWER, NO_DRIVER, NO_LIBRARY, NO_PERMISSION, NOT_ASKED
from ...machine.kernel import read_boot_id
from ...machine.pci import read_pci
from ...machine.root import Root
from ...setup.gpu_boot import read_settings
from ...sku.types import VmSize
from ..applies import has_amd_gpus
from ..check import FAIL, REBOOT, REPLACE, TIERS, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..gpus import CHECK_LIMIT_S

_AMD = 0x1002
_LOOK = "'journalctl -k -b' has the driver's messages (NVRM, Xid)"
_REDEPLOY = f"{_LOOK}; restart the VM from Azure, and redeploy it if that does not help"
LOAD_DRIVER = (
    "Find the cause with 'modprobe nvidia' and 'journalctl -k -b'; build the driver for this kernel (dkms status)"
)
"""What to do about a driver that is not loaded."""
_FAILED_IN = "failed in boot"


@dataclass(frozen=True)
class ExpectedGpus:
    """The GPUs that a machine is expected to have.

    :ivar count: their number.
    :ivar busids: their PCI addresses; empty if they are not known.
    :ivar by: the source of the number, for messages.
    """

    count: int
    busids: tuple[str, ...]
    by: str

    def missing(self, found: Collection[str]) -> list[str]:
        """Return the expected addresses that were not found; none if the machine uses other addresses."""
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
    """Return the GPUs that a machine is expected to have; None if that is not known.

    :param stated: the number that the site has set; it overrides the VM size's number.
    """
    if stated is not None:
        return ExpectedGpus(stated, (), "gpu_count of /etc/hpcai/gpu.json")
    if size is None or size.gpu_count is None:
        return None
    return ExpectedGpus(size.gpu_count, tuple(gpu.busid for gpu in size.gpus or ()), size.name)


def reason_without_gpus(expected: ExpectedGpus | None, size: VmSize | None) -> str:
    """Return why GPUs are not checked: their number is not known, or none is expected."""
    if expected is None:
        return f"it is not known how many GPUs {size.name if size else 'this machine'} has"
    return f"no GPU is expected ({expected.by})"


def is_amd(root: Root, size: VmSize | None) -> bool:
    """Return whether the machine has AMD GPUs: by the VM size's GPU model, or without it by the PCI bus."""
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
    """Yield findings about the number of NVIDIA GPUs, and about each of them.

    :param on_bus: PCI addresses of the GPUs on the bus.
    :param gpus: the driver's facts of each GPU. MIG instances are parts of a GPU and are not listed.
    """
    yield from missing_on_bus(expected, on_bus)
    yield from _known(expected, on_bus, gpus)
    yield from (_unread(expected, gpu, gpus) for gpu in gpus if gpu.problem)
    yield from _too_many(expected, len(_not_lost(gpus)))


def missing_on_bus(expected: ExpectedGpus, on_bus: Sequence[str]) -> Iterator[Finding]:
    """Yield a failure if the PCI bus shows fewer GPUs than expected."""
    if len(on_bus) < expected.count:
        missing = expected.missing(on_bus)
        where = f"{', '.join(missing)} not on the PCI bus" if missing else f"no more on the PCI bus ({expected.by})"
        words = f"{len(on_bus)} of {expected.count} GPUs: {where}"
        yield Finding(FAIL, words, missing[0] if len(missing) == 1 else "", _REDEPLOY)


def _known(expected: ExpectedGpus, on_bus: Sequence[str], gpus: Sequence[GpuHealth]) -> Iterator[Finding]:
    """Yield a failure if the driver does not know all GPUs on the bus."""
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
        hint = "Compare the VM size with hpcai_vm_sizes and gpu_count: Slurm uses only the configured number"
        yield Finding(WARN, f"{have} GPUs, but {expected.count} are expected ({expected.by})", hint=hint)


def _unread(expected: ExpectedGpus, gpu: GpuHealth, gpus: Sequence[GpuHealth]) -> Finding:
    if gpu.problem_kind == LOST:
        words = f"{len(_not_lost(gpus))} of {expected.count} GPUs: {gpu.label} fell off the bus: lost"
        return Finding(FAIL, words, gpu.device, _REDEPLOY)
    if gpu.problem_kind == NO_ANSWER:
        return Finding(FAIL, f"{gpu.label} did not answer twice in a row", gpu.device, _REDEPLOY, fault="NHC2015")
    if gpu.problem_kind == NOT_ASKED:
        return Finding(UNKNOWN, f"{gpu.label} could not be read: {gpu.problem}", gpu.device)
    return Finding(FAIL, f"{gpu.label} cannot be read: {gpu.problem}", gpu.device, _REDEPLOY, fault="NHC2015")


def driver_failure(error: GpuError, limit_s: float, loaded: str | None = None) -> Finding:
    """Return the finding for a driver that could not be queried. This need not be a hardware fault.

    :param loaded: version of the loaded kernel module; None if none is loaded or the version is not known.
    """
    if error.kind == NO_LIBRARY:
        hint = "Install NVIDIA's driver with its library, libnvidia-ml.so.1"
        return Finding(UNKNOWN, f"the driver cannot be queried: {error}", hint=hint)
    if error.kind == NO_PERMISSION:
        return Finding(UNKNOWN, f"this user may not use the driver ({error})", hint="Run it as root")
    if error.kind == NOT_ASKED:
        return Finding(UNKNOWN, f"the driver could not be queried: {error}")
    if error.kind == NO_ANSWER:
        words = f"NVIDIA's driver did not answer twice in a row, {limit_s:g} s each time"
        return Finding(FAIL, words, hint=_REDEPLOY, fault="NHC2015")
    if error.kind == NO_DRIVER:
        return Finding(FAIL, f"NVIDIA's driver is not loaded ({error})", hint=LOAD_DRIVER, fault="")
    if error.kind == MISMATCH:
        which = f" (driver {loaded})" if loaded else ""
        words = f"NVIDIA's library and the loaded driver{which} have different versions"
        hint = "Restart the machine: a package of the driver was upgraded while the old driver was in use"
        return Finding(FAIL, words, hint=hint, fault="")
    return Finding(FAIL, f"NVIDIA's driver failed: {error}", hint=_REDEPLOY, fault="NHC2015")


def read_amd(root: Root) -> tuple[list[str], list[str]]:
    """Return the PCI addresses of the AMD GPUs, and of those that have their driver.

    It reads sysfs, because the library of AMD's driver is not on every machine.
    """
    on_bus = _amd_on_bus(root)
    folder = "/sys/bus/pci/devices"
    return on_bus, [busid for busid in on_bus if root.link_name(f"{folder}/{busid}/driver") == "amdgpu"]


def _amd_on_bus(root: Root) -> list[str]:
    return [device.busid for device in read_pci(root) if device.is_gpu and device.vendor == _AMD]


def judge_amd(expected: ExpectedGpus, on_bus: Sequence[str], driven: Sequence[str]) -> Iterator[Finding]:
    """Yield findings about the number of AMD GPUs."""
    yield from missing_on_bus(expected, on_bus)
    idle = [busid for busid in on_bus if busid not in driven]
    if idle:
        words = f"{len(driven)} of {expected.count} GPUs: {', '.join(idle)} without the driver amdgpu"
        hint = "'journalctl -k -b' has the messages of amdgpu; restart or redeploy the VM"
        yield Finding(FAIL, words, idle[0] if len(idle) == 1 else "", hint)
    yield from _too_many(expected, len(driven))


def _escalated(context: Context, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Change the action to REPLACE if the check failed in an earlier boot too, because a restart did not help."""
    boot_id = read_boot_id(context.root)
    # A driver that is not loaded, or has another version than its library, is no fault of the hardware.
    failing = any(finding.verdict == FAIL and finding.fault != "" for finding in findings)
    first = context.history.get(_FAILED_IN)
    context.history.keep(_FAILED_IN, (first or boot_id) if failing else None, for_good=True)
    if not (failing and first and boot_id and first != boot_id):
        return tuple(findings)
    return tuple(
        replace(one, action=REPLACE, hint=f"A restart did not help: redeploy or replace the VM. {_LOOK}")
        if one.verdict == FAIL and one.fault != ""
        else one
        for one in findings
    )


GPU_COUNT = Check(
    name="gpu_count",
    title="Number of GPUs",
    explain=(
        "The PCI bus shows the expected number of GPUs: gpu_count in /etc/hpcai/gpu.json, or if that is not set, the "
        "number in the facts of the VM size. "
        "NVIDIA's driver knows each of these GPUs and can read it; an AMD GPU is bound to the driver amdgpu. If there "
        "are more GPUs, the check warns. If NVIDIA's driver or a GPU does not answer, the check sends a second "
        "request in the same run. If this request also gets no answer, the check fails."
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
