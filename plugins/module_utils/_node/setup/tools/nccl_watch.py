# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The units that watch /etc/nccl.conf after the boot: the service of Azure's HPC images may write it anew at any time.

systemd does not watch while the started service runs, so what that writes itself starts nothing. What others write in
that time goes unseen. So there is a pause before, until a script that first empties the file has written it too, and a
look afterwards whether the block is still there. A run that finds everything in place writes nothing. Where somebody
else puts the file back each time, the limit ends the quarrel.
"""

from __future__ import annotations

from ..nccl.conf import BLOCK
from .files import MARK

PATH = "hpcai-nccl.path"
SERVICE = "hpcai-nccl-again.service"

UNITS = {
    PATH: f"""\
{MARK}
[Unit]
Description=Watch over NCCL's variables
# By default it would come before basic.target, and the step after that.
DefaultDependencies=no
After=hpcai-nccl.service
Conflicts=shutdown.target
Before=shutdown.target

[Path]
PathChanged=/etc/nccl.conf
Unit={SERVICE}

[Install]
WantedBy=hpcai-boot.target
""",
    SERVICE: f"""\
{MARK}
[Unit]
Description=NCCL's topology file and variables, once more after somebody changed /etc/nccl.conf
After=hpcai-nccl.service sku-customizations.service
StartLimitIntervalSec=600
StartLimitBurst=10

[Service]
Type=oneshot
ExecStartPre=/bin/sleep 3
ExecStart=/usr/bin/hpcnode boot run nccl
ExecStartPost=/bin/sh -c 'sleep 2; grep -qs "{BLOCK}" /etc/nccl.conf || exec /usr/bin/hpcnode boot run nccl'
TimeoutStartSec=95
""",
}
"""Text by name."""
