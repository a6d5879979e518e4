# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image store: builds missing images, one builder at a time, and removes old ones."""

from __future__ import annotations

import os
from collections.abc import Callable

from simulator.backends import BackendError
from simulator.backends.containers import baked_image, base_image
from simulator.backends.containers.places import cache_dir, locked
from simulator.backends.containers.podman import Podman

PINNED = "HPCAI_NODE_IMAGE"
"""Environment variable: the image that prepare() found or built, for this process and the server that it starts. The
image's inputs may change meanwhile. If the variable is set before, this image is used."""
KEPT = 4
"""How many images of each kind are kept, by last use: enough for two checkouts with both suites."""


def prepare(report: Callable[[str], None]) -> str:
    """Build the base and the baked image if they are missing, and return the baked image's reference."""
    podman = Podman()
    if os.environ.get(PINNED):
        return present()
    wanted = baked_image.reference()
    if not podman.image_exists(wanted):
        with locked(
            cache_dir() / "images.lock", lambda: report("another process is building the images: waiting for it")
        ):
            base = base_image.build(podman, report)
            _used(base)
            wanted = baked_image.build(podman, base, report)
            _used(wanted)
            _prune(podman, base_image.REPOSITORY, base)
            _prune(podman, baked_image.REPOSITORY_NAME, wanted)
    _used(wanted)
    os.environ[PINNED] = wanted
    return wanted


def present() -> str:
    """The baked image for this checkout. It is an error if it is not built."""
    wanted = os.environ.get(PINNED) or baked_image.reference()
    if not Podman().image_exists(wanted):
        raise BackendError(
            f"image {wanted} is not built: `python -m simulator image` builds it"
            f"{f' (without {PINNED} in the environment)' if PINNED in os.environ else ''}"
        )
    _used(wanted)
    return wanted


def _mark(reference: str) -> str:
    return reference.rsplit("/", 1)[-1].replace(":", "-")


def _used(reference: str) -> None:
    marks = cache_dir() / "images-used"
    marks.mkdir(parents=True, exist_ok=True)
    (marks / _mark(reference)).touch()


def _prune(podman: Podman, repository: str, newest: str) -> None:
    """Remove all but the images used last. podman refuses to remove an image that a machine still uses."""
    marks = cache_dir() / "images-used"

    def last_use(reference: str) -> float:
        mark = marks / _mark(reference)
        return mark.stat().st_mtime if mark.exists() else 0.0

    references = [name for image in podman.images(repository) for name in image.get("Names") or []]
    for reference in sorted(set(references), key=last_use, reverse=True)[KEPT:]:
        if reference != newest:
            podman.run("rmi", reference, check=False, timeout=300)
            if not podman.image_exists(reference):
                (marks / _mark(reference)).unlink(missing_ok=True)
