# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packages of the stand-in for BeeGFS, as apt and dpkg read them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from stand_ins.beegfs.build import build

pytestmark = pytest.mark.skipif(shutil.which("apt-cache") is None, reason="no apt here")

NAMES = {
    "beegfs-client-dkms",
    "beegfs-common",
    "beegfs-helperd",
    "beegfs-meta",
    "beegfs-mgmtd",
    "beegfs-storage",
    "beegfs-utils",
    "libbeegfs-ib",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("packages")
    build(made)
    return made


def fields(package: Path, form: str) -> str:
    command = ["dpkg-deb", "--show", f"--showformat={form}", str(package)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_packages_have_the_real_names_and_are_described_as_stand_ins(folder: Path) -> None:
    shown = {fields(package, "${Package} ${Version} ${Description}") for package in folder.glob("*.deb")}
    assert {line.split(" ")[0] for line in shown} == NAMES
    for line in shown:
        assert " 20:7.4.7+standin Stand-in for " in line


def test_builds_are_reproducible(folder: Path, tmp_path: Path) -> None:
    build(tmp_path)
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == len(NAMES) + 1
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_settings_are_conffiles_that_upgrades_keep(folder: Path) -> None:
    package = next(folder.glob("beegfs-meta_*"))
    listed = subprocess.run(
        ["dpkg-deb", "--info", str(package), "conffiles"], capture_output=True, text=True, check=True
    )
    assert listed.stdout == "/etc/beegfs/beegfs-meta.conf\n"


def test_apt_accepts_the_folder_as_a_repository(folder: Path, tmp_path: Path) -> None:
    """apt uses separate folders, so the test neither reads nor changes the machine's package lists."""
    sources = tmp_path / "sources.list"
    sources.write_text(f"deb [trusted=yes] file:{folder} ./\n", encoding="ascii")
    (tmp_path / "state/lists/partial").mkdir(parents=True)
    (tmp_path / "cache/archives/partial").mkdir(parents=True)
    (tmp_path / "status").touch()
    options = {
        "Dir::Etc::Main": "-",
        "Dir::Etc::Parts": "-",
        "Dir::Etc::SourceList": str(sources),
        "Dir::Etc::SourceParts": "-",
        "Dir::State": str(tmp_path / "state"),
        "Dir::State::Status": str(tmp_path / "status"),
        "Dir::Cache": str(tmp_path / "cache"),
        "APT::Sandbox::User": "root",
    }
    configuration = tmp_path / "apt.conf"
    configuration.write_text("".join(f'{key} "{value}";\n' for key, value in options.items()), encoding="ascii")
    env = {**os.environ, "APT_CONFIG": str(configuration)}
    subprocess.run(["apt-get", "--quiet", "update"], capture_output=True, check=True, env=env)
    asked = ["apt-cache", "madison", *sorted(NAMES)]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True, env=env).stdout
    assert {line.split("|")[0].strip() for line in shown.splitlines()} == NAMES
    assert shown.count("20:7.4.7+standin") == len(NAMES)
