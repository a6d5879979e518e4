# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plugin is built for the installed Slurm, and again only if that changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers import pyxis
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers.pyxis import BuildFailed

from .conftest import SOURCE, Node


def converge(node: Node, sha256: str = "", version: str = "0.24.0") -> str:
    """Converge as the module does; return why the plugin was built."""
    plan = pyxis.plan_build(SOURCE, sha256, version, node.root, node.run)
    if plan.reason:
        pyxis.install(plan, SOURCE, node.root, node.run)
    return plan.reason


def test_the_plugin_is_built_once_and_recorded(node: Node) -> None:
    assert converge(node) == "no plugin was built yet"
    assert os.readlink(node.root.at(pyxis.LINK)) == "22.05.8-0.24.0/spank_pyxis.so"
    assert Path(node.root.at(pyxis.LINK)).read_bytes() == b"\x7fELFone"
    record = node.record()
    assert (record["slurm"], record["slurm_package"], record["pyxis"]) == ("22.05.8", "22.05.8-1", "0.24.0")
    assert record["source_sha256"] == pyxis.file_digest(node.root.at(SOURCE))
    before = node.files()
    assert converge(node) == ""
    assert node.files() == before


def test_users_can_load_the_plugin_whatever_the_umask_is(node: Node) -> None:
    before = os.umask(0o077)
    try:
        converge(node)
    finally:
        os.umask(before)
    folder = Path(node.root.at(pyxis.LINK)).resolve().parent
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder)] == [0o755, 0o755]


@pytest.mark.parametrize(
    ("version", "package", "reason"),
    [
        ("23.11.4", "", "it was built for Slurm 22.05.8, not 23.11.4"),
        ("22.05.8", "22.05.8-9", "it was built for Slurm's package 22.05.8-1, not 22.05.8-9"),
    ],
)
def test_another_slurm_rebuilds_the_plugin_once(node: Node, version: str, package: str, reason: str) -> None:
    converge(node)
    node.slurm(version, package)
    assert converge(node) == reason
    assert node.record()["slurm"] == version
    assert os.readlink(node.root.at(pyxis.LINK)) == f"{version}-0.24.0/spank_pyxis.so"
    assert converge(node) == ""


def test_a_record_of_another_slurm_rebuilds_the_plugin(node: Node) -> None:
    converge(node)
    node.write(pyxis.RECORD, (node.text(pyxis.RECORD) or "").replace("22.05.8", "21.08.5"))
    assert "21.08.5" in converge(node)
    assert converge(node) == ""


def test_another_source_or_version_of_pyxis_rebuilds_the_plugin(node: Node) -> None:
    converge(node)
    node.source(b"two")
    assert converge(node).startswith("its source had the digest")
    assert converge(node, version="0.25.0") == "it was built from pyxis 0.24.0, not 0.25.0"


def test_a_changed_plugin_or_link_is_rebuilt(node: Node) -> None:
    converge(node)
    node.write("/usr/lib/hpcai/pyxis/22.05.8-0.24.0/spank_pyxis.so", "theirs")
    assert converge(node) == f"{pyxis.LINK} was changed after the build"
    Path(node.root.at(pyxis.LINK)).unlink()
    assert converge(node) == f"{pyxis.LINK} does not point to it"
    assert converge(node) == ""


def test_a_missing_source_is_an_error_only_if_a_rebuild_is_needed(node: Node) -> None:
    converge(node)
    Path(node.root.at(SOURCE)).unlink()
    assert converge(node) == ""
    node.slurm("23.11.4")
    with pytest.raises(BuildFailed, match=r"must be rebuilt .* its source .* is missing"):
        converge(node)


def test_a_source_with_another_digest_is_refused(node: Node) -> None:
    with pytest.raises(BuildFailed, match=", not aaaa"):
        converge(node, sha256="a" * 64)
    assert node.text(pyxis.RECORD) is None


def test_errors_about_slurm_or_its_headers_say_what_to_install(node: Node) -> None:
    node.slurm("23.11.4", headers="22.05.8")
    with pytest.raises(BuildFailed, match=r"headers .* are of Slurm 22.05.8, .* is 23.11.4.*Install libslurm-dev"):
        converge(node)
    Path(node.root.at("/usr/include/slurm/slurm_version.h")).unlink()
    with pytest.raises(BuildFailed, match=r"does not exist\. Install libslurm-dev"):
        converge(node)
    node.version = ""
    with pytest.raises(BuildFailed, match="and none was found"):
        converge(node)


def test_a_failed_build_keeps_the_old_plugin_and_leaves_no_folder(node: Node) -> None:
    converge(node)
    before = node.files()
    from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

    node.make = Result((), 2, "", "cc -c x.c\nx.c:1:1: error: no such thing\nmake: *** [x] Error 1\n")
    node.source(b"two")
    with pytest.raises(BuildFailed, match=r"does not compile .*: x.c:1:1: error: no such thing"):
        converge(node)
    after = node.files()
    assert {path: after[path] for path in before if "pyxis-0.24.0.tar.gz" not in path} == {
        path: before[path] for path in before if "pyxis-0.24.0.tar.gz" not in path
    }
    folders = [command[command.index("-C") + 1] for command in node.asked if "-C" in command]
    assert folders
    assert not [folder for folder in folders if Path(folder).exists()]


@pytest.mark.parametrize("name", ["../Makefile", "/Makefile", "a/../../Makefile"])
def test_an_archive_with_paths_outside_its_folder_is_refused(node: Node, name: str) -> None:
    node.source(b"one", name)
    with pytest.raises(BuildFailed, match="a path outside of it"):
        converge(node)


def test_a_file_that_is_no_archive_of_pyxis_is_refused(node: Node) -> None:
    node.source(b"one", "pyxis/README")
    with pytest.raises(BuildFailed, match="has no Makefile"):
        converge(node)
    node.write(SOURCE, "not an archive")
    with pytest.raises(BuildFailed, match="cannot be unpacked"):
        converge(node)


def test_as_root_the_build_runs_as_nobody(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_arguments, **_named: None)
    converge(node)
    (made,) = [command for command in node.asked if "make" in command]
    assert made[:3] == ("env", "CPPFLAGS=-I" + node.root.at("/usr/include"), "setpriv")
    assert "--reuid=65534" in made


def test_fits_reports_a_plugin_for_another_slurm(node: Node) -> None:
    assert "was not built" in pyxis.fits(node.root, node.run)
    converge(node)
    assert pyxis.fits(node.root, node.run) == ""
    node.slurm("23.11.4")
    assert pyxis.fits(node.root, node.run) == (
        "pyxis was built for Slurm 22.05.8 (22.05.8-1), but Slurm 23.11.4 (23.11.4-1) is installed"
    )
