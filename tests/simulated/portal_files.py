# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archives that the role portal takes with portal_files, made as the guide says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

from .cluster import REPOSITORY

CACHE = REPOSITORY / ".cache/portal"
REQUIREMENTS = REPOSITORY / "roles/portal/files/requirements.txt"
LIMIT_S = 1200


def portal_files(python: str, work: Path) -> Path:
    """Return a folder with both archives; downloads what the cache lacks, with pip and npm.

    :param python: the release of the nodes' Python, such as ``3.13``.
    :param work: an empty folder.
    """
    given = os.environ.get("HPCAI_PORTAL_FILES")
    if given:
        return Path(given)
    variables = yaml.safe_load((REPOSITORY / "roles/portal/vars/main/main.yml").read_text(encoding="utf-8"))
    made = CACHE / f"{python}-{variables['__portal_proxy_version']}"
    # The requirements are the last file written, so an interrupted download is not used.
    if (made / "requirements.txt").is_file() and (made / "requirements.txt").read_bytes() == REQUIREMENTS.read_bytes():
        return made
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--python-version={python}"]
    _run([*pip, f"--requirement={REQUIREMENTS}", f"--dest={work}/wheels"])
    npm = ["npm", "install", f"--prefix={work}/proxy", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    _run([*npm, f"configurable-http-proxy@{variables['__portal_proxy_version']}"])
    with tarfile.open(made / "portal-wheels.tar", "w") as archive:
        archive.add(work / "wheels", ".")
    with tarfile.open(made / "portal-proxy.tar.gz", "w:gz") as archive:
        archive.add(work / "proxy/node_modules", "node_modules")
    shutil.copy(REQUIREMENTS, made)
    return made


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
