# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options: how they are parsed, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.scratch.options import (
    DEFAULTS,
    as_settings,
    parse,
)


def test_defaults_are_what_an_nd_machine_needs() -> None:
    options = parse({})
    assert (options.mountpoint, options.filesystem, options.chunk_bytes) == ("/scratch", "xfs", 512 * 1024)
    assert (options.mode, options.mount_options, options.adopt) == (0o1777, ("noatime",), False)
    # XFS allows at most 12 characters, and nothing at boot waits for the label.
    assert len(options.label) <= 12


def test_options_that_are_none_have_their_defaults() -> None:
    assert parse(dict.fromkeys(DEFAULTS)) == parse({})


@pytest.mark.parametrize(
    ("given", "chunk_bytes"), [("4K", 4096), ("64k", 65536), ("1M", 1 << 20), ("524288", 524288), ("512KiB", 524288)]
)
def test_the_chunk_is_parsed_in_any_notation(given: str, chunk_bytes: int) -> None:
    assert parse({"chunk": given}).chunk_bytes == chunk_bytes


def test_mount_options_may_be_separated_by_commas() -> None:
    assert parse({"mount_options": ["noatime,nodev", "largeio"]}).mount_options == ("noatime", "nodev", "largeio")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chunk": "500K"}, "chunk must be a power of two from 4K to 64M, not '500K'"),
        ({"chunk": "2K"}, "chunk must be a power of two"),
        ({"chunk": "128M"}, "chunk must be a power of two"),
        ({"chunk": "large"}, "chunk: 'large' is not a size such as 512K"),
        ({"filesystem": "btrfs"}, "filesystem must be xfs or ext4, not 'btrfs'"),
        ({"label": "hpcai-scratch"}, "label must be 1 to 12 letters"),
        ({"label": "a" * 17, "filesystem": "ext4"}, "label must be 1 to 16 letters"),
        ({"label": "a b"}, "label must be"),
        ({"label": ""}, "label must be"),
        ({"array_name": "md127"}, "other than the kernel's own names such as md127"),
        ({"array_name": "host:name"}, "array_name must be"),
        ({"array_name": "a" * 33}, "array_name must be"),
        ({"mountpoint": "scratch"}, "mountpoint must be an absolute path"),
        ({"mountpoint": "/a/../etc"}, "mountpoint must be an absolute path"),
        ({"mountpoint": "/"}, "mountpoint must be an absolute path without '..', not '/'"),
        ({"mountpoint": "/home"}, "mountpoint /home belongs to the operating system"),
        ({"mode": "rwx"}, "mode must be octal digits in quotes"),
        ({"mode": 1023}, "mode must be octal digits in quotes, such as '1777', not 1023"),
        ({"mode": 1777}, "mode must be octal digits in quotes, such as '1777', not 1777"),
        ({"mode": "1023"}, "mode 1023 denies access to the owner. Write it in quotes"),
        ({"mountpoint": "//scratch"}, "mountpoint must be an absolute path"),
        ({"mountpoint": "/scratch\nb"}, "mountpoint must be one line without control characters, not '/scratch\\nb'"),
        (
            {"mount_options": ["rw ; x"]},
            "such as noatime or logbsize=256k, not 'rw ; x'",
        ),
        ({"mount_options": ["rw,$(x)"]}, "not '$(x)'"),
        ({"mount_options": ["--bind"]}, "not '--bind'"),
        ({"models": []}, "models and devices are both empty"),
        ({"models": [""]}, "models[0] must be a string on one line, not ''"),
        ({"models": ["", "A"]}, "models[0] must be a string on one line, not ''"),
        ({"mode": "1789"}, "mode must be octal digits"),
        ({"expected_count": -1}, "expected_count must be a whole number of 0 or more, not -1"),
        ({"on_count_mismatch": "shrug"}, "on_count_mismatch must be fail, warn or ignore"),
        (
            {"devices": ["nvme0n1"]},
            "devices[0] must be a path below /dev, such as /dev/nvme0n1 or",
        ),
        ({"force_devices": ["/etc/passwd"]}, "force_devices[0] must be a path below /dev, such as"),
        ({"stripes": 1}, "unknown keys stripes; known are devices, "),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(options)
    assert words in str(refused.value)


def test_force_devices_is_never_saved_for_the_boot() -> None:
    kept = as_settings({**DEFAULTS, "force_devices": ["/dev/nvme0n1"], "adopt": True})
    assert "force_devices" not in kept
    assert kept["adopt"] is True
    assert parse(kept) == parse({"adopt": True})
