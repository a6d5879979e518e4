# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What belongs to one machine, and must not be in an image from which others are made. One table."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass

from ...machine.root import Root

HOME = "~"
"""At the start of a pattern: the home of root and of every account of a person."""


@dataclass(frozen=True)
class Item:
    """One kind of data that belongs to one machine.

    :ivar name: name for the option that keeps it.
    :ivar title: what it is.
    :ivar remove: patterns of what is removed; folders with all of their content.
    :ivar clear: folders that stay, with their owners and permissions; their content is removed.
    :ivar files: folders below which files are removed and folders stay, because they belong to services' users.
    :ivar empty: files that stay and become empty. Processes that have them open continue to write to them.
    :ivar logs: folders below which folders stay, current logs become empty, and rotated ones are removed.
    :ivar spare: names directly below a folder of ``clear`` that stay.
    :ivar stop: services that would write it again before shutdown. They are stopped first.
    """

    name: str
    title: str
    remove: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()


ITEMS = (
    Item(
        "agent",
        "the Azure agent's data about this machine, its certificates and extensions",
        clear=("/var/lib/waagent",),
        remove=("/var/lib/hyperv/.kvp_pool_*", "/etc/sudoers.d/waagent"),
        stop=("walinuxagent.service", "waagent.service"),
    ),
    Item(
        "cloud_init",
        "cloud-init's data about this machine, including user data",
        clear=("/var/lib/cloud",),
        # Whoever makes images puts a seed there, for all machines.
        spare=("seed",),
        remove=("/etc/sudoers.d/90-cloud-init-users",),
    ),
    Item(
        "host_keys",
        "the host keys of sshd; each machine makes its own at its first boot",
        remove=("/etc/ssh/ssh_host_*_key", "/etc/ssh/ssh_host_*_key.pub", "/etc/ssh/ssh_host_*_key-cert.pub"),
    ),
    Item(
        "users_keys",
        "the .ssh folders of root and all people: authorized keys, and their own keys",
        remove=(f"{HOME}/.ssh",),
    ),
    Item(
        "munge_key",
        "the cluster's keys: munge's, and its copy on a controller",
        # The second pattern: left by a boot that was interrupted while it wrote the key.
        remove=("/etc/munge/munge.key", "/etc/munge/.munge.key.*", "/etc/hpcai/munge.key"),
    ),
    Item(
        "cluster",
        "the cluster and the node's name in it, and hpcnode's records of this machine",
        remove=("/etc/hpcai/cluster.json", "/etc/hpcai/slurmd.env", "/etc/hpcai/sackd.env"),
        clear=("/var/lib/hpcai", "/var/lib/slurm/slurmctld", "/var/lib/slurm/slurmd"),
    ),
    Item(
        "machine_id",
        "the machine's id; systemd makes a new one if the file is empty",
        empty=("/etc/machine-id",),
        remove=("/var/lib/dbus/machine-id",),
    ),
    Item(
        "random_seed",
        "the seed of the random numbers: equal seeds could lead to equal keys",
        remove=("/var/lib/systemd/random-seed", "/var/lib/urandom/random-seed", "/boot/efi/loader/random-seed"),
        # It writes the seed at shutdown.
        stop=("systemd-random-seed.service",),
    ),
    Item(
        "host_name",
        "the host name and the addresses of its name servers",
        remove=("/etc/hostname",),
        empty=("/etc/resolv.conf",),
    ),
    Item(
        "leases",
        "address leases, and the network services' data about this machine",
        remove=(
            "/var/lib/dhcp/*.lease*",
            "/var/lib/dhclient/*.lease*",
            "/var/lib/dhcpcd/*.lease*",
            "/var/lib/NetworkManager/*.lease",
            "/var/lib/NetworkManager/secret_key",
            "/var/lib/NetworkManager/timestamps",
            "/var/lib/NetworkManager/seen-bssids",
        ),
    ),
    Item(
        "disk_names",
        "names by which NVMe over fabrics targets identify this machine",
        remove=("/etc/nvme/hostnqn", "/etc/nvme/hostid"),
    ),
    Item(
        "histories",
        "histories of shells and other programs",
        remove=tuple(
            f"{HOME}/{name}"
            for name in (".bash_history", ".zsh_history", ".python_history", ".lesshst", ".viminfo", ".wget-hsts")
        ),
    ),
    Item(
        "backups",
        "backups of the account files",
        remove=tuple(f"/etc/{name}-" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")),
    ),
    Item(
        "package_caches",
        "downloaded packages and package lists",
        files=("/var/cache/apt", "/var/lib/apt/lists", "/var/cache/dnf", "/var/cache/yum"),
        # The last one is left if the role image could not install what it had downloaded.
        remove=(f"{HOME}/.cache", "/var/cache/hpcai-image"),
    ),
    Item(
        "temporary",
        "temporary files, including Ansible's",
        clear=("/tmp", "/var/tmp", f"{HOME}/.ansible"),
        # Folders of running services, which are removed with their service.
        spare=("systemd-private-*", ".X11-unix", ".ICE-unix", ".font-unix", ".XIM-unix", "snap-private-tmp"),
    ),
    Item(
        "logs",
        "logs and records of logins",
        # Each folder in it is named by the machine's id.
        remove=("/var/log/journal/*",),
        logs=("/var/log",),
        files=("/var/spool/rsyslog", "/var/crash"),
        # They would log the shutdown.
        stop=("syslog.socket", "rsyslog.service", "systemd-update-utmp.service"),
    ),
)
"""In the order of removal: services that write come first, logs last."""

PASSWORDS = "passwords"
"""Not a file, but fields of one: the passwords of root and of people."""
NAMES = (*(item.name for item in ITEMS), PASSWORDS)


# Search for private keys that the table does not list.

_KEY_FOLDERS = ("/etc", "/root", "/home", "/opt", "/srv", "/var/lib")
_NOT_BELOW = ("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/docker", "/var/lib/containers", "/opt/nvidia")
_KEY_MARK = b"PRIVATE KEY-----"
_LARGEST_KEY = 64 * 1024
_MOST_FILES = 50_000
"""With more files than this, the image contains data; the search stops, so that it does not take too long."""


def find_private_keys(root: Root, except_below: Collection[str] = ()) -> tuple[str, ...]:
    """Return the files that contain a private key in PEM or OpenSSH form, by path on the machine.

    :param except_below: paths that will be removed.
    """
    skipped = {*_NOT_BELOW, *except_below}
    found: list[str] = []
    count = 0
    for top in _KEY_FOLDERS:
        for here, folders, files in os.walk(root.at(top)):
            shown = top + here[len(root.at(top)) :]
            folders[:] = sorted(name for name in folders if f"{shown}/{name}" not in skipped)
            count += len(files)
            if count > _MOST_FILES:
                return tuple(found)
            found += [
                f"{shown}/{name}"
                for name in sorted(files)
                if f"{shown}/{name}" not in skipped and _holds_key(here, name)
            ]
    return tuple(found)


def _holds_key(folder: str, name: str) -> bool:
    path = os.path.join(folder, name)
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode) or not 0 < about.st_size <= _LARGEST_KEY:
            return False
        with open(path, "rb") as file:
            return _KEY_MARK in file.read()
    except OSError:
        return False
