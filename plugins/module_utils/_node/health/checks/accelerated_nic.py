# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Accelerated networking: its RDMA device is there, and its port runs at its full rate."""

from __future__ import annotations

from ...machine.rdma import ACTIVE, INFINIBAND, read_ports
from ..check import BOOT, DEEP, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..limits import source_in_words
from ..promised import where_promised

_HINT = "Without accelerated networking all traffic goes through the host: see 'journalctl -k -b', restart the machine"


def _measure(context: Context) -> Answer:
    size = context.known_size
    promised = size.accelerated_nic_gbps or 0
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
            findings.append(Finding(UNKNOWN, f"{port.label} does not tell its rate", port.device))
        elif port.rate_gbps < promised:
            words = f"{port.label} of accelerated networking runs at {port.rate_gbps:g} Gb/s instead of {promised}"
            findings.append(Finding(WARN, words, port.device, _HINT))
    return Answer(
        good=", ".join(f"{port.label} is active at {port.rate_gbps or 0:g} Gb/s" for port in ports),
        readings=tuple(
            Reading("accelerated_nic_rate", port.rate_gbps, "Gb/s", port.device, promised)
            for port in ports
            if port.rate_gbps is not None
        ),
        findings=tuple(findings),
        limit=f"at least {promised} Gb/s ({source_in_words(size.sources['accelerated_nic_gbps'])})",
    )


CHECK = Check(
    name="accelerated_nic",
    title="Accelerated networking",
    explain=(
        "The front-end network's RDMA device (mlx5_an0) is active at the rate that the facts of the VM size state "
        "(azurehpc-health-checks, run-health-checks.sh). It only warns: jobs run without it, and what they load and "
        "save goes slowly."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=where_promised("accelerated_nic_gbps", "accelerated networking with RDMA"),
    action=OBSERVE,
)
