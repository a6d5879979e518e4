# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The Azure agent's settings, line by line: what it has besides stays, comments too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...machine.root import Root
from ..managed_file import change_of, read_file
from .part import Part

FILE = "/etc/waagent.conf"
MOUNT_POINT = "ResourceDisk.MountPoint"
_ELSEWHERE = "/mnt/resource"


def plan(root: Root, wanted: Mapping[str, object], scratch: str) -> Part:
    """Return the change of the agent's settings, where there is an agent.

    :param wanted: by key; None for one that is left alone.
    :param scratch: where scratch is mounted, which the agent must not mount its disk over.
    """
    text, mode = read_file(root.at(FILE))
    if text is None:
        return Part(remarks=("no Azure agent here (/etc/waagent.conf)",))
    values = {key: _text(value) for key, value in wanted.items() if value is not None}
    remarks = []
    if _values(text).get(MOUNT_POINT, "").rstrip("/") == scratch.rstrip("/") and MOUNT_POINT not in values:
        values[MOUNT_POINT] = _ELSEWHERE
        remarks.append(f"the agent mounted its temporary disk at {scratch}: now at {_ELSEWHERE}")
    after = edited(text, values)
    return Part(files=(change_of(root.at(FILE), after, mode or 0o644),), remarks=tuple(remarks))


def edited(text: str, values: Mapping[str, str]) -> str:
    """Return the text with these values: in place where the key has a line, else at the end."""
    for key, value in values.items():
        pattern = re.compile(rf"^[ \t]*{re.escape(key)}[ \t]*=.*$", re.MULTILINE)
        line = f"{key}={value}"
        if pattern.search(text):
            # A key that stands there twice gets the value twice, so that it does not matter which line counts.
            text = pattern.sub(lambda _found, line=line: line, text)  # type: ignore[misc]
        else:
            text += ("" if not text or text.endswith("\n") else "\n") + line + "\n"
    return text


def _values(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _equals, value in pairs}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "y" if value else "n"
    return str(value)
