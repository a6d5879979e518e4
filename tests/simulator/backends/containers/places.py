# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where images, containers and their run-time files are on this host, and how simulators are distinguished."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]
IMAGE_FILES = Path(__file__).resolve().parents[2] / "images"

LABEL_NAME = "hpcai.simulator"
LABEL_STATE = "hpcai.simulator.state"


def cache_dir() -> Path:
    """The folder that all clones of one user share: image store and build locks."""
    own = os.environ.get("HPCAI_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "hpcai-azure"


def authority_dir() -> Path:
    """The folder of the certificate authority of the simulated key vaults, for all simulators and images."""
    return cache_dir() / "authority"


def run_dir() -> Path:
    """Run-time files of that store. The path is short because podman makes Unix sockets below it (108 characters)."""
    return Path("/run/hpcai-azure") / hashlib.sha256(str(cache_dir()).encode()).hexdigest()[:8]


def tag_of(name: str, state_dir: Path) -> str:
    """Eight characters that mark every interface, table and network namespace of one simulator on this host."""
    return hashlib.sha256(f"{name}\0{state_dir.resolve()}".encode()).hexdigest()[:8]


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock, which the kernel releases when the process ends in any way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
