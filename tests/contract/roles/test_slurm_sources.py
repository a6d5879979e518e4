# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packages that the role slurm installs, and their source, by operating system."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import LOCAL, Evaluate


def system(distribution: str, version: str, family: str = "Debian", **variables: Any) -> dict[str, Any]:
    """A host with the facts of an operating system."""
    facts = {
        "distribution": distribution,
        "distribution_version": version,
        "distribution_major_version": version.split(".")[0],
        "os_family": family,
        "pkg_mgr": "apt" if family == "Debian" else "dnf",
        "ansible_local": variables.pop("local", {}),
    }
    functions = ["controller", "login", "compute"]
    return {"facts": facts, "slurm_functions": functions, "slurm_pam_adopt": False, **variables}


def recorded(**changes: Any) -> dict[str, Any]:
    """The local facts of a compute node of Debian 12."""
    record = {
        "packages": ["acl", "e2fsprogs", "libpmix-dev", "munge", "slurm-client", "slurm-wlm-basic-plugins", "slurmd"],
        "version": "22.05.8",
        "source": "distribution",
        "functions": ["compute"],
    }
    return {"local": {"hpcai_slurm": {**record, **changes}}, "slurm_functions": ["compute"]}


def of_debian(**variables: Any) -> dict[str, Any]:
    """A machine with Debian 12."""
    host = system("Debian", "12", local=variables.pop("local", {}))
    return {**host, **variables}


HOSTS = {
    "debian12": system("Debian", "12"),
    "debian13": system("Debian", "13"),
    "ubuntu22": system("Ubuntu", "22.04"),
    "ubuntu24": system("Ubuntu", "24.04"),
    "ubuntu24_repository": system("Ubuntu", "24.04", slurm_source="repository", slurm_repository={"suite": "insiders"}),
    "rocky9": system("Rocky", "9.4", "RedHat", slurm_version="24.11"),
    "rocky9_epel": system("Rocky", "9.4", "RedHat", slurm_source="distribution"),
    "rocky9_directory": system("Rocky", "9.4", "RedHat", slurm_user_source="directory"),
    "rocky9_epel_directory": system(
        "Rocky", "9.4", "RedHat", slurm_source="distribution", slurm_user_source="directory"
    ),
    "preinstalled": system("Debian", "12", slurm_source="preinstalled"),
    "pinned": system("Debian", "12", slurm_version="22.05.8-4", slurm_packages_extra=["openmpi-bin"]),
    "complete": of_debian(**recorded()),
    "older_record": of_debian(**recorded(source=None)),
    "other_version": of_debian(**recorded(), slurm_version="23.11"),
    "same_version": of_debian(**recorded(), slurm_version="22.05"),
    "similar_version": of_debian(**recorded(), slurm_version="22.0"),
    "other_source": of_debian(**recorded(), slurm_source="repository"),
    "other_function": of_debian(**recorded(functions=["login"], source="preinstalled"), slurm_source="preinstalled"),
    "same_function": of_debian(**recorded(source="preinstalled"), slurm_source="preinstalled"),
}
ACCOUNTING_PACKAGES = ("slurmdbd", "slurm-smd-slurmdbd", "slurm-slurmdbd", "mariadb-server", "python3-pymysql")
"""Packages of accounting, which depend on its settings."""
VARIABLES = (
    "__slurm_source",
    "__slurm_packages",
    "__slurm_packages_of_version",
    "__slurm_complete",
    "__slurm_has_sackd",
    "__slurm_daemons",
    "__slurm_repository",
    "__slurm_repository_kind",
)


@pytest.fixture(scope="module")
def by_host(evaluate: Evaluate) -> dict[str, dict[str, Any]]:
    """The role's variables by host. No task of the role runs."""
    inventory = {"all": {"hosts": HOSTS, "vars": LOCAL}}
    asked = {name: f"{{{{ {name} }}}}" for name in VARIABLES}
    return evaluate("hpcai.azure.slurm", inventory, asked, ansible_facts="{{ facts }}")


@pytest.mark.parametrize(
    ("host", "source", "packages"),
    [
        (
            "debian12",
            "distribution",
            ["munge", "libpmix-dev", "e2fsprogs", "acl", "slurm-client", "slurm-wlm-basic-plugins",
             "slurmctld", "slurmd"],
        ),
        (
            "ubuntu24",
            "distribution",
            ["munge", "libpmix-dev", "e2fsprogs", "acl", "slurm-client", "slurm-wlm-basic-plugins",
             "slurmctld", "sackd",
             "slurmd"],
        ),
        (
            "ubuntu22",
            "repository",
            ["munge", "pmix", "libevent-dev", "libhwloc-dev", "e2fsprogs", "acl", "slurm-smd", "slurm-smd-client",
             "slurm-smd-slurmctld", "slurm-smd-sackd", "slurm-smd-slurmd"],
        ),
        (
            "rocky9",
            "repository",
            ["munge", "pmix", "e2fsprogs", "acl", "slurm", "slurm-slurmctld", "slurm-sackd", "slurm-slurmd"],
        ),
        ("rocky9_epel", "distribution", ["munge", "pmix", "e2fsprogs", "acl", "slurm", "slurm-slurmctld",
         "slurm-slurmd"]),
        # nss_slurm is in the package slurm of SchedMD's slurm.spec, and in a package of its own in EPEL.
        (
            "rocky9_directory",
            "repository",
            ["munge", "pmix", "e2fsprogs", "acl", "slurm", "slurm-slurmctld", "slurm-sackd", "slurm-slurmd"],
        ),
        ("rocky9_epel_directory", "distribution", ["munge", "pmix", "e2fsprogs", "acl", "slurm", "slurm-slurmctld",
         "slurm-slurmd", "slurm-nss_slurm"]),
        ("preinstalled", "preinstalled", []),
    ],
)  # fmt: skip
def test_packages_and_their_source_depend_on_the_operating_system(
    by_host: dict[str, dict[str, Any]], host: str, source: str, packages: list[str]
) -> None:
    assert by_host[host]["__slurm_source"] == source
    assert [name for name in by_host[host]["__slurm_packages"] if name not in ACCOUNTING_PACKAGES] == packages


def test_a_version_applies_only_to_slurms_packages(by_host: dict[str, dict[str, Any]]) -> None:
    pinned = [
        name
        for name in by_host["pinned"]["__slurm_packages_of_version"]
        if name.split("=")[0] not in ACCOUNTING_PACKAGES
    ]
    assert pinned == [
        "munge",
        "libpmix-dev",
        "e2fsprogs",
        "acl",
        "openmpi-bin",
        "slurm-client=22.05.8-4*",
        "slurm-wlm-basic-plugins=22.05.8-4*",
        "slurmctld=22.05.8-4*",
        "slurmd=22.05.8-4*",
    ]
    assert "slurm-24.11*" in by_host["rocky9"]["__slurm_packages_of_version"]
    assert by_host["debian12"]["__slurm_packages_of_version"] == by_host["debian12"]["__slurm_packages"]


@pytest.mark.parametrize(
    ("host", "complete"),
    [
        ("debian12", False),
        ("complete", True),
        ("older_record", False),
        ("other_version", False),
        ("same_version", True),
        ("similar_version", False),
        ("other_source", False),
        ("other_function", False),
        ("same_function", True),
    ],
)
def test_a_record_is_complete_only_for_the_same_settings(
    by_host: dict[str, dict[str, Any]], host: str, complete: bool
) -> None:
    assert by_host[host]["__slurm_complete"] is complete


def test_login_nodes_run_sackd_if_slurm_has_it(by_host: dict[str, dict[str, Any]]) -> None:
    have = {host for host, variables in by_host.items() if variables["__slurm_has_sackd"]}
    assert {"debian13", "ubuntu22", "ubuntu24", "rocky9"} <= have
    assert not {"debian12", "rocky9_epel", "preinstalled"} & have
    assert by_host["ubuntu24"]["__slurm_daemons"]["login"] == ["sackd"]
    assert by_host["debian12"]["__slurm_daemons"]["login"] == []


def test_apt_installs_slurm_only_from_the_signed_repository(by_host: dict[str, dict[str, Any]]) -> None:
    source, preferences = by_host["ubuntu22"]["__slurm_repository_kind"]["files"]
    assert source["path"] == "/etc/apt/sources.list.d/hpcai-slurm.sources"
    assert source["content"].splitlines()[1:] == [
        "Types: deb",
        "URIs: https://packages.microsoft.com/repos/slurm-ubuntu-jammy/",
        "Suites: stable",
        "Components: main",
        "Architectures: amd64",
        "Signed-By: /etc/apt/keyrings/hpcai-slurm.asc",
    ]
    # test_slurm_pins.py tests what apt makes of these rules.
    assert preferences["path"] == "/etc/apt/preferences.d/hpcai-slurm"
    assert 'Pin: origin "packages.microsoft.com"\nPin-Priority: 990\n' in preferences["content"]


def test_dnf_installs_slurm_from_the_repository_and_checks_signatures(by_host: dict[str, dict[str, Any]]) -> None:
    (repository,) = by_host["rocky9"]["__slurm_repository_kind"]["files"]
    lines = repository["content"].splitlines()
    assert "baseurl=https://packages.microsoft.com/yumrepos/slurm-el9/" in lines
    assert "gpgcheck=1" in lines
    assert "includepkgs=slurm slurm-* slurm-smd* pmix" in lines
    # The repository of Azure's HPC images, slurm-el9-insiders, has 10, and the lowest number wins (dnf.conf(5)).
    assert "priority=5" in lines


def test_settings_of_the_repository_are_merged_with_the_defaults(by_host: dict[str, dict[str, Any]]) -> None:
    repository = by_host["ubuntu24_repository"]["__slurm_repository"]
    assert repository["suite"] == "insiders"
    assert repository["url"].endswith("/slurm-ubuntu-noble/")
    assert len(repository["key_sha256"]) == 64
