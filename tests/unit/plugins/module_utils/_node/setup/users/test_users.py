# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accounts of the cluster's users: they get exactly the requested ids, or nothing is changed."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users import homes
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.ensure import Outcome, ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.options import UserProblem, parse

from .machine import ROOT_MOUNT, Machine

WEATHER = {"name": "weather", "gid": 5000}
HOME = "/home/alice"
HASHES = {
    "sha512": "$6$aIpiJGF1YQegNXbL$adWTRCjO2cQig77Ob/V5LYoaCNkO.Vb5MOfnDKollpRG38XD5tmE2SCR6B1f4LXFkBhuwQOD2C/"
    "KOnwMO315h1",
    "yescrypt": "$y$j9T$abcdefgh$Cb9qq/FQykHNo5lvGiF7LZedXhR/TSCL72NYSL0hryC",
    "bcrypt": "$2b$12$1kYxGPJCTEsirQUfEzn3QegZ1DVtMjPVnks0a3hClkEmlVtpvDHlG",
}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1x alice@laptop"
ALICE: dict[str, Any] = {"name": "alice", "uid": 4001, "groups": ["weather"], "ssh_keys": [KEY]}
BOB: dict[str, Any] = {"name": "bob", "uid": 4002, "gid": 5000}


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    """A machine without users."""
    return Machine(tmp_path)


def give_users(machine: Machine, *users: dict[str, Any], mode: str = homes.NEVER, check: bool = False) -> Outcome:
    """Create these users, and the group weather."""
    return ensure(machine.root, parse([WEATHER], users, "/home"), mode, machine.run, machine.feed, check, machine.give)


def test_groups_and_users_get_exactly_the_requested_ids(machine: Machine) -> None:
    foreseen = give_users(machine, ALICE, BOB, check=True)
    assert machine.commands == []
    done = give_users(machine, ALICE, BOB)
    assert foreseen.actions == done.actions
    assert "alice:x:4001:4001::/home/alice:/bin/bash\n" in machine.text("etc/passwd")
    assert "bob:x:4002:5000::/home/bob:/bin/bash\n" in machine.text("etc/passwd")
    assert "weather:x:5000:alice\n" in machine.text("etc/group")
    assert "alice:x:4001:\n" in machine.text("etc/group")
    assert json.loads(machine.text("etc/hpcai/users.json"))["users"]["bob"] == {
        "uid": 4002,
        "gid": 5000,
        "home": "/home/bob",
    }


def test_a_second_run_does_nothing(machine: Machine) -> None:
    give_users(machine, ALICE, BOB)
    machine.commands.clear()
    assert give_users(machine, ALICE, BOB).actions == ()
    assert machine.commands == []


def test_without_users_nothing_is_written(machine: Machine) -> None:
    assert (
        ensure(machine.root, parse([], [], "/home"), homes.AUTO, machine.run, machine.feed, check=False).actions == ()
    )
    assert not (machine.folder / "etc/hpcai").exists()


def test_new_accounts_have_no_password_and_existing_ones_lose_it(machine: Machine) -> None:
    give_users(machine, ALICE)
    assert "alice:*:" in machine.text("etc/shadow")
    machine.file("etc/shadow", machine.text("etc/shadow").replace("alice:*:", "alice:$y$hash:"))
    assert give_users(machine, ALICE).actions == ("remove the password of alice",)
    assert "alice:*:" in machine.text("etc/shadow")


@pytest.mark.parametrize("secret", HASHES.values(), ids=HASHES)
def test_a_given_hash_is_set_once_and_appears_nowhere_else(machine: Machine, secret: str) -> None:
    alice = {**ALICE, "password_hash": secret}
    foreseen = give_users(machine, alice, check=True)
    done = give_users(machine, alice)
    assert foreseen.actions == done.actions
    assert "set the password of alice" in done.actions
    assert f"alice:{secret}:" in machine.text("etc/shadow")
    assert secret not in f"{machine.commands} {done} {done.diff} {machine.text('etc/hpcai/users.json')}"
    assert secret not in repr(parse([WEATHER], [alice], "/home"))
    assert give_users(machine, alice).actions == ()


def test_a_changed_password_is_set_back_and_a_lock_stays(machine: Machine) -> None:
    alice = {**ALICE, "password_hash": HASHES["sha512"]}
    give_users(machine, alice)
    shadow = machine.text("etc/shadow")
    machine.file("etc/shadow", shadow.replace(HASHES["sha512"], HASHES["yescrypt"]))
    assert give_users(machine, alice).actions == ("set the password of alice",)
    assert machine.text("etc/shadow") == shadow
    machine.file("etc/shadow", shadow.replace(HASHES["sha512"], f"!{HASHES['sha512']}"))
    assert give_users(machine, alice).actions == ()
    assert give_users(machine, ALICE).actions == ()
    machine.file("etc/shadow", shadow)
    assert give_users(machine, ALICE).actions == ("remove the password of alice",)


@pytest.mark.parametrize(
    "secret",
    [
        "correct horse battery staple",
        "$1$salt$3rzhjTSzaGnfVcGwLnKE20",
        "$5$salt$ZX8PYoYbhPXH0gCUMPPIJqeqBWBLeHkHRZmQZhmTyg0",
        "$2a$12$1kYxGPJCTEsirQUfEzn3QegZ1DVtMjPVnks0a3hClkEmlVtpvDHlG",
        "$6$salt$tooshort",
        "!$6$aIpiJGF1YQegNXbL$" + "a" * 86,
        HASHES["sha512"] + "\nroot:x",
        HASHES["sha512"] + ":0:",
        "*",
    ],
)
def test_what_is_not_a_strong_hash_is_refused_and_not_shown(machine: Machine, secret: str) -> None:
    with pytest.raises(
        ConfigError, match=r"users\[alice\].password_hash must be a hash .* never the password"
    ) as refused:
        give_users(machine, {**ALICE, "password_hash": secret})
    assert secret not in str(refused.value)
    assert machine.commands == []


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"name": "carol", "uid": 1000}, "uid 1000 of user carol already belongs to user azureuser"),
        ({"name": "azureuser", "uid": 4003}, "user azureuser exists with uid 1000, not 4003"),
        ({"name": "azureuser", "uid": 1000, "gid": 5000}, "user azureuser exists with gid 1000, not 5000"),
        ({"name": "carol", "uid": 4003, "groups": ["nogroup7"]}, "carol must be in nogroup7, which does not exist"),
        ({"name": "docker", "uid": 4003}, "group docker exists with gid 999, not 4003"),
    ],
)
def test_conflicts_with_other_accounts_are_refused_and_change_nothing(
    machine: Machine, user: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserProblem, match=words):
        give_users(machine, ALICE, user)
    assert machine.commands == []


def test_all_conflicts_are_named_at_once(machine: Machine) -> None:
    with pytest.raises(UserProblem, match=r"carol .*; user azureuser"):
        give_users(machine, {"name": "carol", "uid": 1000}, {"name": "azureuser", "uid": 4003})


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"name": "alice", "uid": 27}, r"users\[alice\].uid must be a number from 1000 to 4294967293 .* nobody's"),
        ({"name": "alice", "uid": 65534}, "nobody's"),
        ({"name": "alice", "uid": "4001"}, "must be a number from 1000"),
        ({"name": "Alice", "uid": 4001}, r"users\[Alice\].name must be 1 to 31 lower-case letters"),
        ({"name": "alice", "uid": 4001, "home": "/home/../etc"}, "without '..'"),
        ({"name": "alice", "uid": 4001, "comment": "a:b"}, "colon"),
        (
            {"name": "alice", "uid": 4001, "ssh_keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]},
            r"ssh_keys\[0\] must be a public key, .* not '.{0,40}'",
        ),
        (
            {"name": "alice", "uid": 4001, "ssh_keys": [f"{KEY}\nssh-rsa AAAA"]},
            r"ssh_keys\[0\] must be a public key, .* not '.{0,40}'",
        ),
        ({"name": "bob", "uid": 4001}, "is listed twice"),
        ({"name": "carol", "uid": 4002}, "users bob and carol have the same number 4002"),
    ],
)
def test_invalid_options_are_refused(machine: Machine, user: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        give_users(machine, BOB, user)


def test_shell_and_groups_are_changed_and_other_memberships_kept(machine: Machine) -> None:
    give_users(machine, ALICE)
    done = give_users(machine, {**ALICE, "shell": "/bin/zsh", "groups": []})
    assert done.actions == ("change shell of alice from /bin/bash to /bin/zsh", "remove alice from weather")
    assert "docker:x:999:alice\n" in machine.text("etc/group")


def test_an_absent_user_is_removed_and_its_home_kept(machine: Machine) -> None:
    give_users(machine, ALICE)
    (machine.folder / "home/alice").mkdir(parents=True)
    done = give_users(machine, {**ALICE, "state": "absent"})
    assert "remove user alice, whose files stay" in done.actions
    assert "alice:x:4001" not in machine.text("etc/passwd")
    assert (machine.folder / "home/alice").is_dir()


def test_a_user_and_the_group_of_the_same_name_can_be_removed_in_one_run(machine: Machine) -> None:
    group, other = {"name": "alice", "gid": 4001}, {"name": "old", "gid": 4009}
    user = {"name": "alice", "uid": 4001}

    def ensured(state: str, check: bool = False) -> Outcome:
        options = parse([{**one, "state": state} for one in (group, other)], [{**user, "state": state}], "/home")
        return ensure(machine.root, options, homes.NEVER, machine.run, machine.feed, check, machine.give)

    ensured("present")
    foreseen = ensured("absent", check=True)
    assert ensured("absent").actions == foreseen.actions
    assert machine.commands[-2:] == ["userdel alice", "groupdel old"]
    assert "alice:" not in machine.text("etc/group").replace("docker:x:999:alice", "")
    assert ensured("absent").actions == ()


def test_an_absent_user_with_another_uid_is_refused(machine: Machine) -> None:
    with pytest.raises(UserProblem, match="azureuser exists with uid 1000"):
        give_users(machine, {"name": "azureuser", "uid": 4001, "state": "absent"})


def test_a_home_is_private_and_has_the_skeleton_and_the_keys(machine: Machine) -> None:
    foreseen = give_users(machine, ALICE, mode=homes.AUTO, check=True)
    done = give_users(machine, ALICE, mode=homes.AUTO)
    assert done.actions == foreseen.actions
    home = machine.folder / "home/alice"
    assert home.stat().st_mode & 0o777 == 0o700
    assert machine.text("home/alice/.profile") == "# skeleton\n"
    assert KEY in machine.text("home/alice/.ssh/authorized_keys").splitlines()
    assert (home / ".ssh").stat().st_mode & 0o777 == 0o700
    assert set(machine.given.values()) == {(4001, 4001)}
    assert {".profile", ".ssh"} <= set(machine.given)


def as_owner_of_all(monkeypatch: pytest.MonkeyPatch, user: dict[str, Any]) -> None:
    """Pretend that the files of this process belong to the user."""
    real_stat, real_fstat = os.lstat, os.fstat

    def owned(found: os.stat_result) -> os.stat_result:
        fields = list(found)
        fields[4] = user["uid"]
        return os.stat_result(fields)

    monkeypatch.setattr(homes.os, "lstat", lambda path: owned(real_stat(path)))
    monkeypatch.setattr(homes.os, "fstat", lambda handle: owned(real_fstat(handle)))


def test_foreign_keys_are_kept_and_a_key_can_be_removed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    give_users(machine, ALICE, mode=homes.AUTO)
    as_owner_of_all(monkeypatch, ALICE)
    keys = machine.folder / "home/alice/.ssh/authorized_keys"
    keys.write_text(keys.read_text() + "ssh-rsa AAAA own\n")
    assert give_users(machine, ALICE, mode=homes.AUTO).actions == ()
    done = give_users(machine, {**ALICE, "ssh_keys": []}, mode=homes.AUTO)
    assert done.actions == (f"write {HOME}/.ssh/authorized_keys",)
    assert keys.read_text() == "ssh-rsa AAAA own\n"


def test_a_link_of_the_user_is_not_followed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    give_users(machine, {**ALICE, "ssh_keys": []}, mode=homes.AUTO)
    as_owner_of_all(monkeypatch, ALICE)
    (machine.folder / "home/alice/.ssh").symlink_to(machine.folder / "etc")
    with pytest.raises(UserProblem, match="A link or a file is in the way"):
        give_users(machine, ALICE, mode=homes.AUTO)
    assert not (machine.folder / "etc/authorized_keys").exists()


def test_a_home_of_another_user_is_refused(machine: Machine) -> None:
    (machine.folder / "home/alice").mkdir(parents=True)
    with pytest.raises(UserProblem, match=f"/home/alice belongs to uid {os.getuid()}, not to alice"):
        give_users(machine, ALICE, mode=homes.AUTO)


@pytest.mark.parametrize("kind", ["nfs4", "autofs", "lustre"])
def test_no_home_is_created_on_a_remote_file_system(machine: Machine, kind: str) -> None:
    machine.mounts(ROOT_MOUNT, f"21 20 0:40 / /home rw - {kind} 10.0.0.4:/home rw")
    give_users(machine, ALICE, mode=homes.AUTO)
    assert not (machine.folder / "home/alice").exists()
    give_users(machine, ALICE, mode=homes.ALWAYS)
    assert (machine.folder / "home/alice").is_dir()


def test_no_home_is_created_where_a_shared_file_system_will_be_mounted(machine: Machine) -> None:
    machine.file("etc/hpcai/shared_fs.json", json.dumps({"schema": 1, "mounts": [{"path": "/home"}]}))
    give_users(machine, ALICE, mode=homes.AUTO)
    assert not (machine.folder / "home/alice").exists()
