# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Step fabric: the fabric manager for NVSwitches inside the VM, and InfiniBand between VMs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...health.check import FAIL, SKIP, Finding
from ...health.checks.gpu_fabric import MANAGER, judge_manager
from ...health.checks.ib_ports import IB_PORTS, IB_RATE, judge_ports, judge_rates
from ...health.gpu_answers import findings_in
from ...machine.pci import read_pci
from ...machine.rdma import read_ports
from ...machine.run import Run, wait_until
from ...machine.unit_state import UnitState, read_unit
from ...sku import VmSize
from ..size import expected_size
from ..step import Context, Outcome, Step, at_boot, outcome_of

_PAUSE_S = 2.0
_OVERHEAD_S = 10.0
"""Seconds of the step's timeout that are reserved for other work than waiting."""
_ON_ITS_WAY = ("active", "activating", "reloading")


def _perform(context: Context) -> Outcome:
    size = expected_size(context.root)
    if size is None:
        return Outcome(SKIP, "this is not a compute node, and its VM size is not known")
    if not size.nvswitch and not size.hca_count:
        return Outcome(SKIP, f"{size.name} is expected to have neither NVSwitch nor InfiniBand")
    changes = _start(context) if size.nvswitch else ()
    _wait(context, size)
    manager = read_unit(MANAGER, context.run) if size.nvswitch else None
    ports = read_ports(context.root)
    findings = list(_of_manager(manager, context.run)) if manager and not (context.check and changes) else []
    working, count = sum(port.works for port in ports), size.hca_count or 0
    # Ports beyond the expected number are not waited for, and may still be starting.
    if working < count:
        findings += at_boot(IB_PORTS, judge_ports(size, ports, read_pci(context.root)))
    findings += at_boot(IB_RATE, judge_rates(size, ports))
    good = [f"{MANAGER} is active"] if manager else []
    good += [f"{working} InfiniBand ports are active"] if count else []
    details = {
        "fabric_manager": manager.words if manager else None,
        "ports": [{**vars(port)} for port in ports],
        "promised_ports": size.hca_count,
        "promised_gbps": size.ib_rate_gbps,
    }
    return outcome_of(findings, ", ".join(good), changes, details)


def _start(context: Context) -> tuple[str, ...]:
    """Start the fabric manager if it is not running or starting: it exits at once if the driver loads after it."""
    state = read_unit(MANAGER, context.run)
    if state.load != "loaded" or state.active in _ON_ITS_WAY:
        return ()
    if not context.check:
        # With --no-block, because it may itself wait for this step, and has another timeout.
        context.run(["systemctl", "--no-block", "start", MANAGER])
    return (f"systemctl start {MANAGER}",)


def _wait(context: Context, size: VmSize) -> None:
    if context.check:
        return

    def decided() -> bool:
        if size.nvswitch:
            state = read_unit(MANAGER, context.run)
            if state.load != "loaded" or state.active == "failed":
                return True
            if not state.is_active:
                return False
        return sum(port.works for port in read_ports(context.root)) >= (size.hca_count or 0)

    wait_until(decided, max(0.0, context.seconds - _OVERHEAD_S), _PAUSE_S)


def _of_manager(state: UnitState, run: Run) -> Iterator[Finding]:
    """Yield problems of the fabric manager, with its last log line if it failed."""
    for finding in findings_in(judge_manager(state)):
        last_line = ""
        if finding.verdict == FAIL and state.load == "loaded":
            last = run(
                ["journalctl", "--boot", f"--unit={MANAGER}", "--no-pager", "--quiet", "--output=cat", "--lines=1"]
            )
            last_line = last.stdout.strip() if last.rc == 0 else ""
        yield replace(finding, summary=f"{finding.summary}: {last_line}") if last_line else finding


STEP = Step("fabric", "Fabric manager and InfiniBand of this node", blocking=True, limit_s=150, perform=_perform)
