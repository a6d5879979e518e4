# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What has to change for one subject of the image: files, links, values of the kernel, and what is left as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...machine.root import Root
from ..managed_file import FileChange, change_of

MARK = "# Written by the module hpcai.azure.image_settings, which overwrites it."


@dataclass(frozen=True)
class ImageChanges:
    """One part's plan.

    :ivar files: what is written, and files of ours that go.
    :ivar unlink: paths on the machine of links and files that go.
    :ivar live: values of the running kernel: path below /proc/sys and value.
    :ivar left_alone: what the base has already, in words.
    :ivar remarks: what somebody should know.
    """

    files: tuple[FileChange, ...] = ()
    unlink: tuple[str, ...] = ()
    live: Mapping[str, str] = field(default_factory=dict)
    left_alone: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def file_of(root: Root, path: str, lines: Iterable[str]) -> FileChange:
    """Return the change that gives our file these lines; without lines it goes."""
    body = "".join(f"{line}\n" for line in lines)
    return change_of(root.at(path), f"{MARK}\n{body}" if body else None)


def present(root: Root, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of the paths that are there, dangling links included."""
    return tuple(path for path in paths if root.exists(path))
