# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Settings of the kernel, in a file for each boot and, on a running machine, at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...machine.root import Root
from .part import Part, own_file

FILE = "/etc/sysctl.d/99-zz-hpcai-image.conf"
"""Read after 99-sysctl.conf, which is /etc/sysctl.conf."""


def plan(root: Root, wanted: Mapping[str, object], insist: Collection[str], live: bool) -> Part:
    """Return the file, and what the running kernel has otherwise.

    :param wanted: by name; None for one that is left alone.
    :param insist: names that are set even if the base has them with another value.
    :param live: whether the running kernel is the machine's own.
    """
    values = {name: _plain(value) for name, value in wanted.items() if value is not None}
    base = stated(root)
    kept = {
        name: base[name]
        for name, value in values.items()
        if name in base and (name not in insist or base[name] == value)
    }
    ours = {name: value for name, value in values.items() if name not in kept}
    now = {}
    if live:
        for name, value in ours.items():
            current = root.text(f"/proc/sys/{path_of(name)}")
            if current is not None and _plain(current) != value:
                now[path_of(name)] = value
    return Part(
        files=(own_file(root, FILE, [f"{name} = {value}" for name, value in sorted(ours.items())]),),
        live=now,
        left_alone=tuple(f"{name} is {value} (sysctl)" for name, value in sorted(kept.items())),
    )


def stated(root: Root) -> dict[str, str]:
    """Return what the files of the base set, by name."""
    folder = "/etc/sysctl.d"
    paths = [f"{folder}/{name}" for name in root.entries(folder) if name.endswith(".conf")]
    found = {}
    for path in [*paths, "/etc/sysctl.conf"]:
        if path == FILE:
            continue
        for line in (root.text(path) or "").splitlines():
            name, equals, value = line.partition("=")
            # A comment gives a name that nobody asks for.
            if equals:
                found[name.strip().lstrip("-").replace("/", ".")] = _plain(value)
    return found


def path_of(name: str) -> str:
    """Return where below /proc/sys a setting is (sysctl.d(5): the first separator says what the others mean)."""
    slash, dot = name.find("/"), name.find(".")
    if slash >= 0 and (dot < 0 or slash < dot):
        return name
    return name.translate(str.maketrans("./", "/."))


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return " ".join(str(value).split())
