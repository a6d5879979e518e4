# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Puts scratch disks into the possible states, with the commands that cause these states on real machines."""

from __future__ import annotations

import shlex

from hardware import qemu
from hardware.controller import Result, Task, module, play
from hardware.vm import ALL, Machine

MOUNTPOINT = "/scratch"
NAME = "hpcai-scratch"

# Releases disks from all users, from top to bottom. Missing users are no error.
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
RESCAN = r"""
for disk in /dev/nvme*n1; do blockdev --flushbufs $disk; blockdev --rereadpt $disk || true; done
udevadm trigger --settle --subsystem-match=block --action=change
"""
# With one processor online, QEMU's bug described in EmulatorCrashed cannot occur.
ON_ONE_CPU = "for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do echo {} > $cpu; done"


def unplug_command(disk: str) -> str:
    """A command that removes a disk, such as C(nvme4n1), from a running machine."""
    remove = f"echo 1 > /sys/class/nvme/{disk.removesuffix('n1')}/device/remove; udevadm settle"
    return f"{ON_ONE_CPU.format(0)}; {remove}; {ON_ONE_CPU.format(1)}"


def plug_command(disks: int) -> str:
    """A command that plugs in all disks of a machine again, and waits until the driver has found this number."""
    found = f"[ $(ls -d /sys/block/nvme*n1 | wc -l) = {disks} ]"
    rescan = f"echo 1 > /sys/bus/pci/rescan; timeout 60 sh -c 'until {found}; do sleep 0.2; done'; udevadm settle"
    return f"{ON_ONE_CPU.format(0)}; {rescan}; {ON_ONE_CPU.format(1)}"


class Scratch:
    """The NVMe disks of the machine, and runs of nvme_raid on them."""

    def __init__(self, machine: Machine) -> None:
        """Use the disks of this machine."""
        self.machine = machine
        self._undo: list[str] = []

    # Preparing

    def clear(self) -> None:
        """Make all disks blank and free, and remove all files of the collection."""
        self.machine.run(CLEAR)
        self.machine.blank(*ALL)
        self.machine.run(f"{RESCAN}\n! ls /dev/md?* /dev/nvme*p* 2>/dev/null")
        lost = [number for number, path in enumerate(self.disks()) if not path]
        if lost:
            raise RuntimeError(f"an earlier test left the machine without disks {lost}")

    def undo(self) -> None:
        """Run the cleanup commands that a test has added."""
        if self._undo:
            self.machine.run("\n".join(reversed(self._undo)))
        self._undo = []

    def add_cleanup(self, command: str) -> None:
        """Run this command after the test, even if the test fails."""
        self._undo.append(f"{command} || true")

    def disks(self) -> list[str]:
        """Paths of the disks by number, because the kernel's names change at each boot. Empty for a missing disk."""
        output = self.machine.run("cd /sys/class/nvme; for c in nvme*; do echo $c $(cat $c/serial); done")
        by_serial = {
            line.split()[1]: f"/dev/{line.split()[0]}n1" for line in output.splitlines() if len(line.split()) == 2
        }
        return [by_serial.get(qemu.serial(number), "") for number in ALL]

    def unplug(self, number: int) -> None:
        """Remove a disk from the running machine until the test ends."""
        self.machine.run(unplug_command(self.disks()[number].removeprefix("/dev/")))
        self.add_cleanup(plug_command(qemu.DISKS))

    def array(self, *disks: str, name: str = "other", device: str = "/dev/md128", filesystem: str = "xfs") -> None:
        """Create an array by hand, as an operator could."""
        self.machine.run(
            f"mdadm --create {device} --quiet --run --level=0 --raid-devices={len(disks)} --name={name} "
            f"--chunk=128 {shlex.join(disks)}; mkfs.{filesystem} -q {device}; udevadm settle"
        )

    def replace_program(self, name: str, script: str) -> None:
        """Replace a program by a script until the test ends."""
        self.machine.write(f"/usr/local/sbin/{name}", f"#!/bin/sh\n{script}\n", "0755")
        self.add_cleanup(f"rm -f /usr/local/sbin/{name}")

    # The module

    def raid(self, *, check: bool = False, **options: object) -> Result:
        """Run nvme_raid with the options for this machine."""
        return module(self.machine, "nvme_raid", check=check, **self.options(**options))

    def options(self, **options: object) -> dict[str, object]:
        """Options of nvme_raid for this machine: without a list of devices, it must select QEMU's model of disks."""
        wanted: dict[str, object] = {"mountpoint": MOUNTPOINT}
        if "devices" not in options:
            wanted["models"] = [qemu.MODEL]
        return {**wanted, **options}

    def raids(self, *options: dict[str, object]) -> list[Result]:
        """Run nvme_raid several times in one play; the key C(check) enables check mode."""
        tasks = []
        for each in options:
            check = bool(each.pop("check", False))
            tasks.append(Task("nvme_raid", self.options(**each), check))
        return play(self.machine, *tasks)

    # Reading the state

    def mounted(self) -> str:
        """Source, type and options of the file system on the mountpoint; empty if nothing is mounted."""
        return self.machine.run(f"findmnt -rno SOURCE,FSTYPE,OPTIONS -M {MOUNTPOINT} || true").strip()

    def members(self) -> list[str]:
        """The disks of all running arrays."""
        # ls fails if no array runs.
        output = self.machine.run("ls -d /sys/block/md*/slaves/* 2>/dev/null || true")
        return sorted(line.rsplit("/", 1)[1] for line in output.split())

    def digests(self) -> list[str]:
        """Checksums of all disks, after the machine has flushed its caches."""
        self.machine.run("sync; for disk in /dev/nvme*n1; do blockdev --flushbufs $disk; done")
        return [self.machine.digest(number) for number in ALL]
