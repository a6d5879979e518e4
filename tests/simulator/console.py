# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of a machine on its serial console at its first boot, in the format of Ubuntu 22.04 on Azure.

cloud-init writes the block of keys directly to ``/dev/console``, so its lines have no prefix. The fingerprints before
the block come from logger. All output through journald has a time, a name and a process id in front. The terminal ends
each line with two characters.

Not simulated: later boots, and how Azure shortens a long log. A reimaged machine has the log of its new system.
"""

from __future__ import annotations

from simulator.resources import Instance

BOOT = """\
[    0.000000] Linux version 6.8.0-1030-azure (buildd@lcy02-amd64-087) (gcc 12.3.0) #35~22.04.1-Ubuntu SMP
[    0.000000] Command line: BOOT_IMAGE=/boot/vmlinuz-6.8.0-1030-azure root=PARTUUID=2d1a ro console=tty1 console=ttyS0
[    1.604923] systemd[1]: Hostname set to <{name}>.
[   11.228934] cloud-init[612]: Cloud-init v. 25.1.4-0ubuntu0~22.04.1 running 'init' at Tue, 24 Nov 2026 08:00:11 +0000.

Ubuntu 22.04.5 LTS {name} ttyS0

{name} login: <14>Nov 24 08:00:19 cloud-init: #############################################################
<14>Nov 24 08:00:19 cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----
<14>Nov 24 08:00:19 cloud-init: -----END SSH HOST KEY FINGERPRINTS-----
<14>Nov 24 08:00:19 cloud-init: #############################################################
-----BEGIN SSH HOST KEY KEYS-----
{keys}
-----END SSH HOST KEY KEYS-----
[   19.707112] cloud-init[1187]: Cloud-init v. 25.1.4-0ubuntu0~22.04.1 finished at Tue, 24 Nov 2026 08:00:19 +0000.
"""


def log(instance: Instance) -> bytes:
    """The log of a machine's serial console."""
    if instance.console_log is not None:
        return instance.console_log.encode()
    text = BOOT.format(name=instance.computer_name, keys="\n".join(instance.host_keys))
    return text.replace("\n", "\r\n").encode()
