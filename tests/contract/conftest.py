# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared by all contract tests: the collection as Ansible imports it, the mark ``daily``, and runs of playbooks."""

from __future__ import annotations

import collections
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from collection import COLLECTIONS, import_as_ansible_does

import_as_ansible_does()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all cases of a parametrized test after the first n of ``daily(n)`` as thorough."""
    cases: collections.Counter[str] = collections.Counter()
    for item in items:
        mark = item.get_closest_marker("daily")
        test = item.nodeid.partition("[")[0]
        cases[test] += 1
        if mark and cases[test] > mark.args[0]:
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(scope="session")
def ansible_playbook() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ansible-playbook in a folder with an empty ansible.cfg, as a user who installed the collection."""

    def run(folder: pathlib.Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (folder / "ansible.cfg").touch()
        env = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        env |= {
            "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_HOME": str(folder / ".ansible"),
            "ANSIBLE_NOCOLOR": "1",
        }
        program = pathlib.Path(sys.executable).with_name("ansible-playbook")
        return subprocess.run(
            [str(program), *arguments],
            cwd=folder,
            env=env | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
