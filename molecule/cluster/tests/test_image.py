# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is in the baked image of the nodes: nothing of one machine or cluster, and no key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.backends.containers import base_image, images, machine
from simulator.backends.containers.command import run
from simulator.backends.containers.places import LABEL_NAME, LABEL_STATE
from simulator.backends.containers.podman import Podman
from simulator.scan import scan

NAME = "image-scan"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END OPENSSH PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def fresh() -> Iterator[Path]:
    """The root of a machine that was made of the baked image and has never been started."""
    podman = Podman()
    podman.remove_containers([NAME])
    run(["ip", "netns", "delete", NAME], check=False)
    image = images.prepare(print)
    # podman wants to see a machine's network, even that of one which is never started.
    run(["ip", "netns", "add", NAME])
    machine.create(
        podman,
        name=NAME,
        image=image,
        namespace=NAME,
        labels={LABEL_NAME: NAME, LABEL_STATE: NAME},
        local_disk=None,
    )
    try:
        yield machine.root_folder(podman, NAME)
    finally:
        machine.release(podman, NAME)
        podman.remove_containers([NAME])
        run(["ip", "netns", "delete", NAME], check=False)


def test_fresh_copy_of_the_image_holds_nothing_of_a_machine_or_a_cluster(fresh: Path) -> None:
    assert (fresh / "usr/bin/hpcnode").exists()
    assert scan(fresh) == []


def test_scan_of_the_image_finds_a_key_that_is_planted_there(fresh: Path) -> None:
    place = fresh / "usr/lib/x86/cache.dat"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(KEY, encoding="utf-8")
    try:
        assert scan(fresh) == ["/usr/lib/x86/cache.dat: a private key"]
    finally:
        place.unlink()


def test_image_trusts_the_authority_of_the_simulated_vaults(fresh: Path) -> None:
    wanted = base_image.authority().certificate
    assert (fresh / "usr/local/share/ca-certificates/hpcai-simulator.crt").read_bytes() == wanted
    assert wanted.strip() in (fresh / "etc/ssl/certs/ca-certificates.crt").read_bytes()
