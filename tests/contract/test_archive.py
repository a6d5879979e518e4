# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive for Galaxy contains all files that users need, and no others."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import tarfile

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# The archive contains only source and documentation. The limit per file detects data and programs, the limit of the
# archive a folder of them. Only the list of files from ansible-galaxy is larger.
LARGEST_BYTES = 2048 * 1024
LARGEST_FILE_BYTES = 64 * 1024

# Every file of the archive matches one of these.
ALLOWED = [
    re.compile(pattern)
    for pattern in (
        r"MANIFEST\.json|FILES\.json",
        r"README\.md|CHANGELOG\.md|CONTRIBUTING\.md|CODE_OF_CONDUCT\.md|COPYING|REUSE\.toml|requirements\.txt",
        r"LICENSES/[\w.-]+\.txt",
        r"meta/(runtime|execution-environment)\.yml|meta/ee-bindep\.txt",
        r"changelogs/changelog\.yaml",
        r"plugins/(\w+/)+\w+\.(py|yml)",
        r"plugins/plugin_utils/_report/page/\w+\.(html|css|js)",
        r"roles/\w+/README\.md",
        r"roles/\w+/(defaults|handlers|meta|tasks|vars)/(main/)?\w+\.yml",
        r"roles/\w+/templates/[\w.-]+\.j2",
        r"roles/\w+/files/[\w.-]+",
        r"roles/portal/files/hpcai_portal/\w+\.py",
        r"roles/monitoring/files/(console_libraries|consoles|dashboards)/[\w.-]+",
        r"roles/training/files/(recipes/[\w-]+/recipe\.json|trainers/\w+\.py)",
        r"roles/monitoring/files/(consoles/[\w-]+\.html|console_libraries/\w+\.lib|dashboards/[\w-]+\.json)",
        r"playbooks/(tasks/)?\w+\.yml",
        r"inventories/azure/[\w./-]+\.(yml|md)",
        r"docs/[\w-]+\.md|docs/images/[\w-]+\.(svg|png)",
        r"docs/docsite/([\w-]+\.yml|rst/\w+\.rst)",
    )
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The archive that `ansible-galaxy collection build` makes from this tree."""
    folder = tmp_path_factory.mktemp("archive")
    galaxy = pathlib.Path(sys.executable).with_name("ansible-galaxy")
    build = [str(galaxy), "collection", "build", "--output-path", str(folder), str(REPOSITORY)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("hpcai-azure-*.tar.gz")
    return built


@pytest.fixture(scope="module")
def members(archive: pathlib.Path) -> list[tarfile.TarInfo]:
    """The files of the archive, without folders."""
    with tarfile.open(archive) as tar:
        return [member for member in tar.getmembers() if not member.isdir()]


def in_git(*folders: str) -> set[str]:
    """The files in these folders that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *folders]
    listing = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    return {name for name in listing.split("\0") if name and (REPOSITORY / name).is_file()}


def test_the_archive_contains_only_files_for_users(members: list[tarfile.TarInfo]) -> None:
    unexpected = [m.name for m in members if not any(pattern.fullmatch(m.name) for pattern in ALLOWED)]
    assert not unexpected


def test_the_archive_contains_all_plugins_roles_and_playbooks(members: list[tarfile.TarInfo]) -> None:
    wanted = in_git("plugins", "roles", "playbooks", "inventories/azure", "LICENSES")
    assert wanted
    assert wanted <= {member.name for member in members}


def test_the_archive_contains_what_the_tests_have_tested(archive: pathlib.Path, members: list[tarfile.TarInfo]) -> None:
    """Tests of pages, rules and dashboards read them in this tree. The archive must have the same bytes."""
    generated = {"MANIFEST.json", "FILES.json"}
    different, compared = [], 0
    with tarfile.open(archive) as tar:
        for member in members:
            if member.name not in generated:
                extracted = tar.extractfile(member)
                assert extracted is not None
                compared += member.name.startswith("roles/monitoring/files/")
                different += [member.name] if extracted.read() != (REPOSITORY / member.name).read_bytes() else []
    assert compared > 20
    assert not different


def test_the_archive_contains_each_kind_of_file(members: list[tarfile.TarInfo]) -> None:
    names = {member.name for member in members}
    wanted = {
        "README.md",
        "CHANGELOG.md",
        "COPYING",
        "requirements.txt",
        "meta/runtime.yml",
        "meta/execution-environment.yml",
        "changelogs/changelog.yaml",
        "plugins/inventory/azure_vmss.py",
        "playbooks/site.yml",
        "playbooks/image.yml",
        "inventories/azure/azure_vmss.yml",
        "roles/slurm/meta/argument_specs.yml",
    }
    assert not wanted - names


def test_the_archive_contains_only_regular_files(members: list[tarfile.TarInfo]) -> None:
    assert not [member.name for member in members if not member.isfile()]


def test_the_archive_contains_no_file_that_git_ignores(members: list[tarfile.TarInfo]) -> None:
    generated = {"MANIFEST.json", "FILES.json"}
    assert {member.name for member in members} - generated <= in_git()


def test_links_between_documents_are_valid(archive: pathlib.Path, members: list[tarfile.TarInfo]) -> None:
    files = {member.name for member in members}
    paths = files | {str(folder) for name in files for folder in pathlib.PurePosixPath(name).parents}
    dangling, followed = [], 0
    with tarfile.open(archive) as tar:
        for name in sorted(name for name in files if name.endswith(".md") and name != "CHANGELOG.md"):
            extracted = tar.extractfile(name)
            assert extracted is not None
            for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", extracted.read().decode()):
                if "://" not in link and not link.startswith("mailto:"):
                    followed += 1
                    target = os.path.normpath(pathlib.PurePosixPath(name).parent / link)
                    dangling += [f"{name}: {link}"] if target not in paths else []
    assert followed
    assert not dangling


def test_the_archive_is_small(archive: pathlib.Path, members: list[tarfile.TarInfo]) -> None:
    assert archive.stat().st_size < LARGEST_BYTES
    large = [member.name for member in members if member.size > LARGEST_FILE_BYTES]
    assert large == ["FILES.json"]
