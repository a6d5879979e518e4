# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of the role blob_staging: release file, digests, packages, and settings for jobs. No task runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import checked
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy import options as blob
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants import policy as grants
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.install import scripts_from

from .conftest import LOCAL, Evaluate

ARCHIVE = "azcopy_linux_amd64_10.32.2.tar.gz"
DEBIAN = {"os_family": "Debian", "architecture": "x86_64", "ansible_local": {}}
GRANT = {
    "groups": ["research"],
    "account_url": "https://training.blob.core.windows.net",
    "container": "data",
    "rights": "read",
}
NAMES = ("sources", "archive", "packages", "lacking", "settings", "grants", "hooks")


@pytest.fixture(scope="module")
def by_host(evaluate: Evaluate, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The role's internal variables by host."""
    folder: Path = tmp_path_factory.mktemp("files")
    (folder / ARCHIVE).write_bytes(b"")
    installed = {"source": "preinstalled", "azcopy": "", "packages": ["libsecret-1-0"]}
    hosts: dict[str, dict[str, Any]] = {
        "bare": {"found": DEBIAN},
        "arm": {"found": {**DEBIAN, "architecture": "aarch64", "os_family": "RedHat"}},
        "digest": {"found": DEBIAN, "blob_staging_sha256": {ARCHIVE: "a" * 64}},
        "files": {"found": DEBIAN, "blob_staging_source": "files", "blob_staging_files": str(folder)},
        "too few": {"found": DEBIAN, "blob_staging_source": "files", "blob_staging_files": "/nonexistent"},
        "image": {
            "found": {**DEBIAN, "ansible_local": {"hpcai_blob": installed}},
            "blob_staging_source": "preinstalled",
            "blob_staging_account_gbps": 20,
            "blob_staging_grants": [GRANT],
            "hpcai_identity_client_id": "01234567-89ab-cdef-0123-456789abcdef",
            "hpcai_scratch": "/fast",
        },
        "scratch": {"found": DEBIAN, "hpcai_scratch": str(tmp_path_factory.mktemp("a scratch"))},
    }
    inventory = {"all": {"hosts": hosts, "vars": LOCAL}}
    asked = {name: f"{{{{ __blob_staging_{name} }}}}" for name in NAMES}
    return evaluate("hpcai.azure.blob_staging", inventory, asked, ansible_facts="{{ found }}")


def test_a_missing_digest_is_an_error_that_names_the_file(by_host: dict[str, dict[str, Any]]) -> None:
    (problem,) = by_host["bare"]["sources"]["problems"]
    assert f'blob_staging_sha256["{ARCHIVE}"]' in problem
    assert "azcopy_linux_arm64_10.32.2.tar.gz" in by_host["arm"]["sources"]["problems"][0]
    assert by_host["digest"]["sources"]["problems"] == []


def test_a_folder_needs_no_digest_but_must_contain_the_file(by_host: dict[str, dict[str, Any]]) -> None:
    assert by_host["files"]["sources"]["problems"] == []
    assert by_host["too few"]["sources"]["problems"] == [f"/nonexistent (blob_staging_files) has no {ARCHIVE}."]


def test_nothing_is_installed_in_an_image_with_azcopy(by_host: dict[str, dict[str, Any]]) -> None:
    assert [by_host["image"]["lacking"], by_host["bare"]["lacking"]] == [False, True]
    assert [by_host["bare"]["packages"], by_host["arm"]["packages"]] == [["libsecret-1-0"], ["libsecret"]]


@pytest.mark.parametrize("host", ["bare", "image"])
def test_hpcnode_can_read_the_settings(by_host: dict[str, dict[str, Any]], host: str) -> None:
    stated = dict(by_host[host]["settings"])
    assert stated.pop("schema") == 1
    found = checked(blob.FORM, stated, "blob.json")
    wanted = {
        "bare": ("/opt/hpcai/azcopy/10.32.2/azcopy", 0.0, "/scratch/hpcai-azcopy"),
        "image": ("azcopy", 20.0, "/fast/hpcai-azcopy"),
    }
    assert (found.azcopy, found.account_gbps, found.work_folder) == wanted[host]


def test_the_service_can_read_the_grants(by_host: dict[str, dict[str, Any]]) -> None:
    assert checked(grants.FORM, by_host["bare"]["grants"], "grants.json").grants == ()
    found = checked(grants.FORM, by_host["image"]["grants"], "grants.json")
    assert [(one.groups, one.url, one.rights) for one in found.grants] == [
        (("research",), "https://training.blob.core.windows.net/data", "read")
    ]
    assert (found.life_s, found.client_id) == (3600, "01234567-89ab-cdef-0123-456789abcdef")


def test_scripts_call_hpcnode_only_if_there_is_something_to_do(
    by_host: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    hooks = by_host["scratch"]["hooks"]
    made = {kind: scripts_from(kind, scripts) for kind, scripts in hooks.items()}
    assert {kind: [*scripts] for kind, scripts in made.items()} == {
        "prolog": ["60-blob"],
        "epilog": ["60-blob"],
    }
    calls, tool, work = tmp_path / "calls", tmp_path / "hpcnode", Path(by_host["scratch"]["settings"]["work_folder"])
    tool.write_text(f"#!/bin/sh\necho $* >>{calls}\nexit 1\n", encoding="utf-8")
    tool.chmod(0o755)

    def called(kind: str) -> str:
        calls.write_text("", encoding="utf-8")
        script = hooks[kind]["60-blob"]["content"].replace("/usr/bin/hpcnode", str(tool))
        # Slurm drains a node whose prolog or epilog fails.
        subprocess.run(["sh", "-c", script], check=True)
        return calls.read_text(encoding="utf-8").strip()

    assert called("epilog") == ""
    assert called("prolog") == "stage prepare"
    work.mkdir()
    (work / ".hpcai-azcopy").touch()
    assert called("prolog") == ""
    (work / "other").mkdir()
    (work / "hpcai-file").touch()
    assert called("epilog") == ""
    (work / "hpcai-stage-7-0-abcdefgh").mkdir()
    assert called("epilog") == "stage sweep"
