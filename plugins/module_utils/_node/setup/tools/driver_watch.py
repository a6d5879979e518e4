# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What happens when NVIDIA's driver is loaded again after the boot: it forgot the clocks, and lost its other parts.

A rule of udev wants a unit when the module appears, as systemd's own rules do for fuse and configfs. During the boot
that happens too; then the unit waits until the boot phase is over, and finds nothing left to do.
"""

from __future__ import annotations

from .files import MARK

SERVICE = "hpcai-driver-loaded.service"
RULES_FOLDER = "/usr/lib/udev/rules.d"
_RULE = f"{RULES_FOLDER}/90-hpcai-gpu.rules"

RULES = {
    _RULE: f"""\
{MARK}
# "add" comes once for each load of the module, and again where somebody triggers it for all modules there are.
ACTION=="add", SUBSYSTEM=="module", KERNEL=="nvidia", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{SERVICE}"
""",
}
"""Text by path."""

UNITS = {
    SERVICE: f"""\
{MARK}
[Unit]
Description=Clocks of this node's GPUs, once more after their driver was loaded
# In the boot the steps themselves do it, in their order.
After=hpcai-boot.target

[Service]
Type=oneshot
# The first step waits until the module is up, and loads those that belong to it.
ExecStart=/usr/bin/hpcnode boot run gpu clocks
TimeoutStartSec=390
""",
}
"""Text by name."""
