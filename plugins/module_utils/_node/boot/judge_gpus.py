# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Judging the GPUs: those that a machine has, against those that it was promised. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..health.check import FAIL, UNKNOWN, WARN, Finding
from ..health.checks.gpu_count import REDEPLOY, ExpectedGpus
from ..machine.gpu import GpuFacts
from ..machine.gpu.facts import LOST, NO_ANSWER
from ..setup.gpu_boot import version_of

_TOLD_AT_MOST = 8


def judge_gpus(promised: ExpectedGpus, on_bus: Sequence[str], gpus: Sequence[GpuFacts]) -> list[Finding]:
    """Return what is wrong with the number of GPUs, and with each of them.

    :param on_bus: PCI addresses of the GPUs that the bus shows.
    :param gpus: what the driver says of each. MIG instances are none of them: they are parts of one.
    """
    return [*_numbers(promised, on_bus, gpus), *_each(gpus)]


def _numbers(promised: ExpectedGpus, on_bus: Sequence[str], gpus: Sequence[GpuFacts]) -> Iterator[Finding]:
    have = len(gpus)
    if have < promised.count:
        missing = promised.missing([gpu.busid for gpu in gpus if gpu.busid])
        unknown = [busid for busid in missing if busid in on_bus]
        absent = [busid for busid in missing if busid not in on_bus]
        where = [f"the driver does not know {' '.join(unknown)}"] if unknown else []
        where += [f"not on the PCI bus {' '.join(absent)}"] if absent else []
        told = ", ".join(where or [f"{len(on_bus)} on the PCI bus"])
        yield Finding(FAIL, f"{have} of {promised.count} GPUs that {promised.by} promises: {told}", hint=REDEPLOY)
    if have > promised.count:
        yield Finding(
            WARN,
            f"{have} GPUs, and {promised.by} promises {promised.count}",
            hint="Compare the VM size with hpcai_vm_sizes and gpu_count: Slurm uses no more than it was told of",
        )


def _each(gpus: Sequence[GpuFacts]) -> Iterator[Finding]:
    lost, silent = ([gpu.label for gpu in gpus if gpu.problem_kind == kind] for kind in (LOST, NO_ANSWER))
    if lost:
        yield Finding(FAIL, f"{_listed(lost)} fell off the bus: lost", hint=REDEPLOY)
    if silent:
        yield Finding(FAIL, f"{_listed(silent)} did not answer twice running", hint=REDEPLOY)
    for gpu in gpus:
        if gpu.problem and gpu.problem_kind not in (LOST, NO_ANSWER):
            yield Finding(FAIL, f"{gpu.label} cannot be read: {gpu.problem}", hint=REDEPLOY)


def judge_driver(version: str, least: str | None) -> list[Finding]:
    """Return what is wrong with the driver's version.

    :param least: the oldest that will do; None for any.
    """
    if least is None:
        return []
    action = "Install a newer driver in the image, or lower gpu_min_driver"
    if not version_of(version):
        return [
            Finding(
                UNKNOWN, f"the driver tells no version ({version or 'nothing'}), and {least} is wanted", hint=action
            )
        ]
    if version_of(version) < version_of(least):
        return [Finding(FAIL, f"driver {version} is older than {least}, which is wanted", hint=action)]
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
            hint="'systemctl enable --now nvidia-persistenced', or gpu_clocks with persistence: true",
        )
    ]


def _listed(words: Sequence[str]) -> str:
    shown = list(words[:_TOLD_AT_MOST])
    if len(words) > len(shown):
        shown.append(f"{len(words) - len(shown)} more")
    return ", ".join(shown)
