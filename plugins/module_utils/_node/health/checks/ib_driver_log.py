# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the InfiniBand adapters' driver wrote into the kernel's log about their firmware and cables."""

from __future__ import annotations

import re

from ..check import BOOT, EPILOG, FAIL, OBSERVE, PERIODIC, REPLACE, WARN, Answer, Check, Context
from ..log_signs import Sign, look_for
from ..promised import where_promised

# The driver's messages name their function, line and process before they say something.
_ADAPTER = r"mlx5_core ([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.\d): (?:\w+:\d+:\(pid \d+\): )?"
_SOURCE = "drivers/net/ethernet/mellanox/mlx5/core: "
_LOG = "'journalctl -k -b -g mlx5_core' has the lines"

SIGNS = (
    Sign(
        "firmware",
        re.compile(
            rf"{_ADAPTER}(?:device's health compromised - reached miss count|Fatal error \d+ detected"
            # Severities are those of the kernel's log: 0 to 3 are errors and worse.
            r"|Health issue observed, [^,]+, severity\([0-3]\)"
            r"|health recovery (?:failed|flow aborted)|Driver is in error state\. Unloading|PCI slot is unavailable"
            r"|(?:cmd\[\d+\]: )?\w+\(0x[0-9a-f]+\) (?:Async, )?timeout\. Will cause a leak of a command resource)"
        ),
        FAIL,
        "the firmware of adapter {device} does not work any more",
        f"Restart the VM from Azure, and redeploy it if it comes again; {_LOG}",
        REPLACE,
        "NHC2002",
        source=f"{_SOURCE}health.c, cmd.c",
    ),
    Sign(
        "cable",
        re.compile(rf"{_ADAPTER}Port module event\[error\]: module \d+, "),
        WARN,
        "adapter {device} complains of its cable",
        f"Look at its port's errors (ib_errors, ib_flaps); {_LOG}",
        OBSERVE,
        "",
        source=f"{_SOURCE}events.c",
    ),
)


def _measure(context: Context) -> Answer:
    return look_for(context, SIGNS, "ib_driver_messages", "no adapter has complained since the last look")


CHECK = Check(
    name="ib_driver_log",
    title="the InfiniBand adapters' driver in the kernel's log",
    explain=(
        "Looks in the kernel's log of this boot for what mlx5_core says of its adapters: firmware that stopped or no "
        "longer takes commands fails, a complaint about a cable warns. It stays until the machine restarts."
    ),
    tiers=(PERIODIC, EPILOG, BOOT),
    measure=_measure,
    applies=where_promised("hca_count", "InfiniBand"),
    action=REPLACE,
    fault="NHC2002",
)
