# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The PAM stack of sshd with pam_slurm_adopt in it. Pure: texts in, texts out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Callable

from ..managed_file import without_block

FOLDER = "/etc/pam.d"
SSHD = f"{FOLDER}/sshd"
ADMINS, ADMIN_GROUPS = "/etc/hpcai/ssh_admins", "/etc/hpcai/ssh_admin_groups"
BLOCK = "hpcai.azure.compute_access"
FILE_PREFIX = "hpcai-"
HEADER = "# Written by the module hpcai.azure.compute_access: {name} without pam_systemd, which would take a"
_MORE = "# session out of the job that pam_slurm_adopt has put it into. Each run rewrites this file."
_ACCOUNT_INCLUDE = re.compile(r"\s*(@include\s+common-account\b|-?account\s+(include|substack)\s)")
_INCLUDE = re.compile(r"(\s*(?:@include|-?session\s+(?:include|substack)))(\s+)(\S+)(.*)", re.DOTALL)
_SYSTEMD = re.compile(r"\s*-?session\s.*\bpam_systemd\.so\b")

Read = Callable[[str], "str | None"]


class PamProblem(ValueError):
    """A PAM stack that cannot be changed; the message says which, why, and what to do."""


def block(node_name: str | None, options: Sequence[str]) -> list[str]:
    """Return the lines that admit admins and users with a job.

    They jump instead of using "sufficient", so that the rest of the stack still runs its checks, for admins too.
    """
    name = f" nodename={node_name}" if node_name else ""
    listed = "pam_listfile.so onerr=fail sense=allow quiet"
    return [
        f"account [success=2 default=ignore] {listed} item=user file={ADMINS}",
        f"account [success=1 default=ignore] {listed} item=group file={ADMIN_GROUPS}",
        f"account required pam_slurm_adopt.so{name}{''.join(f' {option}' for option in options)}",
    ]


def with_access(sshd: str, lines: Sequence[str], read: Read) -> tuple[str, dict[str, str]]:
    """Return the text of sshd's stack with these lines, and the files that it then includes, by name.

    The block is placed before the first file that the account phase includes: on EL that file ends the phase with
    "sufficient" for every local user, so that later lines would have no effect.

    :param read: returns the text of a file in /etc/pam.d by its name; None if there is none.
    :raises PamProblem: the stack has no place for the lines.
    """
    files: dict[str, str] = {}
    text = _freed(without_access(sshd), read, files)
    found = []
    placed = False
    for line in text.splitlines(keepends=True):
        if not placed and _ACCOUNT_INCLUDE.match(line):
            found += [f"# BEGIN {BLOCK}\n", *(f"{each}\n" for each in lines), f"# END {BLOCK}\n"]
            placed = True
        found.append(line)
    if not placed:
        raise PamProblem(
            f"{SSHD} includes no file for its account phase (common-account, password-auth), so there is no place "
            f"for the lines of pam_slurm_adopt. Restore the distribution's file, or set slurm_pam_adopt to false"
        )
    return "".join(found), files


def without_access(sshd: str) -> str:
    """Return the text without our changes."""
    text = without_block(sshd, BLOCK)
    return re.sub(rf"(?m)^(\s*(?:@include|-?session\s+(?:include|substack))\s+){FILE_PREFIX}(\S+)", r"\1\2", text)


def is_ours(text: str) -> bool:
    """Whether this module made a file in /etc/pam.d."""
    return text.startswith(HEADER.partition("{")[0])


def _freed(text: str, read: Read, files: dict[str, str]) -> str:
    """Return the text with our copies in place of included files that run pam_systemd; add the copies to ``files``."""
    lines = []
    for line in text.splitlines(keepends=True):
        included = _INCLUDE.fullmatch(line)
        if included and _make_free(included[3], read, files):
            line = f"{included[1]}{included[2]}{FILE_PREFIX}{included[3]}{included[4]}"
        lines.append(line)
    return "".join(lines)


def _make_free(name: str, read: Read, files: dict[str, str], above: tuple[str, ...] = ()) -> bool:
    """Add a copy without pam_systemd to ``files`` if the file runs it; return whether it does."""
    if f"{FILE_PREFIX}{name}" in files:
        return True
    text = read(name)
    if text is None or name in above:
        return False
    nested: dict[str, str] = {}
    kept = []
    for line in text.splitlines(keepends=True):
        included = _INCLUDE.fullmatch(line)
        if included and _make_free(included[3], read, nested, (*above, name)):
            line = f"{included[1]}{included[2]}{FILE_PREFIX}{included[3]}{included[4]}"
        if not _SYSTEMD.match(line):
            kept.append(line)
    after = "".join(kept)
    if after == text:
        return False
    files.update(nested)
    files[f"{FILE_PREFIX}{name}"] = f"{HEADER.format(name=name)}\n{_MORE}\n{after}"
    return True


def listed(names: Sequence[str]) -> str:
    """Return the text of a list file for pam_listfile."""
    return "".join(f"{name}\n" for name in sorted(set(names)))


def texts_of(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files by their path."""
    return {f"{FOLDER}/{name}": text for name, text in files.items()}
