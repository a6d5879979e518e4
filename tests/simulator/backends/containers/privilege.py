# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines need root (bridges, network namespaces, systemd in containers): check for root, or become root."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from simulator.backends import BackendError
from simulator.backends.containers.places import REPOSITORY, cache_dir

KEPT = ("PYTHONPATH", "PATH", "http_proxy", "https_proxy", "no_proxy")


ROOTS_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of nft, iptables and runc. sudo and su keep a Debian user's PATH, which does not contain them."""


def require_root() -> None:
    """Fail early with a clear message if this process is not root, and add root's folders to PATH."""
    if os.geteuid() != 0:
        raise BackendError("machines need root: run this with sudo, or use --backend none")
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*path, *(folder for folder in ROOTS_FOLDERS if folder not in path)])


def become_root(arguments: list[str], report: Callable[[str], None]) -> None:
    """If this process is not root, replace it by `python -m simulator ARGUMENTS` under sudo."""
    if os.geteuid() == 0:
        return
    sudo = shutil.which("sudo")
    if sudo is None:
        raise BackendError("machines need root, and sudo is not installed: run this as root, or use --backend none")
    report("machines are containers with their own networks, which need root: continuing with sudo")
    # Make these folders now, so that they belong to the user and not to root.
    for folder in (cache_dir(), REPOSITORY / ".simulator"):
        folder.mkdir(parents=True, exist_ok=True)
    kept = [f"{name}={os.environ[name]}" for name in KEPT if name in os.environ]
    kept += [f"HPCAI_CACHE={cache_dir()}", "PYTHONDONTWRITEBYTECODE=1"]
    sys.stdout.flush()
    os.execv(sudo, [sudo, "env", *kept, sys.executable, "-m", "simulator", *arguments])


def give_to_caller(*paths: Path) -> None:
    """Change the owner of files made by root to the user who called sudo and will use them (the admin's key)."""
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if user and group and os.geteuid() == 0:
        for path in paths:
            if path.exists():
                os.chown(path, int(user), int(group))
