# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Units of systemd for mounts. Pure.

A mount unit of a network file system has its order after the network by itself (systemd.mount(5)). With nofail nothing
waits for it, so slurmd's order is stated here, and the wait is bounded by the unit's own time limit.
"""

from __future__ import annotations

from .wanted import Mount

FOLDER = "/etc/systemd/system"
HEADER = "# Written by the module hpcai.azure.shared_mounts, which overwrites it."
_USERS = "slurmd.service"


def unit_name(path: str) -> str:
    """Return a path as systemd-escape --path does."""
    parts = path.strip("/")
    escaped = []
    for place, letter in enumerate(parts):
        if letter == "/":
            escaped.append("-")
        elif (letter.isascii() and letter.isalnum()) or letter in ":_" or (letter == "." and place):
            escaped.append(letter)
        else:
            escaped += [f"\\x{byte:02x}" for byte in letter.encode()]
    return "".join(escaped)


def units(mount: Mount) -> dict[str, str]:
    """Return the texts of the mount's units by their file's name."""
    name = unit_name(mount.path)
    found = {f"{name}.mount": _mount_unit(mount)}
    if mount.automount:
        found[f"{name}.automount"] = _automount_unit(mount)
    return found


def starter(mount: Mount) -> str:
    """Return the unit that is enabled."""
    return f"{unit_name(mount.path)}.{'automount' if mount.automount else 'mount'}"


def _mount_unit(mount: Mount) -> str:
    lines = [
        HEADER,
        "[Unit]",
        f"Description=Shared file system {mount.path}",
        "Wants=network-online.target",
        "After=network-online.target",
        # slurmd starts when this has been tried, whatever came of it.
        f"Before={_USERS}",
        # Whoever looks again tries again: systemd would give up for good after five times.
        "StartLimitIntervalSec=0",
        "",
        "[Mount]",
        f"What={mount.source}",
        f"Where={mount.path}",
        f"Type={mount.kind}",
        f"Options={','.join(mount.options)}",
        f"TimeoutSec={mount.timeout_s}",
    ]
    if not mount.automount:
        lines += ["", "[Install]", "WantedBy=multi-user.target"]
    return _escaped(lines)


def _automount_unit(mount: Mount) -> str:
    return _escaped(
        [
            HEADER,
            "[Unit]",
            f"Description=Shared file system {mount.path}, when it is used",
            f"Before={_USERS}",
            "StartLimitIntervalSec=0",
            "",
            "[Automount]",
            f"Where={mount.path}",
            "DirectoryMode=0755",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
    )


def _escaped(lines: list[str]) -> str:
    # A percent sign is the beginning of a specifier.
    return "".join(f"{line.replace('%', '%%')}\n" for line in lines)
