# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What no file of the tree may hold, and how long and how named files are."""

from __future__ import annotations

import pathlib
import re

# Put together here, so that this file does not hold them either.
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
# A path of one machine: somebody's home or work folder. The simulated nodes have a home too, azureuser's.
LOCAL_PATH = re.compile(r"(?<![\w.$}])/(?:work/|root/\.|home/(?!azureuser\b)[a-z]\w*/)")
NAMES_THAT_SAY_NOTHING = {"utils.py", "util.py", "common.py", "helpers.py", "helper.py", "misc.py"}
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


def test_no_file_holds_a_path_of_one_machine(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    assert not lines_matching(LOCAL_PATH, repository, files)


def test_file_names_say_what_is_inside(files: list[pathlib.PurePosixPath]) -> None:
    assert not [str(file) for file in files if file.name in NAMES_THAT_SAY_NOTHING]


def test_no_file_grows_beyond_one_idea(repository: pathlib.Path, files: list[pathlib.PurePosixPath]) -> None:
    # Ansible reads a role's argument specs out of one file, however many variables it has.
    looked_at = [file for file in files if file.suffix in CODE and file.name != "argument_specs.yml"]
    lengths = {str(file): len(readable(repository, file).splitlines()) for file in looked_at}
    assert not {name: length for name, length in lengths.items() if length > LONGEST_FILE}
