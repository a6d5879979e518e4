# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which packages tests/setup/host.sh installs with apt, on hosts that already have some of them."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "setup/host.sh"
TOOLS = ("bash", "cat", "env", "grep", "id", "mktemp", "rm", "tail", "tar")

PROMETHEUS = ("promtool", "prometheus", "prometheus-alertmanager", "amtool", "prometheus-node-exporter")


@dataclasses.dataclass
class Host:
    """A host whose package manager only records its arguments."""

    folder: pathlib.Path

    def __post_init__(self) -> None:
        (self.folder / "bin").mkdir()
        for tool in TOOLS:
            (self.folder / "bin" / tool).symlink_to(str(shutil.which(tool)))
        self.add("dpkg-query", f'grep -qx "$3" "{self.folder}/installed" && printf installed')
        self.add("apt-get", f'echo "$@" >> "{self.folder}/asked"')
        self.add("sudo", 'exec "$@"')
        for program in PROMETHEUS:
            self.add(program, "")
        self.install()

    def add(self, program: str, text: str) -> None:
        """Add a program."""
        path = self.folder / "bin" / program
        path.write_text(f"#!{shutil.which('sh')}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def install(self, *packages: str) -> None:
        """Set which packages are installed."""
        (self.folder / "installed").write_text("".join(f"{package}\n" for package in packages), encoding="utf-8")

    def set_up(self) -> list[str]:
        """Run the script, and return the arguments of its calls of apt-get: empty if it made none."""
        asked = self.folder / "asked"
        asked.unlink(missing_ok=True)
        environment = {"PATH": str(self.folder / "bin"), "TMPDIR": str(self.folder)}
        done = subprocess.run([str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        return asked.read_text(encoding="utf-8").split() if asked.exists() else []


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Host:
    """A host with nothing installed."""
    return Host(tmp_path)


def packages_of(words: list[str]) -> list[str]:
    """The packages in the arguments of apt-get."""
    return [word for word in words[words.index("install") + 1 :] if not word.startswith("-")]


def test_installs_all_packages_once(host: Host) -> None:
    packages = packages_of(host.set_up())
    assert {"podman", "runc", "mmdebstrap", "python3-venv"} <= set(packages)
    host.install(*packages)
    assert host.set_up() == []


def test_does_not_replace_a_runc_that_no_package_owns(host: Host) -> None:
    host.add("runc", "")
    packages = packages_of(host.set_up())
    assert "podman" in packages
    assert "runc" not in packages


def test_never_lets_apt_remove_a_package(host: Host) -> None:
    assert "--no-remove" in host.set_up()


def test_installs_only_the_programs_from_the_prometheus_packages(host: Host) -> None:
    """The packages themselves would start servers."""
    host.install(*packages_of(host.set_up()))
    (host.folder / "bin/promtool").unlink()
    for name in (*(f"bin/{program}" for program in PROMETHEUS), "share/prometheus/alertmanager/default.tmpl"):
        file = host.folder / "data/usr" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name, encoding="utf-8")
    host.add("apt-get", f'echo "$@" >> "{host.folder}/asked"; : > prometheus_1_amd64.deb')
    host.add("apt-cache", "exit 1")
    host.add("dpkg-deb", f'exec tar --create --file - --directory "{host.folder}/data" ./usr')
    host.add("install", f'for path in "$@"; do to=$path; done; echo "to $to" >> "{host.folder}/asked"')
    asked = host.set_up()
    assert "install" not in asked
    copied = [word for word in asked if word.startswith("/")]
    assert copied == [
        *(f"/usr/local/bin/{name}" for name in PROMETHEUS),
        "/usr/share/prometheus/alertmanager/default.tmpl",
    ]
    assert "prometheus-alertmanager" in asked
