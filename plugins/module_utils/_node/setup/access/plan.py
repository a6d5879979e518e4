# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The files of compute access: read, refuse bad input, plan; for the module compute_access and for the boot phase."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...machine.atomic import OPERATORS
from ...machine.mounts import read_mounts
from ...machine.root import Root
from ...machine.run import Run, must
from ..managed_file import BrokenBlock, FileChange, change_of
from ..users.facts import AccountFacts, read_facts
from . import pam
from .options import SETTINGS, AccessOptions, as_text
from .pam import PamProblem

ALLOWED = ("/etc/cron.allow", "/etc/at.allow")
"""An empty file lets only root use cron and at, because what these start is in no job and continues after the job."""
LINGERING = "/etc/systemd/system/user@.service.d/50-hpcai-lingering.conf"
_LINGERING_TEXT = """\
# Written by the module hpcai.azure.compute_access: services of a user who is not logged in are in no job, and
# polkit lets each user enable lingering. With "+", the command runs as root, without the user's variables.
[Service]
ExecCondition=+/bin/sh -c 'test ! -e "/var/lib/systemd/linger/$$(id -un %i)"'
"""
_LIBRARIES = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")


@dataclass(frozen=True)
class AccessPlan:
    """The files, in the order in which they are written, and what the user should know."""

    files: tuple[FileChange, ...]
    warnings: tuple[str, ...]


def plan(root: Root, options: AccessOptions, run: Run, may_come: bool) -> AccessPlan:
    """Return the files to be written.

    :param may_come: whether packages may still be missing, as in check mode before the first run.
    :raises PamProblem: the change would lock people out, or would not work.
    """
    warnings: list[str] = []
    texts: dict[str, str | None] = {}
    sshd = change_of(root.at(pam.SSHD), None).before
    if sshd is None and options.present and not may_come:
        raise PamProblem(f"{root.at(pam.SSHD)} does not exist. Install the ssh server")
    try:
        if options.present:
            problem = _missing(root) or _nobody(root, read_facts(root), options) or _no_pam(root, run)
            if problem and not (may_come and problem.endswith(_COMING)):
                raise PamProblem(problem)
            warnings += [problem] if problem else []
            texts |= {pam.ADMINS: pam.listed(options.admins), pam.ADMIN_GROUPS: pam.listed(options.admin_groups)}
        texts |= _stack(root, options, sshd)
    except BrokenBlock as error:
        raise PamProblem(f"{root.at(pam.SSHD)}: {error} Correct the file") from error
    texts |= {
        **_cron_texts(root, options),
        LINGERING: _LINGERING_TEXT if options.present else None,
        **hidepid_files(options),
        **_nss_texts(root, options),
        SETTINGS: as_text(options) if options.present else None,
    }
    changes = tuple(change_of(root.at(path), text) for path, text in _in_order(texts))
    return AccessPlan(tuple(change for change in changes if change.changes), tuple(warnings))


def plan_for_boot(root: Root, options: AccessOptions) -> AccessPlan:
    """Return the change for an image: only the settings file, which each boot applies. The rest stays unchanged."""
    change = change_of(root.at(SETTINGS), as_text(options) if options.present else None)
    return AccessPlan((change,) if change.changes else (), ())


_COMING = "install the package of pam_slurm_adopt (libpam-slurm-adopt on Debian, slurm-pam_slurm on EL)"


def _missing(root: Root) -> str:
    if not _has_module(root, "pam_listfile.so"):
        return "pam_listfile.so is not installed: install the package of PAM's modules"
    if not _has_module(root, "pam_slurm_adopt.so"):
        return f"pam_slurm_adopt.so is not installed: {_COMING}"
    return ""


def _has_module(root: Root, name: str) -> bool:
    folders = [f"{top}/security" for top in _LIBRARIES]
    folders += [f"{top}/{entry}/security" for top in _LIBRARIES for entry in root.entries(top) if "-linux-" in entry]
    return any(root.exists(f"{folder}/{name}") for folder in folders)


def _nobody(root: Root, facts: AccountFacts, options: AccessOptions) -> str:
    """Return an error that says who would be locked out; empty if nobody."""
    admins = {account.name for account in facts.accounts if _is_admin(facts, account.name, options)}
    if root.is_this_machine:
        others = {options.me, *options.admins} - admins
        admins |= {name for name in others if _is_admin_of_directory(name, options)}
    if options.me and options.me != "root" and options.me not in admins:
        return (
            f"{options.me}, who runs this, could not log in again. Add {options.me} to the admins (slurm_ssh_admins), "
            f"or one of the user's groups to the admin groups (slurm_ssh_admin_groups)"
        )
    if not admins:
        return (
            f"none of the admins ({', '.join(options.admins) or 'none'}) and of the members of the admin groups "
            f"({', '.join(options.admin_groups) or 'none'}) is a user of this machine. Add one: otherwise nobody "
            f"could log in here without a job"
        )
    return ""


def _is_admin(facts: AccountFacts, name: str, options: AccessOptions) -> bool:
    account = facts.account(name)
    if name in options.admins or account is None:
        return account is not None
    primary_group = facts.group_of(account.gid)
    return any(group == primary_group or name in facts.members.get(group, ()) for group in options.admin_groups)


def _is_admin_of_directory(name: str, options: AccessOptions) -> bool:
    """Whether this is an admin whose account is in a directory service, not in the machine's own files."""
    try:
        account = pwd.getpwnam(name)
        groups = {grp.getgrgid(number).gr_name for number in os.getgrouplist(name, account.pw_gid)}
    except KeyError:
        return False
    return name in options.admins or not groups.isdisjoint(options.admin_groups)


def _no_pam(root: Root, run: Run) -> str:
    if not root.is_this_machine:
        return ""
    # In an image, sshd -T fails because there are no host keys yet; then nothing is known.
    answer = run(["sshd", "-T"])
    if answer.rc == 0 and re.search(r"(?m)^usepam no$", answer.stdout):
        return "sshd does not use PAM, so pam_slurm_adopt would have no effect. Set UsePAM yes in sshd_config"
    return ""


def _stack(root: Root, options: AccessOptions, sshd: str | None) -> dict[str, str | None]:
    ours = [
        name for name in root.entries(pam.FOLDER) if name.startswith(pam.FILE_PREFIX) and pam.is_ours(_text(root, name))
    ]
    texts: dict[str, str | None] = {f"{pam.FOLDER}/{name}": None for name in ours}
    if sshd is None:
        return texts
    if not options.present:
        return {**texts, pam.SSHD: pam.without_access(sshd), pam.ADMINS: None, pam.ADMIN_GROUPS: None}
    lines = pam.block(options.node_name, options.options)
    text, files = pam.with_access(sshd, lines, lambda name: change_of(root.at(f"{pam.FOLDER}/{name}"), None).before)
    return {**texts, **pam.texts_of(files), pam.SSHD: text}


def _text(root: Root, name: str) -> str:
    return change_of(root.at(f"{pam.FOLDER}/{name}"), None).before or ""


def _cron_texts(root: Root, options: AccessOptions) -> dict[str, str | None]:
    """Return empty allow files, so that only root can use cron and at. Files of the site are left unchanged."""
    found = {path: change_of(root.at(path), None).before for path in ALLOWED}
    if options.present:
        return {path: "" for path, text in found.items() if text is None}
    return {path: None for path, text in found.items() if text == ""}


def _nss_texts(root: Root, options: AccessOptions) -> dict[str, str | None]:
    switch, conf = (change_of(root.at(path), None).before for path in (NSSWITCH, NSS_CONF))
    if options.nss_slurm:
        texts: dict[str, str | None] = {NSS_CONF: nss_conf(options.node_name, options.spool_dir)}
        return texts if switch is None else {**texts, NSSWITCH: with_slurm(switch)}
    if conf is None or not conf.startswith(NSS_HEADER):
        return {}
    texts = {NSS_CONF: None}
    return texts if switch is None else {**texts, NSSWITCH: without_slurm(switch)}


def _in_order(texts: dict[str, str | None]) -> Iterator[tuple[str, str | None]]:
    """Write included files before the files that include them, and remove them after: sshd's stack is never broken."""
    ranks = {pam.SSHD: 1, NSSWITCH: 1}
    return iter(sorted(texts.items(), key=lambda item: (ranks.get(item[0], 0 if item[1] is not None else 2), item[0])))


# nss_slurm looks up the names of jobs' users: slurmctld sends them with the job, so no directory is asked. Pure.

NSSWITCH, NSS_CONF = "/etc/nsswitch.conf", "/etc/nss_slurm.conf"
NSS_HEADER = "# Written by the module hpcai.azure.compute_access, which overwrites it."
_NSS_SERVICE = "slurm"
_NSS_LINE = re.compile(r"(?m)^(passwd|group):([^\n#]*)(.*)$")


def with_slurm(nsswitch: str) -> str:
    """Return the text with nss_slurm after the machine's own files and before any directory."""

    def changed(found: re.Match[str]) -> str:
        words = [word for word in found[2].split() if word != _NSS_SERVICE]
        position = words.index("files") + 1 if "files" in words else 0
        words.insert(position, _NSS_SERVICE)
        return _nss_line(found, words)

    return _NSS_LINE.sub(changed, nsswitch)


def without_slurm(nsswitch: str) -> str:
    """Return the text without nss_slurm."""

    def changed(found: re.Match[str]) -> str:
        words = found[2].split()
        return _nss_line(found, [word for word in words if word != _NSS_SERVICE]) if _NSS_SERVICE in words else found[0]

    return _NSS_LINE.sub(changed, nsswitch)


def _nss_line(found: re.Match[str], words: list[str]) -> str:
    if words == found[2].split():
        return found[0]
    return f"{found[1] + ':':<16}{' '.join(words)}{' ' + found[3] if found[3] else ''}"


def nss_conf(node_name: str | None, spool: str) -> str:
    """Return the text of nss_slurm.conf."""
    name = f"NodeName={node_name}\n" if node_name else ""
    return f"{NSS_HEADER}\n{name}SlurmdSpoolDir={spool}\n"


# Whether users see each other's processes: the option hidepid of /proc, which must be set at each boot.

LOGIND = "/etc/systemd/system/systemd-logind.service.d/50-hpcai-hidepid.conf"
_LOGIND_TEXT = f"""\
# Written by the module hpcai.azure.compute_access: logind must see the processes of all users.
[Service]
SupplementaryGroups={OPERATORS}
"""
# Kernels since 5.8 show names instead of numbers (proc(5)).
_HIDDEN = ("hidepid=2", "hidepid=invisible")


def hidepid_files(options: AccessOptions) -> dict[str, str | None]:
    """Return the texts of the files that hidepid needs; None for one that should not exist."""
    return {LOGIND: _LOGIND_TEXT if options.present and options.hide_processes else None}


def remount_proc(root: Root, options: AccessOptions, run: Run, check: bool) -> list[str]:
    """Remount /proc with the wanted option, and return what was done, or in check mode would be done.

    :raises CommandFailed: the kernel refuses.
    """
    hide = options.present and options.hide_processes
    found = next((mount.options for mount in read_mounts(root) if mount.mountpoint == "/proc"), ())
    if hide == any(option in _HIDDEN for option in found):
        return []
    mount_options = f"hidepid=2,gid={_readers_gid()}" if hide else "hidepid=0,gid=0"
    # If /proc is not in the list of mounts, as in a captured tree, its options are not known.
    if not check and found:
        must(run(["mount", "-o", f"remount,{mount_options}", "/proc"]))
    return [f"mount /proc with {mount_options}"] if found else []


def _readers_gid() -> int:
    try:
        return grp.getgrnam(OPERATORS).gr_gid
    except KeyError:
        return 0
