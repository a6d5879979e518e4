# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Diagnostics that a node makes before its replacement are copied to a storage account, with the real azcopy."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from stand_ins.blob.azurite import Azurite, azcopy_in
from stand_ins.blob.sas import account_sas

from ansible_collections.hpcai.azure.plugins.module_utils._node.diag import perform
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root


@pytest.fixture
def container(account: Azurite) -> str:
    """A new container."""
    name = f"diagnostics{time.monotonic_ns()}"
    account.container(name)
    return name


@pytest.fixture
def root(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Root:
    """A node with the settings of the role blob_staging, whose GPU check fails so that the node is replaced."""
    work = tmp_path / "work"
    work.mkdir()
    check = {"name": "gpu_count", "verdict": "fail", "summary": "7 of 8 GPUs", "action": "replace"}
    files = {
        "etc/hostname": "batch-3\n",
        "etc/hpcai/blob.json": json.dumps(
            {"schema": 1, "azcopy": azcopy_in(programs), "credential": "sas", "work_folder": str(work)}
        ),
        "run/hpcai/health/periodic.json": json.dumps({"schema": 1, "tier": "periodic", "checks": [check]}),
    }
    for name, text in files.items():
        path = tmp_path / "node" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("HPCAI_BLOB_SAS", account_sas())
    return Root(str(tmp_path / "node"))


def wants_upload(root: Root, url: str) -> None:
    """Write the settings of the role health_checks."""
    text = json.dumps({"schema": 1, "on_fault": True, "upload": url})
    Path(root.at("/etc/hpcai/diag.json")).write_text(text, encoding="utf-8")


def test_the_archive_of_a_node_is_in_the_folder_of_the_container(root: Root, account: Azurite, container: str) -> None:
    wants_upload(root, f"{account.url}/{container}/evidence")
    done = perform.capture(root, 10)
    assert (done.uploaded, done.problem) == (True, "")
    (name,) = account.names(container)
    assert name == f"evidence/{os.path.basename(done.path)}"
    status, stored = account.answer("GET", f"{container}/{name}")
    assert (status, stored) == (200, Path(root.at(done.path)).read_bytes())


def test_a_refused_upload_is_reported_without_the_sas_and_the_archive_stays_on_the_node(
    root: Root, account: Azurite
) -> None:
    wants_upload(root, f"{account.url}/no-such-container")
    done = perform.capture(root, 10)
    assert not done.uploaded
    assert done.problem.startswith(f"not copied to {account.url}/no-such-container: ")
    assert "sig=" not in done.problem
    assert Path(root.at(done.path)).stat().st_size > 0
