# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Sysctls, kernel modules and process limits: for each boot and, on a running machine, at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...machine.root import Root
from .changes import ImageChanges, file_of

SYSCTL = "/etc/sysctl.d/99-zz-hpcai-image.conf"
"""Read after 99-sysctl.conf, which is /etc/sysctl.conf."""


def plan_sysctl(root: Root, requested: Mapping[str, object], insist: Collection[str], live: bool) -> ImageChanges:
    """Return the sysctl file, and the settings that the running kernel has differently.

    :param requested: values by name; None to leave the setting unchanged.
    :param insist: names that are set even if the base has another value.
    :param live: whether the running kernel belongs to this machine.
    """
    values = {name: _sysctl_text(value) for name, value in requested.items() if value is not None}
    base = stated_sysctl(root)
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
            if current is not None and _sysctl_text(current) != value:
                now[path_of(name)] = value
    return ImageChanges(
        files=(file_of(root, SYSCTL, [f"{name} = {value}" for name, value in sorted(ours.items())]),),
        live=now,
        left_alone=tuple(f"{name} is {value} (sysctl)" for name, value in sorted(kept.items())),
    )


def stated_sysctl(root: Root) -> dict[str, str]:
    """Return the settings in the files of the base image, by name."""
    folder = "/etc/sysctl.d"
    paths = [f"{folder}/{name}" for name in root.entries(folder) if name.endswith(".conf")]
    found = {}
    for path in [*paths, "/etc/sysctl.conf"]:
        if path == SYSCTL:
            continue
        for line in (root.text(path) or "").splitlines():
            name, equals, value = line.partition("=")
            # A comment gives a name that matches no setting.
            if equals:
                found[name.strip().lstrip("-").replace("/", ".")] = _sysctl_text(value)
    return found


def path_of(name: str) -> str:
    """Return a setting's path below /proc/sys (sysctl.d(5): the first separator decides what "." and "/" mean)."""
    slash, dot = name.find("/"), name.find(".")
    if slash >= 0 and (dot < 0 or slash < dot):
        return name
    return name.translate(str.maketrans("./", "/."))


def _sysctl_text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return " ".join(str(value).split())


# Kernel modules: which are loaded at boot, and their options.

MODULES = "/etc/modules-load.d/hpcai-image.conf"
MODULE_OPTIONS = "/etc/modprobe.d/hpcai-image.conf"


def plan_modules(root: Root, load: Iterable[str], options: Mapping[str, Mapping[str, object]]) -> ImageChanges:
    """Return the files.

    :param load: modules to load at boot. Those that no kernel of the image has are skipped: their unit would fail.
    :param options: values by module and name of the option; None to leave the option unchanged.
    """
    known = _known_modules(root)
    names = sorted(name for name in load if name)
    lacking = [name for name in names if name.replace("-", "_") not in known]
    kept = []
    lines = []
    base = stated_sysctl(root)
    for module, values in sorted(options.items()):
        for name, value in sorted((values or {}).items()):
            if value is None:
                continue
            if f"{module}.{name}" in base:
                kept.append(f"{module}.{name} is {base[f'{module}.{name}']} (sysctl)")
            else:
                lines.append(f"options {module} {name}={value}")
    remarks = (f"no kernel of this image has the modules {', '.join(lacking)}: not loaded at boot",) if lacking else ()
    return ImageChanges(
        files=(
            file_of(root, MODULES, [name for name in names if name not in lacking]),
            file_of(root, MODULE_OPTIONS, lines),
        ),
        left_alone=tuple(kept),
        remarks=remarks,
    )


def _known_modules(root: Root) -> set[str]:
    folder = "/lib/modules" if root.entries("/lib/modules") else "/usr/lib/modules"
    found = set()
    for kernel in root.entries(folder):
        for name in ("modules.dep", "modules.builtin"):
            for line in (root.text(f"{folder}/{kernel}/{name}") or "").splitlines():
                # kernel/drivers/infiniband/core/ib_umad.ko.xz: kernel/...
                file = line.partition(":")[0].rpartition("/")[2]
                found.add(file.partition(".ko")[0].replace("-", "_"))
    return found


# Process limits: for logins and for services.

LOGINS = "/etc/security/limits.d/90-hpcai-image.conf"
SERVICES = "/etc/systemd/system.conf.d/90-hpcai-image.conf"
_SYSTEMD_NAMES = {"memlock": "DefaultLimitMEMLOCK", "nofile": "DefaultLimitNOFILE"}
"""Not stack: no limit changes the memory layout of each process. slurmd's own unit sets it; others do not need it."""
_USUAL_NOFILE = 1024
"""Programs that use select() fail above it, so the soft limit of services stays there and they must raise it."""


def plan_limits(root: Root, requested: Mapping[str, object], insist: Collection[str]) -> ImageChanges:
    """Return the files for the limits.

    :param requested: values by the names in limits.conf; None to leave the limit unchanged.
    :param insist: names that are set even if the base has another value.
    """
    values = {name: _limit_text(value) for name, value in requested.items() if value is not None}
    kept = {}
    base = _stated_for_logins(root)
    for name, value in values.items():
        has = {kind: base[(kind, name)] for kind in ("soft", "hard") if (kind, name) in base}
        if len(has) == 2 and (name not in insist or set(has.values()) == {value}):
            kept[name] = f"{name} is {has['soft']}, {has['hard']} (limits.conf)"
    logins = [
        f"{who} {kind} {name} {value}"
        for name, value in values.items()
        if name not in kept
        for who in ("*", "root")  # The asterisk does not include root.
        for kind in ("soft", "hard")
    ]
    services = []
    for name, value in values.items():
        option = _SYSTEMD_NAMES.get(name)
        stated = _stated_for_services(root, option) if option else None
        if stated is not None and name not in insist:
            kept[option or name] = f"{option} is {stated} (systemd)"
        elif option:
            services.append(f"{option}={_for_services(name, value)}")
    if services:
        services.insert(0, "[Manager]")
    files = (file_of(root, LOGINS, logins), file_of(root, SERVICES, services))
    return ImageChanges(files=files, left_alone=tuple(kept.values()))


def _limit_text(value: object) -> str:
    return str(value).strip()


def _for_services(name: str, value: str) -> str:
    value = "infinity" if value in ("unlimited", "infinity", "-1") else value
    if name == "nofile" and (value == "infinity" or int(value) > _USUAL_NOFILE):
        return f"{_USUAL_NOFILE}:{value}"
    # limits.conf counts locked memory in KiB, systemd in bytes.
    return f"{int(value)}K" if name == "memlock" and value.isdecimal() else value


def _stated_for_logins(root: Root) -> dict[tuple[str, str], str]:
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


def _stated_for_services(root: Root, option: str) -> str | None:
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
