#!/bin/sh
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Run by mmdebstrap on the finished root file system: customize.sh ROOT FOLDER-OF-THESE-FILES OUTPUT OWNER ZIP-CACHE
# Leaves in OUTPUT what QEMU boots: kernel, initrd, root.img, and the key of the host.
set -eu
root=$1
files=$2
output=$3
owner=$4
zip_cache=$5

# An emulated processor is slow: nothing runs in there that the tests do not need.
chroot "$root" systemctl --quiet mask \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
  xfs_scrub_all.timer mdcheck_start.timer mdcheck_continue.timer mdmonitor-oneshot.timer mdmonitor.service \
  systemd-timesyncd.service systemd-pstore.service systemd-hwdb-update.service \
  getty@.service serial-getty@.service getty.target dev-hugepages.mount sys-fs-fuse-connections.mount \
  sys-kernel-debug.mount sys-kernel-tracing.mount proc-sys-fs-binfmt_misc.automount keyboard-setup.service \
  console-setup.service systemd-binfmt.service systemd-rfkill.socket multipathd.service \
  systemd-logind.service modprobe@drm.service modprobe@configfs.service modprobe@fuse.service \
  systemd-update-utmp.service systemd-update-utmp-runlevel.service lvm2-monitor.service

install -m 0644 "$files/network.service" "$root/etc/systemd/system/network.service"
install -m 0644 "$files/50-test.conf" "$root/etc/ssh/sshd_config.d/50-test.conf"
chroot "$root" systemctl --quiet enable network.service ssh.service
# A test that wants Slurm configures and starts it; all the others are about a machine without.
chroot "$root" systemctl --quiet disable munge.service slurmctld.service slurmd.service
# The same for NFS, and for what it installs.
chroot "$root" systemctl --quiet disable nfs-server.service nfs-client.target rpcbind.service rpcbind.socket
rm -f "$root/etc/munge/munge.key"
# The test of the home disk enables it. Otherwise it would run at each boot.
touch "$root/etc/cloud/cloud-init.disabled"
chroot "$root" systemctl --quiet set-default multi-user.target

packages=/usr/lib/python3/dist-packages
install -m 0644 "$zip_cache" "$root$packages/hpcai_zip_cache.py"
printf 'import hpcai_zip_cache\n' > "$root$packages/hpcai_zip_cache.pth"
chroot "$root" python3 -m py_compile "$packages/hpcai_zip_cache.py"
install -d "$root/var/cache/hpcai-zip"

printf 'hardware\n' > "$root/etc/hostname"
printf '127.0.0.1 localhost hardware\n' > "$root/etc/hosts"
printf '/dev/vda / ext4 defaults,noatime 0 1\n' > "$root/etc/fstab"
printf 'LANG=C.UTF-8\n' > "$root/etc/default/locale"
install -d "$root/etc/systemd/system.conf.d" "$root/etc/systemd/journald.conf.d" "$root/var/log/journal"
printf '[Manager]\nDefaultTimeoutStopSec=20s\n' > "$root/etc/systemd/system.conf.d/50-test.conf"
printf '[Journal]\nStorage=persistent\nSyncIntervalSec=5s\n' > "$root/etc/systemd/journald.conf.d/50-test.conf"
# Known from the start: a machine made of this image need not think of one.
printf '6d61636869616e6520666f7220746573\n' > "$root/etc/machine-id"

# The root disk is all that the initrd has to find. The NVMe disks and their arrays come up later, from udev.
rm "$root/usr/share/initramfs-tools/hooks/mdadm" "$root"/usr/share/initramfs-tools/scripts/*/mdadm
printf 'update_initramfs=yes\nbackup_initramfs=no\n' > "$root/etc/initramfs-tools/update-initramfs.conf"
printf 'MODULES=list\nCOMPRESS=lz4\n' > "$root/etc/initramfs-tools/conf.d/test"
printf 'virtio_pci\nvirtio_blk\next4\n' > "$root/etc/initramfs-tools/modules"
chroot "$root" update-initramfs -c -k all > /dev/null

# One pair of keys per image, for a machine that is reached through the loopback interface only.
install -d -m 0700 "$root/root/.ssh"
cp "$output/key.pub" "$root/root/.ssh/authorized_keys"
cp "$root/etc/ssh/ssh_host_ed25519_key.pub" "$output/host_key.pub"
rm -f "$root"/etc/ssh/ssh_host_rsa_key* "$root"/etc/ssh/ssh_host_ecdsa_key*

cp -L "$root"/boot/vmlinuz-* "$output/vmlinuz"
cp -L "$root"/boot/initrd.img-* "$output/initrd"
rm -rf "${root:?}"/boot/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/usr/share/man/* \
  "$root"/usr/share/locale/*
# Through a second view of the root, without the proc and sys that are mounted in it.
mkdir "$output/root"
mount --bind "$root" "$output/root"
mkfs.ext4 -q -F -L root -E lazy_itable_init=1,lazy_journal_init=1,nodiscard -d "$output/root" "$output/root.img" 3G
umount "$output/root"
rmdir "$output/root"
chown -R "$owner" "$output"
