# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine and the software versions of a benchmark."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("ansible-core", "azure-core", "azure-identity", "azure-mgmt-compute", "azure-mgmt-network", "requests")


def describe(theirs: Path | None) -> dict[str, Any]:
    """The machine and its software versions. ``theirs`` is the environment of azure_rm."""
    found: dict[str, Any] = {
        "cpus": os.cpu_count(),
        "cpu": _first(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "memory_mib": int((_first(Path("/proc/meminfo"), "MemTotal") or "0 kB").split()[0]) // 1024,
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "packages": versions(),
    }
    if theirs is not None:
        script = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        script += "import json; from benchmarks.machine import versions; print(json.dumps(versions()))"
        done = subprocess.run(
            [str(theirs / "bin" / "python"), "-c", script], capture_output=True, text=True, check=True
        )
        manifest = theirs / "collections" / "ansible_collections" / "azure" / "azcollection" / "MANIFEST.json"
        collection = json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"]
        found["azure_rm_packages"] = {"azure.azcollection": collection, **json.loads(done.stdout)}
    return found


def versions() -> dict[str, str]:
    """The versions of the packages in this environment."""
    return {name: metadata.version(name) for name in PACKAGES}


def commit() -> str:
    """The commit of the repository."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude", "*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def _first(file: Path, key: str) -> str | None:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)


if __name__ == "__main__":
    json.dump(describe(None), sys.stdout, indent=2)
