# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The baked image of the nodes contains no data of a machine or a cluster, and no key."""

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
    """The root folder of a machine that was created from the baked image and never started."""
    podman = Podman()
    podman.remove_containers([NAME])
    run(["ip", "netns", "delete", NAME], check=False)
    image = images.prepare(print)
    # podman requires the network of a machine, even if the machine is never started.
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


def test_the_image_contains_no_data_of_a_machine_or_cluster(fresh: Path) -> None:
    assert (fresh / "usr/bin/hpcnode").exists()
    assert scan(fresh) == []


def test_the_scan_finds_a_planted_key(fresh: Path) -> None:
    place = fresh / "usr/lib/x86/cache.dat"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(KEY, encoding="utf-8")
    try:
        assert scan(fresh) == ["/usr/lib/x86/cache.dat: a private key"]
    finally:
        place.unlink()


def test_the_image_trusts_the_authority_of_the_simulated_vaults(fresh: Path) -> None:
    wanted = base_image.authority().certificate
    assert (fresh / "usr/local/share/ca-certificates/hpcai-simulator.crt").read_bytes() == wanted
    assert wanted.strip() in (fresh / "etc/ssl/certs/ca-certificates.crt").read_bytes()
