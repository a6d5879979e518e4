# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The clock: synchronised, and accurate enough."""

from __future__ import annotations

from ...machine.root import Root
from ...machine.run import last_line
from ..check import BOOT, DEEP, FAIL, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading

_NOT_INSTALLED = (126, 127)
_FIELDS = 14
"""Fields of 'chronyc -c tracking' (chrony, client.c): id and name of the source, stratum, reference time, the clock's
offset in seconds, last offset, RMS offset, frequency, residual frequency, skew, root delay, root dispersion, interval,
and leap status."""
_SOURCE, _OFFSET, _LEAP = 1, 4, 13
_UNSYNCHRONISED = "Not synchronised"
_CONTAINER = "/run/systemd/container"
_PTP = "/dev/ptp_hyperv"


def _measure(context: Context) -> Answer:
    if context.root.exists(_CONTAINER):
        return Answer(skipped="this is a container, which uses its host's clock")
    most = context.option(TIME_SYNC, "offset_s")
    answer = context.run(["chronyc", "-c", "tracking"])
    if answer.rc in _NOT_INSTALLED:
        return _by_systemd(context)
    fields = answer.stdout.strip().split(",")
    if answer.rc != 0 or len(fields) < _FIELDS:
        reason = last_line(answer, f"exit status {answer.rc}")
        hint = "Check with 'systemctl status chronyd chrony' whether it runs"
        return Answer(findings=(Finding(UNKNOWN, f"chrony does not report the clock's state: {reason}", hint=hint),))
    try:
        offset = abs(float(fields[_OFFSET]))
    except ValueError:
        return Answer(findings=(Finding(UNKNOWN, f"chrony reports an invalid offset: {fields[_OFFSET]!r}"),))
    source, leap = fields[_SOURCE] or "no source", fields[_LEAP]
    findings = []
    if leap == _UNSYNCHRONISED:
        findings.append(Finding(WARN, "the clock is not synchronised", hint=_hint(context.root)))
    if offset > most:
        words = f"the clock differs from {source} by {offset:.3f} s"
        hint = f"Set it with 'chronyc makestep'; {_hint(context.root)}"
        findings.append(Finding(FAIL, words, hint=hint))
    return Answer(
        good=f"the clock follows {source}, with an offset of {offset:.6f} s",
        readings=(
            Reading("clock_offset", offset, "s", limit=most, at_most=True),
            Reading("clock_source", source),
        ),
        findings=tuple(findings),
        limit=f"offset at most {most:g} s (the step in Azure's guide to time sync for chrony; option offset_s)",
    )


def _by_systemd(context: Context) -> Answer:
    """Ask systemd, which reports whether the kernel's clock is synchronised, but not its offset."""
    answer = context.run(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    synchronised = answer.stdout.strip()
    if answer.rc != 0 or synchronised not in ("yes", "no"):
        words = "neither chronyc nor timedatectl reports whether the clock is synchronised"
        return Answer(findings=(Finding(UNKNOWN, words, hint="Install chrony"),))
    finding = Finding(WARN, "the clock is not synchronised", hint=_hint(context.root))
    return Answer(
        good="the clock is synchronised",
        readings=(Reading("clock_synchronised", synchronised),),
        findings=() if synchronised == "yes" else (finding,),
    )


def _hint(root: Root) -> str:
    if root.exists(_PTP):
        return f"'chronyc sources' should list {_PTP} (PHC0), as the role image configures chrony"
    return "'chronyc sources' shows its sources"


TIME_SYNC = Check(
    name="time_sync",
    title="Clock",
    explain=(
        "The clock is synchronised according to chrony, or to systemd if chrony is not installed; otherwise the check "
        "warns. It fails if chrony reports an offset of more than 1 s (option offset_s). With the settings in Azure's "
        "guide to time sync, chrony corrects such an offset at once "
        "(learn.microsoft.com/azure/virtual-machines/linux/time-sync)."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    action=OBSERVE,
    options={"offset_s": 1.0},
)
