# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""udev's rule for a reloaded driver, as udev reads it. The emulated machine really loads a module."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import services

# In a separate mount namespace, because udev writes to /run.
_ENTER = """\
set -e
mount -t tmpfs tmpfs /run
mkdir /run/udev
cp -r "$1" /run/udev/rules.d
exec udevadm test --action="$2" "/sys/module/$3"
"""


@pytest.fixture
def started_units(tmp_path: Path) -> dict[str, list[str]]:
    """The units that udev starts when the module is loaded, when it changes, and when another module is loaded."""
    if os.geteuid() or not shutil.which("udevadm"):
        pytest.skip("needs root and udevadm")
    # An existing module takes the part of nvidia.
    played, other = sorted(folder.name for folder in Path("/sys/module").iterdir())[:2]
    for path, text in services.UDEV_RULES.items():
        assert '"nvidia"' in text
        (tmp_path / Path(path).name).write_text(text.replace('"nvidia"', f'"{played}"'), encoding="utf-8")
    found = {}
    for name, action, module in (("load", "add", played), ("change", "change", played), ("other", "add", other)):
        command = ["unshare", "--mount", "sh", "-c", _ENTER, "udev", str(tmp_path), action, module]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if "DEVPATH=" not in done.stdout:
            pytest.skip(f"udevadm does not work here: {done.stderr.strip()[-200:]}")
        lines = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        tagged = ":systemd:" in lines.get("CURRENT_TAGS", lines.get("TAGS", ""))
        found[name] = lines.get("SYSTEMD_WANTS", "").split() if tagged else []
    return found


def test_udev_starts_the_unit_only_when_the_module_is_loaded(started_units: dict[str, list[str]]) -> None:
    assert started_units == {"load": [services.DRIVER_LOADED], "change": [], "other": []}
