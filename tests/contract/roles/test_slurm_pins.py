# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What apt chooses with the rules that the role slurm writes, on Azure's HPC images and on plain ones.

apt reads package indexes from a folder of the test, and downloads nothing.
"""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from .conftest import LOCAL, Evaluate

# components/slurm-repo/slurm-u.pin of github.com/Azure/azhpc-images at 8e9d055f.
IMAGE_PINS = """\
Package: slurm-smd*
Pin:  origin "packages.microsoft.com"
Pin-Priority: 990

Package: pmix
Pin: origin "packages.microsoft.com"
Pin-Priority: 990

Package: slurm*
Pin: origin *ubuntu.com*
Pin-Priority: -1

Package: pmix
Pin: origin *ubuntu.com*
Pin-Priority: -1
"""
MICROSOFT = "packages.microsoft.com/repos/slurm-ubuntu-noble"
UBUNTU = "ports.ubuntu.com/ubuntu-ports"
MIRROR = "packages.example.com/slurm"
UBUNTU_SUITES = {
    "noble": {"slurm-client": "23.11.4", "sackd": "23.11.4", "pmix": "5.0.1"},
    "noble-backports": {"slurm-client": "25.05.0"},
}


def machine(**variables: Any) -> dict[str, Any]:
    """A host with Ubuntu 24.04."""
    facts = {
        "distribution": "Ubuntu",
        "distribution_version": "24.04",
        "distribution_major_version": "24",
        "distribution_release": "noble",
        "os_family": "Debian",
        "pkg_mgr": "apt",
    }
    return {"facts": facts, **variables}


HOSTS = {
    "distribution": machine(),
    "repository": machine(slurm_source="repository"),
    "insiders": machine(slurm_source="repository", slurm_repository={"suite": "insiders"}),
    "mirror": machine(slurm_source="repository", slurm_repository={"url": f"http://{MIRROR}/", "suite": "noble"}),
}


@pytest.fixture(scope="module")
def rules(evaluate: Evaluate) -> dict[str, str]:
    """The role's file of preferences, by host."""
    asked = {
        "own": "{{ __slurm_distribution_files }}",
        "repository": "{{ __slurm_repository_kind.files }}",
        "source": "{{ __slurm_source }}",
    }
    found = evaluate("hpcai.azure.slurm", {"all": {"hosts": HOSTS, "vars": LOCAL}}, asked, ansible_facts="{{ facts }}")
    files = {
        host: values["repository" if values["source"] == "repository" else "own"] for host, values in found.items()
    }
    return {host: wanted[-1]["content"] for host, wanted in files.items()}


Suites = Mapping[str, Mapping[str, str]]
Candidates = Callable[..., dict[str, str]]


@pytest.fixture(name="candidates")
def fixture_candidates(tmp_path: pathlib.Path) -> Candidates:
    """Let apt choose the versions of packages, with some repositories and rules."""

    def run(preferences: Mapping[str, str], repositories: Mapping[str, Suites], installed: str = "") -> dict[str, str]:
        for folder in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "lists/partial", "cache/archives/partial"):
            (tmp_path / folder).mkdir(parents=True)
        (tmp_path / "status").write_text(installed)
        for name, text in preferences.items():
            (tmp_path / "etc/apt/preferences.d" / name).write_text(text)
        lines, names = [], set()
        for place, suites in repositories.items():
            for suite, packages in suites.items():
                # Microsoft's repositories have their own origin, label, suite and codename for each suite.
                origin, code = ("Ubuntu", "noble") if place == UBUNTU else (f"{place.split('/')[-1]} {suite}", suite)
                begin = tmp_path / "lists" / f"{place.replace('/', '_')}_dists_{suite}"
                pathlib.Path(f"{begin}_Release").write_text(
                    f"Origin: {origin}\nLabel: {origin}\nSuite: {suite}\nCodename: {code}\nComponents: main\n"
                    + ("NotAutomatic: yes\nButAutomaticUpgrades: yes\n" if suite.endswith("-backports") else "")
                )
                pathlib.Path(f"{begin}_main_binary-amd64_Packages").write_text(
                    "".join(
                        f"Package: {package}\nVersion: {version}\nArchitecture: amd64\nSize: 1\n"
                        f"Filename: {package}_{suite}.deb\nSHA256: {'0' * 64}\n\n"
                        for package, version in packages.items()
                    )
                )
                names |= set(packages)
                lines.append(f"deb [trusted=yes] http://{place}/ {suite} main\n")
        (tmp_path / "etc/apt/sources.list").write_text("".join(lines))
        places = {
            "Dir": tmp_path,
            "Dir::State::lists": tmp_path / "lists",
            "Dir::State::status": tmp_path / "status",
            "Dir::Cache": tmp_path / "cache",
        }
        # apt reads this file before the machine's own settings, and then finds none (apt.conf(5)).
        settings = {**places, "APT::Architecture": "amd64"}
        (tmp_path / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()))
        answer = subprocess.run(
            ["apt-cache", "policy", *sorted(names)],
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "APT_CONFIG": str(tmp_path / "apt.conf")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert not answer.stderr
        chosen = {}
        for line in answer.stdout.splitlines():
            if not line.startswith(" "):
                package = line.rstrip(":")
            elif line.startswith("  Candidate:"):
                chosen[package] = line.split()[1]
        return chosen

    return run


def microsoft(**suites: str) -> dict[str, Suites]:
    """Microsoft's repository, with a version in each suite, and Ubuntu's archive."""
    known = {suite: {"slurm-smd": version, "pmix": version} for suite, version in suites.items()}
    return {UBUNTU: UBUNTU_SUITES, MICROSOFT: known}


def test_the_image_alone_refuses_the_slurm_of_ubuntu(candidates: Candidates) -> None:
    """The fault that the role's rule is for."""
    assert candidates({"slurm-repository-pin-990": IMAGE_PINS}, microsoft(insiders="25.05"))["slurm-client"] == "(none)"


@pytest.mark.parametrize("image", [{}, {"slurm-repository-pin-990": IMAGE_PINS}], ids=["plain", "hpc_image"])
def test_the_distributions_slurm_can_be_installed(
    candidates: Candidates, rules: dict[str, str], image: dict[str, str]
) -> None:
    chosen = candidates({**image, "hpcai-slurm": rules["distribution"]}, microsoft(insiders="25.05"))
    assert chosen["sackd"] == "23.11.4"
    # Backports would be chosen if the rule gave them the priority of the other packages.
    assert chosen["slurm-client"] == "23.11.4"


@pytest.mark.parametrize("image", [{}, {"slurm-repository-pin-990": IMAGE_PINS}], ids=["plain", "hpc_image"])
@pytest.mark.parametrize(("host", "version"), [("repository", "24.11"), ("insiders", "25.05")])
def test_slurm_comes_from_the_wanted_suite_only(
    candidates: Candidates, rules: dict[str, str], host: str, version: str, image: dict[str, str]
) -> None:
    wanted = {**image, "hpcai-slurm": rules[host]}
    chosen = candidates(wanted, microsoft(stable="24.11", insiders="25.05"))
    assert (chosen["slurm-smd"], chosen["slurm-client"]) == (version, "(none)")


def test_the_stable_suite_may_have_the_newer_version(candidates: Candidates, rules: dict[str, str]) -> None:
    chosen = candidates({"hpcai-slurm": rules["insiders"]}, microsoft(stable="25.11", insiders="25.05"))
    assert chosen["slurm-smd"] == "25.05"


def test_a_mirror_wins_against_the_repository_of_the_image(candidates: Candidates, rules: dict[str, str]) -> None:
    mirror: dict[str, Suites] = {MIRROR: {"noble": {"slurm-smd": "24.05"}}, **microsoft(insiders="25.05")}
    chosen = candidates({"slurm-repository-pin-990": IMAGE_PINS, "hpcai-slurm": rules["mirror"]}, mirror)
    assert chosen["slurm-smd"] == "24.05"


def test_the_pmix_of_the_image_stays_installed(candidates: Candidates, rules: dict[str, str]) -> None:
    installed = "Package: pmix\nStatus: hold ok installed\nVersion: 25.05\nArchitecture: amd64\n\n"
    image = {"slurm-repository-pin-990": IMAGE_PINS, "hpcai-slurm": rules["repository"]}
    chosen = candidates(image, microsoft(stable="24.11", insiders="25.05"), installed)
    assert chosen["pmix"] == "25.05"
