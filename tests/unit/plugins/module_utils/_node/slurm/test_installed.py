# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Slurm is installed on a machine."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import installed
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.installed import NotThisSlurm, SlurmOptions

OPTIONS = SlurmOptions(("compute",), "distribution", packages=("slurmd", "munge"), client="slurm-client")


def answering(**answers: str) -> Any:
    """A machine on which these commands answer; all others do not exist."""

    def run(command: Sequence[str]) -> Result:
        output = answers.get(command[0].rsplit("/", 1)[-1].replace("-", "_"))
        return Result(tuple(command), 127 if output is None else 0, output or "", "")

    return run


@pytest.mark.parametrize(
    ("answers", "version"),
    [
        ({"dpkg_query": "installed 22.05.8-4+deb12u3\n"}, "22.05.8"),
        ({"dpkg_query": "installed 1:23.11.4-1.2ubuntu5\n"}, "23.11.4"),
        ({"dpkg_query": "config-files 22.05.8-4\n"}, None),
        ({"rpm": "24.11.5\n"}, "24.11.5"),
        ({"slurmd": "slurm-wlm 22.05.8\n"}, "22.05.8"),
        ({"slurmctld": "slurm 25.11.0-0rc1\n"}, "25.11.0"),
        ({"sinfo": "slurm 23.02.7\n"}, "23.02.7"),
        ({"dpkg_query": "config-files 21.08.5-2\n", "slurmd": "slurm 24.05.1\n"}, "24.05.1"),
        ({}, None),
    ],
)
def test_the_version_is_that_of_the_package_or_else_of_the_daemons(answers: dict[str, str], version: str) -> None:
    assert installed.read_version(OPTIONS, answering(**answers)) == version


def test_a_preinstalled_slurm_is_queried_below_its_prefix() -> None:
    asked: list[str] = []

    def run(command: Sequence[str]) -> Result:
        asked.append(" ".join(command))
        return Result(tuple(command), 127, "", "")

    installed.read_version(SlurmOptions(("compute",), "preinstalled", prefix="/opt/slurm"), run)
    assert asked == ["/opt/slurm/sbin/slurmd -V", "/opt/slurm/sbin/slurmctld -V", "/opt/slurm/bin/sinfo --version"]


@pytest.mark.parametrize(
    ("version", "required", "same"),
    [
        ("24.11.5", "", True),
        ("24.11.5", "24.11", True),
        ("24.11.5", "24.11.5-1", True),
        ("24.11.5", "24.1", False),
        ("24.11.5", "24.05", False),
    ],
)
def test_a_version_may_be_given_by_its_first_parts(version: str, required: str, same: bool) -> None:
    assert installed.matches(version, required) is same


def test_another_version_is_refused_unless_an_upgrade_is_requested() -> None:
    options = replace(OPTIONS, version="24.11")
    with pytest.raises(NotThisSlurm, match=r"Slurm 22.05.8 is installed, but slurm_version is '24.11'.*upgrade_slurm"):
        installed.check_before(options, {}, "22.05.8", Root("/nowhere"))
    installed.check_before(replace(options, may_upgrade=True), {}, "22.05.8", Root("/nowhere"))
    installed.check_before(options, {}, None, Root("/nowhere"))
    installed.check_before(options, {}, "24.11.2", Root("/nowhere"))


@pytest.mark.parametrize("function", ["controller", "accounting"])
def test_an_upgrade_over_too_many_releases_is_refused_if_it_loses_state(function: str) -> None:
    options = replace(OPTIONS, version="24.11.5-1", may_upgrade=True, functions=(function,))
    with pytest.raises(NotThisSlurm, match=r"Slurm 24.11 reads .* of 23.02 and later, but 22.05 is installed"):
        installed.check_before(options, {}, "22.05.8", Root("/nowhere"))
    installed.check_before(options, {}, "23.11.4", Root("/nowhere"))
    installed.check_before(replace(options, functions=("compute",)), {}, "22.05.8", Root("/nowhere"))
    with pytest.raises(NotThisSlurm, match=r"'24.12' is not a known release .* slurm_version is '24.12'"):
        installed.check_before(replace(options, version="24.12"), {}, "22.05.8", Root("/nowhere"))


def test_another_source_counts_as_an_upgrade() -> None:
    options = replace(OPTIONS, source="repository")
    with pytest.raises(NotThisSlurm, match="installed from 'distribution', but slurm_source is 'repository'"):
        installed.check_before(options, {"source": "distribution"}, "22.05.8", Root("/nowhere"))
    # A record from before sources were recorded.
    installed.check_before(options, {}, "22.05.8", Root("/nowhere"))


def test_missing_files_of_a_preinstalled_slurm_are_named(tmp_path: pathlib.Path) -> None:
    options = SlurmOptions(("compute",), "preinstalled", prefix="/opt/slurm")
    paths = ["opt/slurm/bin/scontrol", "opt/slurm/bin/srun", "opt/slurm/sbin/slurmd", "usr/sbin/munged"]
    paths += ["lib/systemd/system/munge.service"]
    for name in paths:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(NotThisSlurm) as refused:
        installed.check_before(options, {}, None, Root(str(tmp_path)))
    message = str(refused.value)
    assert "lacks /opt/slurm/sbin/slurmstepd, slurmd.service (in " in message
    for name in ("opt/slurm/sbin/slurmstepd", "lib/systemd/system/slurmd.service"):
        (tmp_path / name).touch()
    installed.check_before(options, {}, None, Root(str(tmp_path)))


def test_a_preinstalled_slurmrestd_needs_its_program_and_its_unit(tmp_path: pathlib.Path) -> None:
    options = SlurmOptions(("restd",), "preinstalled", prefix="/opt/slurm")
    with pytest.raises(NotThisSlurm, match=r"/opt/slurm/sbin/slurmrestd.*slurmrestd.service"):
        installed.check_before(options, {}, None, Root(str(tmp_path)))


def test_the_record_adds_what_is_installed_to_what_was() -> None:
    before = {"packages": ["slurmctld", "munge"], "functions": ["controller"], "version": "22.05.7"}
    assert json.loads(installed.record_of(OPTIONS, before, "22.05.8")) == {
        "functions": ["compute", "controller"],
        "packages": ["munge", "slurmctld", "slurmd"],
        "source": "distribution",
        "version": "22.05.8",
    }


@pytest.mark.parametrize("text", ["", "nonsense", "[1]"])
def test_an_unreadable_record_is_ignored(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / installed.RECORD.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    assert installed.read_record(Root(str(tmp_path))) == {}


@pytest.mark.parametrize(
    ("version", "words"), [(None, "version is unknown"), ("22.05.8", "Slurm 22.05.8 is installed now")]
)
def test_the_installed_version_must_be_the_requested_one(version: str | None, words: str) -> None:
    with pytest.raises(NotThisSlurm, match=words):
        installed.check_after(replace(OPTIONS, version="24.11"), version)
    installed.check_after(replace(OPTIONS, version="22.05"), "22.05.8")
