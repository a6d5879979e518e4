# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On Enterprise Linux, the roles refuse packages that dnf cannot install before they install any."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from .conftest import LOCAL, Evaluate

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
FIND_OUT, REFUSE = "Find out whether dnf can install the packages", "Refuse packages that dnf cannot install"
# What dnf of Enterprise Linux says without EPEL: github.com/Azure/cyclecloud-slurm, pull request 414.
WITHOUT_EPEL = {
    "rc": 1,
    "failures": [],
    "msg": "Depsolve Error occurred: \n Problem 1: conflicting requests\n  - nothing provides libjwt.so.1()(64bit)",
}
WITHOUT_DKMS = {
    "rc": 1,
    "failures": ["No package dkms available."],
    "msg": "Failed to install some of the specified packages",
}
PLACES = {"slurm": "packages.yml", "image": "install.yml"}


def tasks_of(role: str, file: str) -> list[dict[str, Any]]:
    """The tasks of a file of a role."""
    return list(yaml.safe_load((ROLES / role / "tasks" / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize(("role", "file"), PLACES.items())
def test_dnf_is_asked_before_it_installs(role: str, file: str) -> None:
    """The role asks for the same packages, in check mode, and refuses before the first installation with dnf."""
    tasks = tasks_of(role, file)
    names = [task["name"] for task in tasks]
    installing = "Install the packages" + (" (dnf)" if role == "image" else "")
    assert names.index(FIND_OUT) + 1 == names.index(REFUSE) < names.index(installing)
    asked, install = tasks[names.index(FIND_OUT)], tasks[names.index(installing)]
    assert asked["check_mode"] is True
    wanted = install.get("ansible.builtin.dnf") or install["ansible.builtin.package"]
    assert asked["ansible.builtin.dnf"]["name"].strip("{} ").startswith(wanted["name"].strip("{} "))


@pytest.mark.parametrize(
    ("role", "registered", "answer", "shown"),
    [
        (
            "slurm",
            "__slurm_dnf",
            WITHOUT_EPEL,
            "Problem 1: conflicting requests - nothing provides libjwt.so.1()(64bit)",
        ),
        ("image", "__image_dnf", WITHOUT_DKMS, "dnf reports: No package dkms available."),
        # A dnf that cannot be asked has no exit status.
        ("slurm", "__slurm_dnf", {"msg": "Could not import the dnf python module"}, "Could not import the dnf"),
        ("slurm", "__slurm_dnf", {"rc": 0, "msg": "Nothing to do"}, None),
        ("image", "__image_dnf", {"rc": 0, "changed": True, "msg": "Check mode: No changes made"}, None),
    ],
)
def test_the_error_says_what_dnf_misses_and_where_it_is(
    evaluate: Evaluate, role: str, registered: str, answer: dict[str, Any], shown: str | None
) -> None:
    (refuse,) = [task["ansible.builtin.assert"] for task in tasks_of(role, PLACES[role]) if task["name"] == REFUSE]
    facts = {"os_family": "RedHat", "distribution": "AlmaLinux", "distribution_major_version": "9", "pkg_mgr": "dnf"}
    base = {"gpus": 8, "present": [], "booted": True}
    given = {registered: answer, "ansible_facts": {**facts, "architecture": "x86_64"}, "__image_set": {"base": base}}
    asked = {"holds": f"{{{{ {refuse['that']} }}}}", "message": refuse["fail_msg"]}
    hosts = {"all": {"hosts": {"node": {}}, "vars": LOCAL}}
    answers = evaluate(f"hpcai.azure.{role}", hosts, asked, **given)["node"]
    assert answers["holds"] is (shown is None)
    if shown is not None:
        assert shown in answers["message"]
        assert "dnf install epel-release" in answers["message"]
        assert "\n" not in answers["message"]


def test_the_folder_of_slurmds_log_is_created_on_every_machine() -> None:
    """slurm.spec creates none."""
    conf = yaml.safe_load((ROLES / "slurm/vars/main/conf.yml").read_text(encoding="utf-8"))
    log = pathlib.PurePosixPath(conf["__slurm_conf_base"]["SlurmdLogFile"])
    folders = [
        task["ansible.builtin.file"] for task in tasks_of("slurm", "install.yml") if "ansible.builtin.file" in task
    ]
    (folder,) = [folder for folder in folders if folder["path"] == str(log.parent)]
    assert (folder["state"], folder["owner"]) == ("directory", "slurm")
