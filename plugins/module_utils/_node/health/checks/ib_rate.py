# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""InfiniBand ports: each runs at its full rate."""

from __future__ import annotations

from ...machine.rdma import read_ports
from ..check import (
    BOOT,
    DEEP,
    FAIL,
    PERIODIC,
    PROLOG,
    REPLACE,
    UNKNOWN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)
from ..limits import source_in_words
from ..promised import where_promised


def _measure(context: Context) -> Answer:
    size = context.known_size
    promised = size.ib_rate_gbps or 0
    ports = [port for port in read_ports(context.root) if port.works]
    if not ports:
        hint = "Check ib_ports tells what is wrong with the ports"
        return Answer(findings=(Finding(UNKNOWN, "no InfiniBand port is active, so none has a rate", hint=hint),))
    findings = []
    for port in ports:
        if port.rate_gbps is None:
            findings.append(Finding(UNKNOWN, f"{port.label} does not tell its rate", port.device))
        elif port.rate_gbps < promised:
            words = f"{port.label} ({port.busid}) runs at {port.rate_gbps:g} Gb/s instead of {promised}"
            hint = "Lanes of the link are lost: 'mlxlink' tells more; redeploy the VM if it stays so"
            findings.append(Finding(FAIL, words, port.device, hint))
    rates = [port.rate_gbps for port in ports if port.rate_gbps is not None]
    return Answer(
        good=f"{len(ports)} InfiniBand ports run at {min(rates, default=0):g} Gb/s",
        readings=tuple(
            Reading("ib_rate", port.rate_gbps, "Gb/s", port.device, promised)
            for port in ports
            if port.rate_gbps is not None
        ),
        findings=tuple(findings),
        limit=f"at least {promised} Gb/s ({source_in_words(size.sources['ib_rate_gbps'])})",
    )


CHECK = Check(
    name="ib_rate",
    title="Rate of the InfiniBand ports",
    explain=(
        "Each active InfiniBand port runs at the rate that the VM size promises (azurehpc-health-checks, check_hw_ib): "
        "a link that has lost lanes stays active, and is slow."
    ),
    tiers=(PROLOG, PERIODIC, BOOT, DEEP),
    measure=_measure,
    applies=where_promised("ib_rate_gbps", "InfiniBand"),
    action=REPLACE,
    fault="NHC2004",
)
