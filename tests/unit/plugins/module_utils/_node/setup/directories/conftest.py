# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fake machine for each test."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from .machine import ME, Machine


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose root is the user who runs the test."""
    monkeypatch.setattr(os, "geteuid", os.getuid)
    made = Machine(tmp_path)
    made.file("etc/hpcai/scratch.json", json.dumps({"schema": 1, **ME}))
    return made
