# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Enroot's settings on a node, for the module container_node and for the boot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import CommandFailed, Run, must
from ..managed_file import FileChange, apply_all, diff_of
from .files import (
    APPARMOR,
    TMPFILES,
    LinkChange,
    file_changes,
    hardware_changes,
    link_changes,
    missing_hooks,
)
from .options import Options

ENROOT = "/usr/bin/enroot"


@dataclass
class Done:
    """What was done, or in check mode would be.

    :ivar actions: in words, in their order.
    :ivar diff: in the form of Ansible's.
    """

    actions: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)

    def note(self, changes: list[FileChange], links: list[LinkChange]) -> None:
        """Note these changes."""
        self.actions += [f"{'remove' if c.after is None else 'write'} {c.path}" for c in changes if c.changes]
        self.actions += [f"{'unlink' if c.after is None else 'link'} {c.path}" for c in links if c.changes]
        self.diff += [*diff_of(changes), *(link.as_diff() for link in links if link.changes)]


def configure(options: Options, root: Root, run: Run, check: bool = False, apply: bool = True) -> Done:
    """Write enroot's settings, and unless ``apply`` is false, what of them counts now: folders in /run, the kernel's.

    :raises ConfigError: enroot's package lacks a hook that is wanted.
    :raises CommandFailed: the kernel does not take a setting.
    :raises OSError: a file cannot be written.
    """
    missing = missing_hooks(options, root) if root.exists(ENROOT) else []
    if missing:
        raise ConfigError(
            f"enroot has no hook {', '.join(missing)} in /usr/share/enroot/hooks.d: "
            f"there are {', '.join(root.entries('/usr/share/enroot/hooks.d')) or 'none'}."
        )
    done = Done()
    files, links = [*file_changes(options, root), *hardware_changes(options, root)], link_changes(options, root)
    done.note(files, links)
    if not check:
        apply_all(files)
        for link in links:
            link.apply()
    if apply:
        done.actions += _folders(options, root, run, check)
        done.actions += _kernel(options.sysctl, root, check)
        if root.is_this_machine and any(link.changes for link in links if link.path.startswith("/etc/apparmor.d/")):
            done.actions += _profile(options, run, check)
    return done


def at_boot(options: Options, root: Root, check: bool) -> list[str]:
    """Bring what hangs on the machine's devices in line with them; everything else is in the image.

    :return: what was done, in words.
    """
    done, files = Done(), hardware_changes(options, root)
    done.note(files, [])
    if not check:
        apply_all(files)
    return done.actions


def _folders(options: Options, root: Root, run: Run, check: bool) -> list[str]:
    """What systemd-tmpfiles makes at each boot, now."""
    lacking = {path: mode for path, mode in options.shared_folders.items() if not _has_mode(root.at(path), mode)}
    if lacking and not check and root.is_this_machine:
        must(run(["systemd-tmpfiles", "--create", root.at(TMPFILES)]))
    return [f"make {path}, mode {mode:04o}" for path, mode in lacking.items()]


def _has_mode(path: str, mode: int) -> bool:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return found.st_mode & 0o7777 == mode and found.st_uid in (0, os.geteuid())


def _kernel(wanted: Mapping[str, str], root: Root, check: bool) -> list[str]:
    """Settings of the kernel that it has; a number that is larger than what is wanted is left."""
    actions = []
    for key, value in sorted(wanted.items()):
        path = f"/proc/sys/{key.replace('.', '/')}"
        now = root.text(path)
        if now is None or now == value or _is_enough(key, now, value):
            continue
        if not check:
            try:
                with open(root.at(path), "w", encoding="utf-8") as file:
                    file.write(f"{value}\n")
            except OSError as error:
                raise CommandFailed(
                    f"the kernel does not take {key} = {value}, which containers need ({error.strerror}): it is {now}."
                ) from error
        actions.append(f"set {key} = {value}")
    return actions


def _is_enough(key: str, now: str, value: str) -> bool:
    return key.startswith("user.max_") and now.isdecimal() and value.isdecimal() and int(now) >= int(value)


def _profile(options: Options, run: Run, check: bool) -> list[str]:
    if not os.path.exists("/sys/kernel/security/apparmor") or not os.path.exists(APPARMOR):
        return []
    verb = "--replace" if options.apparmor == "profile" else "--remove"
    if not check:
        result = run(["apparmor_parser", verb, APPARMOR])
        if verb == "--replace":
            must(result)
    return [f"apparmor_parser {verb} {APPARMOR}"]
