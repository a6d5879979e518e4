# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine's /sys and /proc in a folder: CPUs, NUMA nodes, PCI devices, control groups, processes and threads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

Thread = tuple[int, str, int, str]
"""Thread ID, list of CPUs that it may run on, last CPU, state."""

NVIDIA, MELLANOX = 0x10DE, 0x15B3


class MachineTree:
    """A folder to which methods add parts of the machine. Add CPUs and NUMA nodes first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("/proc/sys/kernel/ostype", "Linux\n")

    def write(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        file = self.path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def cpus(self, online: str, siblings: Mapping[int, str] | None = None) -> MachineTree:
        """Add the CPUs, and for each CPU in ``siblings`` the CPUs of its core."""
        self.write("/sys/devices/system/cpu/online", online + "\n")
        for cpu, core in (siblings or {}).items():
            self.write(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", core + "\n")
        return self

    def node(self, number: int, cpus: str, memory_mib: int = 1024, distances: Sequence[int] = ()) -> MachineTree:
        """Add a NUMA node."""
        folder = f"/sys/devices/system/node/node{number}"
        self.write(f"{folder}/cpulist", cpus + "\n")
        self.write(f"{folder}/meminfo", f"Node {number} MemTotal:       {memory_mib * 1024} kB\n")
        self.write(f"{folder}/distance", " ".join(map(str, distances)) + "\n")
        return self

    def device(self, busid: str, class_code: int, vendor: int, node: int, rdma: str = "") -> None:
        """Add a PCI device; node -1 if the firmware does not report one."""
        folder = f"/sys/bus/pci/devices/{busid}"
        self.write(f"{folder}/class", f"0x{class_code:04x}00\n")
        self.write(f"{folder}/vendor", f"0x{vendor:04x}\n")
        self.write(f"{folder}/device", "0x20b0\n")
        self.write(f"{folder}/numa_node", f"{node}\n")
        if rdma:
            self.write(f"{folder}/infiniband/{rdma}/node_type", "1: CA\n")

    def gpu(self, busid: str, node: int) -> MachineTree:
        """Add an NVIDIA GPU."""
        self.device(busid, 0x0302, NVIDIA, node)
        return self

    def hca(self, busid: str, node: int, name: str, uverbs: int) -> MachineTree:
        """Add an InfiniBand adapter and its device file ``uverbsN``."""
        self.device(busid, 0x0207, MELLANOX, node, name)
        self.write(f"/sys/class/infiniband_verbs/uverbs{uverbs}/ibdev", name + "\n")
        return self

    def cgroup(self, path: str, pids: Iterable[int] = (), **files: str) -> MachineTree:
        """Add a control group; further files by name, with ``__`` for each dot."""
        folder = f"/sys/fs/cgroup/{path.strip('/')}"
        self.write(f"{folder}/cgroup.procs", "".join(f"{pid}\n" for pid in pids))
        for name, text in files.items():
            self.write(f"{folder}/{name.replace('__', '.')}", text + "\n")
        return self

    def process(
        self,
        pid: int,
        cpus: str,
        name: str = "xhpl",
        parent: int = 1,
        threads: Sequence[Thread] | None = None,
        environment: Mapping[str, str] | None = None,
        command: str | None = None,
        mems: str = "0-3",
        last_cpu: int | None = None,
        state: str = "S",
        flags: int = 0x400000,
        cgroup: str = "",
        numa_maps: str | None = None,
        files: Sequence[str] = (),
        uid: int = 0,
    ) -> MachineTree:
        """Add a process that may run on ``cpus``; by default it has only its main thread."""
        first = last_cpu if last_cpu is not None else int((re.findall(r"\d+", cpus) or ["0"])[0])
        proc = f"/proc/{pid}"
        for tid, allowed, last, how in threads or [(pid, cpus, first, state)]:
            self.write(f"{proc}/task/{tid}/stat", stat(tid, name, how, parent, flags, last))
            self.write(f"{proc}/task/{tid}/status", status(name, allowed, mems))
        self.write(f"{proc}/stat", stat(pid, name, state, parent, flags, first))
        self.write(f"{proc}/status", status(name, cpus, mems, uid))
        words = (f"./{name}" if command is None else command).split()
        self.write(f"{proc}/cmdline", "".join(f"{word}\0" for word in words))
        if environment is not None:
            self.write(f"{proc}/environ", "".join(f"{key}={value}\0" for key, value in environment.items()))
        if cgroup:
            self.write(f"{proc}/cgroup", cgroup + "\n")
        if numa_maps is not None:
            self.write(f"{proc}/numa_maps", numa_maps)
        descriptors = self.path / f"proc/{pid}/fd"
        descriptors.mkdir(exist_ok=True)
        for number, file in enumerate(files):
            (descriptors / str(number)).symlink_to(file)
        return self


def stat(tid: int, name: str, state: str, parent: int, flags: int, last_cpu: int) -> str:
    """Return a line in the format of /proc/PID/stat, with 52 fields."""
    fields = ["0"] * 49
    fields[0], fields[5], fields[35] = str(parent), str(flags), str(last_cpu)
    return f"{tid} ({name}) {state} {' '.join(fields)}\n"


def status(name: str, cpus: str, mems: str, uid: int = 0) -> str:
    """Return the lines of /proc/PID/status that the product reads, and some others."""
    return (
        f"Name:\t{name}\nUmask:\t0022\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        f"Cpus_allowed:\tffffffff\nCpus_allowed_list:\t{cpus}\n"
        f"Mems_allowed:\t00000001\nMems_allowed_list:\t{mems}\nvoluntary_ctxt_switches:\t1\n"
    )


ND_A100_NODES = ("0-23", "24-47", "48-71", "72-95")
ND_A100_GPUS = (1, 1, 0, 0, 3, 3, 2, 2)
"""NUMA node of each GPU and adapter (../../plugins/module_utils/_node/sku has the sources)."""
_ND_A100_DOMAINS = (1, 2, 3, 4, 0xB, 0xC, 0xD, 0xE)


def nd_a100_v4(path: Path) -> MachineTree:
    """Return a Standard_ND96asr_v4: four NUMA nodes of 24 CPUs, eight GPUs, eight adapters, no SMT."""
    tree = MachineTree(path).cpus("0-95")
    for number, cpus in enumerate(ND_A100_NODES):
        tree.node(number, cpus, 232186, [10 if number == other else 21 for other in range(4)])
    for index, (domain, node) in enumerate(zip(_ND_A100_DOMAINS, ND_A100_GPUS, strict=True)):
        tree.gpu(f"{domain:04x}:00:00.0", node)
        tree.hca(f"{0x101 + index:04x}:00:00.0", node, f"mlx5_ib{index}", index)
    # Devices to ignore: the front-end network's adapter and the display.
    tree.device("f0f0:00:02.0", 0x0200, MELLANOX, 0, "mlx5_an0")
    tree.device("0000:00:08.0", 0x0300, 0x1414, -1)
    return tree


def smt_siblings(cores: int, threads: int = 2) -> dict[int, str]:
    """Return siblings as physical machines number them: CPUs n, n + cores, and so on, share a core."""
    return {
        cpu + cores * thread: ",".join(str(cpu + cores * other) for other in range(threads))
        for cpu in range(cores)
        for thread in range(threads)
    }
