# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to compute nodes: users with a job get in, admins always, and nobody is locked out by mistake."""

from __future__ import annotations

import dataclasses
import grp
import json
import pathlib
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access import pam, plan
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.access.options import (
    SETTINGS,
    AccessOptions,
    as_text,
    read_options,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import apply_all
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.users.facts import AccountFacts

from ..users.machine import Machine

DEBIAN = """# PAM configuration for the Secure Shell service

@include common-auth
account    required     pam_nologin.so
# account  required     pam_access.so
@include common-account
session    required     pam_loginuid.so
@include common-session
session    required     pam_limits.so
@include common-password
"""
COMMON_SESSION = """session	[default=1]	pam_permit.so
session	required	pam_unix.so
session	optional	pam_systemd.so
"""
EL = """#%PAM-1.0
auth       substack     password-auth
account    required     pam_sepermit.so
account    required     pam_nologin.so
account    include      password-auth
password   include      password-auth
session    required     pam_selinux.so close
session    include      password-auth
session    include      postlogin
"""
PASSWORD_AUTH = """account     sufficient    pam_localuser.so
session     required      pam_limits.so
-session    optional      pam_systemd.so
session     required      pam_unix.so
"""
OPTIONS = AccessOptions(
    present=True,
    admins=("azureuser",),
    admin_groups=("sudo", "wheel"),
    node_name="compute-17",
    options=("action_no_jobs=deny",),
    me="azureuser",
)
LIBRARIES = "usr/lib/x86_64-linux-gnu/security"


def no_output(command: object) -> Result:
    """Answer any command with success and no output."""
    return Result((str(command),), 0, "", "")


@pytest.fixture
def debian(tmp_path: pathlib.Path) -> Machine:
    """A machine of the Debian family."""
    machine = Machine(tmp_path)
    machine.file("etc/pam.d/sshd", DEBIAN)
    machine.file("etc/pam.d/common-session", COMMON_SESSION)
    machine.file("etc/pam.d/common-account", "account required pam_permit.so\n")
    for name in ("pam_listfile.so", "pam_slurm_adopt.so"):
        machine.file(f"{LIBRARIES}/{name}", "")
    machine.file("etc/nsswitch.conf", "passwd:         files systemd\ngroup:          files\nhosts: files dns\n")
    return machine


def access(machine: Machine, options: AccessOptions = OPTIONS, check: bool = False, **other: Any) -> list[str]:
    """Apply the options; return the written files, with their paths on the machine."""
    made = plan.plan(machine.root, dataclasses.replace(options, **other), no_output, check)
    if not check:
        apply_all(made.files)
    return [change.path[len(str(machine.folder)) :] for change in made.files]


def test_files_that_sshd_includes_are_written_before_sshds_own(debian: Machine) -> None:
    foreseen = access(debian, check=True)
    assert debian.text("etc/pam.d/sshd") == DEBIAN
    written = access(debian)
    assert written == foreseen
    assert written[-1] == "/etc/pam.d/sshd"
    assert set(written[:-1]) == {
        *(*plan.ALLOWED, plan.LINGERING),
        *(pam.ADMINS, pam.ADMIN_GROUPS, SETTINGS, "/etc/pam.d/hpcai-common-session"),
    }
    assert debian.text("etc/hpcai/ssh_admin_groups") == "sudo\nwheel\n"
    assert access(debian) == []


def test_admins_skip_the_check_for_a_job_and_nothing_else(debian: Machine) -> None:
    access(debian)
    lines = debian.text("etc/pam.d/sshd").splitlines()
    start = lines.index(f"# BEGIN {pam.BLOCK}")
    users, groups, adopt, end = lines[start + 1 : start + 5]
    assert users.startswith("account [success=2 default=ignore] pam_listfile.so")
    assert groups.startswith("account [success=1 default=ignore] pam_listfile.so")
    assert adopt == "account required pam_slurm_adopt.so nodename=compute-17 action_no_jobs=deny"
    assert end == f"# END {pam.BLOCK}"
    # The lines after the block apply to all users; the lines before it are the distribution's.
    assert lines[start + 5] == "@include common-account"
    assert "account    required     pam_nologin.so" in lines[:start]


def test_ssh_sessions_stay_in_their_job_and_consoles_are_left_alone(debian: Machine) -> None:
    access(debian)
    assert "@include hpcai-common-session\n" in debian.text("etc/pam.d/sshd")
    assert "pam_systemd.so" not in debian.text("etc/pam.d/hpcai-common-session").split("\n", 2)[2]
    assert "pam_unix.so" in debian.text("etc/pam.d/hpcai-common-session")
    assert debian.text("etc/pam.d/common-session") == COMMON_SESSION


def test_a_changed_file_of_the_distribution_is_copied_again(debian: Machine) -> None:
    access(debian)
    debian.file("etc/pam.d/common-session", COMMON_SESSION + "session optional pam_umask.so\n")
    assert access(debian) == ["/etc/pam.d/hpcai-common-session"]
    assert "pam_umask.so" in debian.text("etc/pam.d/hpcai-common-session")


def test_on_el_the_check_comes_before_the_include_that_ends_the_phase(debian: Machine) -> None:
    debian.file("etc/pam.d/sshd", EL)
    debian.file("etc/pam.d/password-auth", PASSWORD_AUTH)
    debian.file("etc/pam.d/postlogin", "session optional pam_umask.so\n")
    access(debian)
    text = debian.text("etc/pam.d/sshd")
    assert text.index("pam_slurm_adopt.so") < text.index("account    include      password-auth")
    assert "session    include      hpcai-password-auth\n" in text
    assert "session    include      postlogin\n" in text
    assert "auth       substack     password-auth\n" in text
    assert "-session    optional      pam_systemd.so" not in debian.text("etc/pam.d/hpcai-password-auth")
    access(debian, present=False)
    assert debian.text("etc/pam.d/sshd") == EL


def test_removing_it_restores_the_pam_stack(debian: Machine) -> None:
    access(debian)
    undone = access(debian, present=False)
    assert undone[0] == "/etc/pam.d/sshd"
    assert debian.text("etc/pam.d/sshd") == DEBIAN
    assert not (debian.folder / "etc/pam.d/hpcai-common-session").exists()
    assert not (debian.folder / "etc/hpcai/ssh_admins").exists()
    assert access(debian, present=False) == []


def test_a_file_of_the_site_with_our_prefix_is_kept(debian: Machine) -> None:
    debian.file("etc/pam.d/hpcai-own", "session required pam_permit.so\n")
    access(debian)
    access(debian, present=False)
    assert (debian.folder / "etc/pam.d/hpcai-own").exists()


def test_locking_out_the_user_who_runs_it_is_refused(debian: Machine) -> None:
    with pytest.raises(pam.PamProblem, match=r"carol, who runs this, could not log in again\. Add carol"):
        access(debian, me="carol")
    assert debian.text("etc/pam.d/sshd") == DEBIAN


@pytest.mark.parametrize(
    ("admins", "groups", "is_admin"), [(("dora",), (), True), ((), ("ops",), True), ((), ("wheel",), False)]
)
def test_an_admin_can_be_a_user_of_a_directory(
    monkeypatch: pytest.MonkeyPatch, admins: tuple[str, ...], groups: tuple[str, ...], is_admin: bool
) -> None:
    numbers = {9000: "people", 9001: "ops"}
    account = pwd.struct_passwd(("dora", "x", 9000, 9000, "", "/home/dora", "/bin/bash"))
    monkeypatch.setattr(plan.pwd, "getpwnam", {"dora": account}.__getitem__)
    monkeypatch.setattr(plan.grp, "getgrgid", lambda number: grp.struct_group((numbers[number], "x", number, [])))
    monkeypatch.setattr(plan.os, "getgrouplist", lambda _name, _gid: list(numbers))
    options = dataclasses.replace(OPTIONS, me="dora", admins=admins, admin_groups=groups)
    problem = plan._nobody(Root("/"), AccountFacts((), {}, {}), options)
    assert problem.startswith("" if is_admin else "dora, who runs this, could not log in again")
    assert bool(problem) != is_admin


def test_membership_in_an_admin_group_is_enough(debian: Machine) -> None:
    assert access(debian, admins=())


def test_root_counts_as_an_admin_if_it_is_named(debian: Machine) -> None:
    assert access(debian, admins=("root",), admin_groups=(), me="")


def test_locking_out_everybody_is_refused(debian: Machine) -> None:
    with pytest.raises(pam.PamProblem, match=r"none of the admins \(nobody-here\)"):
        access(debian, admins=("nobody-here",), admin_groups=("wheel",), me="")


@pytest.mark.parametrize("name", ["pam_listfile.so", "pam_slurm_adopt.so"])
def test_a_missing_pam_module_is_refused(debian: Machine, name: str) -> None:
    (debian.folder / LIBRARIES / name).unlink()
    with pytest.raises(pam.PamProblem, match=rf"{name} is not installed: install"):
        access(debian)
    assert debian.text("etc/pam.d/sshd") == DEBIAN


def test_check_mode_only_warns_of_a_package_that_is_still_missing(debian: Machine) -> None:
    (debian.folder / LIBRARIES / "pam_slurm_adopt.so").unlink()
    made = plan.plan(debian.root, OPTIONS, no_output, may_come=True)
    assert made.files
    assert "libpam-slurm-adopt" in made.warnings[0]


def test_an_unknown_pam_stack_is_refused(debian: Machine) -> None:
    debian.file("etc/pam.d/sshd", "account required pam_unix.so\n")
    with pytest.raises(pam.PamProblem, match="includes no file for its account phase"):
        access(debian)


def test_nss_slurm_is_configured_on_request_and_removed_again(debian: Machine) -> None:
    before = debian.text("etc/nsswitch.conf")
    access(debian, nss_slurm=True)
    assert debian.text("etc/nsswitch.conf") == (
        "passwd:         files slurm systemd\ngroup:          files slurm\nhosts: files dns\n"
    )
    assert debian.text("etc/nss_slurm.conf") == (
        f"{plan.NSS_HEADER}\nNodeName=compute-17\nSlurmdSpoolDir=/var/lib/slurm/slurmd\n"
    )
    assert access(debian, nss_slurm=True) == []
    access(debian)
    assert debian.text("etc/nsswitch.conf") == before
    assert not (debian.folder / "etc/nss_slurm.conf").exists()


def test_an_image_gets_only_the_settings_for_each_boot(debian: Machine) -> None:
    apply_all(plan.plan_for_boot(debian.root, OPTIONS).files)
    assert debian.text("etc/pam.d/sshd") == DEBIAN
    read = read_options(debian.root, "compute-17")
    assert read == dataclasses.replace(OPTIONS, me="")
    assert plan.plan_for_boot(debian.root, OPTIONS).files == ()
    (removed,) = plan.plan_for_boot(debian.root, dataclasses.replace(OPTIONS, present=False)).files
    assert removed.after is None


def test_removed_rules_are_not_restored_by_the_next_boot(debian: Machine) -> None:
    access(debian)
    assert read_options(debian.root, "compute-17")
    access(debian, present=False)
    assert read_options(debian.root, "compute-17") is None


@pytest.mark.parametrize("broken", [{"admins": "azureuser"}, {"options": [1]}, {"nss_slurm": None}, {"spool_dir": 5}])
def test_invalid_settings_are_refused_and_named(debian: Machine, broken: dict[str, Any]) -> None:
    settings = {**json.loads(as_text(OPTIONS)), **broken}
    debian.file("etc/hpcai/access.json", json.dumps(settings))
    with pytest.raises(ConfigError, match=rf"access.json: {next(iter(broken))}\S* must be .* run the playbook again"):
        read_options(debian.root, "compute-17")


# /proc hides other users' processes on request, and is remounted only if something changes.

OPEN = AccessOptions(admin_groups=("sudo",), node_name="gpu-0", options=())
HIDDEN = dataclasses.replace(OPEN, hide_processes=True)


def mounted(folder: Path, options: str) -> Root:
    """A machine whose /proc is mounted with these options."""
    (folder / "proc/self").mkdir(parents=True, exist_ok=True)
    line = f"22 28 0:21 / /proc rw,nosuid,nodev,noexec - proc proc {options}\n"
    (folder / "proc/self/mountinfo").write_text(line, encoding="utf-8")
    return Root(str(folder))


@pytest.mark.parametrize(
    ("mount_options", "options", "remount"),
    [
        ("rw", HIDDEN, "remount,hidepid=2,gid="),
        ("rw,hidepid=1", HIDDEN, "remount,hidepid=2,gid="),
        ("rw,gid=4,hidepid=invisible", HIDDEN, ""),
        ("rw,gid=4,hidepid=2", HIDDEN, ""),
        ("rw", OPEN, ""),
        ("rw,gid=4,hidepid=invisible", OPEN, "remount,hidepid=0,gid=0"),
        ("rw,gid=4,hidepid=2", dataclasses.replace(HIDDEN, present=False), "remount,hidepid=0,gid=0"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_proc_is_remounted_only_to_change_it(
    tmp_path: Path, mount_options: str, options: AccessOptions, remount: str, check: bool
) -> None:
    asked: list[str] = []

    def run(command: Sequence[str]) -> Result:
        asked.append(" ".join(command))
        return Result(tuple(command), 0, "", "")

    done = plan.remount_proc(mounted(tmp_path, mount_options), options, run, check)
    assert len(done) == bool(remount)
    assert len(asked) == (bool(remount) and not check)
    assert all(one.startswith(f"mount -o {remount}") and one.endswith(" /proc") for one in asked)


def test_logind_sees_all_processes_where_users_do_not() -> None:
    assert "SupplementaryGroups=adm" in (plan.hidepid_files(HIDDEN)[plan.LOGIND] or "")
    assert plan.hidepid_files(OPEN) == {plan.LOGIND: None}


@pytest.mark.parametrize("hide", [True, False])
def test_the_settings_for_each_boot_contain_hide_processes(tmp_path: Path, hide: bool) -> None:
    file = tmp_path / SETTINGS[1:]
    file.parent.mkdir(parents=True)
    text = as_text(dataclasses.replace(OPEN, hide_processes=hide))
    file.write_text(text, encoding="utf-8")
    kept = read_options(Root(str(tmp_path)), "gpu-0")
    assert kept is not None
    assert kept.hide_processes is hide
    file.write_text(text.replace(str(hide).lower(), '"maybe"').replace('"nss_slurm": "maybe"', '"nss_slurm": false'))
    with pytest.raises(ConfigError, match="hide_processes must be true or false"):
        read_options(Root(str(tmp_path)), "gpu-0")


def test_an_image_of_an_earlier_version_hides_nothing(tmp_path: Path) -> None:
    file = tmp_path / SETTINGS[1:]
    file.parent.mkdir(parents=True)
    lines = [line for line in as_text(OPEN).splitlines() if "hide_processes" not in line]
    file.write_text("\n".join(lines), encoding="utf-8")
    kept = read_options(Root(str(tmp_path)), "gpu-0")
    assert kept is not None
    assert not kept.hide_processes
