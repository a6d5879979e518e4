# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role monitoring installs given or downloaded archives with the right digest, and no others.

The tasks run on this machine in a mount namespace, where changes go to a file system in memory.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import pathlib
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import yaml
from stand_ins import own_folders

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.settings import Targets, read_settings

from .conftest import LOCAL, Evaluate

STEM = "node_exporter-1.9.0.linux-amd64"
ARCHIVE = f"{STEM}.tar.gz"
PROGRAM = f"/opt/hpcai/monitoring/{STEM}/node_exporter"
FACTS = {"architecture": "x86_64", "pkg_mgr": "apt", "distribution": "Debian", "distribution_major_version": "13"}

Play = Callable[..., subprocess.CompletedProcess[str]]


def archive(path: pathlib.Path, program: str = "#!/bin/sh\necho exporter\n") -> str:
    """Write an archive as the project publishes it, and return its digest."""
    with tarfile.open(path, "w:gz") as file:
        for name, content in (("node_exporter", program), ("LICENSE", "text\n")):
            entry = tarfile.TarInfo(f"{STEM}/{name}")
            entry.size, entry.mode = len(content), 0o755 if name == "node_exporter" else 0o644
            file.addfile(entry, io.BytesIO(content.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def play(tmp_path: pathlib.Path) -> Play:
    """Install the programs with these variables twice, show the program, and return what Ansible printed."""

    def run(**variables: Any) -> subprocess.CompletedProcess[str]:
        install = {"name": "hpcai.azure.monitoring", "tasks_from": "programs.yml"}
        tasks = [
            {"ansible.builtin.set_fact": {"ansible_facts": FACTS}},
            {"ansible.builtin.include_role": install},
            {"ansible.builtin.debug": {"msg": "AGAIN"}},
            {"ansible.builtin.include_role": install},
            {"ansible.builtin.command": {"argv": [PROGRAM]}, "register": "said"},
            {"ansible.builtin.debug": {"msg": "SAID {{ said.stdout }}"}},
        ]
        content = [{"hosts": "node", "gather_facts": False, "tasks": tasks}]
        (tmp_path / "play.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        node = {**LOCAL, "ansible_facts": FACTS}
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"node": node}}}), encoding="utf-8")
        (tmp_path / "more.yml").write_text(yaml.safe_dump(variables), encoding="utf-8")
        return own_folders.ansible_playbook(tmp_path, "-i", "hosts.yml", "play.yml", "-e", "@more.yml")

    return run


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[str]:
    """The address of a server with the files of a folder."""
    (tmp_path / "served").mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def test_a_given_archive_is_installed_and_the_second_time_nothing_changes(play: Play, tmp_path: pathlib.Path) -> None:
    digest = archive(tmp_path / ARCHIVE)
    done = play(monitoring_source="files", monitoring_files=str(tmp_path), monitoring_sha256={ARCHIVE: digest})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SAID exporter" in done.stdout
    first, again = done.stdout.split('"msg": "AGAIN"')
    assert "changed: [node]" in first
    assert "changed: [node]" not in again.partition("TASK [ansible.builtin.command]")[0]


def test_a_given_archive_with_another_digest_is_refused_with_one_error(play: Play, tmp_path: pathlib.Path) -> None:
    archive(tmp_path / ARCHIVE, "#!/bin/sh\necho other\n")
    wanted = "0" * 64
    done = play(monitoring_source="files", monitoring_files=str(tmp_path), monitoring_sha256={ARCHIVE: wanted})
    assert done.returncode == 2, done.stdout + done.stderr
    shown = done.stdout + done.stderr
    assert shown.count("failed: [node]") == 1
    assert f"{ARCHIVE} has the SHA-256 digest" in shown
    assert f"but monitoring_sha256 has {wanted}" in " ".join(shown.split())
    # Nothing was unpacked.
    assert "Unpack the programs" not in shown


@pytest.mark.parametrize("is_right", [True, False])
def test_a_downloaded_archive_must_have_its_digest(
    play: Play, tmp_path: pathlib.Path, server: str, is_right: bool
) -> None:
    digest = archive(tmp_path / "served" / ARCHIVE)
    published = {"program": "node_exporter", "name": ARCHIVE, "url": f"{server}/{ARCHIVE}"}
    done = play(
        monitoring_source="release",
        monitoring_sha256={ARCHIVE: digest if is_right else "0" * 64},
        __monitoring_archives=[{**published, "folder": f"/opt/hpcai/monitoring/{STEM}"}],
    )
    shown = done.stdout + done.stderr
    if is_right:
        assert done.returncode == 0, shown
        assert "SAID exporter" in shown
    else:
        assert done.returncode == 2, shown
        assert shown.count("failed: [node]") == 1
        assert "did not match" in shown
        assert "Unpack the programs" not in shown


def test_a_machine_of_its_own_gets_the_servers_programs_and_the_controller_only_the_exporter(
    evaluate: Evaluate,
) -> None:
    hosts = {name: {**LOCAL, "facts": FACTS} for name in ("ctl", "mon", "n0")}
    groups = {"hpcai_controller": ["ctl"], "hpcai_monitor": ["mon"], "hpcai_compute": ["n0"]}
    inventory = {
        "all": {
            "hosts": hosts,
            "children": {name: {"hosts": dict.fromkeys(members)} for name, members in groups.items()},
        }
    }
    asked = {
        "programs": "{{ __monitoring_archives | map(attribute='program') }}",
        "archives": "{{ __monitoring_archives }}",
        "asks": "{{ __monitoring_asks_slurm }}",
        "elastic": "{{ __monitoring_settings.elastic_targets }}",
        "jobs": "{{ __monitoring_settings.jobs }}",
    }
    given = {"monitoring_source": "files", "ansible_facts": "{{ facts }}"}
    found = evaluate("hpcai.azure.monitoring", inventory, asked, **given)
    assert found["mon"]["programs"] == ["node_exporter", "prometheus", "alertmanager"]
    assert found["ctl"]["programs"] == found["n0"]["programs"] == ["node_exporter"]
    [exporter] = found["ctl"]["archives"]
    releases = "https://github.com/prometheus/node_exporter/releases/download"
    assert exporter == {
        "program": "node_exporter",
        "name": ARCHIVE,
        "folder": f"/opt/hpcai/monitoring/{STEM}",
        "url": f"{releases}/v1.9.0/{ARCHIVE}",
    }
    for archive in found["mon"]["archives"]:
        stem = archive["name"].removesuffix(".tar.gz")
        assert archive["folder"] == f"/opt/hpcai/monitoring/{stem}"
        assert stem.startswith(f"{archive['program']}-"), archive
        assert archive["url"].startswith(f"https://github.com/prometheus/{archive['program']}/releases/"), archive
        assert archive["url"].endswith(f"/v{stem.split('-')[1].removesuffix('.linux')}/{archive['name']}"), archive
    assert [found[name]["asks"] for name in ("ctl", "mon", "n0")] == [True, False, False]
    assert [found[name]["jobs"] for name in ("ctl", "mon", "n0")] == [False, False, True]
    # Only the controller knows the machines of elastic sets, and Prometheus reads its targets from a local file.
    assert [found[name]["elastic"] for name in ("ctl", "mon", "n0")] == ["", "", ""]


@pytest.mark.parametrize("port", [0, 9400], ids=["no dcgm-exporter", "dcgm-exporter"])
def test_a_controller_that_monitors_writes_the_targets_of_elastic_sets(
    tmp_path: pathlib.Path, evaluate: Evaluate, port: int
) -> None:
    folder = "/etc/hpcai/monitoring/targets"
    hosts = {"all": {"hosts": {"ctl": LOCAL}, "children": {"hpcai_controller": {"hosts": {"ctl": {}}}}}}
    asked = {"text": "{{ __monitoring_settings | to_json }}"}
    values = evaluate("hpcai.azure.monitoring", hosts, asked, monitoring_dcgm_port=port, ansible_facts=FACTS)
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/metrics.json").write_text(values["ctl"]["text"], encoding="utf-8")
    found = read_settings(Root(str(tmp_path)))
    assert found
    assert found.elastic_targets == f"{folder}/elastic.json"
    assert found.elastic_dcgm == (Targets(f"{folder}/elastic_dcgm.json", port) if port else None)


def test_slurmdbd_is_queried_unless_accounting_is_off(evaluate: Evaluate) -> None:
    """The play that monitors the cluster does not have the defaults of the role slurm."""
    asked = {"accounting": "{{ __monitoring_settings.accounting }}"}
    hosts = {"all": {"hosts": {"ctl": LOCAL}, "children": {"hpcai_controller": {"hosts": {"ctl": {}}}}}}
    given: list[dict[str, Any]] = [{}, {"slurm_accounting": True}, {"slurm_accounting": False}]
    found = [evaluate("hpcai.azure.monitoring", hosts, asked, ansible_facts=FACTS, **one) for one in given]
    assert [one["ctl"]["accounting"] for one in found] == [True, True, False]


def test_the_packages_of_ubuntu_22_get_only_options_that_they_know(evaluate: Evaluate) -> None:
    """Node exporter 1.3.1 and Prometheus 2.31.2."""
    ubuntu = {**FACTS, "distribution": "Ubuntu"}
    systems = {
        "debian": (FACTS, "packages"),
        "jammy": ({**ubuntu, "distribution_major_version": "22"}, "packages"),
        "given": ({**ubuntu, "distribution_major_version": "22"}, "files"),
        "noble": ({**ubuntu, "distribution_major_version": "24"}, "packages"),
    }
    hosts = {name: {**LOCAL, "facts": facts, "monitoring_source": source} for name, (facts, source) in systems.items()}
    asked = {"old": "{{ __monitoring_settings.exporter.old_options }}", "check": "{{ __monitoring_check_config }}"}
    found = evaluate("hpcai.azure.monitoring", {"all": {"hosts": hosts}}, asked, ansible_facts="{{ facts }}")
    assert [name for name in systems if found[name]["old"]] == ["jammy"]
    assert [name for name in systems if "--syntax-only" not in found[name]["check"]] == ["jammy"]


@pytest.mark.parametrize(("version", "old"), [("1.4.0", True), ("1.5.0", False), ("1.10.2", False)])
def test_an_older_release_of_the_node_exporter_gets_no_socket(evaluate: Evaluate, version: str, old: bool) -> None:
    given = {"monitoring_source": "files", "monitoring_versions": {"node_exporter": version}}
    hosts = {"all": {"hosts": {"compute-0": LOCAL}}}
    asked = {"old": "{{ __monitoring_settings.exporter.old_options }}"}
    found = evaluate("hpcai.azure.monitoring", hosts, asked, ansible_facts=FACTS, **given)
    assert found["compute-0"]["old"] is old


@pytest.mark.parametrize(
    ("variables", "accepted"),
    [
        ({"monitoring_web_address": "0.0.0.0"}, False),
        ({"monitoring_web_address": "10.0.0.4"}, False),
        ({"monitoring_web_address": "0.0.0.0", "monitoring_web_users": {"ops": "$2b$10$x"}}, True),
        ({}, True),
    ],
    ids=["all addresses", "private address", "with a login", "loopback"],
)
def test_prometheus_needs_a_login_where_others_reach_it(
    tmp_path: pathlib.Path, variables: dict[str, Any], accepted: bool
) -> None:
    """In check mode, because only the first task is of interest here."""
    tasks = [{"ansible.builtin.include_role": {"name": "hpcai.azure.monitoring", "tasks_from": "server.yml"}}]
    content = [{"hosts": "node", "gather_facts": False, "tasks": tasks}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    hosts = {"all": {"hosts": {"node": {**LOCAL, "ansible_facts": FACTS, **variables}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    done = own_folders.ansible_playbook(tmp_path, "-i", "hosts.yml", "play.yml", "--check")
    assert ("others could open Prometheus. Set monitoring_web_users" in done.stdout) is not accepted, done.stdout
    assert ("Create the password of Alertmanager" in done.stdout) is accepted, done.stdout
