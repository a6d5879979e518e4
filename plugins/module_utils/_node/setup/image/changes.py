# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The changes for one part of the image: files, links, sysctls of the running kernel, and what is left unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...machine.root import Root
from ..managed_file import FileChange, change_of

MARK = "# Written by the module hpcai.azure.image_settings, which overwrites it."


@dataclass(frozen=True)
class ImageChanges:
    """The plan for one part.

    :ivar files: files that are written, and our files that are removed.
    :ivar unlink: paths of links and files that are removed.
    :ivar live: values of the running kernel: path below /proc/sys, and value.
    :ivar left_alone: settings that the base image has already, in words.
    :ivar remarks: further messages for the user.
    """

    files: tuple[FileChange, ...] = ()
    unlink: tuple[str, ...] = ()
    live: Mapping[str, str] = field(default_factory=dict)
    left_alone: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def file_of(root: Root, path: str, lines: Iterable[str]) -> FileChange:
    """Return the change that gives our file these lines; without lines it is removed."""
    body = "".join(f"{line}\n" for line in lines)
    return change_of(root.at(path), f"{MARK}\n{body}" if body else None)


def present(root: Root, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of the paths that exist, dangling links included."""
    return tuple(path for path in paths if root.exists(path))
