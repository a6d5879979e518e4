# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Network interfaces: the one of the default route is up, and each InfiniBand adapter has its own."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.rdma import read_ports
from ...machine.root import Root
from ..check import BOOT, DEEP, FAIL, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading

_INTERFACES = "/sys/class/net"
_RTF_UP = 0x1


def _measure(context: Context) -> Answer:
    root = context.root
    names = [name for name in root.entries(_INTERFACES) if root.exists(f"{_INTERFACES}/{name}/operstate")]
    if not names:
        return Answer(findings=(Finding(UNKNOWN, f"{_INTERFACES} shows no network interface"),))
    default = _default_route(root)
    readings = [Reading("interface", root.text(f"{_INTERFACES}/{name}/operstate") or "", device=name) for name in names]
    return Answer(
        good=f"{default} is up, {len(names)} interfaces are there",
        readings=tuple(readings),
        findings=(*_judge_default(root, default), *_judge_adapters(root)),
        limit="the default route's interface up, an interface for each active InfiniBand port",
    )


def _default_route(root: Root) -> str:
    """Return the interface of the default route, the one with the smallest metric; nothing where there is none."""
    found = []
    for line in (root.text("/proc/net/route") or "").splitlines()[1:]:
        # Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
        words = line.split()
        if len(words) > 7 and int(words[1], 16) == 0 == int(words[7], 16) and int(words[3], 16) & _RTF_UP:
            found.append((int(words[6]), words[0]))
    return min(found)[1] if found else ""


def _judge_default(root: Root, name: str) -> Iterator[Finding]:
    if not name:
        hint = "'ip route' and 'networkctl' or 'nmcli' tell more"
        yield Finding(FAIL, "there is no default route, so the node reaches nobody outside its subnet", hint=hint)
        return
    state = root.text(f"{_INTERFACES}/{name}/operstate")
    # Some drivers do not tell: an interface with a carrier works all the same.
    if state != "up" and not (state == "unknown" and root.number(f"{_INTERFACES}/{name}/carrier") == 1):
        words = f"network interface {name} of the default route is {state or 'not there'}"
        yield Finding(FAIL, words, name, "'ip link' and 'journalctl -k -b' tell more; restart the machine")


def _judge_adapters(root: Root) -> Iterator[Finding]:
    """Yield the adapters without an interface of IP over InfiniBand, by which MPI finds its way at first."""
    for port in read_ports(root):
        if not port.works or not port.busid:
            continue
        names = root.entries(f"/sys/bus/pci/devices/{port.busid}/net")
        if not names:
            hint = "Load the module ib_ipoib; RDMA itself does not need it, some MPI set-ups do"
            yield Finding(WARN, f"{port.label} ({port.busid}) has no network interface", port.device, hint)


CHECK = Check(
    name="network",
    title="Network interfaces",
    explain=(
        "The interface of the default route is up (azurehpc-health-checks, check_hw_eth): otherwise it fails. Each "
        "active InfiniBand port has an interface of IP over InfiniBand: otherwise it warns."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    action=OBSERVE,
)
