# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""InfiniBand ports: as many as promised are there, and carry data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...machine.pci import PciFacts, read_pci
from ...machine.rdma import INFINIBAND, Port, read_ports
from ...sku.types import VmSize
from ..check import FAIL, OBSERVE, REBOOT, REPLACE, TIERS, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..promised import where_promised

_LINK_UP = "LinkUp"
_MANAGED = ("INIT", "ARMED")
_DOWN = "'ibstat' and 'journalctl -k -b' tell more; redeploy the VM if it stays so"
_NO_DEVICE = "Load the adapters' driver (mlx5_ib; OFED: systemctl status openibd), and see 'journalctl -k -b'"


def _measure(context: Context) -> Answer:
    size = context.known_size
    count = size.hca_count or 0
    devices = read_pci(context.root)
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    working = [port for port in ports if _works(port)]
    if not devices and not ports:
        return Answer(findings=(Finding(UNKNOWN, "sysfs shows neither PCI nor RDMA devices", hint="Run it as root"),))
    findings = list(_judge(size, ports, [device for device in devices if device.is_hca]))
    if not findings and len(working) < count:
        # No address is known, and no device is there that could be named.
        words = f"{len(working)} of {count} InfiniBand ports are active, and there are no others"
        findings.append(Finding(FAIL, words, hint=_DOWN))
    return Answer(
        good=f"{len(working)} InfiniBand ports are active",
        readings=(Reading("ib_ports_active", len(working), limit=count),),
        findings=tuple(findings),
        limit=f"{count} active ports ({size.name})",
    )


def _works(port: Port) -> bool:
    return port.works and port.physical in (_LINK_UP, "")


def _judge(size: VmSize, ports: Sequence[Port], adapters: Sequence[PciFacts]) -> Iterator[Finding]:
    promised = [hca.busid for hca in size.hcas or ()]
    there = {device.busid for device in adapters}
    # With other addresses than those that are known, nobody can say which one is missing.
    for busid in promised if there <= set(promised) else ():
        if busid not in there:
            words = f"InfiniBand adapter {busid} is not on the PCI bus"
            yield Finding(FAIL, words, busid, "Redeploy the VM: nothing inside it brings an adapter back")
    driven = {port.busid for port in ports}
    for busid in sorted(there - driven):
        yield Finding(FAIL, f"InfiniBand adapter {busid} has no RDMA device", busid, _NO_DEVICE, REBOOT)
    for port in ports:
        if not _works(port):
            words = f"InfiniBand port {port.label} ({port.busid or 'without address'}) is {port.condition}"
            if port.state in _MANAGED:
                yield Finding(FAIL, words, port.device, f"It waits for the subnet manager: {_DOWN}", OBSERVE)
            else:
                yield Finding(FAIL, words, port.device, _DOWN)


CHECK = Check(
    name="ib_ports",
    title="InfiniBand ports",
    explain=(
        "As many InfiniBand ports as the VM size promises are in state ACTIVE with their link up, by sysfs; adapters "
        "that are missing are named by their PCI address (facts of the VM size: azurehpc-health-checks, azhpc-images)."
    ),
    tiers=TIERS,
    measure=_measure,
    applies=where_promised("hca_count", "InfiniBand"),
    action=REPLACE,
    fault="NHC2004",
    blocks_job=True,
    blocks_boot=True,
)
