# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Read, plan, write and load, for the module metadata_access."""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.bpf import BpfError
from ...machine.proxy_agent import read_proxy_agent
from ...machine.root import Root
from ...machine.run import Run, must
from .. import daemon
from ..managed_file import FileChange, apply_all, change_of
from ..tools.services import EVENTS
from . import connect
from .options import SETTINGS, MetadataOptions, MetadataProblem, as_text, uids_of
from .rules import DROP_IN, HPCNODE, NFT, RULES, SERVICE, TABLE, UNIT, RulesUnreadable, difference, drop_in, rules, unit

OPEN = (
    "every user of this machine can reach the metadata service: a job can take the node's identity, and read with it "
    "whatever the node can read, such as the munge key in a key vault"
)

_VERSION = "/usr/lib/hpcai/lib"
"""The link is replaced when another version of hpcnode is installed."""


@dataclass(frozen=True)
class MetadataPlan:
    """What has to be done.

    :ivar files: in the order in which they are written or removed.
    :ivar verbs: systemctl verbs for the service that loads the rules.
    :ivar events: systemctl verbs for the service that passes scheduled events on.
    :ivar reasons: reasons other than changed files.
    :ivar removes: whether to remove the rules from the kernel.
    """

    files: tuple[FileChange, ...] = ()
    verbs: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    removes: bool = False

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.files or self.verbs or self.events or self.removes)


def plan(root: Root, options: MetadataOptions, run: Run, may_come: bool = False) -> MetadataPlan:
    """Return the changes for these options.

    :param may_come: whether packages may still be missing, as in check mode before the first run.
    :raises MetadataProblem: a user does not exist, or nft is not installed.
    :raises CommandFailed: systemd does not answer.
    """
    if not options.guard:
        return _removal(root, options, run)
    if not root.exists(NFT) and not may_come:
        raise MetadataProblem(f"{root.at(NFT)} is missing. Install the package nftables")
    text = rules(uids_of(root, options.users), read_proxy_agent(root) is not None)
    files = _changes(root, {RULES: text, SETTINGS: as_text(options), UNIT: unit(), DROP_IN: drop_in(options)})
    facts = daemon.read_facts(SERVICE, [], run)
    changed = {file.path for file in files}
    verbs = [] if facts.enabled else ["enable"]
    if facts.at_rest:
        return MetadataPlan(files, tuple(verbs))
    if facts.needs_daemon_reload or changed & {root.at(UNIT), root.at(DROP_IN)}:
        verbs.insert(0, "daemon-reload")
    differs = _differs(text, run, may_come) or _unfiltered(root, options)
    if facts.active != "active":
        verbs.append("start")
    elif differs or root.at(RULES) in changed:
        # Not a restart: slurmd requires the service, and would restart too.
        verbs.append("reload")
    return MetadataPlan(files, tuple(verbs), _events(options, run), (differs,) if differs else ())


def apply(made: MetadataPlan, run: Run) -> None:
    """Make the changes.

    :raises CommandFailed: the rules cannot be loaded or removed.
    :raises OSError: a file cannot be written.
    """
    if made.removes:
        _remove(made, run)
    else:
        apply_all(made.files)
        daemon.apply(SERVICE, daemon.Plan(made.verbs, made.reasons), run)
    daemon.apply(EVENTS, daemon.Plan(made.events, ()), run)


def _events(options: MetadataOptions, run: Run) -> tuple[str, ...]:
    """Plan the service that passes scheduled events on, which users need when they cannot query them any more."""
    if not options.events:
        return ()
    facts = daemon.read_facts(EVENTS, [_VERSION], run)
    return daemon.plan(facts, daemon.DesiredState(running=True, enabled=True), may_come=True).verbs


def _differs(text: str, run: Run, may_come: bool) -> str:
    try:
        return difference(text, run)
    except RulesUnreadable as error:
        if not may_come:
            raise MetadataProblem(str(error)) from None
        return str(error)


def _unfiltered(root: Root, options: MetadataOptions) -> str:
    """Return what is missing in the filter; nothing if the kernel does not answer, as in a container."""
    try:
        return connect.difference(root, options.users) if root.exists(HPCNODE) else ""
    except BpfError:
        return ""


def _removal(root: Root, options: MetadataOptions, run: Run) -> MetadataPlan:
    # The drop-in first: nftables.service must not look for a file that was removed.
    files = _changes(root, {DROP_IN: None, SETTINGS: as_text(options), UNIT: None, RULES: None})
    loaded = run(["nft", "list", "table", "inet", TABLE]).rc == 0
    events = _events(options, run)
    removes = loaded or connect.is_attached(root) or any(file.after is None for file in files)
    return MetadataPlan(files, events=events, removes=removes)


def _remove(made: MetadataPlan, run: Run) -> None:
    # Failures are ignored, because systemd may not run, or the service may not exist any more.
    run(["systemctl", "disable", SERVICE])
    run([HPCNODE, "metadata", "detach"])
    apply_all(made.files)
    for command in (["systemctl", "daemon-reload"], ["systemctl", "stop", SERVICE]):
        run(command)
    if run(["nft", "list", "table", "inet", TABLE]).rc == 0:
        must(run(["nft", "delete", "table", "inet", TABLE]))


def _changes(root: Root, texts: dict[str, str | None]) -> tuple[FileChange, ...]:
    changes = (change_of(root.at(path), text) for path, text in texts.items())
    return tuple(change for change in changes if change.changes)
