# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Download the collection azure.azcollection from PyPI's package `ansible`.

The package is not installed: it contains a hundred collections (half a gigabyte), and only one is needed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

COLLECTION = "ansible_collections/azure/azcollection/"


def download(requirements: Path, folder: Path) -> Path:
    """Download the wheel of the requirements file, and return its path."""
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    which = ("--no-deps", "--ignore-requires-python", "--requirement", str(requirements))
    subprocess.run([*pip, *which, "--dest", str(folder)], check=True)
    return next(folder.glob("ansible-*.whl"))


def extract(wheel: Path, collections: Path) -> int:
    """Extract the collection without its tests below ``collections``, and return the number of files."""
    shutil.rmtree(collections, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        wanted = [
            name for name in archive.namelist() if name.startswith(COLLECTION) and f"{COLLECTION}tests/" not in name
        ]
        archive.extractall(collections, wanted)
    return len(wanted)


def main() -> int:
    """Download and extract."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requirements", type=Path, help="file that pins the version of `ansible`")
    parser.add_argument("collections", type=Path, help="folder for the collection; an existing one is replaced")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = extract(download(arguments.requirements, Path(folder)), arguments.collections)
    if not files:
        print(f"azcollection.py: no {COLLECTION} in the package of {arguments.requirements}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
