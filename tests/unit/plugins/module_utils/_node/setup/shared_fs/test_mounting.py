# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mounts of shared file systems: what the units contain, what is refused, and in which order things are done."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.shared_fs import mounting
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.shared_fs.options import SharedProblem, parse

from ..users.machine import ROOT_MOUNT, Machine

SHARED = {"path": "/shared", "source": "10.0.0.4:/shared"}
LUSTRE = {"path": "/lustre", "source": "10.0.1.7@tcp:/lustrefs", "type": "lustre", "automount": False}


class Systemd:
    """A fake systemd whose units are on or off; enabled units have links in the machine's files."""

    def __init__(self, machine: Machine) -> None:
        """Start with all units off."""
        self.machine = machine
        self.on: set[str] = set()
        self.commands: list[str] = []
        self.refuses: set[str] = set()

    def __call__(self, command: Sequence[str]) -> Result:
        """Answer a command."""
        words = list(command)
        if words[:2] == ["systemctl", "show"]:
            state = "active" if words[2] in self.on else "inactive"
            shown = f"LoadState=loaded\nActiveState={state}\nSubState=x\nResult=success\n"
            return Result(tuple(command), 0, shown, "")
        if words[0] == "journalctl":
            return Result(tuple(command), 0, "Mounting /shared...\nmount.nfs4: Connection refused\n", "")
        text = " ".join(words)
        self.commands.append(text)
        if text in self.refuses:
            return Result(tuple(command), 1, "", "Job failed")
        if words[0] == "setsebool":
            assert words[1] == "-P"
            self.selinux(words[2], words[3])
        elif words[0] == "umount":
            lines = self.machine.text("proc/self/mountinfo").splitlines()
            self.machine.mounts(*(line for line in lines if line.split()[4] != words[1]))
            self.on.discard(f"{mounting.unit_name(words[1])}.mount")
        elif words[1] in ("start", "stop"):
            (self.on.add if words[1] == "start" else self.on.discard)(words[2])
        for name in words[2:] if words[1] == "enable" else []:
            self.machine.file(f"{mounting.UNIT_FOLDER}/multi-user.target.wants/{name}", "")
        return Result(tuple(command), 0, "", "")

    def selinux(self, name: str, value: str) -> None:
        """Let the machine have SELinux, with this value of a boolean."""
        for path in ("sys/fs/selinux/enforce", "etc/selinux/config", "run/systemd/system/x"):
            self.machine.file(path, "1")
        self.machine.file(f"sys/fs/selinux/booleans/{name}", "1 1" if value == "on" else "0 0")


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A machine with an admin, whose home is below /home."""
    return Machine(tmp_path)


@pytest.fixture
def systemd(machine: Machine) -> Systemd:
    """The machine's systemd."""
    return Systemd(machine)


def share(machine: Machine, systemd: Systemd, *items: dict[str, Any], live: bool = True) -> list[str]:
    """Mount these; return what was done."""
    made = mounting.plan(machine.root, parse(items), systemd, live)
    mounting.apply(machine.root, made, systemd, live)
    return [action.replace(str(machine.folder), "") for action in made.actions]


def test_a_file_system_is_mounted_on_access_and_nothing_waits_for_it(machine: Machine, systemd: Systemd) -> None:
    assert share(machine, systemd, SHARED) == [
        "write /etc/systemd/system/shared.mount",
        "write /etc/systemd/system/shared.automount",
        "write /etc/hpcai/shared_fs.json",
        "enable shared.automount",
        "start shared.automount",
    ]
    unit = machine.text("etc/systemd/system/shared.mount").splitlines()
    assert {"What=10.0.0.4:/shared", "Where=/shared", "Type=nfs4", "TimeoutSec=30", "StartLimitIntervalSec=0"} <= {
        *unit
    }
    options = next(line for line in unit if line.startswith("Options=")).partition("=")[2].split(",")
    assert {"vers=4.2", "hard", "nconnect=8", "noatime", "nosuid", "nodev", "nofail", "_netdev"} <= {*options}
    # Only the automount is enabled; slurmd starts after both.
    assert "[Install]" not in unit
    assert "Before=slurmd.service" in unit
    assert not any(line.startswith("RequiredBy=") for line in unit)
    assert systemd.commands[0] == "systemctl daemon-reload"


def test_a_second_run_does_nothing(machine: Machine, systemd: Systemd) -> None:
    share(machine, systemd, SHARED, LUSTRE)
    systemd.commands.clear()
    assert share(machine, systemd, SHARED, LUSTRE) == []
    assert systemd.commands == []


def test_without_mounts_nothing_is_done(machine: Machine, systemd: Systemd) -> None:
    assert share(machine, systemd) == []


def test_a_mount_without_automount_is_tried_at_boot_before_slurmd(machine: Machine, systemd: Systemd) -> None:
    share(machine, systemd, {**LUSTRE, "timeout": 10})
    unit = machine.text("etc/systemd/system/lustre.mount")
    assert "Before=slurmd.service\n" in unit
    assert "TimeoutSec=10\n" in unit
    assert "Options=flock,noatime,nosuid,nodev,nofail,_netdev\n" in unit
    assert "WantedBy=multi-user.target\n" in unit
    assert not (machine.folder / "etc/systemd/system/lustre.automount").exists()


def test_an_image_gets_the_units_and_starts_nothing(machine: Machine, systemd: Systemd) -> None:
    assert "enable shared.automount" in share(machine, systemd, SHARED, live=False)
    assert systemd.commands == ["systemctl enable shared.automount"]
    # The later run only starts it.
    assert share(machine, systemd, SHARED) == ["start shared.automount"]


def test_another_server_is_mounted_after_the_old_one_was_unmounted(machine: Machine, systemd: Systemd) -> None:
    share(machine, systemd, SHARED)
    systemd.on.add("shared.mount")
    actions = share(machine, systemd, {**SHARED, "source": "10.0.0.9:/shared"})
    assert actions[:3] == [
        "stop shared.mount",
        "stop shared.automount",
        "write /etc/systemd/system/shared.mount",
    ]
    assert actions[-1] == "start shared.automount"
    assert "10.0.0.9" in machine.text("etc/systemd/system/shared.mount")


def test_a_mount_in_use_is_kept_and_its_process_is_named(machine: Machine, systemd: Systemd) -> None:
    share(machine, systemd, SHARED)
    systemd.on.add("shared.mount")
    machine.mounts(ROOT_MOUNT, "21 20 0:40 / /shared rw - nfs4 10.0.0.4:/shared rw")
    process = machine.folder / "proc/77"
    process.mkdir()
    (process / "comm").write_text("train\n")
    (process / "cwd").symlink_to("/shared/run")
    systemd.refuses.add("umount /shared")
    with pytest.raises(SharedProblem, match=r"/shared must change, but is in use by train \(77\)\. Drain the node"):
        share(machine, systemd, {**SHARED, "source": "10.0.0.9:/shared"})
    assert "10.0.0.4" in machine.text("etc/systemd/system/shared.mount")
    # Stopping it would detach the mount.
    assert "shared.automount" in systemd.on


def test_a_mount_in_use_leaves_all_others_mounted(machine: Machine, systemd: Systemd) -> None:
    other = {**LUSTRE, "path": "/archive"}
    share(machine, systemd, SHARED, other)
    systemd.on.add("shared.mount")
    machine.mounts(
        ROOT_MOUNT,
        "21 20 0:40 / /shared rw - nfs4 10.0.0.4:/shared rw",
        "22 20 0:41 / /archive rw - lustre 10.0.1.7@tcp:/lustrefs rw",
    )
    systemd.refuses.add("umount /shared")
    systemd.commands.clear()
    with pytest.raises(SharedProblem, match="/shared must change, but is in use"):
        share(machine, systemd)
    assert systemd.commands == ["umount /archive", "umount /shared", "systemctl start archive.mount"]
    assert machine.text("etc/systemd/system/archive.mount")


def test_an_active_mount_is_unmounted_instead_of_stopping_its_unit(machine: Machine, systemd: Systemd) -> None:
    share(machine, systemd, SHARED)
    systemd.on.add("shared.mount")
    autofs = "20 1 0:39 / /shared rw - autofs systemd-1 rw"
    machine.mounts(ROOT_MOUNT, autofs, "21 20 0:40 / /shared rw - nfs4 10.0.0.4:/shared rw")
    systemd.commands.clear()
    share(machine, systemd)
    assert systemd.commands[:2] == ["umount /shared", "systemctl stop shared.automount"]
    # A mount that is starting is not mounted yet.
    share(machine, systemd, SHARED)
    systemd.on.add("shared.mount")
    machine.mounts(ROOT_MOUNT, autofs)
    systemd.commands.clear()
    share(machine, systemd)
    assert systemd.commands[:2] == ["systemctl stop shared.mount", "systemctl stop shared.automount"]


def test_mounts_that_are_no_longer_listed_are_removed_and_no_others(machine: Machine, systemd: Systemd) -> None:
    machine.file("etc/systemd/system/data.mount", "[Mount]\nWhat=/dev/sdc1\n")
    share(machine, systemd, SHARED)
    systemd.on.add("shared.mount")
    actions = share(machine, systemd)
    assert actions[:2] == ["stop shared.mount", "stop shared.automount"]
    assert not (machine.folder / "etc/systemd/system/shared.mount").exists()
    assert not (machine.folder / "etc/hpcai/shared_fs.json").exists()
    assert (machine.folder / "etc/systemd/system/data.mount").exists()
    assert share(machine, systemd) == []


def test_hiding_the_home_of_a_local_account_is_refused(machine: Machine, systemd: Systemd) -> None:
    home = {**SHARED, "path": "/home"}
    with pytest.raises(SharedProblem, match="a mount at /home would hide the home of azureuser"):
        share(machine, systemd, home)
    assert share(machine, systemd, {**home, "hide": True})


def test_homes_of_the_clusters_own_users_may_be_mounted(machine: Machine, systemd: Systemd) -> None:
    machine.file("etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:4001:4001::/shared/home/alice:/bin/bash\n")
    machine.file("etc/hpcai/users.json", json.dumps({"schema": 1, "users": {"alice": {"uid": 4001}}}))
    assert share(machine, systemd, SHARED)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (("etc/fstab", "srv:/x /shared nfs defaults 0 0\n"), "/shared is in /etc/fstab"),
        (("etc/systemd/system/shared.mount", "[Mount]\n"), "shared.mount was not written by this module"),
        (
            ("proc/self/mountinfo", f"{ROOT_MOUNT}\n21 20 8:33 / /shared rw - xfs /dev/sdc1 rw\n"),
            "/dev/sdc1 is mounted at /shared, but not by this module",
        ),
    ],
)
def test_a_mountpoint_that_is_already_used_is_refused(
    machine: Machine, systemd: Systemd, prepare: tuple[str, str], words: str
) -> None:
    machine.file(*prepare)
    with pytest.raises(SharedProblem, match=words):
        share(machine, systemd, SHARED)
    assert systemd.commands == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "/"}, "must not be /"),
        ({"path": "/etc"}, "operating system"),
        ({"path": "/usr"}, "operating system"),
        ({"path": "shared"}, "absolute path"),
        ({"path": "/shared/../etc"}, "without '..'"),
        ({"path": "/shared\nExecStart=x"}, "absolute path"),
        ({"source": "10.0.0.4"}, r"mounts\[/shared\].source must be of the form SERVER:/PATH for the type nfs4"),
        ({"source": "10.0.0.4:/x", "type": "lustre"}, "must be of the form ADDRESS@tcp:/NAME for the type lustre"),
        ({"type": "cifs"}, "must be nfs4, nfs or lustre"),
        ({"options": ["rw,suid"]}, r"options\[0\] must be one mount option"),
        ({"options": ["user"]}, "can block an unattended boot"),
        ({"timeout": 0}, "timeout must be a whole number from 1 to 300"),
        ({"timeout": 301}, "timeout must be a whole number from 1 to 300"),
    ],
)
def test_invalid_options_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse([{**SHARED, **change}])


def test_listing_a_mountpoint_twice_is_refused() -> None:
    with pytest.raises(SharedProblem, match="/shared is listed twice"):
        parse([SHARED, {**SHARED, "path": "/shared/"}])


def test_an_option_of_the_user_replaces_its_opposite() -> None:
    [mount] = parse([{**SHARED, "options": ["vers=3", "suid", "relatime"]}])
    assert mount.options == ("vers=3", "suid", "relatime", "nodev", "nofail", "_netdev")


def test_a_server_that_does_not_answer_is_named_with_its_reason(machine: Machine, systemd: Systemd) -> None:
    systemd.refuses.add("systemctl start shared.mount")
    assert mounting.unreachable(parse([SHARED]), systemd) == [
        "10.0.0.4:/shared cannot be mounted at /shared: mount.nfs4: Connection refused"
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/shared", "shared"),
        ("/shared/home", "shared-home"),
        ("/my-data/v1.2", r"my\x2ddata-v1.2"),
        ("/.hidden", r"\x2ehidden"),
        ("/a/.b@c+d", r"a-.b\x40c\x2bd"),
    ],
)
def test_units_are_named_as_systemd_names_them(path: str, name: str) -> None:
    assert mounting.unit_name(path) == name


SET, RESET = "setsebool -P use_nfs_home_dirs on", "setsebool -P use_nfs_home_dirs off"


def test_sshd_may_read_keys_on_nfs_until_the_mount_is_removed(machine: Machine, systemd: Systemd) -> None:
    systemd.selinux("use_nfs_home_dirs", "off")
    assert share(machine, systemd, SHARED)[2:4] == ["write /etc/hpcai/shared_fs.json", SET]
    assert systemd.commands.count(SET) == 1
    assert share(machine, systemd, SHARED) == []
    assert RESET in share(machine, systemd, LUSTRE)
    assert systemd.commands.count(RESET) == 1
    assert share(machine, systemd, LUSTRE) == []
    assert RESET not in share(machine, systemd)


def test_a_boolean_that_was_on_before_stays_on(machine: Machine, systemd: Systemd) -> None:
    systemd.selinux("use_nfs_home_dirs", "on")
    assert SET not in share(machine, systemd, SHARED)
    assert RESET not in share(machine, systemd)
    assert not {SET, RESET} & {*systemd.commands}


def test_lustre_needs_no_boolean(machine: Machine, systemd: Systemd) -> None:
    systemd.selinux("use_nfs_home_dirs", "off")
    assert SET not in share(machine, systemd, LUSTRE)


def test_an_image_that_is_not_booted_leaves_the_boolean_of_this_machine(machine: Machine, systemd: Systemd) -> None:
    systemd.selinux("use_nfs_home_dirs", "off")
    (machine.folder / "run/systemd/system/x").unlink()
    (machine.folder / "run/systemd/system").rmdir()
    assert SET not in share(machine, systemd, SHARED, live=False)


def test_a_failed_setsebool_is_repeated_by_the_next_run_and_undone(machine: Machine, systemd: Systemd) -> None:
    systemd.selinux("use_nfs_home_dirs", "off")
    systemd.refuses.add(SET)
    with pytest.raises(CommandFailed, match="setsebool"):
        share(machine, systemd, SHARED)
    systemd.refuses.clear()
    assert SET in share(machine, systemd, SHARED)
    assert RESET in share(machine, systemd)
    assert not (machine.folder / "etc/hpcai/shared_fs.json").exists()
