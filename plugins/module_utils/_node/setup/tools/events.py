# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The service that passes this machine's scheduled events on to its users, on compute nodes."""

from __future__ import annotations

from .files import MARK

SERVICE = "hpcai-events.service"

UNITS = {
    SERVICE: f"""\
{MARK}
[Unit]
Description=Pass this machine's scheduled events on to its users
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/hpcnode events serve
Restart=always
RestartSec=5
TimeoutStopSec=10

[Install]
WantedBy=slurmd.service
""",
}
"""Text by name."""
