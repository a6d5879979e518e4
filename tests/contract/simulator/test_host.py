# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers backend on different hosts: package sources, cgroups and packet filters."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from simulator.backends import BackendError, containers
from simulator.backends.containers import abilities, apt_sources, inotify, podman, privilege
from simulator.backends.containers.places import IMAGE_FILES, run_dir
from simulator.suite import SUITES, VARIABLE, UnknownSuite, suite

TESTS = Path(__file__).parents[2]
V1 = ("cpuset/tasks", "devices/tasks", "freezer/tasks", "memory/tasks")
ARCHIVE = "/usr/share/keyrings/debian-archive-keyring.gpg"


def host(folder: Path, monkeypatch: pytest.MonkeyPatch, release: str, **sources: str) -> None:
    """Pretend to be another host."""
    (folder / "sources.list.d").mkdir()
    (folder / "os-release").write_text(release, encoding="utf-8")
    for name, text in sources.items():
        where = folder / name.replace("__", ".") if name == "sources__list" else folder / "sources.list.d" / name
        where.with_name(where.name.replace("__", ".")).write_text(textwrap.dedent(text), encoding="utf-8")
    monkeypatch.setattr(apt_sources, "APT", folder)
    monkeypatch.setattr(apt_sources, "OS_RELEASE", folder / "os-release")


def test_the_mirror_of_a_debian_13_host_is_used_for_the_machines_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host(
        tmp_path,
        monkeypatch,
        'ID=debian\nVERSION_CODENAME="trixie"\n',
        debian__sources=f"""\
            Types: deb deb-src
            URIs: http://mirror.example/debian
            Suites: trixie trixie-updates
            Components: main contrib
            Signed-By: {ARCHIVE}

            Types: deb
            URIs: http://mirror.example/debian-security
            Suites: trixie-security
            Components: main
            Signed-By: {ARCHIVE}
            """,
        other__sources="""\
            Types: deb
            URIs: http://elsewhere.example/
            Suites: trixie
            Components: main
            Signed-By: /usr/share/keyrings/elsewhere.gpg
            """,
    )
    found = apt_sources.for_suite("bookworm")
    assert [line for text in found for line in text.splitlines() if line.startswith(("URIs", "Suites"))] == [
        "URIs: http://mirror.example/debian",
        "Suites: bookworm bookworm-updates",
        "URIs: http://mirror.example/debian-security",
        "Suites: bookworm-security",
    ]


def test_sources_in_one_line_format_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host(
        tmp_path,
        monkeypatch,
        "ID=debian\nVERSION_CODENAME=bookworm\n",
        sources__list="""\
            deb [arch=amd64] http://mirror.example/debian bookworm main # mirror
            deb-src http://mirror.example/debian bookworm main
            deb http://mirror.example/debian bookworm-backports main
            """,
    )
    assert [text.splitlines()[1:3] for text in apt_sources.for_suite("bookworm")] == [
        ["URIs: http://mirror.example/debian", "Suites: bookworm"]
    ]


def test_ubuntu_sources_are_not_used_for_debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host(
        tmp_path,
        monkeypatch,
        "ID=ubuntu\nVERSION_CODENAME=noble\n",
        sources__list="deb http://mirror.example/ubuntu noble main\n",
    )
    assert apt_sources.for_suite("bookworm") == []


def test_a_proxy_on_loopback_is_not_used_by_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        apt_sources,
        "run",
        lambda *_args, **_options: 'Acquire::http::Proxy "http://127.0.0.1:3142";\nAcquire::Retries "3";\n',
    )
    monkeypatch.setenv("http_proxy", "http://localhost:8080")
    monkeypatch.setenv("https_proxy", "http://proxy.example:8080")
    assert apt_sources.options() == ['Acquire::Retries "3"', 'Acquire::https::Proxy "http://proxy.example:8080"']


@pytest.mark.parametrize(
    ("unified", "installed", "runtime"),
    [
        (True, ("crun", "runc"), "crun"),
        (True, ("runc",), "runc"),
        (False, ("crun", "runc"), "runc"),
        (False, ("crun",), None),
    ],
)
def test_the_container_runtime_depends_on_the_cgroup_version(
    unified: bool, installed: tuple[str, ...], runtime: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if unified:
        (tmp_path / "cgroup.controllers").touch()
    monkeypatch.setattr(podman, "CGROUPS", tmp_path)
    monkeypatch.setattr(podman.shutil, "which", lambda name: name if name in installed else None)
    if runtime is None:
        with pytest.raises(BackendError, match=r"none of runc is installed: run tests/setup/host\.sh"):
            podman._runtime()
    else:
        assert podman._runtime() == runtime


def test_programs_of_root_are_found_with_the_path_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privilege.os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/opt/bin:/usr/bin:/sbin")
    privilege.require_root()
    privilege.require_root()
    assert os.environ["PATH"] == "/opt/bin:/usr/bin:/sbin:/usr/local/sbin:/usr/sbin"


def provisioning() -> ModuleType:
    found = importlib.util.spec_from_file_location("provision", IMAGE_FILES / "provision.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_provisioning_without_metadata_fails_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = provisioning()
    monkeypatch.setattr(module, "METADATA", "http://127.0.0.1:1/")
    monkeypatch.setattr(module, "SEEDED", tmp_path / "vm-id")
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    assert module.main() == 1
    assert "NOT PROVISIONED" in capsys.readouterr().out


@pytest.mark.skipif(os.geteuid() != 0, reason="packet filters need root")
@pytest.mark.parametrize("policy", ["ACCEPT", "DROP"])
def test_forwarding_is_allowed_while_a_network_is_open_and_then_restored(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test uses a network namespace, which has a separate packet filter and forwarding setting."""
    script = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(TESTS)!r})
        from simulator.backends.containers import firewall
        from simulator.backends.containers.command import run
        from simulator.backends.containers.network import Network
        run(["iptables", "-P", "FORWARD", {policy!r}])
        firewall.FORWARDING.write_text("0")
        state = lambda: (run(["iptables", "-S"]), run(["nft", "list", "tables"]), firewall.FORWARDING.read_text())
        before = state()
        one = Network("0a0a0a0a", "10.76.9.0/24", "10.76.9.1", "test")
        two = Network("0b0b0b0b", "10.76.8.0/24", "10.76.8.1", "test")
        one.open()
        two.open()
        print(run(["iptables", "-S", "FORWARD"]).count("hpcai_0a0a0a0a"), firewall.FORWARDING.read_text().strip())
        one.close()
        print(run(["iptables", "-S", "FORWARD"]).count("hpcai_"), firewall.FORWARDING.read_text().strip())
        two.close()
        two.close()
        after = state()
        assert after == before, (before, after)
    """)
    monkeypatch.setenv("HPCAI_CACHE", str(tmp_path))
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(run_dir())
    assert done.returncode == 0, done.stderr
    rules = 0 if policy == "ACCEPT" else 2
    assert done.stdout.split() == [str(rules), "1", str(rules), "1"]


@pytest.mark.parametrize(("found", "kept"), [("128\n", "1024\n"), ("8192\n", "8192\n")])
def test_a_low_limit_of_inotify_instances_is_raised(tmp_path: Path, found: str, kept: str) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(found, encoding="ascii")
    messages = inotify.raise_limit(limit)
    assert limit.read_text(encoding="ascii") == kept
    assert ["from 128 to 1024" in line for line in messages] == ([True] if found != kept else [])


def test_a_limit_of_inotify_instances_that_cannot_be_raised_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n", encoding="ascii")

    def refuse(*_arguments: object, **_options: object) -> int:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(BackendError, match=r"root may hold 128 inotify instances, 1024 are needed.*sysctl fs\.inotify"):
        inotify.raise_limit(limit)


def test_the_limit_of_inotify_instances_is_raised_before_machines_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, lines = tmp_path / "max_user_instances", list[str]()
    limit.write_text("128\n", encoding="ascii")
    monkeypatch.setattr(inotify.raise_limit, "__defaults__", (limit,))
    monkeypatch.setattr(privilege, "require_root", lambda: None)
    monkeypatch.setattr(containers.images, "prepare", lambda report: report("images"))
    monkeypatch.setattr(abilities, "_namespaces", lambda: (False, "not tested"))
    containers.prepare(lines.append)
    assert limit.read_text(encoding="ascii") == "1024\n"
    assert ["from 128 to 1024" in line for line in lines] == [True, False, False, False]
    # The features that Slurm cannot use here, with the reason.
    assert lines[2:] == ["a private /tmp for each job: no (not tested)", "images"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("cgroup/v2", "all", True, "mounted"), ["cgroup/v2 (all)", "yes (mounted)"]),
        (("", "cgroups v1 without memory", False, "no"), ["none (cgroups v1 without memory)", "no (no)"]),
    ],
    ids=["all", "none"],
)
def test_each_feature_is_printed_with_its_reason(given: tuple[str, str, bool, str], line: list[str]) -> None:
    shown = abilities.Abilities(*given).lines()
    assert [text.partition(": ")[0] for text in shown] == ["cgroups for jobs", "a private /tmp for each job"]
    assert [text.partition(": ")[2] for text in shown] == line


@pytest.mark.parametrize(
    ("script", "able", "because"),
    [
        ("exit 0", True, "mount namespaces can be mounted"),
        ("echo unshare: mount failed: Invalid argument >&2; exit 1", False, "unshare: mount failed: Invalid argument"),
        ("exit 3", False, "mounting a mount namespace failed: 3"),
    ],
)
def test_jobs_have_a_private_tmp_if_their_namespace_can_be_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, able: bool, because: str
) -> None:
    (tmp_path / "unshare").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = abilities.probe(tmp_path)
    assert found.private_tmp is able
    assert because in found.private_tmp_because


def test_the_fault_of_linux_6_18_is_found(tmp_path: Path) -> None:
    """With the real unshare and taskset, on this host's kernel."""
    release = tuple(int(number) for number in os.uname().release.split(".")[:2])
    if release > (6, 18):
        pytest.skip(f"whether Linux {release[0]}.{release[1]} has the fault is not known")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make mount namespaces")
    found = abilities.probe(tmp_path)
    assert found.private_tmp is (release < (6, 18) or len(os.sched_getaffinity(0)) == 1), found.private_tmp_because
    assert found.private_tmp or found.private_tmp_because.endswith("/namespace failed: Invalid argument")


@pytest.mark.parametrize(
    ("given", "chosen"), [(None, "trixie"), ("", "trixie"), ("trixie", "trixie"), ("bookworm", "bookworm")]
)
def test_debian_13_is_the_default_suite(monkeypatch: pytest.MonkeyPatch, given: str | None, chosen: str) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(VARIABLE, given)
    assert suite() == chosen


def test_an_unknown_suite_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "noble")
    with pytest.raises(UnknownSuite, match=r"HPCAI_SUITE=noble is not a known suite") as refused:
        suite()
    assert all(f"{name} ({versions})" in str(refused.value) for name, versions in SUITES.items())


@pytest.mark.parametrize(
    ("files", "plugin", "because"),
    [
        ({"cgroup.controllers": "cpuset cpu io memory pids\n"}, "cgroup/v2", "cgroups v2 with all"),
        ({"cgroup.controllers": "cpu pids\n"}, "", "cgroups v2 without cpuset, memory"),
        (dict.fromkeys(V1, ""), "cgroup/v1", "cgroups v1 with all"),
        (dict.fromkeys(V1[1:], ""), "", "cgroups v1 without cpuset"),
        ({}, "", "cgroups v1 without cpuset, devices, freezer, memory"),
    ],
)  # fmt: skip
def test_cgroups_are_used_if_the_host_has_all_controllers(
    tmp_path: Path, files: dict[str, str], plugin: str, because: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    found = abilities.probe(tmp_path)
    assert found.cgroups == plugin
    assert because in found.cgroups_because
    abilities.write(found, tmp_path)
    assert json.loads((tmp_path / "host.json").read_text(encoding="utf-8"))["cgroups"] == plugin
