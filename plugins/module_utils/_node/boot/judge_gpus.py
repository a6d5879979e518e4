# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Judging the GPUs: those that a machine has, against those that it was promised. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..machine.gpu import GpuError, GpuFacts
from ..machine.gpu.errors import LOST, MISMATCH, NO_ANSWER, NO_BINDINGS, NO_DRIVER, NO_LIBRARY, NO_PERMISSION
from ..setup.gpu_boot import version_of
from .finding import Finding
from .step import FAIL, UNKNOWN, WARN

LOOK_IN_LOG = "'journalctl -k -b' tells what the driver said (NVRM, Xid)"
REDEPLOY = f"{LOOK_IN_LOG}; restart the VM from Azure, and redeploy it if it stays so"
_TOLD_AT_MOST = 8


@dataclass(frozen=True)
class Promised:
    """The GPUs that a machine must have.

    :ivar count: their number.
    :ivar busids: their PCI addresses; empty where nobody says.
    :ivar by: who promises them, as words of a sentence.
    """

    count: int
    busids: tuple[str, ...]
    by: str


def driver_failed(error: GpuError, limit_s: float, loaded: str | None) -> Finding:
    """Return what it means that the driver as a whole could not be asked.

    :param loaded: version of the kernel module that is loaded; None where none is, or it does not say.
    """
    if error.kind == NO_ANSWER:
        return Finding(FAIL, f"NVIDIA's driver did not answer twice running, {limit_s:g} s each time", REDEPLOY)
    if error.kind == NO_DRIVER:
        return Finding(FAIL, f"NVIDIA's driver is not loaded ({error})", not_loaded_action())
    if error.kind == MISMATCH:
        which = f" (driver {loaded})" if loaded else ""
        return Finding(
            FAIL,
            f"NVIDIA's library and the loaded driver{which} are of different versions",
            "Restart the machine: a package of the driver was exchanged while the old one was in use",
        )
    if error.kind in (NO_LIBRARY, NO_BINDINGS):
        return Finding(
            UNKNOWN,
            f"the driver cannot be asked: {error}",
            "Install nvidia-ml-py (role hpcai.azure.node_tools) and NVIDIA's driver with its library",
        )
    if error.kind == NO_PERMISSION:
        return Finding(UNKNOWN, f"the driver does not talk to this user ({error})", "Run it as root")
    return Finding(FAIL, f"NVIDIA's driver failed: {error}", REDEPLOY)


def not_loaded_action() -> str:
    """Return what to do about a driver that is not loaded."""
    return (
        "'modprobe nvidia' and 'journalctl -k -b' say why: is the driver built for the kernel that runs (dkms status)?"
    )


def judge_gpus(promised: Promised, on_bus: Sequence[str], gpus: Sequence[GpuFacts]) -> list[Finding]:
    """Return what is wrong with the number of GPUs, and with each of them.

    :param on_bus: PCI addresses of the GPUs that the bus shows.
    :param gpus: what the driver says of each. MIG instances are none of them: they are parts of one.
    """
    return [*_numbers(promised, on_bus, gpus), *_each(gpus)]


def _numbers(promised: Promised, on_bus: Sequence[str], gpus: Sequence[GpuFacts]) -> Iterator[Finding]:
    have = len(gpus)
    if have < promised.count:
        missing = missing_of(promised, [gpu.busid for gpu in gpus if gpu.busid])
        unknown = [busid for busid in missing if busid in on_bus]
        absent = [busid for busid in missing if busid not in on_bus]
        where = [f"the driver does not know {' '.join(unknown)}"] if unknown else []
        where += [f"not on the PCI bus {' '.join(absent)}"] if absent else []
        told = ", ".join(where or [f"{len(on_bus)} on the PCI bus"])
        yield Finding(FAIL, f"{have} of {promised.count} GPUs that {promised.by} promises: {told}", REDEPLOY)
    if have > promised.count:
        yield Finding(
            WARN,
            f"{have} GPUs, and {promised.by} promises {promised.count}",
            "Compare the VM size with hpcai_vm_sizes and gpu_count: Slurm uses no more than it was told of",
        )


def missing_of(promised: Promised, found: Collection[str]) -> list[str]:
    """Return the promised PCI addresses that were not found; none where the machine numbers its devices otherwise."""
    if not set(found) <= set(promised.busids):
        return []
    return [busid for busid in promised.busids if busid not in found]


def _each(gpus: Sequence[GpuFacts]) -> Iterator[Finding]:
    lost, silent = ([gpu.label for gpu in gpus if gpu.problem_kind == kind] for kind in (LOST, NO_ANSWER))
    if lost:
        yield Finding(FAIL, f"{_listed(lost)} fell off the bus: lost", REDEPLOY)
    if silent:
        yield Finding(FAIL, f"{_listed(silent)} did not answer twice running", REDEPLOY)
    for gpu in gpus:
        if gpu.problem and gpu.problem_kind not in (LOST, NO_ANSWER):
            yield Finding(FAIL, f"{gpu.label} cannot be read: {gpu.problem}", REDEPLOY)


def judge_driver(version: str, least: str | None) -> list[Finding]:
    """Return what is wrong with the driver's version.

    :param least: the oldest that will do; None for any.
    """
    if least is None:
        return []
    action = "Install a newer driver in the image, or lower gpu_min_driver"
    if not version_of(version):
        return [
            Finding(UNKNOWN, f"the driver tells no version ({version or 'nothing'}), and {least} is wanted", action)
        ]
    if version_of(version) < version_of(least):
        return [Finding(FAIL, f"driver {version} is older than {least}, which is wanted", action)]
    return []


def judge_persistence(daemon: str, daemon_runs: bool, gpus: Sequence[GpuFacts]) -> list[Finding]:
    """Return whether something keeps the driver's state when nobody uses a GPU.

    :param daemon: how nvidia-persistenced is, in a word.
    """
    if daemon_runs or all(gpu.persistence for gpu in gpus if not gpu.problem):
        return []
    return [
        Finding(
            WARN,
            f"nvidia-persistenced is {daemon}, and persistence mode is off: the driver forgets clocks, and each job "
            f"starts slowly",
            "'systemctl enable --now nvidia-persistenced', or gpu_clocks with persistence: true",
        )
    ]


def _listed(words: Sequence[str]) -> str:
    shown = list(words[:_TOLD_AT_MOST])
    if len(words) > len(shown):
        shown.append(f"{len(words) - len(shown)} more")
    return ", ".join(shown)
