# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""InfiniBand ports: the subnet manager has given each an address, and each is in the fabric once."""

from __future__ import annotations

from ...machine.rdma import read_ports
from ..check import BOOT, DEEP, FAIL, OBSERVE, PERIODIC, UNKNOWN, Answer, Check, Context, Finding, Reading
from ..promised import where_promised

_HINT = "The subnet manager gives addresses: restart the machine, redeploy the VM if it stays so"


def _measure(context: Context) -> Answer:
    ports = [port for port in read_ports(context.root) if port.works]
    if not ports:
        hint = "Check ib_ports tells what is wrong with the ports"
        return Answer(findings=(Finding(UNKNOWN, "no InfiniBand port is active, so none has an address", hint=hint),))
    readings, findings = [], []
    owners: dict[str, str] = {}
    for port in ports:
        folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}"
        lid, gid = context.root.number(f"{folder}/lid"), context.root.text(f"{folder}/gids/0")
        if lid is None or not gid:
            findings.append(Finding(UNKNOWN, f"{port.label} does not tell its LID and its GID", port.device))
            continue
        # The second half of a GID is the port's own number.
        own = "".join(gid.split(":")[4:])
        readings.append(Reading("ib_lid", lid, device=port.device))
        if lid == 0:
            findings.append(Finding(FAIL, f"{port.label} is active, and has no LID", port.device, _HINT))
        if not own.strip("0"):
            findings.append(Finding(FAIL, f"{port.label} is active, and has no GID: {gid}", port.device, _HINT))
        elif own in owners:
            words = f"{port.label} has the same GID as {owners[own]}: {gid}"
            findings.append(Finding(FAIL, words, port.device, _HINT))
        owners.setdefault(own, port.label)
    return Answer(
        good=f"{len(readings)} InfiniBand ports have a LID and a GID of their own",
        readings=tuple(readings),
        findings=tuple(findings),
        limit="a LID that is not 0, and a GID that no other port has",
    )


CHECK = Check(
    name="ib_addresses",
    title="LID and GID of the InfiniBand ports",
    explain=(
        "Each active InfiniBand port has a LID that is not 0 and a GID of its own: both are what other nodes reach it "
        "by (InfiniBand architecture: LID 0 is reserved)."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=where_promised("hca_count", "InfiniBand"),
    action=OBSERVE,
)
