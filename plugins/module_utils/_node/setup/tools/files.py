# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The files around the node tool: its launcher, and the units that start it at boot."""

from __future__ import annotations

import os
import sys

from .payload import ToolsError

MARK = "# Installed by the module hpcai.azure.node_tools, which overwrites it."
"""Stands in each such file; one without it is somebody else's, and is left alone."""
UNIT_FOLDER = "/usr/lib/systemd/system"
ADMIN_UNIT_FOLDER = "/etc/systemd/system"

# -I: neither PYTHONPATH nor anybody's own packages may change what runs as root at boot.
# A new version takes the place of an old one by exchanging the link, and then removes the old one. A start in that very
# moment finds files missing, and begins again with what the link points to now.
_LAUNCHER = """\
#!{interpreter} -I
{mark}
import os
import sys

sys.dont_write_bytecode = True
link = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib/hpcai/lib")


def load():
    for attempt in (1, 2, 3):
        folder = os.path.realpath(link)
        sys.path.insert(0, folder)
        try:
            from hpcai_node.cli.main import main
            return main
        except (ImportError, OSError):
            if attempt == 3 or os.path.realpath(link) == folder:
                raise
        sys.path.remove(folder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "hpcai_node"]:
            del sys.modules[name]


raise SystemExit(load()())
"""

_BOOT_TARGET = f"""\
{MARK}
[Unit]
Description=This node is set up for HPC jobs (hpcai.azure)
# slurmd gets no jobs before everything here was done, or has failed.
Before=slurmd.service

[Install]
WantedBy=multi-user.target
"""

_SCRATCH_SERVICE = f"""\
{MARK}
[Unit]
Description=Scratch file system on this node's local NVMe disks
ConditionPathExists=/etc/hpcai/scratch.json
After=local-fs.target systemd-udev-trigger.service
Before=slurmd.service
RequiresMountsFor=/var/lib/hpcai

[Service]
Type=oneshot
RemainAfterExit=yes
# The disks are found one after the other; a wait that fails is no reason not to try.
ExecStartPre=-udevadm settle --timeout=30
ExecStart=/usr/bin/hpcnode scratch up
TimeoutStartSec=300

[Install]
WantedBy=hpcai-boot.target
# A node that should have scratch and has none must not take jobs. Where it should have none, the condition above skips
# this unit, and that satisfies slurmd.
RequiredBy=slurmd.service
"""

_CLOCKS_SERVICE = f"""\
{MARK}
[Unit]
Description=Clocks of this node's GPUs
ConditionPathExists=/etc/hpcai/clocks.json
# The driver forgets clocks when nothing holds it loaded.
After=nvidia-persistenced.service nvidia-fabricmanager.service
Before=slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/hpcnode clocks apply
TimeoutStartSec=120

[Install]
WantedBy=hpcai-boot.target
"""

_NCCL_SERVICE = f"""\
{MARK}
[Unit]
Description=NCCL's topology file and variables of this node's VM size
ConditionPathExists=/etc/hpcai/nccl.json
# The service of Azure's HPC images that writes /etc/nccl.conf anew at each boot.
After=sku-customizations.service
Before=slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/hpcnode nccl apply
TimeoutStartSec=60

[Install]
WantedBy=hpcai-boot.target
"""

UNITS = {
    "hpcai-boot.target": _BOOT_TARGET,
    "hpcai-scratch.service": _SCRATCH_SERVICE,
    "hpcai-clocks.service": _CLOCKS_SERVICE,
    "hpcai-nccl.service": _NCCL_SERVICE,
}
ENABLED = {
    "multi-user.target.wants": ("hpcai-boot.target",),
    "hpcai-boot.target.wants": ("hpcai-scratch.service", "hpcai-clocks.service", "hpcai-nccl.service"),
    "slurmd.service.requires": ("hpcai-scratch.service",),
}
"""What 'systemctl enable' would link below /etc/systemd/system, by folder. An image at rest has no systemctl."""


def launcher(interpreter: str) -> str:
    """Return the text of /usr/bin/hpcnode."""
    return _LAUNCHER.format(interpreter=interpreter, mark=MARK)


def choose_interpreter(given: str | None) -> str:
    """Return the Python for the launcher: the given one, else the one that runs this.

    :raises ToolsError: the kernel could not start it from the launcher's first line.
    """
    stable = "/usr/bin/python3"
    # Ansible finds python3.11, which is gone after the next upgrade of the distribution.
    chosen = given or (stable if os.path.realpath(stable) == os.path.realpath(sys.executable) else sys.executable)
    if not os.path.isabs(chosen) or any(letter.isspace() for letter in chosen) or len(chosen) > 120:
        raise ToolsError(f"hpcnode cannot be run by {chosen!r}: set interpreter to an absolute path without spaces")
    return chosen
