# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`playbooks/image.yml` on a folder with a machine's files: no systemd runs there, and this host must not change."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.backends.containers import base_image
from simulator.backends.containers.places import cache_dir, locked
from simulator.backends.containers.podman import Podman
from simulator.suite import suite

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a folder with a machine's files needs root"),
    pytest.mark.timeout(900),
]

DEBIAN = {"trixie": "debian-13", "bookworm": "debian-12"}
REPOSITORY = Path(__file__).resolve().parents[2]
INSTALL: list[dict[str, Any]] = [
    {
        "hosts": "hpcai_image",
        "gather_facts": False,
        "tasks": [
            {"ansible.builtin.setup": {"gather_subset": ["min"]}},
            {"ansible.builtin.import_role": {"name": "hpcai.azure.image", "tasks_from": "install"}},
        ],
    }
]
GENERALISE: list[dict[str, Any]] = [
    {
        "hosts": "hpcai_image",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.import_role": {"name": "hpcai.azure.image", "tasks_from": "generalise"}}],
    }
]
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
MACHINE_FILES = {
    "root/.ssh/authorized_keys": "ssh-ed25519 AAAA somebody\n",
    "root/.bash_history": "id\n",
    "etc/ssh/ssh_host_ed25519_key": KEY,
    "etc/munge/munge.key": "k" * 64,
    "etc/machine-id": "0" * 32 + "\n",
    "var/lib/systemd/random-seed": "seed",
    "var/lib/hpcai/instance.json": "{}",
    "var/log/syslog.1": "boot\n",
}
MONITORED = ("-e", '{"hpcai_monitoring": true}')
RECAP = re.compile(r"^tree +: ok=(\d+) +changed=(\d+) +unreachable=(\d+) +failed=(\d+)", re.MULTILINE)


class Image:
    """The folder, and Ansible runs on it."""

    def __init__(self, tree: Path, work: Path) -> None:
        self.tree, self.work = tree, work
        self.inventory = work / "hosts.yml"
        host = {
            "ansible_connection": "folder",
            "ansible_host": str(tree),
            "ansible_become": False,
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        self.inventory.write_text(yaml.safe_dump({"hpcai_image": {"hosts": {"tree": host}}}), encoding="utf-8")

    def play(self, playbook: Path | list[dict[str, Any]], *options: str) -> tuple[int, int, str]:
        """Run a playbook; returns the exit status, the number of changed tasks, and the output."""
        if not isinstance(playbook, Path):
            path = self.work / "play.yml"
            path.write_text(yaml.safe_dump(playbook), encoding="utf-8")
            playbook = path
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("ansible-playbook")),
                "-i",
                str(self.inventory),
                str(playbook),
                *options,
            ],
            env={
                **environment,
                "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".collections"),
                "ANSIBLE_CONNECTION_PLUGINS": str(REPOSITORY / "tests/cluster/image/connection_plugins"),
                "ANSIBLE_NOCOLOR": "1",
            },
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        output = done.stdout + done.stderr
        recap = RECAP.search(output)
        assert recap, output
        return done.returncode, int(recap[2]), output

    def run(self, *argv: str) -> str:
        """Run a command in the folder, and return its output."""
        return subprocess.run(["chroot", self.tree, *argv], capture_output=True, text=True, check=False).stdout

    def processes(self) -> list[str]:
        """Processes of this host whose root is the folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    if Path(os.readlink(entry / "root")) == self.tree:
                        found.append((entry / "cmdline").read_text().replace("\0", " "))
                except OSError:
                    continue
        return found

    def fact(self) -> dict[str, Any]:
        """The fact file in which the image describes itself."""
        answer: dict[str, Any] = json.loads((self.tree / "etc/ansible/facts.d/hpcai_image.fact").read_text())
        return answer


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """A small Debian system that has never run."""
    work = tmp_path_factory.mktemp("image")
    tree = work / "tree"
    tree.mkdir()
    podman = Podman()
    # A process that bakes holds the lock for a minute or two, and has built the base image already.
    if not podman.image_exists(base_image.reference()):
        with locked(cache_dir() / "images.lock"):
            base_image.build(podman, print)
    name = f"hpcai-folder-{os.getpid()}"
    podman.run("create", "--name", name, "--network=none", base_image.reference(), "true")
    try:
        export = [*podman.argv, "export", name]
        environment = {**os.environ, **podman.env}
        with subprocess.Popen(export, env=environment, stdout=subprocess.PIPE) as exported:
            subprocess.run(["tar", "-x", "--numeric-owner", "-C", tree], stdin=exported.stdout, check=True, timeout=300)
    finally:
        podman.run("rm", "--force", name)
    yield Image(tree, work)
    shutil.rmtree(tree)


def host_state() -> dict[str, Any]:
    """State of this host that a bake might change by mistake."""
    settings = ("vm/zone_reclaim_mode", "net/ipv4/neigh/default/gc_thresh3")
    return {
        "kernel": [Path("/proc/sys", name).read_text() for name in settings if Path("/proc/sys", name).exists()],
        "files": [path.exists() for path in map(Path, ("/etc/hpcai", "/usr/bin/hpcnode", "/usr/sbin/policy-rc.d"))],
        "names": Path("/etc/resolv.conf").read_bytes(),
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "tree" in line],
    }


@pytest.fixture(scope="module")
def baked(fresh: Image) -> tuple[Image, dict[str, Any], dict[str, Any]]:
    """The folder after image.yml, and this host's state before and after."""
    before = host_state()
    status, _changed, output = fresh.play(REPOSITORY / "playbooks/image.yml", *MONITORED)
    assert status == 0, output
    return fresh, before, host_state()


@pytest.fixture
def image(baked: tuple[Image, dict[str, Any], dict[str, Any]]) -> Image:
    """The baked folder."""
    return baked[0]


def test_the_image_has_what_a_node_needs(image: Image) -> None:
    for name in ("usr/sbin/mdadm", "usr/sbin/mkfs.xfs", "usr/bin/hpcnode", "usr/sbin/slurmd", "usr/sbin/chronyd"):
        # Not exists(), because some are links to absolute paths.
        assert os.path.lexists(image.tree / name), name
    assert "* hard nofile 1048576" in (image.tree / "etc/security/limits.d/90-hpcai-image.conf").read_text()
    assert "gc_thresh3 = 16384" in (image.tree / "etc/sysctl.d/99-zz-hpcai-image.conf").read_text()
    assert 'Unattended-Upgrade "0"' in (image.tree / "etc/apt/apt.conf.d/99hpcai-updates").read_text()
    assert image.run("hpcnode", "--version").strip()


def test_units_are_enabled_for_the_first_boot(image: Image) -> None:
    units = ("hpcai-boot.target", "slurmctld", "hpcai-metrics", "hpcai-node-exporter", "prometheus-node-exporter")
    states = {unit: image.run("systemctl", "is-enabled", unit).strip() for unit in units}
    assert states == dict(zip(units, ("enabled", "disabled", "enabled", "enabled", "disabled"), strict=True))


def test_the_image_has_the_exporter_and_not_the_monitor(image: Image) -> None:
    record = json.loads((image.tree / "etc/ansible/facts.d/hpcai_monitoring.fact").read_text())
    assert record == {"packages": ["prometheus-node-exporter"], "archives": []}
    assert os.path.lexists(image.tree / "usr/bin/prometheus-node-exporter")
    assert not os.path.lexists(image.tree / "usr/bin/prometheus")
    assert json.loads((image.tree / "etc/hpcai/metrics.json").read_text())["jobs"] is True


def test_the_bake_does_not_change_this_host(baked: tuple[Image, dict[str, Any], dict[str, Any]]) -> None:
    image, before, after = baked
    assert before == after
    assert image.processes() == []
    assert not (image.tree / "usr/sbin/policy-rc.d").exists()


def test_the_image_has_a_fact_that_describes_it(image: Image) -> None:
    fact = image.fact()
    assert (fact["schema"], fact["collection"], fact["base"]["os"]) == (1, "hpcai.azure", DEBIAN[suite()])
    assert fact["version"] == yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["version"]
    assert set(fact["parts"]) == {"packages", "settings", "components"}
    assert fact["components"] == {}


def test_a_second_bake_changes_nothing(image: Image) -> None:
    status, changed, output = image.play(REPOSITORY / "playbooks/image.yml", *MONITORED)
    assert (status, changed) == (0, 0), output


def test_the_main_entry_point_skips_what_was_baked(image: Image) -> None:
    main = json.loads(json.dumps(INSTALL).replace('"tasks_from": "install"', '"tasks_from": "main"'))
    _status, changed, output = image.play(main)
    assert "skipping: [tree]" not in output  # Skipped tasks are not shown.
    assert (changed, output.count("TASK [hpcai.azure.image")) == (0, 1), output
    _status, _changed, output = image.play(main, "--check", "-e", '{"image_sysctl": {"vm.zone_reclaim_mode": 0}}')
    assert "Configure the machine for HPC jobs" in output


@pytest.fixture
def serve_package(tmp_path: Path) -> Iterator[Callable[[str], dict[str, str]]]:
    """A function that builds a package, serves it on the loopback address, and returns its pin."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def make(version: str) -> dict[str, str]:
            root = tmp_path / version
            (root / "DEBIAN").mkdir(parents=True)
            (root / "usr/bin").mkdir(parents=True)
            (root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\n")
            (root / "DEBIAN/control").write_text(
                f"Package: stand-in-driver\nVersion: {version}\nArchitecture: all\n"
                "Maintainer: hpcai.azure contributors\nDescription: stands in for a driver\n"
            )
            name = f"stand-in-driver_{version}_all.deb"
            subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, folder / name], check=True, timeout=60)
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            return {"version": version, "sha256": digest, "url": f"http://127.0.0.1:{server.server_port}/{name}"}

        yield make
        server.shutdown()


def components(**pins: Any) -> str:
    """Variables that select components."""
    return json.dumps({"image_gpu": True, "image_components": {"fabricmanager": None, "dcgm": None, **pins}})


def test_a_component_is_installed_only_if_its_digest_is_right(
    image: Image, serve_package: Callable[[str], dict[str, str]]
) -> None:
    pin = serve_package("1.2.3")
    status, _changed, output = image.play(INSTALL, "-e", components(driver={**pin, "sha256": "0" * 64}))
    assert status == 2
    assert "checksum" in output
    assert not (image.tree / "usr/bin/nvidia-smi").exists()
    assert image.fact()["components"] == {}

    status, changed, output = image.play(INSTALL, "-e", components(driver=pin))
    assert (status, (image.tree / "usr/bin/nvidia-smi").exists()) == (0, True), output
    assert image.fact()["components"] == {"driver": "1.2.3"}
    assert not (image.tree / "var/cache/hpcai-image").exists()

    status, changed, output = image.play(INSTALL, "-e", components(driver=pin))
    assert (status, changed) == (0, 0), output
    assert "the base image has driver" in output
    image.run("dpkg", "--purge", "stand-in-driver")


def test_unpinned_and_unsupported_components_are_refused(image: Image) -> None:
    url = "http://127.0.0.1:9/NVIDIA.run"
    for pin, message in (
        ({}, "set image_components.driver to version, url and sha256"),
        ({"version": "1", "url": url}, "set image_components.driver to version, url and sha256"),
        ({"version": "1", "url": url, "sha256": "0" * 64}, "running machine only"),
    ):
        status, _changed, output = image.play(INSTALL, "-e", components(driver=pin))
        assert status == 2
        assert message in " ".join(output.split())


def test_generalising_removes_machine_data_and_can_be_repeated(image: Image) -> None:
    for name, text in MACHINE_FILES.items():
        path = image.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    names = Path("/etc/resolv.conf").read_bytes()

    status, _changed, output = image.play(GENERALISE)
    assert (status, "nobody can log in" in " ".join(output.split())) == (2, True)
    status, _changed, output = image.play(GENERALISE, "--check")
    assert status == 0, output
    assert all((image.tree / name).read_text() == text for name, text in MACHINE_FILES.items())

    status, _changed, output = image.play(GENERALISE, "-e", "image_generalise=true")
    assert status == 0, output
    assert "az sig image-version create" in output
    left = [name for name in MACHINE_FILES if (image.tree / name).exists() and (image.tree / name).stat().st_size]
    assert left == []
    assert (image.tree / "etc/machine-id").read_bytes() == b""
    assert not list((image.tree / "var/lib/apt/lists").glob("*Packages"))
    grep = ["grep", "-rlsI", "PRIVATE KEY-----", *(str(image.tree / name) for name in ("etc", "root", "home", "var"))]
    assert subprocess.run(grep, capture_output=True, text=True, check=False).stdout == ""
    assert Path("/etc/resolv.conf").read_bytes() == names

    status, changed, output = image.play(GENERALISE, "-e", "image_generalise=true")
    assert (status, changed) == (0, 0), output
