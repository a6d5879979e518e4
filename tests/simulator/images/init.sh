#!/bin/sh
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# First process of a simulated machine. podman mounts its own files over these two. In a machine they must be regular
# files, because tools replace them by renaming, and a mount point cannot be replaced.
resolver=$(cat /etc/resolv.conf)
umount /etc/resolv.conf /etc/hostname
[ -s /etc/resolv.conf ] || printf '%s\n' "$resolver" > /etc/resolv.conf
# With control groups of version 1, podman mounts this one twice, one over the other. enroot reads the lower mount,
# which does not show the machine's own groups.
group=/sys/fs/cgroup/systemd
if [ "$(grep -c " $group " /proc/self/mountinfo)" = 2 ]; then
  mount --bind $group /mnt
  umount $group/release_agent $group
  umount $group
  mount --move /mnt $group
  mount --bind /dev/null $group/release_agent
fi
# Names that no name server has: NAME=ADDRESS, separated by blanks.
for entry in ${SIMULATOR_HOSTS:-}; do
  grep -q " ${entry%%=*}\$" /etc/hosts || printf '%s %s\n' "${entry#*=}" "${entry%%=*}" >> /etc/hosts
done
unset SIMULATOR_HOSTS
# Stand-ins for GPU devices, for inventories that name them. No driver has this number, which the kernel reserves for
# experiments: Slurm denies a job the devices that it did not get, by their numbers.
for number in 0 1; do
  [ -e "/dev/stand-in-gpu$number" ] || mknod -m 0666 "/dev/stand-in-gpu$number" c 240 "$number"
done
# Each machine mounts a file with a loop device. The kernel may choose one that did not exist when the machine started.
for number in $(seq 0 63); do
  [ -e "/dev/loop$number" ] || mknod -m 0600 "/dev/loop$number" b 7 "$number"
done
exec /lib/systemd/systemd
