# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states that scratch disks can be in, made by the commands that make them on real machines."""

from __future__ import annotations

import shlex

from hardware import qemu
from hardware.controller import Result, Task, module, play
from hardware.vm import ALL, Machine

MOUNTPOINT = "/scratch"
NAME = "hpcai-scratch"

# All that holds a disk, from the top down. What is not there is no error.
CLEAR = r"""
systemctl stop hpcai-scratch.service 2>/dev/null || true
systemctl reset-failed 2>/dev/null || true
grep -o '^/dev/[^ ]*\(md\|nvme\|mapper\|loop\)[^ ]* [^ ]*' /proc/mounts | cut -d' ' -f2 | tac | xargs -r -n1 umount -l
swapoff -a
dmsetup remove_all --force 2>/dev/null || true
losetup --detach-all 2>/dev/null || true
mdadm --stop --scan 2>/dev/null || true
rm -rf /etc/hpcai /var/lib/hpcai /run/hpcai /scratch /usr/local/sbin/* /mnt/*
"""
LOOK_AGAIN = r"""
for disk in /dev/nvme*n1; do blockdev --flushbufs $disk; blockdev --rereadpt $disk || true; done
udevadm trigger --settle --subsystem-match=block --action=change
"""
# With one processor, QEMU's cannot be in each other's way: see EmulatorCrashed.
ON_ONE_CPU = "for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do echo {} > $cpu; done"


def unplugging(disk: str) -> str:
    """Command that takes a disk, such as C(nvme4n1), from a running machine."""
    remove = f"echo 1 > /sys/class/nvme/{disk.removesuffix('n1')}/device/remove; udevadm settle"
    return f"{ON_ONE_CPU.format(0)}; {remove}; {ON_ONE_CPU.format(1)}"


def plugging(disks: int) -> str:
    """Command that brings all disks of a machine with so many back. The driver takes its time to find them."""
    found = f"[ $(ls -d /sys/block/nvme*n1 | wc -l) = {disks} ]"
    rescan = f"echo 1 > /sys/bus/pci/rescan; timeout 60 sh -c 'until {found}; do sleep 0.2; done'; udevadm settle"
    return f"{ON_ONE_CPU.format(0)}; {rescan}; {ON_ONE_CPU.format(1)}"


class Scratch:
    """The NVMe disks of the machine, and the module that is tested on them."""

    def __init__(self, machine: Machine) -> None:
        """Of this machine."""
        self.machine = machine
        self._undo: list[str] = []

    # Preparing

    def clear(self) -> None:
        """All disks blank and free, nothing of ours on the machine."""
        self.machine.run(CLEAR)
        self.machine.blank(*ALL)
        self.machine.run(f"{LOOK_AGAIN}\n! ls /dev/md?* /dev/nvme*p* 2>/dev/null")
        lost = [number for number, path in enumerate(self.disks()) if not path]
        if lost:
            raise RuntimeError(f"an earlier test left the machine without disks {lost}")

    def undo(self) -> None:
        """Take back what a test set up for itself."""
        if self._undo:
            self.machine.run("\n".join(reversed(self._undo)))
        self._undo = []

    def later(self, command: str) -> None:
        """Run this when the test is over, however it ended."""
        self._undo.append(f"{command} || true")

    def disks(self) -> list[str]:
        """Paths of the disks by number: the kernel's names differ from boot to boot. One that is gone has none."""
        told = self.machine.run("cd /sys/class/nvme; for c in nvme*; do echo $c $(cat $c/serial); done")
        by_serial = {
            line.split()[1]: f"/dev/{line.split()[0]}n1" for line in told.splitlines() if len(line.split()) == 2
        }
        return [by_serial.get(qemu.serial(number), "") for number in ALL]

    def unplug(self, number: int) -> None:
        """Take a disk from the running machine until the test is over."""
        self.machine.run(unplugging(self.disks()[number].removeprefix("/dev/")))
        self.later(plugging(qemu.DISKS))

    def array(self, *disks: str, name: str = "other", device: str = "/dev/md128", filesystem: str = "xfs") -> None:
        """An array that somebody made by hand."""
        self.machine.run(
            f"mdadm --create {device} --quiet --run --level=0 --raid-devices={len(disks)} --name={name} "
            f"--chunk=128 {shlex.join(disks)}; mkfs.{filesystem} -q {device}; udevadm settle"
        )

    def replace_program(self, name: str, script: str) -> None:
        """Put a script of this name before the real program, until the test is over."""
        self.machine.write(f"/usr/local/sbin/{name}", f"#!/bin/sh\n{script}\n", "0755")
        self.later(f"rm -f /usr/local/sbin/{name}")

    # The module

    def raid(self, *, check: bool = False, **options: object) -> Result:
        """Run nvme_raid on all disks, as it is meant for this machine."""
        return module(self.machine, "nvme_raid", check=check, **self.options(**options))

    def options(self, **options: object) -> dict[str, object]:
        """Options of nvme_raid that fit this machine: QEMU's disks have a model that no machine in Azure has."""
        wanted: dict[str, object] = {"mountpoint": MOUNTPOINT}
        if "devices" not in options:
            wanted["models"] = [qemu.MODEL]
        return {**wanted, **options}

    def plays(self, *options: dict[str, object]) -> list[Result]:
        """Run nvme_raid several times in one play; the key C(check) is the task's check mode."""
        tasks = []
        for each in options:
            check = bool(each.pop("check", False))
            tasks.append(Task("nvme_raid", self.options(**each), check))
        return play(self.machine, *tasks)

    # What is the case

    def mounted(self) -> str:
        """Source, file system type and options of what is mounted on the mountpoint; empty if nothing is."""
        return self.machine.run(f"findmnt -rno SOURCE,FSTYPE,OPTIONS -M {MOUNTPOINT} || true").strip()

    def members(self) -> list[str]:
        """The disks of all running arrays."""
        told = self.machine.run("ls -d /sys/block/md*/slaves/* 2>/dev/null || true")
        return sorted(line.rsplit("/", 1)[1] for line in told.split())

    def digests(self) -> list[str]:
        """Checksums of all disks, with everything written that is to be written."""
        self.machine.run("sync; for disk in /dev/nvme*n1; do blockdev --flushbufs $disk; done")
        return [self.machine.digest(number) for number in ALL]
