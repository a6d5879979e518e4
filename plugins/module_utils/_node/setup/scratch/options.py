# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The options of the module nvme_raid, checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...forms import (
    Form,
    Malformed,
    arguments_of,
    as_argument,
    boolean,
    choice,
    list_of,
    matching,
    number,
    optional,
    record,
    string,
    text,
    text_or_number,
    wrong,
)
from ...machine.config import FOLDER, read_checked
from ...machine.disks import parse_size
from ...machine.root import Root

CONFIG = "scratch"
SETTINGS = f"{FOLDER}/{CONFIG}.json"

LOCAL_MODELS = ("Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2")
"""Azure's local NVMe disks (azure-vm-utils, 80-azure-disk.rules)."""
REMOTE_MODELS = ("MSFT NVMe Accelerator",)
"""Prefixes of the models of Azure's remote, managed disks: never used for scratch, whatever the options say (same
source)."""

DEFAULTS: Mapping[str, Any] = {
    "devices": [],
    "models": list(LOCAL_MODELS),
    "expected_count": None,
    "on_count_mismatch": "fail",
    "array_name": "hpcai-scratch",
    "chunk": "512K",
    "filesystem": "xfs",
    "label": "hpcaiscratch",
    "mountpoint": "/scratch",
    "mount_options": ["noatime"],
    "owner": "root",
    "group": "root",
    "mode": "1777",
    "force_devices": [],
    "adopt": False,
}
# Not saved: a node that boots must not find in its settings that it may wipe a disk.
_NOT_PERSISTENT = ("force_devices",)
_LABEL_BYTES = {"xfs": 12, "ext4": 16}
_OWNERS = 0o700
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
_CHUNK_LEAST, _CHUNK_MOST = 4096, 64 * 1024**2
_SYSTEM_FOLDERS = (
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "usr",
    "var",
)


@dataclass(frozen=True)
class ScratchOptions:
    """The options of the scratch, see module nvme_raid.

    :ivar chunk_bytes: stripe unit in bytes.
    :ivar mode: permissions of the mounted folder as a number.
    """

    devices: tuple[str, ...]
    models: tuple[str, ...]
    expected_count: int | None
    on_count_mismatch: str
    array_name: str
    chunk_bytes: int
    filesystem: str
    label: str
    mountpoint: str
    mount_options: tuple[str, ...]
    owner: str
    group: str
    mode: int
    force_devices: tuple[str, ...]
    adopt: bool


disk_count = optional(number(integral=True))
"""A number of disks, or None."""


def mountpoint(path: str, value: Any) -> str:
    """A path that can be a mountpoint; a trailing slash is removed."""
    folder = value.rstrip("/") if isinstance(value, str) else ""
    # normpath keeps two leading slashes; the kernel treats them as one.
    if not folder.startswith("/") or folder.startswith("//") or os.path.normpath(folder) != folder:
        raise wrong(path, "an absolute path without '..'", value)
    if not folder.isprintable():
        raise wrong(path, "one line without control characters", value)
    if folder.lstrip("/") in _SYSTEM_FOLDERS:
        raise Malformed(f"{path} {folder} belongs to the operating system. Choose another, such as /scratch.")
    return folder


as_argument(mountpoint, type="path")


def octal_mode(path: str, value: Any) -> int:
    """Permissions as octal digits."""
    # YAML reads 01777 without quotes as an octal number, 1023, whose digits mean another mode.
    if not isinstance(value, str) or not re.fullmatch(r"0?[0-7]{3,4}", value):
        raise wrong(path, "octal digits in quotes, such as '1777'", value)
    return int(value, 8)


# YAML reads unquoted digits as a number, and Ansible would convert that number to a string.
as_argument(octal_mode, type="raw")


def _mode(path: str, value: Any) -> int:
    mode = octal_mode(path, value)
    if mode & _OWNERS != _OWNERS:
        # Unquoted 01777 and 0777 reach this point: YAML reads them as 1023 and 511.
        raise Malformed(f"{path} {mode:04o} denies access to the owner. Write it in quotes, such as '1777'.")
    return mode


def _chunk(path: str, value: Any) -> int:
    try:
        chunk = parse_size(str(value))
    except ValueError as error:
        raise Malformed(f"{path}: {error}") from None
    if not _CHUNK_LEAST <= chunk <= _CHUNK_MOST or chunk & (chunk - 1):
        raise wrong(path, "a power of two from 4K to 64M", value)
    return chunk


def _mount_options(path: str, value: Any) -> tuple[str, ...]:
    words = [option for word in list_of(string)(path, value) for option in word.split(",") if option]
    return list_of(_MOUNT_OPTION)(path, words)


_MOUNT_OPTION = matching(
    r"[A-Za-z_][A-Za-z0-9_.-]*(=[A-Za-z0-9_.:/@%+-]*)?", "an option such as noatime or logbsize=256k"
)
_DISKS = list_of(matching(r"(?s)/dev/.*", "a path below /dev, such as /dev/nvme0n1 or /dev/disk/by-id/..."))
_FORMS: Mapping[str, Form[Any]] = {
    "devices": _DISKS,
    # An empty string would select every disk without a model.
    "models": list_of(text),
    "expected_count": disk_count,
    "on_count_mismatch": choice("fail", "warn", "ignore"),
    # The maximum length of set_name in md's superblock 1.x.
    "array_name": matching(
        rf"(?!md_?\d+$)(?=.{{1,32}}$){_NAME}",
        "1 to 32 letters, digits, dots, dashes and underscores, other than the kernel's own names such as md127",
    ),
    "chunk": _chunk,
    "filesystem": choice(*_LABEL_BYTES),
    "label": string,
    "mountpoint": mountpoint,
    "mount_options": as_argument(_mount_options, type="list", elements="str"),
    "owner": text_or_number,
    "group": text_or_number,
    "mode": as_argument(_mode, type="raw"),
    "force_devices": _DISKS,
    "adopt": boolean,
}
_FORM = record(_FORMS, null_is_absent=True, defaults=DEFAULTS)
ARGUMENTS = arguments_of(_FORMS, DEFAULTS)
"""The options as an Ansible argument_spec."""


def parse(options: Mapping[str, Any]) -> ScratchOptions:
    """Return checked options; missing ones and those that are None get their default.

    :raises ConfigError: a value is invalid.
    """
    found = _FORM("", options)
    most = _LABEL_BYTES[found["filesystem"]]
    label = matching(
        rf"(?=.{{1,{most}}}$){_NAME}",
        f"1 to {most} letters, digits, dots, dashes and underscores ({found['filesystem']} has no room for more)",
    )
    label("label", found["label"])
    if not found["devices"] and not found["models"]:
        raise Malformed("models and devices are both empty. Set one of them.")
    return ScratchOptions(chunk_bytes=found.pop("chunk"), **found)


def read_options(root: Root) -> ScratchOptions | None:
    """Return the settings for the next boot; None if there are none.

    :raises ConfigError: the settings are invalid.
    """
    return read_checked(root, CONFIG, lambda _path, settings: parse(settings))


def as_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in the form that /etc/hpcai/scratch.json stores."""
    return {
        name: default if options.get(name) is None else options[name]
        for name, default in DEFAULTS.items()
        if name not in _NOT_PERSISTENT
    }
