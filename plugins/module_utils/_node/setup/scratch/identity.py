# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How one knows that something on a disk was made by us."""

from __future__ import annotations

import hashlib

# "hpcai" in ASCII. With the 8 of version 8 ("custom", RFC 9562) behind it, no other program makes such a UUID.
_MARK = "68706361-69"


def filesystem_uuid(of: str) -> str:
    """Return the UUID of the file system that is made on an array (``of`` its UUID) or a disk (its serial number).

    It tells two things from the disk alone, without any record that a reboot or a new image could lose: that the file
    system was made by us, and that it was made on this very array. What an earlier array left on the same disks, and
    shows through a new one until mkfs is done, has another.
    """
    digest = hashlib.sha256(f"hpcai scratch on {of}".encode()).hexdigest()
    return f"{_MARK}{digest[:2]}-8{digest[2:5]}-8{digest[5:8]}-{digest[8:20]}"


def is_our_filesystem(uuid: str) -> bool:
    """Whether a file system of this UUID was made by us, be it on another array or disk."""
    return uuid.lower().startswith(_MARK) and uuid[14:15] == "8"


def is_our_array(name: str, array_name: str) -> bool:
    """Whether an array of this name is ours. mdadm may have put the host's name of that day in front."""
    return name.rsplit(":", 1)[-1] == array_name
