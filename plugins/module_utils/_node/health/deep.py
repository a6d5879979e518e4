# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Shared by the checks of the deep tier: run tools and GPU functions with a timeout, disturb no job, judge values."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ..machine.child import Died, Overdue, within
from ..machine.cpuset import CpuSet
from ..machine.gpu import compute_processes, nvidia_gpus
from ..machine.numa import read_cpus
from ..machine.owners import is_slurmstepd
from ..machine.pci import PciFacts, read_pci
from ..machine.proc import ancestors, read_processes
from ..machine.run import Result, last_line
from ..sku.types import Threshold
from .check import FAIL, UNKNOWN, WARN, CannotMeasure, Check, Context, Finding, Reading
from .cuda import BROKEN

DISTURBING: Mapping[str, Any] = {"while_busy": False}
"""Options of a check that needs an idle node; ``must_be_idle`` reads them."""
WITH_PROGRAM: Mapping[str, Any] = {**DISTURBING, "program": ""}
"""Options of such a check that also runs a tool, whose path can be set; ``find_program`` reads them."""


_STEP = "slurmstepd: ["
"""Beginning of the command line of a job's step: ``slurmstepd: [42.batch]``. The slurmstepd that only keeps Slurm's
control group has another command line."""


def must_be_idle(context: Context, check: Check) -> None:
    """Stop a check of the deep tier if the node is busy: it would disturb others, and its results would be wrong.

    The site's option ``while_busy`` of the check turns this off.

    :raises CannotMeasure: a job runs here, or processes use the GPUs, or that is not known.
    """
    if context.option(check, "while_busy"):
        return
    own_chain = ancestors(context.root, os.getpid())
    found = {
        process.pid: process.command[len(_STEP) :].split("]")[0]
        for process in read_processes(context.root)
        if process.command.startswith(_STEP) and is_slurmstepd(context.root, process.pid)
    }
    # A check may itself be a job, which also has a step for what users start by ssh.
    own_jobs = {step.partition(".")[0] for pid, step in found.items() if pid in own_chain}
    steps = [step for step in found.values() if step.partition(".")[0] not in own_jobs]
    if steps:
        raise CannotMeasure(f"it would disturb job {steps[0]} on this node: drain the node and wait until the job ends")
    if not nvidia_gpus(context.root):
        return
    computing = compute_processes(context.root)
    if computing is None:
        raise CannotMeasure("it is not known whether the GPUs are in use: the driver does not list processes")
    others = sorted(pid for pid in computing if pid != os.getpid())
    if others:
        which = ", ".join(map(str, others[:5])) + (" and more" if len(others) > 5 else "")
        raise CannotMeasure(f"it would disturb processes on the GPUs (process {which}): drain the node, or end them")


OVERDUE, MISSING = 124, 127
KILLED_BY = 128
"""Added to the signal's number, this is the exit status that another program reports for a killed program."""
_USUAL = ("/usr/local/bin", "/usr/bin", "/usr/local/cuda/bin", "/opt/hpcai/bin")
_KILL_AFTER_S = 5
_UNUSABLE = ("error while loading shared libraries", "No such file or directory", "Permission denied")
_FULL = ("out of memory", "Cannot allocate memory")


def find_program(context: Context, check: Check, name: str, folders: Sequence[str] = ()) -> str | None:
    """Return the path of a tool: the site's option ``program``, else the first that is found.

    :param folders: searched before the usual folders.
    """
    given: str = context.option(check, "program")
    if given:
        return given
    paths = (f"{folder}/{name}" for folder in (*folders, *_USUAL))
    return next((path for path in paths if context.root.exists(path)), None)


def required_program(context: Context, check: Check, name: str, folders: Sequence[str] = (), source: str = "") -> str:
    """Return the path of a tool that is needed to measure.

    :param source: where to get it, for the message.
    :raises CannotMeasure: it is not installed.
    """
    path = find_program(context, check, name, folders)
    if path is None:
        comes = f" ({source})" if source else ""
        raise CannotMeasure(
            f"{name}{comes} is not installed: install it, or set options.{check.name}.program in health_checks_config"
        )
    return path


def run_tool(
    context: Context, command: Sequence[str], within_s: float, environment: Mapping[str, str] | None = None
) -> Result:
    """Run a tool with a timeout, after which its exit status is 124."""
    words = ["timeout", f"--kill-after={_KILL_AFTER_S}", f"{within_s:g}"]
    if environment:
        words += ["env", *(f"{name}={value}" for name, value in sorted(environment.items()))]
    return context.run([*words, *command])


def timeout_finding(context: Context, what: str, within_s: float, device: str = "") -> Finding:
    """Return the finding of a measurement that reached its timeout: FAIL if that happens twice in a row."""
    silent = _silent(what, device)
    before = bool(context.history.get(silent))
    context.history.keep(silent, True)
    of = f" for {device}" if device else ""
    words = f"{what} did not finish within {within_s:g} s{of}{', twice in a row' if before else ''}"
    hint = "Find out with 'journalctl -k -b' what hangs" if before else "Run the check again"
    return Finding(FAIL if before else UNKNOWN, words, device, hint)


def clear_timeout(context: Context, what: str, device: str = "") -> None:
    """Forget that a measurement reached its timeout the last time."""
    if context.history.get(_silent(what, device)):
        context.history.keep(_silent(what, device), None)


def _silent(what: str, device: str) -> str:
    return f"silent: {what} {device}".strip()


def run_problem(context: Context, result: Result, what: str, within_s: float, device: str = "") -> Finding | None:
    """Return a finding if the run of a tool failed; None if it succeeded.

    A timeout is UNKNOWN, and FAIL if it happens twice in a row, because then the device is at fault. A tool that cannot
    be started, or does not get enough memory, says nothing about the device: UNKNOWN. A tool that crashes is FAIL.

    :param what: the tool and what it measures, for the message.
    """
    if result.rc in (OVERDUE, KILLED_BY + 9):
        return timeout_finding(context, what, within_s, device)
    clear_timeout(context, what, device)
    if result.rc == 0:
        return None
    reason = last_line(result)
    output = f"{result.stdout}\n{result.stderr}"
    if result.rc in (126, MISSING) or any(words in output for words in _UNUSABLE):
        return Finding(UNKNOWN, f"{what} cannot be started: {reason}", device, "Install it with its libraries")
    if any(words in output for words in _FULL):
        hint = "Find out what uses the memory: nvidia-smi, free"
        return Finding(UNKNOWN, f"{what} did not get enough memory: {reason}", device, hint)
    return Finding(FAIL, f"{what} failed (exit status {result.rc}): {reason}", device)


_NVIDIA = 0x10DE


def present_gpus(context: Context) -> list[PciFacts]:
    """Return the NVIDIA GPUs on the PCI bus, in order.

    :raises CannotMeasure: there is none.
    """
    gpus = [device for device in read_pci(context.root) if device.is_gpu and device.vendor == _NVIDIA]
    if not gpus:
        raise CannotMeasure("there is no NVIDIA GPU on the PCI bus, so nothing can be measured")
    return gpus


def cpus_near(context: Context, gpu: PciFacts) -> CpuSet:
    """Return the CPUs of the GPU's NUMA node; none if that is not known."""
    nodes = read_cpus(context.root).nodes
    return next((node.cpus for node in nodes if node.id == gpu.numa_node), CpuSet())


def measure_gpu(
    context: Context, what: str, within_s: float, function: Callable[[], Mapping[str, Any]], device: str = ""
) -> tuple[Mapping[str, Any], Finding | None]:
    """Return what a function of ``cuda`` measures, or a finding if it cannot measure.

    :param what: what is measured, for the message.
    """
    try:
        answer = within(within_s, function)
    except Overdue:
        return {}, timeout_finding(context, what, within_s, device)
    except Died as error:
        return {}, Finding(UNKNOWN, f"{what} could not be measured{_on(device)}: {error}", device)
    clear_timeout(context, what, device)
    if "error" not in answer:
        return answer, None
    verdict = FAIL if answer["error"] in BROKEN else UNKNOWN
    hint = "See the driver's messages with 'journalctl -k -b | grep NVRM'" if verdict == FAIL else ""
    return {}, Finding(verdict, f"{what} could not be measured{_on(device)}: {answer['words']}", device, hint)


def _on(device: str) -> str:
    return f" on {device}" if device else ""


MARGIN = 1.05
"""A GPU's bandwidth below the limit times this gets a warning, as in azurehpc-health-checks."""

_SCORE = 3.5
"""A modified z-score beyond which a value is an outlier (Iglewicz and Hoaglin, 1993)."""
_TO_SIGMA = 0.6745
"""The median absolute deviation of a normal distribution, in standard deviations."""
_LEAST_FOR_OUTLIERS = 4


def limit_findings(readings: Sequence[Reading], threshold: Threshold | None, what: str, hint: str) -> list[Finding]:
    """Return a finding for each reading that misses its limit or is near it.

    :param readings: the values, whose ``limit`` is the threshold's.
    :param threshold: the limit; if its ``warn`` is None, no value counts as near.
    :param what: what was measured, for the message.
    """
    findings = []
    for reading in readings:
        value = float(reading.value)
        if threshold is None:
            continue
        figure = f"{what}{' of ' + reading.device if reading.device else ''} is {value:.4g} {reading.unit}"
        bound = "most" if threshold.at_most else "least"
        if _misses(value, threshold.limit, threshold.at_most):
            words = f"{figure}, but should be at {bound} {threshold.limit:g}"
            findings.append(Finding(FAIL, words, reading.device, hint))
        elif threshold.warn is not None and _misses(value, threshold.warn, threshold.at_most):
            words = f"{figure}, near the limit of {threshold.limit:g}"
            findings.append(Finding(WARN, words, reading.device, "Watch it: healthy machines have more margin"))
    return findings


def outliers(readings: Sequence[Reading], what: str) -> list[Finding]:
    """Return a warning for each device whose value is far worse than the median of the node's devices.

    Far means a modified z-score above 3.5 and a difference of more than 5 percent. It needs at least four devices.
    """
    values = [float(reading.value) for reading in readings]
    if len(values) < _LEAST_FOR_OUTLIERS:
        return []
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    findings = []
    for reading, value in zip(readings, values):
        behind = value - median if reading.at_most else median - value
        if behind > median * (MARGIN - 1) and _TO_SIGMA * behind > _SCORE * deviation:
            words = f"{what} of {reading.device} is {value:.4g} {reading.unit}, but this node's median is {median:.4g}"
            findings.append(Finding(WARN, words, reading.device, "Compare it with other nodes, and watch it"))
    return findings


def _misses(value: float, limit: float, at_most: bool) -> bool:
    # Written so that NaN misses every limit.
    return not value <= limit if at_most else not value >= limit
