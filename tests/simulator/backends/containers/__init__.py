# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backend `containers`: instances are systemd containers in podman, each with its own address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from simulator.authority import Authority
from simulator.backends import Backend
from simulator.backends.containers import abilities, backend, base_image, images, inotify, privilege


def make() -> Backend:
    """A new backend, not yet opened."""
    privilege.require_root()
    return backend.ContainersBackend()


def prepare(report: Callable[[str], None]) -> None:
    """Build missing images, and raise the kernel's limits for the machines."""
    privilege.require_root()
    for line in (*inotify.raise_limit(), *abilities.probe().lines()):
        report(line)
    images.prepare(report)


def authority() -> Authority:
    """The authority whose certificate is in the base image."""
    return base_image.authority()


def cleanup(name: str, state_dir: Path) -> None:
    """Remove all that a dead simulator left behind."""
    privilege.require_root()
    backend.cleanup(name, state_dir)
