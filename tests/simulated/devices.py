# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins for a simulated node's GPUs and InfiniBand ports, and their faults.

A GPU is on the PCI bus and in the stand-in for NVIDIA's library (tests/stand_ins/nvml). An InfiniBand port has the
files that mlx5 has below /sys/class. In each boot they exist before sysinit.target, and a boot repairs their faults.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection
from pathlib import Path

from .cluster import REPOSITORY
from .node import Node

BUILD = REPOSITORY / "tests/stand_ins/nvml/build.sh"
LIBRARY = "/usr/lib/libnvidia-ml.so.1"
CONFIG = "/var/lib/nvml-stand-in/config"
DOWNED = "/sys/class/infiniband/mlx5_ib0/ports/1/counters/link_downed"
SHOW = "/usr/local/sbin/show-stand-in-devices"
UNIT = "stand-in-devices.service"
UNIT_TEXT = f"""\
[Unit]
Description=Stand-ins for GPUs and InfiniBand ports in sysfs
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={SHOW}

[Install]
WantedBy=sysinit.target
"""
# The machine is a container, so without this it shows the devices of the host.
SHOW_TEXT = f"""\
#!/bin/sh -e
sed -i /lost/d {CONFIG}
mount -t tmpfs tmpfs /sys/bus/pci/devices
mount -t tmpfs tmpfs /sys/module
mkdir /sys/module/nvidia /sys/module/nvidia_uvm
for number in $(seq {{gpus}}); do
    device=/sys/bus/pci/devices/000$number:00:00.0
    mkdir $device
    echo 0x10de > $device/vendor; echo 0x030200 > $device/class; echo 0x20b0 > $device/device
done
mkdir -p /run/class
# Links to the devices. Files of a class that cannot be read are not needed.
cp -a /sys/class/. /run/class/ 2> /dev/null || :
mount --bind /run/class /sys/class
for number in $(seq 0 $(({{hcas}} - 1))); do
    port=/sys/class/infiniband/mlx5_ib$number/ports/1
    mkdir -p $port/counters
    echo '4: ACTIVE' > $port/state; echo '5: LinkUp' > $port/phys_state; echo InfiniBand > $port/link_layer
    echo '200 Gb/sec (4X HDR)' > $port/rate; echo 0 > $port/counters/link_downed
done
"""


class Devices:
    """The stand-ins of one node."""

    def __init__(self, node: Node, folder: Path) -> None:
        """The stand-ins of this node. The library is built in ``folder``."""
        self.node = node
        self.folder = folder

    def put(self, gpus: int = 0, hcas: int = 0) -> None:
        """Add this many devices, and make the node's VM size expect them."""
        subprocess.run([str(BUILD), str(self.folder)], check=True, capture_output=True, timeout=120)
        node = self.node
        node.write(LIBRARY, (self.folder / Path(LIBRARY).name).read_bytes(), "0755")
        node.write(CONFIG, f"gpus={gpus}\nmodel=a100-40\n".encode(), "0644")
        node.write(SHOW, SHOW_TEXT.format(gpus=gpus, hcas=hcas).encode(), "0755")
        node.write(f"/etc/systemd/system/{UNIT}", UNIT_TEXT.encode(), "0644")
        node.sh(f"ldconfig; systemctl daemon-reload; systemctl --quiet enable {UNIT}; systemctl start {UNIT}")
        expect_devices(node, gpu_count=gpus, hca_count=hcas)

    def take_away(self) -> None:
        """Remove all stand-ins. Mounts over sysfs that are in use disappear with the next boot."""
        self.node.sh(
            f"systemctl --quiet disable --now {UNIT}; umount --lazy /sys/class /sys/module /sys/bus/pci/devices; "
            f"rm -rf {LIBRARY} {SHOW} /etc/systemd/system/{UNIT} {Path(CONFIG).parent} /run/class; "
            "ldconfig; systemctl daemon-reload",
            check=False,
        )
        expect_devices(self.node, gpu_count=0, hca_count=0)

    def lose_gpu(self, number: int) -> None:
        """Make a GPU fall off the bus until the next boot."""
        self.node.sh(f"echo gpu.{number}.lost=1 >> {CONFIG}")

    def flap(self, times: int) -> None:
        """Count this many times that the link of the first port went down and up again."""
        self.node.sh(f"echo $(($(cat {DOWNED}) + {times})) > {DOWNED}")


def expect_devices(node: Node, **devices: int) -> None:
    """Make all VM sizes in the node's settings expect this many devices."""
    held = dict(json.loads(node.sh("cat /etc/hpcai/node.json")))
    for size in held["vm_sizes"].values():
        size.update(devices)
    node.write("/etc/hpcai/node.json", json.dumps(held).encode(), "0644")


def check_only(node: Node, names: Collection[str]) -> None:
    """Run only these checks. The others would need more from the stand-ins."""
    others = [one for one in json.loads(node.sh("hpcnode health list --json"))["checks"] if one["name"] not in names]
    settings = dict(json.loads(node.sh("cat /etc/hpcai/health.json")))
    settings["off"] = [one["name"] for one in others]
    node.write("/etc/hpcai/health.json", json.dumps(settings).encode(), "0644")
