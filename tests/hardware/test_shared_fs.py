# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An NFS server and its client on one machine: export, mount, access by a second user, and a stopped server.

The kernel of a container's host may lack NFS; the kernel of this machine has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hardware.controller import Result, Task, play
from hardware.vm import Machine

EXPORTS: dict[str, Any] = {"exports": [{"path": "/export", "mode": "1777"}], "networks": ["127.0.0.0/8"]}
USERS: dict[str, Any] = {
    "groups": [{"name": "weather", "gid": 5000}],
    "users": [
        {"name": "alice", "uid": 4001, "groups": ["weather"]},
        {"name": "bob", "uid": 4002, "groups": ["weather"]},
    ],
    "home_base": "/shared/home",
}
LIMIT_S, FIRST_S = 10, 20
"""Timeouts of mounts. On a busy host, the first mount of an emulated machine takes longer than the others."""
MOUNTS: dict[str, Any] = {
    "mounts": [
        {"path": "/shared", "source": "127.0.0.1:/export", "timeout": LIMIT_S},
        {"path": "/early", "source": "127.0.0.1:/export", "timeout": FIRST_S, "automount": False},
    ]
}
# Without NFS version 3 the server needs no rpcbind. After a restart it waits 10 s for its earlier clients.
SERVER = "[nfsd]\nvers3=n\ngrace-time=10\nlease-time=10\n"
# The timeout of a mount attempt, plus time to end its child on a slow machine.
ACCESS_S = LIMIT_S + 25

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def results(started: Machine) -> Iterator[list[Result]]:
    """The modules' results in check mode, in a run, and in a second run."""
    started.write("/etc/nfs.conf.d/test.conf", SERVER)
    # Load the modules first, so that slow loading does not count as a server that does not answer.
    started.run("modprobe -a nfsd nfsv4")
    server = Task("daemon", {"name": "nfs-server", "enabled": False})
    predicted = play(started, Task("cluster_users", USERS, check=True), Task("nfs_exports", EXPORTS, check=True))
    done = play(
        started,
        Task("nfs_exports", EXPORTS),
        server,
        Task("shared_mounts", MOUNTS, check=True),
        Task("shared_mounts", MOUNTS),
        Task("cluster_users", USERS),
    )
    again = play(started, Task("nfs_exports", EXPORTS), Task("shared_mounts", MOUNTS), Task("cluster_users", USERS))
    yield [*predicted, *done, *again]
    started.run("systemctl start nfs-server")
    absent = [{**user, "state": "absent"} for user in USERS["users"]]
    gone = play(
        started,
        Task("shared_mounts"),
        Task("nfs_exports"),
        Task("cluster_users", {"users": absent, "groups": [{"name": "weather", "gid": 5000, "state": "absent"}]}),
    )
    # The server stops only after the unmounts: access to a mounted file system would hang without it.
    assert not [result.msg for result in gone if result.failed]
    started.run("systemctl stop nfs-server; rm -rf /export /shared /early /etc/nfs.conf.d/test.conf; sync")


@pytest.fixture
def shared(results: list[Result], machine: Machine) -> Machine:
    """The machine with a running server and mounted file systems."""
    assert not [result.msg for result in results if result.failed]
    machine.run("systemctl start nfs-server")
    return machine


def test_check_mode_predicts_the_run_and_a_second_run_changes_nothing(results: list[Result]) -> None:
    assert [result.msg for result in results if result.failed] == []
    exported, _server, predicted, mounted = results[2:6]
    assert results[1]["actions"] == exported["actions"]
    assert predicted["actions"] == mounted["actions"]
    assert mounted.changed
    assert [result.changed for result in results[-3:]] == [False] * 3


def test_users_share_files_with_the_same_ids_on_client_and_server(shared: Machine) -> None:
    shared.run("runuser -u alice -- sh -c 'umask 027; echo data > /shared/result; chgrp weather /shared/result'")
    assert shared.run("runuser -u bob -- cat /shared/result") == "data\n"
    assert shared.run("stat -c '%u %g' /export/result") == "4001 5000\n"
    # The server maps the client's root to nobody.
    shared.run("touch /shared/by-root")
    assert shared.run("stat -c %U /export/by-root") == "nobody\n"


def test_the_kernel_uses_the_mount_options(shared: Machine) -> None:
    shown = shared.run("ls /shared > /dev/null; findmnt -rno FSTYPE,OPTIONS -t nfs4 /shared").split()
    assert shown[0] == "nfs4"
    options = shown[1].split(",")
    assert {"hard", "noatime", "nosuid", "nodev", "vers=4.2", "proto=tcp"} <= {*options}


def test_the_client_creates_no_home_folders(shared: Machine) -> None:
    assert not shared.succeeds("test -e /export/home")


def test_a_stopped_server_delays_boot_and_access_only_until_a_timeout(shared: Machine) -> None:
    # Otherwise, the shutdown would wait for the server, which stops first.
    shared.run("umount /shared /early")
    shared.reboot()
    # The server is not enabled, so the machine booted without it.
    assert not shared.succeeds("systemctl is-active --quiet nfs-server")
    assert shared.succeeds("systemctl is-active --quiet shared.automount")
    assert "timeout" in shared.run("systemctl show --property=Result early.mount")
    access = f"! timeout {2 * ACCESS_S} ls /shared 2>/dev/null"
    took = shared.run(f"began=$(date +%s); {access}; echo $(($(date +%s) - began))")
    assert int(took) <= ACCESS_S
    # When the server runs again, the files are accessible.
    shared.run("systemctl start nfs-server")
    shared.wait_until("timeout 40 runuser -u bob -- cat /shared/result", 120)


def test_a_mount_in_use_is_not_removed(shared: Machine) -> None:
    shared.run("systemd-run --quiet --unit=user-of-shared --property=WorkingDirectory=/shared sleep 600")
    try:
        [refused] = play(shared, Task("shared_mounts"))
        assert refused.failed
        assert "/shared must change, but is in use by sleep" in refused.msg
        assert shared.succeeds("timeout 20 ls /shared")
    finally:
        shared.run("systemctl stop user-of-shared")
