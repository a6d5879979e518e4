# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What no file may contain, and rules for the names and lengths of files."""

from __future__ import annotations

import pathlib
import re

# Joined from parts, so that this file does not contain the names either.
REGISTRIES = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("npmjs", "org"),
            ("deb", "debian", "org"),
            ("security", "debian", "org"),
            ("archive", "ubuntu", "com"),
            ("docker", "io"),
            ("quay", "io"),
            ("ghcr", "io"),
        )
    )
)
# A path of a developer's machine: a home or work folder. /home/azureuser is the home on simulated nodes.
LOCAL_PATH = re.compile(r"(?<![\w.$}])/(?:work/|root/\.|home/(?!azureuser\b)[a-z]\w*/)")
VAGUE_NAMES = {"utils.py", "util.py", "common.py", "helpers.py", "helper.py", "misc.py"}
CODE = {".py", ".yml", ".j2", ".sh"}
LONGEST_FILE = 400


def readable(repository: pathlib.Path, file: pathlib.PurePosixPath) -> str:
    """The file's text, empty for a binary one."""
    try:
        return (repository / file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def lines_matching(pattern: re.Pattern[str], repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> list[str]:
    """Where a pattern occurs."""
    return [
        f"{file}:{number}: {line.strip()[:100]}"
        for file in files
        for number, line in enumerate(readable(repository, file).splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_a_package_registry(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    assert not lines_matching(REGISTRIES, repository, files)


def test_no_file_contains_a_developers_local_path(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    assert not lines_matching(LOCAL_PATH, repository, files)


def test_no_file_has_a_vague_name(files: list[pathlib.PurePosixPath]) -> None:
    assert not [str(file) for file in files if file.name in VAGUE_NAMES]


def test_no_file_exceeds_the_longest_allowed_length(
    repository: pathlib.Path, files: list[pathlib.PurePosixPath]
) -> None:
    # Ansible reads all argument specs of a role from one file, so this file may be longer.
    checked = [file for file in files if file.suffix in CODE and file.name != "argument_specs.yml"]
    lengths = {str(file): len(readable(repository, file).splitlines()) for file in checked}
    assert not {name: length for name, length in lengths.items() if length > LONGEST_FILE}
