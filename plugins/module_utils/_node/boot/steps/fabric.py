# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What joins the GPUs: the fabric manager for NVSwitches inside the VM, InfiniBand between VMs."""

from __future__ import annotations

from collections.abc import Sequence

from ...health.check import FAIL, SKIP, UNKNOWN, WARN, Finding
from ...machine.pci import read_pci
from ...machine.rdma import INFINIBAND, Port, read_ports
from ...machine.root import Root
from ...machine.run import Run, wait_until
from ...machine.unit_state import UnitState, read_unit
from ...sku import VmSize
from ..size import promised_size
from ..step import Context, Outcome, Step, outcome_of

MANAGER = "nvidia-fabricmanager"
_PAUSE_S = 2.0
_OVERHEAD_S = 10.0
"""Seconds of the step's limit that are not spent on waiting."""
_ON_ITS_WAY = ("active", "activating", "reloading")


def _perform(context: Context) -> Outcome:
    size = promised_size(context.root)
    if size is None:
        return Outcome(SKIP, "this is no compute node, and nobody says which VM size it has")
    if not size.nvswitch and not size.hca_count:
        return Outcome(SKIP, f"{size.name} promises neither NVSwitch nor InfiniBand")
    changes = _start(context) if size.nvswitch else ()
    _wait(context, size)
    manager = read_unit(MANAGER, context.run) if size.nvswitch else None
    ports = read_ports(context.root)
    findings = [
        *(_judge_manager(manager, context.run) if manager and not (context.check and changes) else ()),
        *judge_ports(size, ports, _adapters(context.root)),
    ]
    working = [port for port in ports if port.works]
    good = [f"{MANAGER} is active"] if manager else []
    good += [f"{len(working)} InfiniBand ports are active"] if size.hca_count else []
    details = {
        "fabric_manager": manager.words if manager else None,
        "ports": [{**vars(port)} for port in ports],
        "promised_ports": size.hca_count,
        "promised_gbps": size.ib_rate_gbps,
    }
    return outcome_of(findings, ", ".join(good), changes, details)


def _start(context: Context) -> tuple[str, ...]:
    """Start the fabric manager where it is not on its way: it ends at once if the driver comes later than it."""
    state = read_unit(MANAGER, context.run)
    if state.load != "loaded" or state.active in _ON_ITS_WAY:
        return ()
    if not context.check:
        # Not waited for: it may wait for us, and its own limit is not ours.
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
        return len([port for port in read_ports(context.root) if port.works]) >= (size.hca_count or 0)

    wait_until(decided, max(0.0, context.seconds - _OVERHEAD_S), _PAUSE_S)


def _judge_manager(state: UnitState, run: Run) -> list[Finding]:
    if state.is_active:
        return []
    if state.load == "unknown":
        return [Finding(UNKNOWN, f"systemd does not tell how {MANAGER} is", hint=f"Try 'systemctl status {MANAGER}'")]
    if state.load != "loaded":
        action = f"Install {MANAGER} of exactly the driver's version, or unmask it: no CUDA program starts without it"
        return [Finding(FAIL, f"{MANAGER} is {state.words}, and the NVSwitches need it", hint=action)]
    said = run(["journalctl", "--boot", f"--unit={MANAGER}", "--no-pager", "--quiet", "--output=cat", "--lines=1"])
    words = f": {said.stdout.strip()}" if said.rc == 0 and said.stdout.strip() else ""
    action = f"'journalctl -b -u {MANAGER}' tells why; its version must be exactly the driver's"
    return [Finding(FAIL, f"{MANAGER} is {state.words}{words}", hint=action)]


def _adapters(root: Root) -> tuple[str, ...]:
    return tuple(device.busid for device in read_pci(root) if device.is_hca)


def judge_ports(size: VmSize, ports: Sequence[Port], adapters: Sequence[str]) -> list[Finding]:
    """Return what is wrong with the InfiniBand ports; Ethernet ones, as of accelerated networking, do not count.

    :param adapters: PCI addresses of the InfiniBand adapters on the bus.
    """
    count = size.hca_count or 0
    of_infiniband = [port for port in ports if port.link_layer == INFINIBAND]
    working = [port for port in of_infiniband if port.works]
    findings = []
    if len(working) < count:
        where = [f"{port.label} is {port.condition}" for port in of_infiniband if not port.works]
        where += _without_device(size, of_infiniband, adapters)
        words = f"{len(working)} of {count} InfiniBand ports that {size.name} promises are active: {', '.join(where)}"
        findings.append(Finding(FAIL, words, hint=_action(of_infiniband)))
    slow = [port for port in working if size.ib_rate_gbps and (port.rate_gbps or 0) < size.ib_rate_gbps]
    if slow:
        rates = ", ".join(f"{port.label} at {port.rate_gbps or 0:g} Gb/s" for port in slow)
        words = f"InfiniBand is slower than the {size.ib_rate_gbps} Gb/s of {size.name}: {rates}"
        findings.append(Finding(WARN, words, hint="Run 'ibv_devinfo -v' and 'mlxlink'; redeploy the VM if it stays so"))
    return findings


def _without_device(size: VmSize, ports: Sequence[Port], adapters: Sequence[str]) -> list[str]:
    """Return which adapters have no RDMA device, by address where that is known."""
    driven = {port.busid for port in ports}
    idle = [busid for busid in adapters if busid not in driven]
    promised = [hca.busid for hca in size.hcas or ()]
    lacking = [busid for busid in promised if busid not in adapters] if set(adapters) <= set(promised) else []
    if not ports and not adapters:
        return ["no adapter is on the PCI bus"]
    if not ports:
        return ["there is no RDMA device"]
    told = [f"without RDMA device {' '.join(idle)}"] if idle else []
    return [*told, f"not on the PCI bus {' '.join(lacking)}"] if lacking else told


def _action(ports: Sequence[Port]) -> str:
    if not ports:
        return "Load the adapters' driver (mlx5_ib; OFED: systemctl status openibd), and see 'journalctl -k -b'"
    return (
        "INIT or ARMED waits for the subnet manager, DOWN for the link: 'ibstat' and 'journalctl -k -b' tell more; "
        "redeploy the VM if it stays so"
    )


STEP = Step("fabric", "Fabric manager and InfiniBand of this node", blocking=True, limit_s=150, perform=_perform)
