# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The network: interfaces, and accelerated networking."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.rdma import ACTIVE, INFINIBAND, read_ports
from ...machine.root import Root
from ..applies import where_expected
from ..check import BOOT, DEEP, FAIL, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..settings import source_in_words

# Network interfaces: that of the default route is up, and each InfiniBand adapter has one.

_INTERFACES = "/sys/class/net"
_RTF_UP = 0x1


def _measure_network(context: Context) -> Answer:
    root = context.root
    names = [name for name in root.entries(_INTERFACES) if root.exists(f"{_INTERFACES}/{name}/operstate")]
    if not names:
        return Answer(findings=(Finding(UNKNOWN, f"{_INTERFACES} shows no network interface"),))
    default = _default_route(root)
    readings = [Reading("interface", root.text(f"{_INTERFACES}/{name}/operstate") or "", device=name) for name in names]
    return Answer(
        good=f"{default} is up, there are {len(names)} interfaces",
        readings=tuple(readings),
        findings=(*_judge_default(root, default), *_judge_adapters(root)),
        limit="the default route's interface up, an interface for each active InfiniBand port",
    )


def _default_route(root: Root) -> str:
    """Return the interface of the default route with the smallest metric; empty if there is no default route."""
    found = []
    for line in (root.text("/proc/net/route") or "").splitlines()[1:]:
        # Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
        words = line.split()
        if len(words) > 7 and int(words[1], 16) == 0 == int(words[7], 16) and int(words[3], 16) & _RTF_UP:
            found.append((int(words[6]), words[0]))
    return min(found)[1] if found else ""


def _judge_default(root: Root, name: str) -> Iterator[Finding]:
    if not name:
        hint = "See 'ip route' and 'networkctl' or 'nmcli'"
        yield Finding(FAIL, "there is no default route, so the node cannot reach other subnets", hint=hint)
        return
    state = root.text(f"{_INTERFACES}/{name}/operstate")
    # Some drivers report the state unknown; an interface with a carrier then works.
    if state != "up" and not (state == "unknown" and root.number(f"{_INTERFACES}/{name}/carrier") == 1):
        words = f"network interface {name} of the default route is {state or 'missing'}"
        yield Finding(FAIL, words, name, "See 'ip link' and 'journalctl -k -b'; restart the machine")


def _judge_adapters(root: Root) -> Iterator[Finding]:
    """Yield a warning for adapters without an IP over InfiniBand interface, which some MPIs need at their start."""
    for port in read_ports(root):
        if not port.works or not port.busid:
            continue
        names = root.entries(f"/sys/bus/pci/devices/{port.busid}/net")
        if not names:
            hint = "Load the module ib_ipoib; RDMA does not need it, but some MPI set-ups do"
            yield Finding(WARN, f"{port.label} ({port.busid}) has no network interface", port.device, hint)


NETWORK = Check(
    name="network",
    title="Network interfaces",
    explain=(
        "The interface of the default route is up (azurehpc-health-checks, check_hw_eth); otherwise the check fails. "
        "Each active InfiniBand port has an IP over InfiniBand interface; otherwise the check warns."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_network,
    action=OBSERVE,
)


# Accelerated networking: its RDMA device exists, and its port runs at full rate.

_HINT = "Without accelerated networking all traffic goes through the host: see 'journalctl -k -b', restart the machine"


def _measure_accelerated(context: Context) -> Answer:
    size = context.known_size
    expected_gbps = size.accelerated_nic_gbps or 0
    devices = "/sys/class/infiniband"
    if not context.root.exists(devices):
        hint = "Load the adapters' driver (mlx5_ib; OFED: systemctl status openibd)"
        return Answer(findings=(Finding(UNKNOWN, "no driver for RDMA devices is loaded", hint=hint),))
    ports = [port for port in read_ports(context.root) if port.link_layer not in (INFINIBAND, "")]
    findings = []
    if not ports:
        findings.append(Finding(WARN, "accelerated networking has no RDMA device (mlx5_an0)", hint=_HINT))
    for port in ports:
        if port.state != ACTIVE:
            words = f"{port.label} of accelerated networking is {port.condition}"
            findings.append(Finding(WARN, words, port.device, _HINT))
        elif port.rate_gbps is None:
            findings.append(Finding(UNKNOWN, f"{port.label} does not show its rate", port.device))
        elif port.rate_gbps < expected_gbps:
            words = f"{port.label} of accelerated networking runs at {port.rate_gbps:g} Gb/s instead of {expected_gbps}"
            findings.append(Finding(WARN, words, port.device, _HINT))
    return Answer(
        good=", ".join(f"{port.label} is active at {port.rate_gbps or 0:g} Gb/s" for port in ports),
        readings=tuple(
            Reading("accelerated_nic_rate", port.rate_gbps, "Gb/s", port.device, expected_gbps)
            for port in ports
            if port.rate_gbps is not None
        ),
        findings=tuple(findings),
        limit=f"at least {expected_gbps} Gb/s ({source_in_words(size.sources['accelerated_nic_gbps'])})",
    )


ACCELERATED_NIC = Check(
    name="accelerated_nic",
    title="Accelerated networking",
    explain=(
        "The front-end network's RDMA device (mlx5_an0) is active at the rate in the facts of the VM size "
        "(azurehpc-health-checks, run-health-checks.sh). The check only warns: without the device, jobs run, but load "
        "and save data more slowly."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_accelerated,
    applies=where_expected("accelerated_nic_gbps", "accelerated networking with RDMA"),
    action=OBSERVE,
)
