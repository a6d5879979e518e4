#!/bin/sh
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Run by mmdebstrap on the finished root file system: customize.sh ROOT FOLDER-OF-THESE-FILES AUTHORITY
set -eu
root=$1
files=$2
authority=$3

install -m 0755 "$files/init.sh" "$root/usr/local/sbin/simulator-init"
install -m 0755 "$files/provision.py" "$root/usr/local/sbin/simulator-provision"
install -m 0644 "$files/simulator-provision.service" "$root/etc/systemd/system/simulator-provision.service"
chroot "$root" systemctl --quiet enable simulator-provision.service

# These units change the host's kernel or its devices, so a machine in a container must not run them.
chroot "$root" systemctl --quiet mask \
  dev-hugepages.mount sys-fs-fuse-connections.mount sys-kernel-config.mount sys-kernel-debug.mount \
  sys-kernel-tracing.mount proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount \
  systemd-binfmt.service systemd-modules-load.service systemd-sysctl.service systemd-remount-fs.service \
  systemd-udevd.service systemd-udev-trigger.service systemd-timesyncd.service \
  nvmf-autoconnect.service \
  getty.target console-getty.service systemd-journald-audit.socket \
  apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service dpkg-db-backup.timer

# Azure's images allow keys only.
printf '%s\n' 'PasswordAuthentication no' 'UseDNS no' > "$root/etc/ssh/sshd_config.d/50-simulator.conf"
install -d "$root/etc/systemd/journald.conf.d"
printf '%s\n' '[Journal]' 'ReadKMsg=no' > "$root/etc/systemd/journald.conf.d/50-simulator.conf"
printf '%s\n' 'LANG=C.UTF-8' > "$root/etc/default/locale"

# The authority of the simulated key vaults, and additional authorities that this host trusts (for example a company's
# proxy).
install -m 0644 "$authority" "$root/usr/local/share/ca-certificates/hpcai-simulator.crt"
if [ -d /usr/local/share/ca-certificates ] && [ -n "$(ls /usr/local/share/ca-certificates)" ]; then
  cp -rL /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
fi
chroot "$root" update-ca-certificates > /dev/null 2>&1

# All machines of a test share this host's CPUs, and without this cache each task of Ansible would compile its module.
packages=/usr/lib/python3/dist-packages
install -m 0644 "$files/zip_cache.py" "$root$packages/hpcai_zip_cache.py"
printf 'import hpcai_zip_cache\n' > "$root$packages/hpcai_zip_cache.pth"
chroot "$root" python3 -m py_compile "$packages/hpcai_zip_cache.py"
install -d "$root/var/cache/hpcai-zip"

# Each machine makes its own host keys, host name and machine-id.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname"
: > "$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id"
printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' > "$root/etc/hosts"
: > "$root/etc/resolv.conf"
