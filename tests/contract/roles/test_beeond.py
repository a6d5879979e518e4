# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of the role beeond, and of the role slurm with BeeOND. No task runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.job import clocks as job_clocks
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.options import BeeondSettings, settings_from
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.request import FEATURE
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.install import scripts_from

from .conftest import LOCAL, Evaluate

REPOSITORY = Path(__file__).resolve().parents[3]
DIGEST = "a" * 64
SYSTEMS: dict[str, dict[str, str]] = {
    "debian": {"os_family": "Debian", "distribution": "Debian", "distribution_major_version": "12", "pkg_mgr": "apt"},
    "noble": {"os_family": "Debian", "distribution": "Ubuntu", "distribution_major_version": "24", "pkg_mgr": "apt"},
    "el9": {"os_family": "RedHat", "distribution": "Rocky", "distribution_major_version": "9", "pkg_mgr": "dnf"},
    "strange": {"os_family": "Debian", "distribution": "Devuan", "distribution_major_version": "5", "pkg_mgr": "apt"},
}
READY = {"beeond_accept_licence": True, "beeond_repository": {"key_sha256": DIGEST}}
NAMES = ("problems", "repository_kind", "settings", "hooks", "lacking", "wanted", "brought")


@pytest.fixture(scope="module")
def by_host(evaluate: Evaluate, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The role's internal variables by host."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("beegfs-storage_7.deb", "beegfs-client-dkms_7.deb", "beegfs-common_7.deb", "beegfs-x.rpm"):
        (folder / name).touch()
    given: dict[str, dict[str, Any]] = {
        **{system: {"system": system} for system in SYSTEMS},
        **{f"{system} ready": {"system": system, **READY} for system in SYSTEMS},
        "files": {"system": "debian", "beeond_accept_licence": True, "beeond_files": str(folder)},
        "no files": {"system": "debian", "beeond_accept_licence": True, "beeond_files": "/nonexistent"},
        "preinstalled": {"system": "debian", "beeond_source": "preinstalled"},
        "scratch": {"system": "debian", "hpcai_scratch": "/fast", "hpcai_beeond_start_limit": 600},
    }
    for variables in given.values():
        facts = SYSTEMS[variables["system"]]
        variables["found"] = {**facts, "kernel": "6.8.0-azure", "ansible_local": {}, "architecture": "x86_64"}
    inventory = {"all": {"hosts": given, "vars": {**LOCAL, "beeond_files": ""}}}
    asked = {name: f"{{{{ __beeond_{name} }}}}" for name in NAMES}
    asked["headers"] = "{{ beeond_kernel_headers }}"
    return evaluate("hpcai.azure.beeond", inventory, asked, ansible_facts="{{ found }}")


def test_nothing_is_installed_before_the_licence_is_accepted(by_host: dict[str, dict[str, Any]]) -> None:
    licence, key = by_host["debian"]["problems"]
    assert "https://www.beegfs.io/docs/BeeGFS_License_Agreement.txt" in licence
    assert "beeond_accept_licence" in licence
    assert "beeond_repository.key_sha256" in key
    assert by_host["debian ready"]["problems"] == []
    assert by_host["preinstalled"]["problems"] == []


@pytest.mark.parametrize(
    ("system", "suite"),
    [
        ("debian", "Suites: bookworm\nComponents: non-free\n"),
        ("noble", "Suites: noble\n"),
        ("el9", "baseurl=https://www.beegfs.io/release/beegfs_7.4.6/dists/rhel9\n"),
    ],
)
def test_each_system_has_its_suite_and_requires_the_checked_key(
    by_host: dict[str, dict[str, Any]], system: str, suite: str
) -> None:
    kind = by_host[f"{system} ready"]["repository_kind"]
    assert suite in kind["content"]
    assert kind["key"] in kind["content"]
    assert "trusted" not in kind["content"]


def test_a_system_without_a_suite_is_named(by_host: dict[str, dict[str, Any]]) -> None:
    [problem] = by_host["strange ready"]["problems"]
    assert problem == "No repository of BeeGFS is known for Devuan 5: set beeond_repository.suite."


def test_packages_of_a_folder_are_installed_with_dependencies_first(by_host: dict[str, dict[str, Any]]) -> None:
    found = by_host["files"]
    assert found["problems"] == []
    assert [Path(path).name for path in found["brought"]] == [
        "beegfs-common_7.deb",
        "beegfs-client-dkms_7.deb",
        "beegfs-storage_7.deb",
    ]
    assert found["headers"] == ["linux-headers-6.8.0-azure"]
    assert by_host["no files"]["problems"] == ["/nonexistent has no packages (*.deb)."]
    assert by_host["el9 ready"]["headers"] == ["kernel-devel-6.8.0-azure"]
    assert by_host["preinstalled"]["headers"] == []


def test_a_complete_node_installs_nothing(evaluate: Evaluate, by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["debian ready"]["lacking"]
    found = {
        **SYSTEMS["debian"],
        "kernel": "6.8.0-azure",
        "ansible_local": {"hpcai_beeond": json.loads(json.dumps(by_host["debian ready"]["wanted"]))},
    }
    inventory = {"all": {"hosts": {"one": {**READY, "found": found}}, "vars": {**LOCAL, "beeond_files": ""}}}
    again = evaluate(
        "hpcai.azure.beeond", inventory, {"lacking": "{{ __beeond_lacking }}"}, ansible_facts="{{ found }}"
    )
    assert again["one"]["lacking"] == []


def test_the_roles_defaults_equal_those_of_hpcnode(by_host: dict[str, dict[str, Any]]) -> None:
    assert settings_from("role", by_host["debian"]["settings"]) == settings_from("hpcnode", {})
    assert set(by_host["debian"]["settings"]) == set(vars(BeeondSettings()))
    own = settings_from("role", by_host["scratch"]["settings"])
    assert (own.data_root, own.start_limit_s) == ("/fast/beeond", 600)


def test_job_hooks_accepts_the_scripts(by_host: dict[str, dict[str, Any]]) -> None:
    hooks = by_host["scratch"]["hooks"]
    made = {kind: scripts_from(kind, scripts) for kind, scripts in hooks.items()}
    assert {kind: list(scripts) for kind, scripts in made.items()} == {
        "prolog": ["20-beeond"],
        "epilog": ["20-beeond"],
        "health": ["30-beeond"],
    }
    assert made["prolog"]["20-beeond"].limit == 600
    assert '"/fast/beeond/$SLURM_JOB_ID"' in made["epilog"]["20-beeond"].content
    # slurmd ends all health scripts after 60 s.
    assert made["health"]["30-beeond"].limit == 45


def test_slurm_sets_the_feature_of_nodes_and_the_limits_of_prologs(evaluate: Evaluate) -> None:
    asked = {
        "features": "{{ __slurm_features }}",
        "conf": "{{ __slurm_conf_beeond }}",
        "limits": "{{ __slurm_job_hook_limits }}",
        "timeout": "{{ __slurm_conf_jobs.PrologEpilogTimeout }}",
        "hidden": "{{ __slurm_hides_beeond }}",
    }
    on: dict[str, Any] = {"hpcai_beeond": True, "slurm_release": "22.05"}
    hosts: dict[str, dict[str, Any]] = {
        "off": {"slurm_release": "22.05"},
        "on": on,
        "own /tmp": {**on, "slurm_private_tmp": ""},
        "newer": {**on, "slurm_release": "23.02"},
        "clocks": {"hpcai_gpu_job_clocks": True, "slurm_release": "24.11"},
        "short": {**on, "slurm_job_hook_limits": {"prolog": {"total": 40}}, "hpcai_beeond_start_limit": 60},
    }
    inventory = {"all": {"hosts": hosts, "vars": LOCAL}}
    found = evaluate(
        "hpcai.azure.slurm", inventory, asked, ansible_facts={"ansible_local": {}, "architecture": "x86_64"}
    )
    assert (found["off"]["features"], found["off"]["conf"]) == ([], {})
    assert found["off"]["limits"]["prolog"] == {"script": 30, "total": 100}
    assert (found["on"]["features"], found["on"]["conf"]) == ([FEATURE], {"JobSubmitPlugins": ["lua"]})
    assert found["clocks"]["features"] == [job_clocks.FEATURE]
    assert found["on"]["limits"]["prolog"] == {"script": 30, "total": 400}
    assert found["on"]["limits"]["epilog"]["total"] == 280
    assert int(found["on"]["timeout"]) == 420
    assert found["short"]["limits"]["prolog"]["total"] == 100
    assert {host: values["hidden"] for host, values in found.items()} == {
        "off": False,
        "on": True,
        "own /tmp": False,
        "newer": False,
        "clocks": False,
        "short": True,
    }


def test_the_job_submit_script_uses_the_same_feature() -> None:
    script = (REPOSITORY / "roles/slurm/templates/job_submit.lua.j2").read_text(encoding="utf-8")
    assert re.findall(r'^local FEATURE = "(.*)"$', script, re.MULTILINE) == [FEATURE]


def test_simulated_nodes_use_beeond_if_a_folder_is_given() -> None:
    given = yaml.safe_load((REPOSITORY / "inventories/simulated/group_vars/all.yml").read_text(encoding="utf-8"))
    assert "HPCAI_BEEGFS_FILES" in given["hpcai_beeond"]
    assert given["hpcai_beeond_start_limit"] == 60
