# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""InfiniBand ports: each is in the partition of its scale set, and all are in the same."""

from __future__ import annotations

from ...machine.rdma import INFINIBAND, Port, read_ports
from ...machine.root import Root
from ..check import BOOT, DEEP, FAIL, PERIODIC, REPLACE, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..promised import where_promised

_FULL, _DEFAULT = 0x8000, 0x7FFF
"""The highest bit says whether the port is a full member; the default partition, of which all ports are members."""


def _measure(context: Context) -> Answer:
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    if not ports:
        return Answer(findings=(Finding(UNKNOWN, "there is no InfiniBand port whose partition keys could be read"),))
    readings, findings = [], []
    keys: dict[str, list[int]] = {}
    for port in ports:
        found = _read(context.root, port)
        if not found:
            findings.append(Finding(UNKNOWN, f"{port.label} does not tell its partition keys", port.device))
            continue
        own = [key for key in found if key & _DEFAULT != _DEFAULT]
        keys[port.label] = own
        told = " ".join(f"0x{key:04x}" for key in own) or "none"
        readings.append(Reading("ib_partition_key", told, device=port.device))
        if len(own) != 1:
            words = f"{port.label} has {_counted(own)} besides the default one, and not one: {told}"
            findings.append(Finding(FAIL, words, port.device, "Redeploy the VM: the host gives ports their keys"))
        elif not own[0] & _FULL:
            words = f"{port.label} is a limited member of its partition ({told}), and can reach full members only"
            findings.append(Finding(FAIL, words, port.device, "Redeploy the VM: the host gives ports their keys"))
    findings += _odd_ones(keys)
    several = sorted({key for own in keys.values() for key in own})
    return Answer(
        good=f"{len(keys)} InfiniBand ports are in partition {' '.join(f'0x{key:04x}' for key in several)}",
        readings=tuple(readings),
        findings=tuple(findings),
        limit="the default key and one more, the same on all ports",
    )


def _read(root: Root, port: Port) -> list[int]:
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}/pkeys"
    found = (root.number(path) for _index, path in root.numbered(folder, ""))
    # The table has a hundred places, and nearly all are empty.
    return [key for key in found if key and key & _DEFAULT]


def _odd_ones(keys: dict[str, list[int]]) -> list[Finding]:
    """Return the ports whose key is not that of most."""
    single = {label: own[0] & _DEFAULT for label, own in keys.items() if len(own) == 1}
    values = list(single.values())
    if len(set(values)) < 2:
        return []
    usual = max(values, key=values.count)
    odd = ", ".join(f"{label} 0x{key:04x}" for label, key in single.items() if key != usual)
    words = f"InfiniBand ports are in different partitions: {odd}, the others 0x{usual:04x}"
    return [Finding(FAIL, words, hint="Redeploy the VM: all of its ports must be in the scale set's partition")]


def _counted(own: list[int]) -> str:
    return "no partition key" if not own else f"{len(own)} partition keys"


CHECK = Check(
    name="ib_pkeys",
    title="Partition keys of the InfiniBand ports",
    explain=(
        "Azure gives the ports of a scale set one partition key of its own besides the default one (0x7fff or 0xffff). "
        "Each port has exactly one such key, as a full member, and all ports have the same: without it a port reaches "
        "nobody. (learn.microsoft.com/azure/virtual-machines/setup-mpi, partition keys)"
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=where_promised("hca_count", "InfiniBand"),
    action=REPLACE,
)
