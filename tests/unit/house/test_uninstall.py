# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each file that a role's tasks write is one that its entry point uninstall removes, or that the guide says stays.

What modules write, their own tests remove; tests/cluster/test_uninstall.py looks at nodes.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.output import METRICS_FILE
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.files import FileOptions, files_of

WRITERS = {"copy": "dest", "template": "dest", "get_url": "dest", "lineinfile": "path", "file": "path"}
# Written by a task with a loop: the paths, by the task's own text for the path.
LOOPS = {
    "/usr/share/hpcai/training/{{ item.key }}": ["/usr/share/hpcai/training"],
    "{{ __training_images_folder }}/{{ item.name }}-{{ item.sha256[:12] }}.sqsh": ["{{ __training_images_folder }}"],
    "/etc/hpcai/{{ item.name }}.json": ["{{ __health_checks_files }}"],
    "/etc/systemd/system/{{ item }}.service.d/hpcai-state.conf": [
        "/etc/systemd/system/slurmctld.service.d/hpcai-state.conf",
        "/etc/systemd/system/slurmdbd.service.d/hpcai-state.conf",
        "/etc/systemd/system/mariadb.service.d/hpcai-state.conf",
    ],
    "/etc/systemd/system/{{ item }}": [
        "/etc/systemd/system/hpcai-slurm-dump.service",
        "/etc/systemd/system/hpcai-slurm-dump.timer",
    ],
    # Slurm's files, compared below, and the ids.
    "{{ item.folder | default('/etc/slurm') }}/{{ item.name }}": ["/etc/ansible/facts.d/hpcai_slurm_ids.fact"],
    # sackd's files, compared below; those of the repository.
    "{{ item.path }}": ["__slurm_repository_kind.files"],
    # A login node's copies of Slurm's files.
    "{{ item.source }}": ["__slurm_login_files"],
    "{{ item.dest }}": ["__enroot_pyxis_downloads", "__enroot_pyxis_source"],
    "{{ __blob_staging_download }}": ["{{ __blob_staging_folder | dirname }}"],
    "{{ __beeond_downloads }}/{{ item | basename }}": ["{{ __beeond_downloads }}"],
    "{{ __image_file }}": [],
    "{{ '/etc/apt/keyrings/nvidia-container.asc' if ansible_facts['pkg_mgr'] == 'apt' "
    "else '/etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container' }}": [
        "/etc/apt/keyrings/nvidia-container.asc",
        "/etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container",
    ],
    "/usr/libexec/hpcai/elastic-{{ item }}": [
        f"/usr/libexec/hpcai/elastic-{name}" for name in ("resume", "suspend", "resume-fail")
    ],
    "/etc/systemd/system/{{ item }}.service": [
        f"/etc/systemd/system/hpcai-{name}.service"
        for name in ("metrics", "node-exporter", "prometheus", "alertmanager")
    ],
    "/opt/hpcai/monitoring/{{ item.name }}": ["/opt/hpcai/monitoring"],
    # All below the folder that is removed.
    **{
        f"{{{{ __monitoring_folder }}}}/{name}": ['"{{ __monitoring_folder }}"']
        for name in (
            *("targets/{{ item.key }}.json", "rules/{{ item | basename }}", "{{ item }}/", "prometheus-web.yml"),
            *("prometheus.yml", "alertmanager.yml"),
        )
    },
    "/etc/slurm/job_submit.lua": ["job_submit.lua"],
    "/etc/slurm/slurmdbd.conf": ["slurmdbd.conf"],
    # Folders of the portal, which are removed with their files.
    **{
        f"{{{{ __portal_settings_folder }}}}/{name}": ["{{ __portal_settings_folder }}"]
        for name in ("jupyterhub_config.py", "portal.json", "proxy.env", "secrets.env", "tls.crt", "tls.key")
    },
    **{f"{{{{ __portal_published }}}}/{name}.html": ["{{ __portal_published }}"] for name in ("health", "goodput")},
    **{
        f"{{{{ __portal_library }}}}/{name}": ["{{ __portal_library }}"]
        for name in ("hpcai_portal/{{ item }}", "{{ item }}")
    },
    "{{ __portal_folder }}/requirements.txt": ["{{ __portal_folder }}"],
    "{{ __portal_venv }}/etc/jupyter/labconfig/page_config.json": ["{{ __portal_folder }}"],
    "{{ __portal_slurm_web_folder }}/slurm-web.txt": ["{{ __portal_slurm_web_folder }}"],
    **{
        f"{{{{ __portal_slurm_web_settings }}}}/{name}": ["{{ __portal_slurm_web_settings }}"]
        for name in ("jwt.key", "{{ item }}.ini")
    },
    "/etc/hpcai/node.json": ["loop: [node, job_hooks, metadata]"],
}
# Settings in /etc/hpcai that modules remove.
BY_MODULES = {"beeond", "clocks", "containers", "gpu", "nccl", "nccl_environment", "shared_fs"}
STAYS = {
    "/etc/systemd/system/mariadb.service.d/hpcai-state.conf": "the database stays",
    "/etc/systemd/system/azure-ephemeral-disk-setup.service": "it could format the scratch",
    "/etc/systemd/system/nvidia-persistenced.service": "the driver stays",
    "/etc/beegfs/beegfs-client-build.mk": "the packages stay",
}


NOT_ON_NODES = {"provision"}
"""Roles that put nothing on a node."""


@pytest.fixture(scope="module")
def roles(repository: pathlib.Path) -> list[pathlib.Path]:
    """The folders of roles that put something on nodes."""
    every = sorted(path for path in (repository / "roles").iterdir() if path.is_dir())
    found = [path for path in every if path.name not in NOT_ON_NODES]
    assert len(found) > 10
    return found


def variables(repository: pathlib.Path, role: str, name: str) -> dict[str, Any]:
    """The variables in a file of a role."""
    return dict(yaml.safe_load((repository / "roles" / role / "vars" / name).read_text(encoding="utf-8")))


def tasks_of(node: Any) -> Iterator[dict[str, Any]]:
    """All tasks of a list, those of blocks included."""
    for task in node or []:
        yield task
        yield from tasks_of(task.get("block"))


def written_by(role: pathlib.Path) -> set[str]:
    """The paths that the role's tasks write, as they stand there."""
    found = set()
    for file in sorted((role / "tasks").glob("*.yml")):
        if file.name in ("uninstall.yml", "undo.yml"):
            continue
        for task in tasks_of(yaml.safe_load(file.read_text(encoding="utf-8"))):
            for module, option in WRITERS.items():
                arguments = task.get(f"ansible.builtin.{module}")
                # Of folders and removals there is nothing to compare.
                if arguments and arguments.get("state", "file") in ("file", "present", "link"):
                    found.add(str(arguments.get(option) or arguments["dest"]))
    return found


def removal_of(role: pathlib.Path) -> str:
    """The tasks and variables of the entry point."""
    files = [role / "tasks/uninstall.yml", role / "vars/main/uninstall.yml"]
    files += sorted((role / "tasks").glob("*absent.yml"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file.is_file())


def test_each_role_has_the_entry_point(roles: list[pathlib.Path]) -> None:
    assert not [role.name for role in roles if not (role / "tasks/uninstall.yml").is_file()]


def test_each_written_file_is_removed_or_stays_for_a_reason(roles: list[pathlib.Path]) -> None:
    forgotten = []
    for role in roles:
        removal = removal_of(role)
        for path in sorted(written_by(role)):
            forgotten += [
                f"{role.name}: {one}" for one in LOOPS.get(path, [path]) if one not in removal and one not in STAYS
            ]
    assert not forgotten


def test_each_settings_file_of_the_node_is_removed(repository: pathlib.Path, roles: list[pathlib.Path]) -> None:
    files = (repository / "plugins/module_utils/_node").rglob("*.py")
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    names = set(re.findall(r'(?:^CONFIG = |read_config\(root, )"(\w+)"', source, re.MULTILINE))
    assert {"cluster", "node", "users", "health"} <= names
    removal = "\n".join(removal_of(role) for role in roles)
    lists = {name for line in re.findall(r"loop: \[(.+)\]", removal) for name in line.split(", ")}
    lists |= {file["name"] for file in variables(repository, "health_checks", "main.yml")["__health_checks_files"]}
    services = yaml.safe_load((repository / "roles/health_checks/tasks/configure.yml").read_text(encoding="utf-8"))
    lists |= {task["vars"]["__health_checks_file"] for task in services if "vars" in task}
    forgotten = {name for name in names - BY_MODULES - lists if f"/etc/hpcai/{name}.json" not in removal}
    assert not forgotten


def test_the_guide_names_what_stays(repository: pathlib.Path) -> None:
    guide = (repository / "docs/docsite/rst/guide_uninstalling.rst").read_text(encoding="utf-8")
    assert not [path for path in STAYS if path.rpartition("/")[2] not in guide]


def test_slurms_files_are_those_that_slurmctld_reads(repository: pathlib.Path) -> None:
    login = variables(repository, "slurm", "main/login.yml")
    own = variables(repository, "slurm", "main/uninstall.yml")
    assert set(files_of([], FileOptions(release="24.11"))) == {*login["__slurm_login_files"]} - {"acct_gather.conf"}
    assert {file["path"] for file in login["__slurm_sackd_files"]} <= set(own["__slurm_own_files"])


def test_the_playbook_calls_each_role(repository: pathlib.Path, roles: list[pathlib.Path]) -> None:
    tasks = yaml.safe_load((repository / "playbooks/tasks/uninstall.yml").read_text(encoding="utf-8"))
    called = [task["ansible.builtin.import_role"] for task in tasks if "ansible.builtin.import_role" in task]
    assert {role["tasks_from"] for role in called} == {"uninstall"}
    assert sorted(role["name"] for role in called) == [f"hpcai.azure.{role.name}" for role in roles]


@pytest.mark.parametrize("name", ["goodput_absent", "uninstall"])
def test_the_metrics_of_the_ledger_are_removed(repository: pathlib.Path, name: str) -> None:
    """No task writes them, and the node exporter would publish the last values for ever."""
    assert METRICS_FILE in (repository / f"roles/health_checks/tasks/{name}.yml").read_text(encoding="utf-8")
