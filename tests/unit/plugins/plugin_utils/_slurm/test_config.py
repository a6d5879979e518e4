# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rendering of Slurm's settings, layers of settings, and differences between releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import releases
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import (
    ConfigError,
    check_keys,
    job_container_lines,
    merged,
    release_of,
    render,
    render_line,
    settings_of_release,
    shown,
    with_names_of,
)

RECORDED = Path(__file__).parents[2] / "module_utils/_node/slurm/recorded/keys-25.05-to-26.05.txt"


def test_renders_one_line_per_key_in_the_mappings_order() -> None:
    assert render({"ClusterName": "sim", "ReturnToService": 2, "AuthType": "auth/munge"}) == (
        "ClusterName=sim\nReturnToService=2\nAuthType=auth/munge\n"
    )


def test_renders_a_node_as_one_line() -> None:
    line = {"NodeName": "compute-[0,3]", "CPUs": 96, "Feature": ["a", "b"], "Gres": None, "State": "UNKNOWN"}
    assert render_line(line) == "NodeName=compute-[0,3] CPUs=96 Feature=a,b State=UNKNOWN"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "YES"),
        (False, "NO"),
        (0, "0"),
        (2, "2"),
        (0.5, "0.5"),
        ("", ""),
        (["task/affinity", "task/cgroup"], "task/affinity,task/cgroup"),
        (("a", 1, True), "a,1,YES"),
        ("/usr/bin/nhc", "/usr/bin/nhc"),
        (r"with \# sign", '"with \\# sign"'),
        ("two words", '"two words"'),
        ("a\ttab", '"a\ttab"'),
        ('"quoted already"', '"quoted already"'),
    ],
)
def test_renders_values_as_slurm_reads_them(value: Any, text: str) -> None:
    assert render({"Key": value}) == f"Key={text}\n"
    assert render_line({"Key": value}) == f"Key={text}"


@pytest.mark.parametrize("absent", [None, [], ()])
def test_null_and_an_empty_list_omit_a_key(absent: Any) -> None:
    assert render({"A": 1, "Key": absent, "B": 2}) == "A=1\nB=2\n"
    assert render_line({"A": 1, "Key": absent, "B": 2}) == "A=1 B=2"
    assert render({"Key": absent}) == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x\nPrologSlurmctld=/tmp/evil", "contains a line break"),
        ("x\rPrologSlurmctld=/tmp/evil", "contains a line break"),
        (["a", "b\n"], "contains a line break"),
        ("a#b", "contains a '#'"),
        ("# all of it", "contains a '#'"),
        ({"a": 1}, "is a mapping"),
        (["a", {"b": 1}], "is a mapping"),
    ],
)
def test_refuses_values_that_slurm_would_misread_and_names_the_key(value: Any, words: str) -> None:
    for rendering in (render, render_line):
        with pytest.raises(ConfigError, match=rf"^SlurmctldParameters {words}"):
            rendering({"ClusterName": "sim", "SlurmctldParameters": value})


@pytest.mark.parametrize(
    ("text", "release"),
    [("22.05", (22, 5)), ("22.05.8", (22, 5)), ("25.11.0-1", (25, 11)), (23.11, (23, 11)), ("24.11.5~rc1", (24, 11))],
)
def test_reads_the_release_from_a_release_or_a_version(text: Any, release: tuple[int, int]) -> None:
    assert release_of(text) == release


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "^the Slurm release of the controller is unknown: set slurm_release"),
        (None, "set slurm_release"),
        ("21.08.5", "^slurm_release is 21.08.5: releases before 22.05"),
        ("newest", "^slurm_release is 'newest': it must be a release such as '24.11'"),
        (24.1, "^slurm_release is 24.1: it must be"),
    ],
)
def test_an_invalid_release_is_an_error_with_the_reason(text: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        release_of(text)


def test_shows_a_release_as_slurm_writes_it() -> None:
    assert shown((22, 5)) == "22.05"


@pytest.mark.parametrize(
    ("file", "key", "before", "since"),
    [
        ("slurm.conf", "MaxBatchRequeue", (22, 5), (23, 2)),
        ("slurm.conf", "HashPlugin", (23, 11), (24, 5)),
        ("slurm.conf", "DataParserParameters", (24, 5), (24, 11)),
        ("slurm.conf", "PrologTimeout", (24, 11), (25, 5)),
        ("slurm.conf", "namespacetype", (25, 5), (25, 11)),
        ("slurm.conf", "HealthCheckTimeout", (25, 11), (26, 5)),
        ("cgroup.conf", "EnableControllers", (23, 2), (23, 11)),
        ("cgroup.conf", "CgroupSlice", (25, 5), (25, 11)),
        ("job_container.conf", "Dirs", (22, 5), (23, 2)),
        ("job_container.conf", "EntireStepInNS", (24, 5), (24, 11)),
    ],
)
def test_refuses_a_key_before_the_release_that_added_it(
    file: str, key: str, before: tuple[int, int], since: tuple[int, int]
) -> None:
    check_keys(file, [key], since)
    with pytest.raises(ConfigError, match=f"^{file}: {key} was added in Slurm {shown(since)}, but slurm_release is"):
        check_keys(file, [key], before)


@pytest.mark.parametrize(
    ("file", "key", "last", "gone"),
    [
        ("slurm.conf", "SlurmctldPlugstack", (22, 5), (23, 2)),
        ("slurm.conf", "SchedulerAuth", (23, 11), (24, 5)),
        ("cgroup.conf", "ConstrainKmemSpace", (23, 2), (23, 11)),
        ("cgroup.conf", "CgroupReleaseAgentDir", (25, 5), (25, 11)),
    ],
)
def test_refuses_a_key_from_the_release_that_removed_it(
    file: str, key: str, last: tuple[int, int], gone: tuple[int, int]
) -> None:
    check_keys(file, [key], last)
    with pytest.raises(ConfigError, match=f"^{file}: {key} was removed in Slurm {shown(gone)}, and slurm_release is"):
        check_keys(file, [key], gone)


@pytest.mark.parametrize("release", [(22, 5), (24, 11), (26, 5)])
@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("slurm.conf", "AccountingStorageLoc"),
        ("slurm.conf", "AccountingStoreJobComment"),
        ("slurm.conf", "SallocDefaultCommand"),
        ("slurm.conf", "FastSchedule"),
        ("cgroup.conf", "RootOwnedCgroups"),
    ],
)
def test_refuses_keys_that_no_supported_release_accepts(file: str, key: str, release: tuple[int, int]) -> None:
    """Slurm's parser still accepts most of them, but its daemons exit at once."""
    with pytest.raises(ConfigError, match=f"^{file}: {key} was removed in Slurm 22.05, and slurm_release is"):
        check_keys(file, [key], release)


def recorded_keys() -> dict[tuple[str, str], set[str]]:
    """The keys in Slurm's tables by release and file, in lower case."""
    found: dict[tuple[str, str], set[str]] = {}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if line.endswith(":") and not line.startswith("#"):
            release, file = line.removesuffix(":").split()
            current = found.setdefault((release, file), set())
        elif line.startswith(" "):
            current |= {*line.lower().split()}
    return found


@pytest.mark.parametrize(("release", "file"), recorded_keys())
def test_the_accepted_keys_are_those_of_slurms_sources(release: str, file: str) -> None:
    """No real Slurm of these releases was available. Keys that Slurm parses, and then refuses, are listed above."""
    changed = (names for table in (releases.CAME, releases.WENT) for names in table.get(file, {}).values())
    known = {key for names in changed for key in names.lower().split()}
    if file == "slurm.conf":
        known |= {*releases.ALWAYS.split()}

    def is_accepted(key: str) -> bool:
        try:
            check_keys(file, [key], release_of(release))
        except ConfigError:
            return False
        return True

    listed = recorded_keys()[release, file]
    refused_later = {*releases.WENT[file][releases.OLDEST].lower().split()} if file in releases.WENT else set[str]()
    # Of the other files, the product lists only what differs between releases.
    expected = listed if file == "slurm.conf" else listed & known
    assert {key for key in known if is_accepted(key)} == expected - refused_later


def test_accepts_keys_that_all_releases_have() -> None:
    check_keys("slurm.conf", ["ClusterName", "NoSuchKey"], (22, 5))
    check_keys("gres.conf", ["Name"], (22, 5))


def test_later_layers_override_and_lists_are_joined_without_duplicates() -> None:
    layers = [{"A": 1, "L": ["x", "y"], "S": "one"}, {"A": 2, "L": ["y", "z"], "S": ["two"]}]
    assert merged(layers, {}) == {"A": 2, "L": ["x", "y", "z"], "S": ["two"]}


def test_null_deletes_a_key_only_in_the_users_settings() -> None:
    assert merged([{"A": 1}, {"A": None, "B": None}], {}) == {"A": 1}
    assert merged([{"A": 1, "L": ["x"]}], {"A": None, "L": ["y"]}) == {"L": ["y"]}


def test_a_users_key_matches_in_any_case() -> None:
    assert merged([{"SchedulerType": "a", "B": 1}], {"schedulertype": "b", "new": 2}) == {
        "SchedulerType": "b",
        "B": 1,
        "new": 2,
    }


def test_a_difference_applies_from_since_until_before_until() -> None:
    differences = [
        {"file": "slurm.conf", "until": "23.11", "settings": {"A": "old"}},
        {"file": "slurm.conf", "since": "23.11", "until": "25.05", "settings": {"A": "new"}},
        {"file": "cgroup.conf", "settings": {"A": "other"}},
    ]
    found = [
        settings_of_release(differences, "slurm.conf", release) for release in ((22, 5), (23, 11), (24, 11), (25, 5))
    ]
    assert found == [{"A": "old"}, {"A": "new"}, {"A": "new"}, {}]


def test_job_container_type_is_called_namespace_type_from_25_11_on() -> None:
    settings = {"A": 1, "JobContainerType": "job_container/tmpfs"}
    assert with_names_of(settings, (25, 5)) == settings
    assert with_names_of(settings, (25, 11)) == {"A": 1, "NamespaceType": "namespace/tmpfs"}
    assert with_names_of({"A": 1}, (25, 11)) == {"A": 1}


def test_a_line_of_job_container_conf_starts_with_base_path() -> None:
    assert job_container_lines({}) == []
    [line] = job_container_lines({"AutoBasePath": True, "Dirs": ["/tmp"], "BasePath": "/scratch/tmp"})
    assert list(line) == ["BasePath", "AutoBasePath", "Dirs"]
    lines = job_container_lines({"BasePath": "/s", "InitScript": "/x", "NodeName": "a-[0-1]"})
    assert lines == [{"InitScript": "/x"}, {"NodeName": "a-[0-1]", "BasePath": "/s"}]


def test_job_container_settings_without_base_path_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^job_container\.conf has no BasePath: set it in slurm_job_container_conf"):
        job_container_lines({"AutoBasePath": True})
