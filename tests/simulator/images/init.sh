#!/bin/sh
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# First process of a simulated machine. podman mounts files of its own over these two; in a machine they are
# ordinary files, which tools replace by renaming (a mount point cannot be replaced).
resolver=$(cat /etc/resolv.conf)
umount /etc/resolv.conf /etc/hostname
[ -s /etc/resolv.conf ] || printf '%s\n' "$resolver" > /etc/resolv.conf
# With control groups of version 1, podman mounts this one twice, one upon the other. enroot heeds the lower one, in which a
# machine's own groups are not to be seen.
group=/sys/fs/cgroup/systemd
if [ "$(grep -c " $group " /proc/self/mountinfo)" = 2 ]; then
  mount --bind $group /mnt
  umount $group/release_agent $group
  umount $group
  mount --move /mnt $group
  mount --bind /dev/null $group/release_agent
fi
# Names that are in no name server: NAME=ADDRESS, with blanks in between.
for entry in ${SIMULATOR_HOSTS:-}; do
  grep -q " ${entry%%=*}\$" /etc/hosts || printf '%s %s\n' "${entry#*=}" "${entry%%=*}" >> /etc/hosts
done
unset SIMULATOR_HOSTS
# Stand for GPUs, where an inventory says so. They are /dev/null in truth, so whoever opens one does no harm.
for number in 0 1; do
  [ -e "/dev/stand-in-gpu$number" ] || mknod -m 0666 "/dev/stand-in-gpu$number" c 1 3
done
# Each machine mounts a file by a loop device, of which the kernel makes more than were there when this one started.
for number in $(seq 0 63); do
  [ -e "/dev/loop$number" ] || mknod -m 0600 "/dev/loop$number" b 7 "$number"
done
exec /lib/systemd/systemd
