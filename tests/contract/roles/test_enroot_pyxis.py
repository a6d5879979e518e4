# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of the role enroot_pyxis: files, digests and packages by operating system. No task runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from stand_ins.enroot_pyxis.build import build

from .conftest import LOCAL, Evaluate

DIGEST = "a" * 64
SYSTEMS: dict[str, dict[str, str]] = {
    "debian": {"os_family": "Debian", "distribution": "Debian", "distribution_version": "12", "architecture": "x86_64"},
    "noble": {
        "os_family": "Debian",
        "distribution": "Ubuntu",
        "distribution_version": "24.04",
        "architecture": "aarch64",
    },
    "jammy": {
        "os_family": "Debian",
        "distribution": "Ubuntu",
        "distribution_version": "22.04",
        "architecture": "x86_64",
    },
    "el9": {"os_family": "RedHat", "distribution": "Rocky", "distribution_version": "9.4", "architecture": "aarch64"},
}
PACKAGES = {
    "debian": "enroot_4.1.2-1_amd64.deb",
    "noble": "enroot_4.1.2-1_arm64.deb",
    "el9": "enroot-4.1.2-1.el8.aarch64.rpm",
}
NAMES = ("sources", "wanted", "packages", "enroot", "folders", "lacking", "apparmor", "hook")


def hosts(complete: Path, incomplete: Path) -> dict[str, dict[str, Any]]:
    """The hosts: each has an operating system and variables of a user."""
    return {
        **{system: {"system": system} for system in SYSTEMS},
        **{
            f"{system} with digests": {
                "system": system,
                "enroot_pyxis_sha256": {package: DIGEST, "v0.24.0.tar.gz": DIGEST},
                "enroot_pyxis_mirror": "https://mirror.example/x",
            }
            for system, package in PACKAGES.items()
        },
        "files": {"system": "debian", "enroot_pyxis_files": str(complete), "enroot_pyxis_caps": True},
        "too few files": {"system": "debian", "enroot_pyxis_files": str(incomplete)},
        "noble by hand": {"system": "noble", "enroot_pyxis_apparmor": "off"},
        "scratch": {"system": "debian", "hpcai_scratch": "/fast", "enroot_pyxis_conf": {"ENROOT_MOUNT_HOME": True}},
        "by users": {"system": "debian", "enroot_pyxis_prolog": False},
        "login": {"system": "debian", "hpcai_functions": ["login"]},
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two folders of release files; enroot is missing in one of them."""
    folder = tmp_path_factory.mktemp("files")
    enroot, *_others = build(folder / "complete")
    shutil.copytree(folder / "complete", folder / "incomplete")
    (folder / "incomplete" / enroot.name).unlink()
    return folder


@pytest.fixture(scope="module")
def by_host(evaluate: Evaluate, files: Path) -> dict[str, dict[str, Any]]:
    """The role's internal variables by host."""
    given = hosts(files / "complete", files / "incomplete")
    systems = {
        host: {**variables, "found": {**SYSTEMS[variables["system"]], "ansible_local": {}}}
        for host, variables in given.items()
    }
    inventory = {"all": {"hosts": systems, "vars": LOCAL}}
    asked = {name: f"{{{{ __enroot_pyxis_{name} }}}}" for name in NAMES}
    return evaluate("hpcai.azure.enroot_pyxis", inventory, asked, ansible_facts="{{ found }}")


def required_files(variables: dict[str, Any]) -> list[str]:
    """The names of the required release files."""
    return [pin["name"] for pin in variables["wanted"]]


@pytest.mark.parametrize(
    ("system", "headers"), [("debian", "libslurm-dev"), ("noble", "libslurm-dev"), ("el9", "slurm-devel")]
)
def test_missing_digests_are_errors_that_name_the_files(
    by_host: dict[str, dict[str, Any]], system: str, headers: str
) -> None:
    here, package = by_host[system], PACKAGES[system]
    assert required_files(here) == [package, "v0.24.0.tar.gz"]
    assert f'enroot_pyxis_sha256["{package}"]' in here["sources"]["problems"][0]
    assert "https://github.com/NVIDIA/pyxis/archive/refs/tags/v0.24.0.tar.gz" in here["sources"]["problems"][1]
    assert headers in here["packages"]
    given = by_host[f"{system} with digests"]
    assert given["sources"]["problems"] == []
    assert given["wanted"][0]["url"] == f"https://mirror.example/x/{package}"


def test_a_folder_needs_no_digests_but_must_contain_all_files(by_host: dict[str, dict[str, Any]], files: Path) -> None:
    assert by_host["files"]["sources"]["problems"] == []
    assert sorted(by_host["files"]["sources"]["local"].values()) == sorted(map(str, (files / "complete").iterdir()))
    (problem,) = by_host["too few files"]["sources"]["problems"]
    assert problem == f"{files}/incomplete (enroot_pyxis_files) has no enroot_4.1.2-1_amd64.deb."


@pytest.mark.parametrize(
    ("system", "profile"), [("debian", "off"), ("jammy", "off"), ("noble", "profile"), ("el9", "leave")]
)
def test_user_namespaces_are_allowed_as_the_system_requires(
    by_host: dict[str, dict[str, Any]], system: str, profile: str
) -> None:
    enroot = by_host[system]["enroot"]
    assert enroot["apparmor"] == profile
    assert "kernel.apparmor_restrict_unprivileged_userns" not in enroot["sysctl"]


def test_user_namespaces_can_be_allowed_for_all_programs(by_host: dict[str, dict[str, Any]]) -> None:
    sysctl = by_host["noble by hand"]["enroot"]["sysctl"]
    assert sysctl["kernel.apparmor_restrict_unprivileged_userns"] == 0


def test_root_creates_users_folders_where_jobs_run(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["scratch"]["enroot"]["root_makes_folders"] is True
    assert by_host["login"]["enroot"]["root_makes_folders"] is False
    by_users = by_host["by users"]
    assert by_users["enroot"]["root_makes_folders"] is False
    assert {"path": "/scratch/enroot/data", "mode": "1777"} in by_users["folders"]
    assert by_host["scratch"]["hook"]["15-containers"]["content"].endswith("containers folders\nexit 0\n")


def test_paths_are_on_the_scratch_only_if_there_is_one(by_host: dict[str, dict[str, Any]]) -> None:
    scratch, login = by_host["scratch"], by_host["login"]
    assert scratch["enroot"]["settings"]["ENROOT_DATA_PATH"] == "/fast/enroot/data/user-$(id -u)"
    assert scratch["enroot"]["settings"]["ENROOT_MOUNT_HOME"] is True
    assert {"path": "/fast/enroot/data", "mode": "0755"} in scratch["folders"]
    assert {"path": "/fast/enroot/tmp", "mode": "1777"} in scratch["folders"]
    assert scratch["enroot"]["local_folders"] == []
    assert login["enroot"]["settings"]["ENROOT_DATA_PATH"] == "/var/lib/enroot/data/user-$(id -u)"
    assert login["folders"] == []
    assert "/var/lib/enroot/data" in login["enroot"]["local_folders"]
