# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What is a machine's own, and must not be in an image that others are made from. One table."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass

from ...machine.root import Root

HOME = "~"
"""At the start of a pattern: the home of root and of every account that people log in with."""


@dataclass(frozen=True)
class Item:
    """One kind of thing that is a machine's own.

    :ivar name: by which it can be kept.
    :ivar title: what it is, in plain words.
    :ivar remove: patterns of what is removed, folders with all that is in them.
    :ivar clear: folders that stay, with their owners and permissions; what is in them is removed.
    :ivar files: folders below which files are removed and folders stay, because they belong to services' users.
    :ivar empty: files that stay and become empty. Whoever has them open goes on writing into them.
    :ivar logs: folders below which folders stay, written logs become empty, and rotated ones are removed.
    :ivar spare: names right below a folder of ``clear`` that stay.
    :ivar stop: services that would write it anew before the machine is off. They are stopped first.
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
        "what the Azure agent knows of this machine, its certificates and extensions",
        clear=("/var/lib/waagent",),
        remove=("/var/lib/hyperv/.kvp_pool_*", "/etc/sudoers.d/waagent"),
        stop=("walinuxagent.service", "waagent.service"),
    ),
    Item(
        "cloud_init",
        "what cloud-init knows of this machine, user data included",
        clear=("/var/lib/cloud",),
        # A seed is put there by whoever makes images, and belongs to all machines.
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
        "the ssh folders of root and all people: who may log in, and their own keys",
        remove=(f"{HOME}/.ssh",),
    ),
    Item(
        "munge_key",
        "the keys of a cluster: munge's, and its copy on a controller",
        # The second: what a boot that was cut off while it wrote the key leaves.
        remove=("/etc/munge/munge.key", "/etc/munge/.munge.key.*", "/etc/hpcai/munge.key"),
    ),
    Item(
        "cluster",
        "which cluster, which machine of it, and what hpcnode remembers of this one",
        remove=("/etc/hpcai/cluster.json", "/etc/hpcai/slurmd.env", "/etc/hpcai/sackd.env"),
        clear=("/var/lib/hpcai", "/var/lib/slurm/slurmctld", "/var/lib/slurm/slurmd"),
    ),
    Item(
        "machine_id",
        "the machine's id; systemd makes one where the file is empty",
        empty=("/etc/machine-id",),
        remove=("/var/lib/dbus/machine-id",),
    ),
    Item(
        "random_seed",
        "the seed of the random numbers: equal ones would make equal keys",
        remove=("/var/lib/systemd/random-seed", "/var/lib/urandom/random-seed", "/boot/efi/loader/random-seed"),
        # It writes the seed when the machine goes down.
        stop=("systemd-random-seed.service",),
    ),
    Item(
        "host_name",
        "the host's name and the addresses of its name servers",
        remove=("/etc/hostname",),
        empty=("/etc/resolv.conf",),
    ),
    Item(
        "leases",
        "leases of addresses, and what the network services know of this machine",
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
        "names under which this machine speaks to disks of others",
        remove=("/etc/nvme/hostnqn", "/etc/nvme/hostid"),
    ),
    Item(
        "histories",
        "what was typed and looked at",
        remove=tuple(
            f"{HOME}/{name}"
            for name in (".bash_history", ".zsh_history", ".python_history", ".lesshst", ".viminfo", ".wget-hsts")
        ),
    ),
    Item(
        "backups",
        "older versions of the files of accounts",
        remove=tuple(f"/etc/{name}-" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid")),
    ),
    Item(
        "package_caches",
        "packages that were downloaded, and the lists of those there are",
        files=("/var/cache/apt", "/var/lib/apt/lists", "/var/cache/dnf", "/var/cache/yum"),
        # The last is left where the role image could not install what it had fetched.
        remove=(f"{HOME}/.cache", "/var/cache/hpcai-image"),
    ),
    Item(
        "temporary",
        "temporary files, Ansible's too",
        clear=("/tmp", "/var/tmp", f"{HOME}/.ansible"),
        # Of services that run: each is gone with its service.
        spare=("systemd-private-*", ".X11-unix", ".ICE-unix", ".font-unix", ".XIM-unix", "snap-private-tmp"),
    ),
    Item(
        "logs",
        "logs and records of logins",
        # Each folder in there is named for the machine's id.
        remove=("/var/log/journal/*",),
        logs=("/var/log",),
        files=("/var/spool/rsyslog", "/var/crash"),
        # They would write down that the machine goes down.
        stop=("syslog.socket", "rsyslog.service", "systemd-update-utmp.service"),
    ),
)
"""In the order in which it is done: what writes goes first, logs last."""

PASSWORDS = "passwords"
"""Not a file, but fields of one: the passwords of root and of people."""
NAMES = (*(item.name for item in ITEMS), PASSWORDS)


# Looking for private keys that nobody thought of.

_KEY_FOLDERS = ("/etc", "/root", "/home", "/opt", "/srv", "/var/lib")
_NOT_BELOW = ("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/docker", "/var/lib/containers", "/opt/nvidia")
_KEY_MARK = b"PRIVATE KEY-----"
_LARGEST_KEY = 64 * 1024
_MOST_FILES = 50_000
"""Where there are more, somebody has data in there; the search ends, rather than the patience."""


def find_private_keys(root: Root, except_below: Collection[str] = ()) -> tuple[str, ...]:
    """Return the files that hold a private key in the form of PEM or OpenSSH, by path on the machine.

    :param except_below: paths that are going to be removed.
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
