# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Limits of processes: of those that people start, and of services."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...machine.root import Root
from .part import Part, own_file

LOGINS = "/etc/security/limits.d/90-hpcai-image.conf"
SERVICES = "/etc/systemd/system.conf.d/90-hpcai-image.conf"
_SYSTEMD_NAMES = {"memlock": "DefaultLimitMEMLOCK", "nofile": "DefaultLimitNOFILE"}
"""A stack without limit changes how memory is laid out in each process: slurmd's own unit has it, others need none."""
_USUAL_NOFILE = 1024
"""Programs that use select() break beyond it, so a service has to ask for more than it is given at first."""


def plan(root: Root, wanted: Mapping[str, object], insist: Collection[str]) -> Part:
    """Return the files for the limits.

    :param wanted: by the names of limits.conf; None for one that is left alone.
    :param insist: names that are set even if the base has them with another value.
    """
    values = {name: _text(value) for name, value in wanted.items() if value is not None}
    kept = {}
    base = _base(root)
    for name, value in values.items():
        has = {kind: base[(kind, name)] for kind in ("soft", "hard") if (kind, name) in base}
        if len(has) == 2 and (name not in insist or set(has.values()) == {value}):
            kept[name] = f"{name} is {has['soft']}, {has['hard']} (limits.conf)"
    logins = [
        f"{who} {kind} {name} {value}"
        for name, value in values.items()
        if name not in kept
        for who in ("*", "root")  # The asterisk is everybody but root.
        for kind in ("soft", "hard")
    ]
    services = []
    for name, value in values.items():
        option = _SYSTEMD_NAMES.get(name)
        stated = _stated(root, option) if option else None
        if stated is not None and name not in insist:
            kept[option or name] = f"{option} is {stated} (systemd)"
        elif option:
            services.append(f"{option}={_for_services(name, value)}")
    if services:
        services.insert(0, "[Manager]")
    files = (own_file(root, LOGINS, logins), own_file(root, SERVICES, services))
    return Part(files=files, left_alone=tuple(kept.values()))


def _text(value: object) -> str:
    return str(value).strip()


def _for_services(name: str, value: str) -> str:
    value = "infinity" if value in ("unlimited", "infinity", "-1") else value
    if name == "nofile" and (value == "infinity" or int(value) > _USUAL_NOFILE):
        return f"{_USUAL_NOFILE}:{value}"
    # limits.conf counts locked memory in KiB, systemd in bytes.
    return f"{int(value)}K" if name == "memlock" and value.isdecimal() else value


def _base(root: Root) -> dict[tuple[str, str], str]:
    files = ["/etc/security/limits.conf"]
    folder = "/etc/security/limits.d"
    files += [f"{folder}/{name}" for name in root.entries(folder) if name.endswith(".conf")]
    found: dict[tuple[str, str], str] = {}
    for path in files:
        if path == LOGINS:
            continue
        for line in (root.text(path) or "").splitlines():
            words = line.partition("#")[0].split()
            if len(words) == 4 and words[0] == "*":
                kinds = ("soft", "hard") if words[1] == "-" else (words[1],)
                found.update({(kind, words[2]): words[3] for kind in kinds})
    return found


def _stated(root: Root, option: str) -> str | None:
    folder = "/etc/systemd/system.conf.d"
    files = ["/etc/systemd/system.conf", *(f"{folder}/{name}" for name in root.entries(folder))]
    found = None
    for path in files:
        if path == SERVICES:
            continue
        for line in (root.text(path) or "").splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and name.strip() == option:
                found = value.strip()
    return found
