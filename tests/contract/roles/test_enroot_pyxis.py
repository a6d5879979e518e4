# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role enroot_pyxis before it touches a machine: files, digests and packages, by operating system."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from stand_ins.enroot_pyxis.build import build

from .conftest import LOCAL, Show

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
    """The hosts: a system each, with these of a user's variables."""
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
    """A folder with the release files, and one in which enroot is missing."""
    folder = tmp_path_factory.mktemp("files")
    enroot, *_others = build(folder / "complete")
    shutil.copytree(folder / "complete", folder / "incomplete")
    (folder / "incomplete" / enroot.name).unlink()
    return folder


@pytest.fixture(scope="module")
def shown(show: Show, files: Path) -> dict[str, dict[str, Any]]:
    """The role's own variables by host."""
    given = hosts(files / "complete", files / "incomplete")
    systems = {
        host: {**variables, "found": {**SYSTEMS[variables["system"]], "ansible_local": {}}}
        for host, variables in given.items()
    }
    inventory = {"all": {"hosts": systems, "vars": LOCAL}}
    asked = {name: f"{{{{ __enroot_pyxis_{name} }}}}" for name in NAMES}
    return show("hpcai.azure.enroot_pyxis", inventory, asked, ansible_facts="{{ found }}")


def names(shown: dict[str, Any]) -> list[str]:
    """The release files that are wanted."""
    return [pin["name"] for pin in shown["wanted"]]


@pytest.mark.parametrize(
    ("system", "headers"), [("debian", "libslurm-dev"), ("noble", "libslurm-dev"), ("el9", "slurm-devel")]
)
def test_without_digests_nothing_is_fetched_and_the_error_says_which(
    shown: dict[str, dict[str, Any]], system: str, headers: str
) -> None:
    here, package = shown[system], PACKAGES[system]
    assert names(here) == [package, "v0.24.0.tar.gz"]
    assert f'enroot_pyxis_sha256["{package}"]' in here["sources"]["problems"][0]
    assert "https://github.com/NVIDIA/pyxis/archive/refs/tags/v0.24.0.tar.gz" in here["sources"]["problems"][1]
    assert headers in here["packages"]
    given = shown[f"{system} with digests"]
    assert given["sources"]["problems"] == []
    assert given["wanted"][0]["url"] == f"https://mirror.example/x/{package}"


def test_a_folder_with_the_files_needs_no_digest_and_one_that_lacks_some_is_named(
    shown: dict[str, dict[str, Any]], files: Path
) -> None:
    assert shown["files"]["sources"]["problems"] == []
    assert sorted(shown["files"]["sources"]["local"].values()) == sorted(map(str, (files / "complete").iterdir()))
    (problem,) = shown["too few files"]["sources"]["problems"]
    assert problem == f"{files}/incomplete (enroot_pyxis_files) has no enroot_4.1.2-1_amd64.deb."


@pytest.mark.parametrize(
    ("system", "profile"), [("debian", "off"), ("jammy", "off"), ("noble", "profile"), ("el9", "leave")]
)
def test_user_namespaces_are_allowed_as_the_system_needs_it(
    shown: dict[str, dict[str, Any]], system: str, profile: str
) -> None:
    enroot = shown[system]["enroot"]
    assert enroot["apparmor"] == profile
    assert "kernel.apparmor_restrict_unprivileged_userns" not in enroot["sysctl"]


def test_user_namespaces_may_be_allowed_to_everybody_instead(shown: dict[str, dict[str, Any]]) -> None:
    sysctl = shown["noble by hand"]["enroot"]["sysctl"]
    assert sysctl["kernel.apparmor_restrict_unprivileged_userns"] == 0


def test_root_makes_users_folders_where_jobs_run(shown: dict[str, dict[str, Any]]) -> None:
    assert shown["scratch"]["enroot"]["root_makes_folders"] is True
    assert shown["login"]["enroot"]["root_makes_folders"] is False
    by_users = shown["by users"]
    assert by_users["enroot"]["root_makes_folders"] is False
    assert {"path": "/scratch/enroot/data", "mode": "1777"} in by_users["folders"]
    assert shown["scratch"]["hook"]["15-containers"]["content"].endswith("containers folders\nexit 0\n")


def test_paths_are_on_the_scratch_only_where_there_is_one(shown: dict[str, dict[str, Any]]) -> None:
    scratch, login = shown["scratch"], shown["login"]
    assert scratch["enroot"]["settings"]["ENROOT_DATA_PATH"] == "/fast/enroot/data/user-$(id -u)"
    assert scratch["enroot"]["settings"]["ENROOT_MOUNT_HOME"] is True
    assert {"path": "/fast/enroot/data", "mode": "0755"} in scratch["folders"]
    assert {"path": "/fast/enroot/tmp", "mode": "1777"} in scratch["folders"]
    assert scratch["enroot"]["local_folders"] == []
    assert login["enroot"]["settings"]["ENROOT_DATA_PATH"] == "/var/lib/enroot/data/user-$(id -u)"
    assert login["folders"] == []
    assert "/var/lib/enroot/data" in login["enroot"]["local_folders"]
