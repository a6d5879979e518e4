#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs the distribution's packages that `make site`, `make test-hardware` and `make test` need on Debian 12/13 and
# Ubuntu 24.04.
# Quick and without output if all of them are installed. Uses sudo if the caller is not root. Of the packages of
# Prometheus it installs only the programs, to /usr/local/bin: the packages themselves would start servers.
set -euo pipefail

packages=(
  ca-certificates gpg git make openssh-client python3 python3-venv # the commands themselves, the virtual environment
  iproute2 nftables iptables procps util-linux                     # the machines' network
  podman crun conmon netavark uidmap                               # the machines
  mmdebstrap debian-archive-keyring                                # their image
  gcc libc6-dev                                                    # the stand-in for NVML
  qemu-system-x86 qemu-utils e2fsprogs                             # the emulated machine
  udev zsh ksh                                                     # udev rules, and the environment of users' shells
  sosreport                                                        # what hpcnode diag passes on of its report
)
# For the tests of Blob storage: Node.js for Azurite, a library for azcopy. Node.js from elsewhere has its own npm.
packages+=(libsecret-1-0)
command -v npm > /dev/null || packages+=(nodejs npm)
# For the health report page. Ubuntu's package only installs a snap, so on Ubuntu the tests of the page are skipped
# unless a browser is installed by hand.
if ! grep --quiet '^ID=ubuntu' /etc/os-release; then packages+=(chromium); fi
# Docker's packages contain a runc that works as well, and the distribution's runc would replace them.
command -v runc > /dev/null || packages+=(runc)

say() { printf 'host packages: %s\n' "$*" >&2; }

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  say "this is neither Debian nor Ubuntu. Install the equivalents of: ${packages[*]}"
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  # dpkg-query fails for an unknown package; such a package is not installed.
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2> /dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
# For the tests of the monitoring.
programs=(promtool prometheus prometheus-alertmanager amtool prometheus-node-exporter)
lacking=()
for program in "${programs[@]}"; do
  command -v "$program" > /dev/null || lacking=("${programs[@]}")
done
[ "$((${#missing[@]} + ${#lacking[@]}))" -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    say "this needs root or sudo. Run tests/setup/host.sh as root; it installs ${missing[*]} ${lacking[*]}"
    exit 1
  fi
  as_root=(sudo)
fi

say "installing ${missing[*]} ${lacking[*]}"
began=$SECONDS
work=$(mktemp --directory)
trap 'rm -rf "$work"' EXIT
log=$work/log
attempt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" \
    > "$log" 2>&1 < /dev/null
}
# The package index of a fresh machine is empty or old. A working index is not updated first.
attempt_or_update() {
  attempt "$@" || { attempt update && attempt "$@"; }
}
give_up() {
  tail -n 15 "$log" >&2
  say "$1 failed (its last lines are above): correct the problem and run this again"
  exit 1
}
if [ "${#missing[@]}" -gt 0 ]; then
  # --no-remove: never remove a package that someone installed.
  attempt_or_update install --yes --no-install-recommends --no-remove "${missing[@]}" || give_up apt-get
fi
if [ "${#lacking[@]}" -gt 0 ]; then
  cd "$work"
  # By default, apt downloads as an unprivileged user, who cannot write into root's folder.
  archives=(prometheus prometheus-alertmanager prometheus-node-exporter)
  # Debian 13 has promtool in its own package.
  if apt-cache show promtool > /dev/null 2>&1; then archives+=(promtool); fi
  attempt_or_update download -o APT::Sandbox::User=root "${archives[@]}" || give_up "the download of ${archives[*]}"
  {
    for archive in ./*.deb; do dpkg-deb --fsys-tarfile "$archive" | tar --extract --file - ./usr; done
    for program in "${programs[@]}"; do
      "${as_root[@]}" install -m 0755 "usr/bin/$program" "/usr/local/bin/$program"
    done
    # Debian's Alertmanager does not start without its templates.
    for template in usr/share/prometheus/alertmanager/*.tmpl; do
      "${as_root[@]}" install -D -m 0644 "$template" "/$template"
    done
  } > "$log" 2>&1 || give_up "the installation of ${programs[*]}"
fi
say "installed after $((SECONDS - began)) s"
