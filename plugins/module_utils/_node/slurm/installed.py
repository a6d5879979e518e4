# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Which Slurm is installed, whether it is the wanted one, and the record of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..machine.root import Root
from ..machine.run import Run
from .releases import UnknownRelease, upgrade_problem

RECORD = "/etc/ansible/facts.d/hpcai_slurm.fact"
PREINSTALLED = "preinstalled"
ALWAYS = ("bin/scontrol", "bin/srun", "sbin/munged")
NEEDED = {
    "controller": ("sbin/slurmctld",),
    "login": ("bin/sbatch", "bin/sinfo"),
    "compute": ("sbin/slurmd", "sbin/slurmstepd"),
    "accounting": ("sbin/slurmdbd", "bin/sacctmgr"),
    "restd": ("sbin/slurmrestd",),
}
"""Commands below the prefix, by the machine's function."""
UNITS = {
    "controller": "slurmctld.service",
    "compute": "slurmd.service",
    "accounting": "slurmdbd.service",
    "restd": "slurmrestd.service",
}
UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_VERSION = re.compile(r"(?:^|\s|:)(\d{2}\.\d{2}\.\d+)")


class NotThisSlurm(RuntimeError):
    """The machine does not have the wanted Slurm; the message says what to do."""


@dataclass(frozen=True)
class SlurmOptions:
    """The Slurm that a machine should have.

    :ivar functions: the machine's functions: controller, login, compute, accounting, restd.
    :ivar source: distribution, repository or preinstalled.
    :ivar version: the version, or its beginning; empty for any.
    :ivar packages: names of the packages that the role installs.
    :ivar client: the package whose version counts; empty if there is none.
    :ivar prefix: where the commands are.
    :ivar may_upgrade: whether an installed Slurm may be replaced by another version.
    """

    functions: tuple[str, ...]
    source: str
    version: str = ""
    packages: tuple[str, ...] = ()
    client: str = ""
    prefix: str = "/usr"
    may_upgrade: bool = False


def read_version(options: SlurmOptions, run: Run) -> str | None:
    """Return the version of the installed Slurm; None if there is none, or its version cannot be found out.

    The package database comes first. Slurm's clients do not print their version without a configuration ("Could not
    establish a configuration source"), but its daemons do.
    """
    asked: list[Sequence[str]] = []
    if options.client:
        asked.append(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}\n", options.client])
        asked.append(["rpm", "--query", "--queryformat", "%{VERSION}\n", options.client])
    asked += [[f"{options.prefix}/sbin/{daemon}", "-V"] for daemon in ("slurmd", "slurmctld")]
    asked.append([f"{options.prefix}/bin/sinfo", "--version"])
    for command in asked:
        answer = run(command)
        # dpkg still lists the version of a package that was removed but not purged.
        if answer.rc != 0 or answer.stdout.startswith(("config-files", "not-installed")):
            continue
        match = _VERSION.search(answer.stdout)
        if match:
            return match[1]
    return None


def matches(version: str, required: str) -> bool:
    """Whether a version is the required one, of which only the beginning may be given, or which may have a revision."""
    return not required or f"{version}.".startswith(f"{required.split('-')[0]}.")


def read_record(root: Root) -> dict[str, Any]:
    """Return the record; empty if there is no readable one."""
    try:
        record = json.loads(root.text(RECORD) or "{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def check_before(options: SlurmOptions, record: dict[str, Any], version: str | None, root: Root) -> None:
    """Check, before installing, that nothing would be upgraded without permission, and that preinstalled files exist.

    :raises NotThisSlurm: a check failed.
    """
    if options.source == PREINSTALLED:
        _check_preinstalled(options, root)
    if version is None:
        return
    if options.may_upgrade:
        # Only these keep state over releases.
        if {"controller", "accounting"} & set(options.functions):
            _check_step(version, options.version)
        return
    before = record.get("source") or options.source
    if before != options.source:
        raise NotThisSlurm(
            f"Slurm {version} is installed from '{before}', but slurm_source is '{options.source}'. Changing it is an "
            f"upgrade, which must be done in an order (slurmdbd, slurmctld, slurmd): {_HOW}"
        )
    if not matches(version, options.version):
        raise NotThisSlurm(
            f"Slurm {version} is installed, but slurm_version is '{options.version}'. An upgrade must be done in an "
            f"order (slurmdbd, slurmctld, slurmd): {_HOW}"
        )


_HOW = "use the playbook hpcai.azure.upgrade_slurm, see 'Upgrading' in guide_slurm_packages."


def _check_step(version: str, target: str) -> None:
    """Refuse an upgrade after which Slurm could not read its state."""
    if not target:
        return
    try:
        problem = upgrade_problem(_release(version), _release(target))
    except UnknownRelease as error:
        raise NotThisSlurm(f"{error} slurm_version is '{target}', and Slurm {version} is installed.") from error
    if problem:
        raise NotThisSlurm(problem)


def _release(version: str) -> str:
    return ".".join(version.split("-")[0].split(".")[:2])


def _check_preinstalled(options: SlurmOptions, root: Root) -> None:
    needed = [*ALWAYS, *(name for function in options.functions for name in NEEDED[function])]
    missing = [f"{options.prefix}/{name}" for name in needed if not _exists(options.prefix, name, root)]
    missing += [
        f"{unit} (in {', '.join(UNIT_FOLDERS)})"
        for unit in ("munge.service", *(UNITS[name] for name in options.functions if name in UNITS))
        if not any(root.exists(f"{folder}/{unit}") for folder in UNIT_FOLDERS)
    ]
    if missing:
        raise NotThisSlurm(
            f"slurm_source is preinstalled, but this machine lacks {', '.join(missing)}. Bake them into its image, set "
            "slurm_prefix to where they are, or choose another slurm_source."
        )


def _exists(prefix: str, name: str, root: Root) -> bool:
    # munge comes from the distribution, whatever Slurm's prefix is.
    return any(root.exists(f"{place}/{name}") for place in ((prefix, "/usr") if name == "sbin/munged" else (prefix,)))


def record_of(options: SlurmOptions, record: dict[str, Any], version: str | None) -> str:
    """Return the text of the record, which includes what earlier runs installed for other functions. Pure."""
    merged = {
        "functions": sorted({*record.get("functions", []), *options.functions}),
        "packages": sorted({*_strings(record.get("packages")), *options.packages}),
        "source": options.source,
        "version": version,
    }
    return f"{json.dumps(merged, indent=4, sort_keys=True)}\n"


def _strings(value: object) -> Iterable[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def check_after(options: SlurmOptions, version: str | None) -> None:
    """Check what was installed.

    :raises NotThisSlurm: its version cannot be found out, or is not the required one.
    """
    if version is None:
        raise NotThisSlurm(
            f"Slurm's version is unknown: it is not in the package database, and {options.prefix}/sbin/slurmd -V, "
            f"{options.prefix}/sbin/slurmctld -V or {options.prefix}/bin/sinfo --version do not print it."
        )
    if not matches(version, options.version):
        raise NotThisSlurm(
            f"slurm_version is '{options.version}', but Slurm {version} is installed now. Set slurm_version to a "
            "version that the source has."
        )
