# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that make the emulated machine an instance of a baked image: settings, and stand-ins for parts of Azure.

systemd, udev, kernel modules, disks and hpcnode are real. Stand-ins replace the metadata service, two GPUs on the PCI
bus and their driver's library, the service of Azure's HPC images that writes /etc/nccl.conf, and slurmd.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from hardware import qemu
from hardware.scratch import MOUNTPOINT

GPU_STATE = "/var/lib/nvml-stand-in"
LIBRARY = "/usr/local/lib/libnvidia-ml.so.1"
FOUND = "/run/slurmd-found"
NCCL_BLOCK = "hpcai.azure nccl_topology"
"""The name of our block in /etc/nccl.conf."""
VM_SIZE = "Standard_Emulated"
NODE_NAME = "compute-7"
SIZE = {
    "vcpus": 4,
    "sockets": 4,
    "cores_per_socket": 1,
    "threads_per_core": 1,
    "memory_mib": 2048,
    "cpu": {"arch": "x86_64", "vendor": "AuthenticAMD", "family": 23, "model": 49},
    "numa_nodes": [{"id": node, "cpus": str(node)} for node in range(4)],
    "gpu_model": "A100-SXM4-40GB",
    "gpus": [{"busid": f"000{number + 1}:00:00.0", "numa_node": number, "switch": number} for number in range(2)],
    "nvswitch": False,
    "hcas": [],
    "pcie_gtps": "16 GT/s",
    "pcie_width": 16,
    "nvme_count": qemu.DISKS,
}
FOLDERS = [{"path": "data", "mode": "1777"}, {"path": "data/games", "group": "games", "mode": "2775"}]
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "node": {"vm_sizes": {VM_SIZE: SIZE}},
    "gpu": {"timeout": 30},
    "clocks": {"state": "max", "persistence": True},
    "nccl": {"settings": {"NCCL_DEBUG": "WARN"}},
    "directories": {"mountpoint": MOUNTPOINT, "folders": {"site": FOLDERS}},
}
CLUSTER = {
    "schema": 1,
    "cluster": "emulated",
    "functions": ["compute"],
    "controllers": ["10.0.0.4"],
    "key": {"source": "push"},
}
COMPUTE = {
    "vmSize": VM_SIZE,
    "vmId": "3b1d4c62-6d2f-4b8e-9d52-0a4a6f1c7a01",
    "name": NODE_NAME,
    "osProfile": {"computerName": NODE_NAME},
    "userData": base64.b64encode(f"#cloud-config\n{json.dumps({'hpcai': CLUSTER})}".encode()).decode(),
}

# Runs before hpcnode: adds two GPUs to the devices on the PCI bus. A driver that has just started has no settings.
GPUS = f"""\
#!/bin/sh -e
rm -rf /run/stand-in-pci {GPU_STATE}/state
mkdir /run/stand-in-pci
cp -a /sys/bus/pci/devices/. /run/stand-in-pci
for number in 1 2; do
  cd /run/stand-in-pci; mkdir 000$number:00:00.0; cd 000$number:00:00.0
  echo 0x030200 > class; echo 0x10de > vendor; echo 0x20b0 > device; echo $((number - 1)) > numa_node
done
mount --bind /run/stand-in-pci /sys/bus/pci/devices
"""
# Records the state of the node when slurmd starts.
SLURMD = f"""\
#!/bin/sh
mkdir -p {FOUND}; cd {FOUND}; exec 2>/dev/null
findmnt -rno SOURCE,FSTYPE -M {MOUNTPOINT} > scratch
stat -c '%n %U:%G %a' {MOUNTPOINT}/data {MOUNTPOINT}/data/games > directories
cat {MOUNTPOINT}/file > file
cp {GPU_STATE}/state clocks
cp /etc/nccl.conf /etc/hpcai/slurmd.env .
true
"""
IMDS_UNIT = "stand-in-imds.service"
UNITS = {
    IMDS_UNIT: """\
[Unit]
Before=network-online.target hpcai-instance.service
[Service]
ExecStart=/usr/bin/python3 /opt/stand-ins/imds
ExecStopPost=-/sbin/ip address del 169.254.169.254/32 dev lo
[Install]
WantedBy=network-online.target
""",
    "stand-in-gpus.service": """\
[Unit]
Before=hpcai-instance.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/opt/stand-ins/gpus
[Install]
WantedBy=multi-user.target
""",
    "sku-customizations.service": """\
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=sh -c 'echo NCCL_IB_PCI_RELAXED_ORDERING=1 > /etc/nccl.conf'
[Install]
WantedBy=multi-user.target
""",
    "slurmd.service": """\
[Unit]
ConditionPathExists=/etc/hpcai/slurmd.env
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/opt/stand-ins/slurmd
[Install]
WantedBy=multi-user.target
""",
}
# A real kernel module without effect, under the names of NVIDIA's. Its signature is removed, as it would be invalid.
MODULES = """
import lzma, os, pathlib, subprocess
folder = pathlib.Path("/lib/modules", os.uname().release)
[module] = folder.glob("kernel/fs/nls/nls_iso8859-9.ko*")
code = module.read_bytes()
if module.suffix == ".xz":
    code = lzma.decompress(code)
if code.endswith(b"~Module signature appended~\\n"):
    code = code[: -28 - 12 - int.from_bytes(code[-32:-28], "big")]
old = b"nls_iso8859_9".ljust(56, b"\\0")
assert code.count(old) == 1
(folder / "extra").mkdir(exist_ok=True)
for name in ("nvidia", "nvidia_uvm"):
    (folder / f"extra/{name}.ko").write_bytes(code.replace(old, name.encode().ljust(56, b"\\0")))
pathlib.Path("/etc/modprobe.d/stand-in.conf").write_text("softdep nvidia_uvm pre: nvidia\\n")
subprocess.run(["depmod"], check=True)
"""
REMOVE = f"""
systemctl --quiet disable {" ".join(UNITS)} || true
systemctl stop {" ".join(UNITS)} 'hpcai-*' 2>/dev/null || true
umount -q /sys/bus/pci/devices || true
modprobe -qr nvidia_uvm nvidia || true
rm -rf /lib/modules/*/extra /etc/modprobe.d/stand-in.conf /opt/stand-ins /etc/stand-in-imds.json /run/stand-in-pci
rm -rf {GPU_STATE} {LIBRARY} {FOUND} /etc/munge/munge.key /etc/nccl.conf
cd /etc/systemd/system; rm -f {" ".join(UNITS)}
depmod; ldconfig; systemctl daemon-reload
"""
