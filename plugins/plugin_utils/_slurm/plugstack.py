# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of plugstack.conf. None is an include: slurmctld does not send included files to configless nodes, and a
container option that no plugin knows lets a job run on the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .config import ConfigError


def plugstack_lines(of_role: Iterable[str], by_hand: Mapping[str, Any]) -> list[str]:
    """Return the lines: those of the role, changed and followed by the user's.

    :param of_role: whole lines.
    :param by_hand: plugins by path: null leaves one out, a mapping has ``required`` and ``args``.
    :raises ConfigError: a plugin of the user's is malformed.
    """
    lines = {_path(line): line.strip() for line in of_role}
    for path, own in by_hand.items():
        where = f"slurm_plugstack[{path!r}]"
        if own is None:
            lines.pop(path, None)
            continue
        if not isinstance(own, Mapping) or set(own) - {"required", "args"}:
            raise ConfigError(f"{where} must be null, or a mapping with required (true or false) and args (a list).")
        arguments = own.get("args") or []
        words = [arguments] if isinstance(arguments, str) else [str(word) for word in arguments]
        kind = "required" if own.get("required", True) else "optional"
        lines[path] = " ".join([kind, path, *words])
    for path, line in lines.items():
        if "\n" in line or "\r" in line or not path.startswith("/") or not path.endswith(".so"):
            raise ConfigError(f"plugstack.conf: {path!r} must be the whole path of a plugin (.so), on one line.")
    return list(lines.values())


def _path(line: str) -> str:
    words = line.split()
    if len(words) < 2 or words[0] not in ("required", "optional"):
        raise ConfigError(f"plugstack.conf: {line!r} must be 'required' or 'optional', then the path of a plugin.")
    return words[1]
