# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A healthy Standard_ND96isr_H100_v5, as hpcnode and azurehpc-health-checks see it, in namespaces of this machine.

hpcnode is installed as node_tools installs it, into a tree that is mounted over /usr in the node's namespace only.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from stand_ins.gpu_machine import GpuMachine, build
from stand_ins.infiniband import put_ports_of
from stand_ins.played_node import PlayedNode

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.topology import as_xml, topology_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import disk, payload, plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.version import VERSION

SIZE = "Standard_ND96isr_H100_v5"
INTERPRETER = "/usr/bin/python3"
MEMORY_MIB = 1915071
CPUS = 96
INTERFACES = ("eth0", "docker0", *(f"ib{number}" for number in range(8)))
"""The interfaces in AzNHC's list for the size."""

# Programs that answer immediately and report no faults.
_PROGRAMS = {
    "systemctl": """\
#!/bin/sh
for word; do
  case $word in
    show | --*) ;;
    *) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nResult=success\\n\\n' ;;
  esac
done
""",
    # AzNHC's checks ask the metadata service only for the VM size.
    "curl": f"#!/bin/sh\necho {SIZE}\n",
    "lspci": "#!/bin/sh\necho '0001:00:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)'\n",
    "lstopo-no-graphics": '#!/bin/sh\nexec cat "$HEALTH_NODE/lstopo"\n',
}
_PREPARE = """\
set -e
mount -t overlay overlay -o "lowerdir=$1/tree/usr:/usr" /usr
mkdir "$2/above/dev" "$2/above/dev/upper" "$2/above/dev/work"
mount -t overlay overlay -o "lowerdir=/dev,upperdir=$2/above/dev/upper,workdir=$2/above/dev/work" /dev
for number in 0 1 2 3 4 5 6 7; do touch "/dev/nvme${number}n1"; done
mount --bind "$1/cpuinfo" /proc/cpuinfo
mount --bind "$1/meminfo" /proc/meminfo
mount --bind "$1/swaps" /proc/swaps
mkdir /opt/scratch && mount -t tmpfs tmpfs /opt/scratch
shift 2
while [ $# -gt 1 ]; do ip link add "$1" type veth peer name "$2"; shift 2; done
"""


class HealthNode:
    """The node, with everything that hpcnode and AzNHC need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        library = build(folder / "library")
        self.gpus = GpuMachine(folder / "driver", library)
        self.gpus.play(model="h100", **{f"gpu__{index}__persistence": 1 for index in range(8)})
        self._install(library)
        self._describe()
        (folder / "node").mkdir()
        self.node = PlayedNode(folder / "node", SIZE, "health_checks")
        put_ports_of(folder / "node", SIZE)
        self.node.tree.write("sys/class/infiniband_mad/abi_version", "5")
        self.node.environment = {
            "LD_LIBRARY_PATH": str(library),
            "NVML_STAND_IN": str(self.gpus.gpus),
            "HEALTH_NODE": str(folder),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        }
        self.node.run("sh", "-c", _PREPARE, "prepare", str(folder), str(folder / "node"), *INTERFACES)
        self.node.write("/etc/hpcai/node.json", json.dumps({"schema": 1, "vm_size": SIZE}))
        self.node.write("/etc/hpcai/scratch.json", json.dumps({"schema": 1, "mountpoint": "/opt/scratch"}))

    def hook(self, script: str) -> None:
        """Install a script for slurmd's prolog to run."""
        self.node.write("/etc/hpcai/prolog.d/30-health", script)
        self.node.run("chmod", "0755", "/etc/hpcai/prolog.d/30-health")

    def _install(self, library: Path) -> None:
        tree = self.folder / "tree"
        (tree / "usr/bin").mkdir(parents=True)
        disk.apply(Root(str(tree)), plan.wanted_disk(VERSION, payload.read_sources(), INTERPRETER, os.geteuid()))
        for name, text in _PROGRAMS.items():
            program = tree / "usr/bin" / name
            program.write_text(text, encoding="utf-8")
            program.chmod(0o755)
        os.link(library / "nvidia-smi", tree / "usr/bin/nvidia-smi")

    def _describe(self) -> None:
        """Write what the kernel, hwloc and the HPC images' topology file show for the size."""
        size = find_size(SIZE)
        mine = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
        other = [line for line in mine if line.partition(":")[0].strip() not in _OF_A_CPU]
        blocks = []
        for cpu in range(CPUS):
            own = {"processor": cpu, "physical id": cpu // 48, "siblings": 48, "core id": cpu % 48, "cpu cores": 48}
            blocks.append("\n".join([*(f"{name}\t: {value}" for name, value in own.items()), *other]))
        (self.folder / "cpuinfo").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        memory = {"MemTotal": MEMORY_MIB * 1024, "MemFree": MEMORY_MIB * 1000, "MemAvailable": MEMORY_MIB * 1000}
        lines = [f"{name}:{' ' * 8}{kib} kB\n" for name, kib in {**memory, "SwapTotal": 0, "SwapFree": 0}.items()]
        (self.folder / "meminfo").write_text("".join(lines), encoding="utf-8")
        (self.folder / "swaps").write_text("Filename\tType\tSize\tUsed\tPriority\n", encoding="utf-8")
        topology = topology_of(size)
        assert not isinstance(topology, str), topology
        (self.folder / "ndv5-topo.xml").write_text(as_xml(topology), encoding="utf-8")
        lstopo = ["Machine (1870GB total)"]
        for node in size.numa_nodes or ():
            lstopo += ["  Package", f"    NUMANode L#{node.id} (P#{node.id} 935GB)"]
            lstopo += [f"      PCI {gpu.busid} (3D)" for gpu in size.gpus or () if gpu.numa_node == node.id]
            lstopo += [f"      PCI {hca.busid} (InfiniBand)" for hca in size.hcas or () if hca.numa_node == node.id]
        (self.folder / "lstopo").write_text("\n".join(lstopo) + "\n", encoding="utf-8")


_OF_A_CPU = ("processor", "physical id", "siblings", "core id", "cpu cores", "apicid", "initial apicid")
