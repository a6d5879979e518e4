# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""QEMU's command line for a machine with NVMe controllers on NUMA nodes, and a check whether KVM works."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

from hardware.image import Image

PROGRAM = "qemu-system-x86_64"
NUMA_NODES = 4
DISKS = 8
DISK_BYTES = 320 << 20
"""Size of a disk, which is a sparse file. A single disk must be able to contain XFS, which needs at least 300 MB."""
MODEL = "QEMU NVMe Ctrl"
"""QEMU's fixed model name: it cannot be set to that of Azure's disks."""
KVM_TIMEOUT_S = 5.0
"""With a working KVM, the kernel prints its first line in less than a second."""
TCG = ("tcg,thread=single,tb-size=512", "Westmere")
"""All processors of the machine run in one thread. With one thread each, they would wait for each other's locks on a
busy host, which costs 10 to 20 % of the machine's CPU time."""
KVM = ("kvm", "host")


class EmulatorError(Exception):
    """QEMU is not installed, did not start, or its machine did not answer."""


def version() -> str:
    """QEMU's version."""
    if shutil.which(PROGRAM) is None:
        raise EmulatorError(f"{PROGRAM} is not installed: run tests/setup/host.sh")
    output = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version ([\d.]+)", output)
    return found[1] if found else output.strip()


def accelerator(image: Image) -> tuple[tuple[str, str], str]:
    """Accelerator and processor model to use, and the reason. KVM works if it boots a kernel."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return TCG, "this user cannot open /dev/kvm"
    argv = [
        *(PROGRAM, "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-m", "256", "-no-reboot"),
        *("-accel", KVM[0], "-cpu", KVM[1], "-serial", "stdio"),
        *("-kernel", str(image.kernel), "-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"),
    ]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    output = b""
    deadline = time.monotonic() + KVM_TIMEOUT_S
    try:
        while (left := deadline - time.monotonic()) > 0:
            if select.select([process.stdout], [], [], left)[0]:
                chunk = os.read(process.stdout.fileno(), 65536)
                output += chunk
                if b"Linux version" in output:
                    return KVM, "/dev/kvm boots a kernel"
                if not chunk:
                    break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    lines = output.decode(errors="replace").strip().splitlines()
    return TCG, f"/dev/kvm boots no kernel ({lines[-1][-80:] if lines else 'the kernel printed nothing'})"


def serial(number: int) -> str:
    """The serial number of an NVMe disk, by which tests find it: the kernel's names change."""
    return f"HPCAI{number:04}"


def node_of(number: int) -> int:
    """The NUMA node of an NVMe disk: each node has two disks."""
    return number * NUMA_NODES // DISKS


def command(
    image: Image,
    acceleration: tuple[str, str],
    overlay: Path,
    disks: dict[int, Path],
    console: Path,
    port: int,
    cores: int = 1,
) -> list[str]:
    """QEMU's command. ``disks`` are the plugged-in NVMe disks, by number. QMP uses stdin and stdout.

    :param cores: CPUs of each NUMA node. If there are several, they are the cores of one socket.
    """
    smp = str(NUMA_NODES) if cores == 1 else f"{cores * NUMA_NODES},sockets={NUMA_NODES},cores={cores},threads=1"
    argv = [
        PROGRAM,
        *("-name", "hpcai-hardware", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-machine", "q35,usb=off,vmport=off,smm=off", "-accel", acceleration[0], "-cpu", acceleration[1]),
        *("-smp", smp, "-m", f"{512 * NUMA_NODES}", "-rtc", "base=utc"),
        *("-chardev", "stdio,id=qmp", "-mon", "chardev=qmp,mode=control"),
        *("-chardev", f"file,id=console,path={console},append=on", "-serial", "chardev:console"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", KERNEL_ARGUMENTS),
        *("-drive", f"if=none,id=root,file={overlay},format=qcow2,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=root,bus=pcie.0"),
        # The machine has no network access; only its ssh port can be reached through the loopback interface.
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:22"),
        *("-device", "virtio-net-pci,netdev=net,bus=pcie.0,romfile="),
    ]
    for node in range(NUMA_NODES):
        argv += ["-object", f"memory-backend-ram,id=memory{node},size=512M"]
        cpus = str(node) if cores == 1 else f"{node * cores}-{(node + 1) * cores - 1}"
        argv += ["-numa", f"node,nodeid={node},cpus={cpus},memdev=memory{node}"]
        argv += ["-device", f"pxb-pcie,id=numa{node},bus=pcie.0,numa_node={node},bus_nr={32 * (node + 1)}"]
    for number in range(DISKS):
        argv += ["-device", f"pcie-root-port,id=port{number},bus=numa{node_of(number)},chassis={number + 1}"]
    for number, path in disks.items():
        # A power cut kills QEMU only. Data that the machine has written is then safe in the host's page cache.
        argv += ["-drive", f"if=none,id=disk{number},file={path},format=raw,cache=unsafe"]
        argv += ["-device", f"nvme,id=nvme{number},serial={serial(number)},drive=disk{number},bus=port{number}"]
    return argv


KERNEL_ARGUMENTS = (
    "root=/dev/vda rw rootfstype=ext4 console=ttyS0 quiet loglevel=4 systemd.show_status=0 net.ifnames=0 "
    # Features that cost an emulated processor time and that the tests do not need.
    "mitigations=off nokaslr audit=0 selinux=0 apparmor=0 tsc=reliable nowatchdog random.trust_cpu=on "
    "modprobe.blacklist=kvm,kvm_amd,kvm_intel,powernow_k8,acpi_cpufreq,aesni_intel,ghash_clmulni_intel,sha512_ssse3"
)
