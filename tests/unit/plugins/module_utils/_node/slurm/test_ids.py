# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The accounts slurm and munge have the same ids on every machine."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import ids
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.ids import Account, CannotChange, Facts

SLURM = Account("slurm", 64030, 64030)
MUNGE = Account("munge", 11101, 11102)
FROM_PACKAGES = Facts(users={"munge": (105, 110)}, groups={"munge": 110}, uid_owners={105: "munge"})
RIGHT = Facts(
    users={"munge": (11101, 11102)}, groups={"munge": 11102}, uid_owners={11101: "munge"}, gid_owners={11102: "munge"}
)


class Machine:
    """Runs no command, but records each.

    :ivar active: services that run.
    """

    def __init__(self, active: Sequence[str] = (), fails: str = "") -> None:
        self.active, self.fails = active, fails
        self.commands: list[str] = []

    def run(self, command: Sequence[str]) -> Result:
        words = " ".join(command)
        if command[:2] == ["systemctl", "is-active"]:
            return Result(tuple(command), 0 if command[-1] in self.active else 3, "", "")
        self.commands.append(words)
        return Result(tuple(command), 1 if self.fails and words.startswith(self.fails) else 0, "", "no")


def test_accounts_are_created_with_their_ids_before_any_package_does() -> None:
    made = ids.plan(Facts(), [SLURM, MUNGE])
    assert made.moved == ()
    assert [" ".join(command) for command in made.commands] == [
        "groupadd --system --gid 64030 slurm",
        "useradd --system --no-create-home --uid 64030 --gid slurm --home-dir /nonexistent "
        "--shell /usr/sbin/nologin slurm",
        "groupadd --system --gid 11102 munge",
        "useradd --system --no-create-home --uid 11101 --gid munge --home-dir /nonexistent "
        "--shell /usr/sbin/nologin munge",
    ]


def test_correct_accounts_are_left_alone_even_while_a_job_runs() -> None:
    facts = Facts(RIGHT.users, RIGHT.groups, RIGHT.uid_owners, RIGHT.gid_owners, has_steps=True)
    assert ids.plan(facts, [MUNGE]) == ids.Plan()


def test_ids_that_a_package_chose_are_changed() -> None:
    made = ids.plan(FROM_PACKAGES, [MUNGE])
    assert made.moved == (MUNGE,)
    assert ids.actions(made) == [
        "give the files of munge to 11101:11102",
        "groupmod --gid 11102 munge",
        "usermod --uid 11101 --gid munge munge",
    ]


def test_a_change_interrupted_after_the_group_continues_with_the_user() -> None:
    facts = Facts(users={"munge": (105, 11102)}, groups={"munge": 11102})
    made = ids.plan(facts, [MUNGE])
    assert [command[0] for command in made.commands] == ["usermod"]
    assert made.moved == (MUNGE,)


def test_ids_do_not_change_while_a_job_runs() -> None:
    facts = Facts(FROM_PACKAGES.users, FROM_PACKAGES.groups, has_steps=True)
    with pytest.raises(CannotChange, match=r"munge \(105:110 instead of 11101:11102\).*Drain the node"):
        ids.plan(facts, [SLURM, MUNGE])


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Facts(uid_owners={11101: "alice"}), "uid 11101 for munge already belongs to alice"),
        (Facts(gid_owners={11102: "staff"}), "gid 11102 for munge already belongs to staff"),
    ],
)
def test_an_id_of_another_account_is_refused(facts: Facts, words: str) -> None:
    with pytest.raises(CannotChange, match=words):
        ids.plan(facts, [MUNGE])


def test_files_change_their_owner_while_the_services_are_stopped(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc/munge").mkdir(parents=True)
    key, link = tmp_path / "etc/munge/munge.key", tmp_path / "etc/munge/link"
    key.write_text("x", encoding="utf-8")
    link.symlink_to(tmp_path)
    (tmp_path / "untouched").write_text("x", encoding="utf-8")
    machine = Machine(active=["munge", "slurmd"])
    owner = key.stat()
    monkeypatch.setattr(
        ids.os, "lchown", lambda path, uid, gid: machine.commands.append(f"{os.path.basename(path)} {uid}:{gid}")
    )
    facts = Facts(users={"munge": (owner.st_uid, owner.st_gid)}, groups={"munge": owner.st_gid})
    ids.apply(ids.plan(facts, [MUNGE]), facts, Root(str(tmp_path)), machine.run)
    assert machine.commands[:2] == ["systemctl stop slurmd", "systemctl stop munge"]
    assert sorted(machine.commands[2:5]) == ["link 11101:11102", "munge 11101:11102", "munge.key 11101:11102"]
    assert machine.commands[5:] == [
        "groupmod --gid 11102 munge",
        "usermod --uid 11101 --gid munge munge",
        "systemctl start munge",
        "systemctl start slurmd",
    ]


def test_files_of_others_keep_their_owner(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    given: list[str] = []
    monkeypatch.setattr(ids.os, "lchown", lambda path, _uid, _gid: given.append(path))
    ids.give(str(tmp_path), {-7: 1}, {-7: 1})
    ids.give(str(tmp_path / "not-there"), {os.getuid(): 1}, {})
    assert given == []


def test_a_command_that_fails_is_named() -> None:
    machine = Machine(fails="useradd")
    with pytest.raises(CommandFailed, match="useradd --system"):
        ids.apply(ids.plan(Facts(), [MUNGE]), Facts(), Root("/nowhere"), machine.run)


def test_existing_accounts_are_read_by_name_and_by_id(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = {"munge": SimpleNamespace(pw_name="munge", pw_uid=105, pw_gid=110)}
    users_by_id = {64030: SimpleNamespace(pw_name="other", pw_uid=64030, pw_gid=1)}
    monkeypatch.setattr(ids.pwd, "getpwnam", users.__getitem__)
    monkeypatch.setattr(ids.pwd, "getpwuid", users_by_id.__getitem__)
    monkeypatch.setattr(ids.grp, "getgrnam", {}.__getitem__)
    monkeypatch.setattr(ids.grp, "getgrgid", {11102: SimpleNamespace(gr_name="munge", gr_gid=11102)}.__getitem__)
    (tmp_path / "proc/17").mkdir(parents=True)
    (tmp_path / "proc/17/stat").write_text("17 (slurmstepd) S 1 " + " ".join(["0"] * 48), encoding="utf-8")
    (tmp_path / "proc/17/status").write_text("Uid:\t0\t0\n", encoding="utf-8")
    facts = ids.read_facts([SLURM, MUNGE], Root(str(tmp_path)))
    assert facts.users == {"munge": (105, 110)}
    assert facts.uid_owners == {64030: "other", 105: "munge"}
    assert facts.groups == {"munge": 11102}
    assert facts.has_steps
    (tmp_path / "proc/17/status").write_text("Uid:\t1001\t1001\n", encoding="utf-8")
    assert not ids.read_facts([SLURM, MUNGE], Root(str(tmp_path))).has_steps
