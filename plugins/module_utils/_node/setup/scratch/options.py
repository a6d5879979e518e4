# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the scratch should be: the options of module nvme_raid, checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...machine.config import FOLDER, ConfigError, read_config
from ...machine.disks import parse_size
from ...machine.root import Root

CONFIG = "scratch"
SETTINGS = f"{FOLDER}/{CONFIG}.json"

LOCAL_MODELS = ("Microsoft NVMe Direct Disk", "Microsoft NVMe Direct Disk v2")
"""Azure's local NVMe disks (azure-vm-utils, 80-azure-disk.rules)."""
REMOTE_MODELS = ("MSFT NVMe Accelerator",)
"""Beginnings of the models of Azure's remote, managed disks: never scratch, whatever the options say (same source)."""

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
# Forcing is said once, to one run. A node that boots must not find in its settings that it may wipe a disk.
_NOT_PERSISTENT = ("force_devices",)
_LABEL_BYTES = {"xfs": 12, "ext4": 16}
_MOUNT_OPTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(=[A-Za-z0-9_.:/@%+-]*)?")
_OWNERS = 0o700
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KERNEL_NAMES = re.compile(r"md_?\d+")
_ARRAY_NAME_BYTES = 32  # md superblock 1.x, set_name
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


class OptionError(ValueError):
    """An option that makes no sense; the message says which and what would."""


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


def parse(options: Mapping[str, Any]) -> ScratchOptions:
    """Return checked options; those that are missing or None get their default.

    :raises OptionError: a value makes no sense.
    """
    unknown = sorted(set(options) - set(DEFAULTS))
    if unknown:
        raise OptionError(f"unknown options {', '.join(unknown)}; known are {', '.join(sorted(DEFAULTS))}")
    given = {name: default if options.get(name) is None else options[name] for name, default in DEFAULTS.items()}
    wanted = ScratchOptions(
        devices=tuple(given["devices"]),
        models=tuple(given["models"]),
        expected_count=given["expected_count"],
        on_count_mismatch=given["on_count_mismatch"],
        array_name=given["array_name"],
        chunk_bytes=_chunk(given["chunk"]),
        filesystem=given["filesystem"],
        label=given["label"],
        mountpoint=given["mountpoint"].rstrip("/"),
        mount_options=tuple(option for word in given["mount_options"] for option in word.split(",") if option),
        owner=str(given["owner"]),
        group=str(given["group"]),
        mode=octal_mode(given["mode"]),
        force_devices=tuple(given["force_devices"]),
        adopt=bool(given["adopt"]),
    )
    _check(wanted)
    return wanted


def read_options(root: Root) -> ScratchOptions | None:
    """Return the settings for the boot; None where there are none.

    :raises ConfigError: they cannot be used.
    """
    settings = read_config(root, CONFIG)
    if settings is None:
        return None
    try:
        return parse(settings)
    except (OptionError, TypeError, AttributeError) as error:
        raise ConfigError(f"{root.at(SETTINGS)}: {error}") from error


def as_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as /etc/hpcai/scratch.json keeps them."""
    return {
        name: default if options.get(name) is None else options[name]
        for name, default in DEFAULTS.items()
        if name not in _NOT_PERSISTENT
    }


def _check(wanted: ScratchOptions) -> None:
    if wanted.on_count_mismatch not in ("fail", "warn", "ignore"):
        raise OptionError(f"on_count_mismatch must be fail, warn or ignore, not {wanted.on_count_mismatch!r}")
    check_count("expected_count", wanted.expected_count)
    if not _NAME.fullmatch(wanted.array_name) or len(wanted.array_name) > _ARRAY_NAME_BYTES:
        raise OptionError(
            f"array_name must be 1 to {_ARRAY_NAME_BYTES} letters, digits, dots, dashes and underscores, "
            f"not {wanted.array_name!r}"
        )
    if _KERNEL_NAMES.fullmatch(wanted.array_name):
        raise OptionError(f"array_name {wanted.array_name!r} looks like the kernel's own: choose another")
    if wanted.filesystem not in _LABEL_BYTES:
        raise OptionError(f"filesystem must be {' or '.join(_LABEL_BYTES)}, not {wanted.filesystem!r}")
    most = _LABEL_BYTES[wanted.filesystem]
    if not _NAME.fullmatch(wanted.label) or len(wanted.label) > most:
        raise OptionError(
            f"label must be 1 to {most} letters, digits, dots, dashes and underscores "
            f"({wanted.filesystem} holds no more), not {wanted.label!r}"
        )
    check_path_of_mount(wanted.mountpoint)
    wrong = next((option for option in wanted.mount_options if not _MOUNT_OPTION.fullmatch(option)), None)
    if wrong is not None:
        raise OptionError(f"mount_options must be a list of options such as noatime or logbsize=256k, not {wrong!r}")
    if not wanted.devices and not any(wanted.models):
        raise OptionError("models is empty, and devices too: name the models of the disks, or the disks")
    if not all(model.strip() for model in wanted.models):
        raise OptionError("models holds an empty text, which would choose every disk without a model: remove it")
    if wanted.mode & _OWNERS != _OWNERS:
        # What YAML makes of 01777 and 0777 without quotes looks so: 1023 and 511.
        raise OptionError(f"mode {wanted.mode:04o} keeps the owner out: write it in quotes, such as '1777'")
    for path in (*wanted.devices, *wanted.force_devices):
        if not path.startswith("/dev/"):
            raise OptionError(f"{path!r} is no path below /dev: name disks as /dev/nvme0n1 or /dev/disk/by-id/...")


def check_count(name: str, count: int | None) -> None:
    """Make sure that a number of disks is one.

    :raises OptionError: it is not.
    """
    if count is not None and count < 0:
        raise OptionError(f"{name} must be 0 or more, not {count}")


def check_path_of_mount(path: str) -> None:
    """Make sure that a path may be a mountpoint.

    :raises OptionError: it may not.
    """
    # normpath keeps two slashes at the beginning, and the kernel does not.
    if not path.startswith("/") or path.startswith("//") or os.path.normpath(path) != path:
        raise OptionError(f"mountpoint must be an absolute path without '..', not {path or '/'!r}")
    if not path.isprintable():
        raise OptionError(f"mountpoint must be one line without control characters, not {path!r}")
    if path == "/" or path.lstrip("/") in _SYSTEM_FOLDERS:
        raise OptionError(f"mountpoint {path} belongs to the operating system: choose another, such as /scratch")


def _chunk(value: str) -> int:
    try:
        chunk = parse_size(str(value))
    except ValueError as error:
        raise OptionError(f"chunk: {error}") from None
    if not _CHUNK_LEAST <= chunk <= _CHUNK_MOST or chunk & (chunk - 1):
        raise OptionError(f"chunk must be a power of two from 4K to 64M, not {value}")
    return chunk


def octal_mode(value: object) -> int:
    """Return permissions, given as octal digits, as a number.

    :raises OptionError: it is something else.
    """
    # YAML reads 01777 without quotes as an octal number, 1023, whose digits are those of another mode.
    if not isinstance(value, str) or not re.fullmatch(r"0?[0-7]{3,4}", value):
        raise OptionError(f"mode must be octal digits in quotes, such as '1777', not {value!r}")
    return int(value, 8)
