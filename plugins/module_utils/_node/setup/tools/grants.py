# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The service that gives users short-lived access to Blob storage and registries: it starts when somebody asks."""

from __future__ import annotations

from .files import MARK

SOCKET = "hpcai-grants.socket"
SERVICE = "hpcai-grants.service"

UNITS = {
    SOCKET: f"""\
{MARK}
[Unit]
Description=Requests of users for Blob storage and registries

[Socket]
ListenStream=/run/hpcai/grants.sock
# Everybody may ask. Who asks is known by the socket, and most get nothing.
SocketMode=0666
DirectoryMode=0755
Backlog=1024
RemoveOnStop=yes

[Install]
# At boot, and on a node that is set up while it runs.
WantedBy=sockets.target
""",
    SERVICE: f"""\
{MARK}
[Unit]
Description=Short-lived access of users to Blob storage and registries
After=network-online.target nss-user-lookup.target
# It ends when nobody asks for a while, and starts as often as somebody does.
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/hpcnode grants serve
NoNewPrivileges=yes
CapabilityBoundingSet=
UMask=0077
# A core dump would contain keys.
LimitCORE=0
MemoryMax=512M
TasksMax=512
TimeoutStartSec=30
TimeoutStopSec=15
""",
}
"""Text by name."""
