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
# Names that are in no name server: NAME=ADDRESS, with blanks in between.
for entry in ${SIMULATOR_HOSTS:-}; do
  grep -q " ${entry%%=*}\$" /etc/hosts || printf '%s %s\n' "${entry#*=}" "${entry%%=*}" >> /etc/hosts
done
unset SIMULATOR_HOSTS
exec /lib/systemd/systemd
