# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node below a temporary folder, with scripts that really run."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks import failures
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.failures import Failure
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.runner import Outcome, run_kind
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

JOB = {"SLURM_JOB_ID": "17", "SLURM_NODELIST": "compute-[0,3]", "SLURMD_NODENAME": "compute-0", "PATH": ""}


class Node:
    """A node and its scripts."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.root = Root(str(folder))
        self.file("/proc/sys/kernel/random/boot_id", "one\n")

    def path(self, path: str) -> pathlib.Path:
        """Return where a path of the node is below the temporary folder."""
        return self.folder / path.lstrip("/")

    def file(self, path: str, text: str, mode: int = 0o644) -> pathlib.Path:
        """Write a file."""
        target = self.path(path)
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
            target.parent.chmod(0o755)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)
        return target

    def script(self, name: str, body: str, kind: str = "prolog", mode: int = 0o755) -> pathlib.Path:
        """Put a script into the folder of a kind."""
        return self.file(f"/etc/hpcai/{kind}.d/{name}", f"#!/bin/sh\n{body}\n", mode)

    def settings(self, **stated: Any) -> None:
        """Write the settings."""
        self.file("/etc/hpcai/job_hooks.json", json.dumps({"schema": 1, **stated}))

    def run(self, kind: str = "prolog", **given: str) -> Outcome:
        """Run the scripts of a kind as slurmd does for job 17."""
        return run_kind(kind, self.root, {**JOB, **given})

    def log(self, name: str = "17.prolog.log") -> str:
        """The content of a log."""
        return self.path(f"/var/log/hpcai/jobs/{name}").read_text(encoding="utf-8")

    def failure(self, kind: str = "prolog") -> Failure | None:
        """The failure that was recorded last."""
        return failures.last_failure(self.root, kind)

    def waiting(self) -> list[str]:
        """The kinds with a failure that still has to be reported to Slurm."""
        return [failure.kind for failure in failures.to_be_reported(self.root)]


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    """A node without scripts."""
    return Node(tmp_path)


@pytest.fixture
def as_another_user(monkeypatch: pytest.MonkeyPatch) -> int:
    """Run as a user who does not own the test's files, by faking the effective uid; return the files' owner."""
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    return owner
