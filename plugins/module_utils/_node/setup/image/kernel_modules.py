# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Modules of the kernel: which are loaded at boot, and with which options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...machine.root import Root
from . import sysctl
from .part import Part, own_file

LOADED = "/etc/modules-load.d/hpcai-image.conf"
OPTIONS = "/etc/modprobe.d/hpcai-image.conf"


def plan(root: Root, load: Iterable[str], options: Mapping[str, Mapping[str, object]]) -> Part:
    """Return the files.

    :param load: modules to load at boot. One that no kernel of the image has is left out: its unit would fail.
    :param options: by module and name of the option; None for one that is left alone.
    """
    known = _known(root)
    names = sorted(name for name in load if name)
    lacking = [name for name in names if name.replace("-", "_") not in known]
    kept = []
    lines = []
    base = sysctl.stated(root)
    for module, values in sorted(options.items()):
        for name, value in sorted((values or {}).items()):
            if value is None:
                continue
            if f"{module}.{name}" in base:
                kept.append(f"{module}.{name} is {base[f'{module}.{name}']} (sysctl)")
            else:
                lines.append(f"options {module} {name}={value}")
    remarks = (f"no kernel of this image has the modules {', '.join(lacking)}: not loaded at boot",) if lacking else ()
    return Part(
        files=(
            own_file(root, LOADED, [name for name in names if name not in lacking]),
            own_file(root, OPTIONS, lines),
        ),
        left_alone=tuple(kept),
        remarks=remarks,
    )


def _known(root: Root) -> set[str]:
    folder = "/lib/modules" if root.entries("/lib/modules") else "/usr/lib/modules"
    found = set()
    for kernel in root.entries(folder):
        for name in ("modules.dep", "modules.builtin"):
            for line in (root.text(f"{folder}/{kernel}/{name}") or "").splitlines():
                # kernel/drivers/infiniband/core/ib_umad.ko.xz: kernel/...
                file = line.partition(":")[0].rpartition("/")[2]
                found.add(file.partition(".ko")[0].replace("-", "_"))
    return found
