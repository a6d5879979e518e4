# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Shared file systems: mounted from where they should be, and their servers answer.

Each is asked in a thread of its own. One whose server is away holds up nobody who asks for another one; it is named,
and its thread is left behind.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence

from ...machine.config import read_config
from ...machine.mounts import read_mounts
from ...setup.shared_fs.mounting import CONFIG
from ..check import DEEP, FAIL, OBSERVE, PERIODIC, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading

_SILENT = "silent"
_REST_S = 1.0
"""Seconds of the check's time that are not spent on waiting."""


def _measure(context: Context) -> Answer:
    wanted = _wanted(context)
    if not wanted:
        return Answer(skipped="no shared file systems are named: role shared_fs, or option paths of check mounts")
    patience = min(context.settings.option(CHECK, "seconds"), max(context.seconds - _REST_S, 0.1))
    answers = _ask([context.root.at(path) for path in wanted], patience)
    silent_before = context.history.get(_SILENT) or []
    silent: list[str] = []
    readings: list[Reading] = []
    findings: list[Finding] = []
    # Read after they were asked: some are mounted only when somebody looks.
    mounts = {mount.mountpoint: mount for mount in read_mounts(context.root) if mount.filesystem != "autofs"}
    for path, source in wanted.items():
        answer = answers.get(context.root.at(path))
        mount = mounts.get(path)
        if answer is None:
            silent.append(path)
            findings.append(_silence(path, source, patience, path in silent_before))
            continue
        if isinstance(answer, float):
            readings.append(Reading("mount_answer", round(answer, 3), "s", path, patience, at_most=True))
        if mount is None:
            words = f"{path} is not mounted{f' from {source}' if source else ''}"
            findings.append(Finding(FAIL, words, path, f"Run 'mount {path}' or 'systemctl start' of its unit"))
        elif isinstance(answer, OSError):
            words = f"{path} does not work: {answer.strerror}"
            findings.append(Finding(FAIL, words, path, "Unmount it and mount it again; look at its server"))
        elif source and mount.source.rstrip("/") != source.rstrip("/"):
            words = f"{path} is mounted from {mount.source} instead of {source}"
            findings.append(Finding(WARN, words, path, "Unmount it, and mount what the settings say"))
    context.history.keep(_SILENT, silent)
    return Answer(
        good=f"{len(wanted)} shared file systems are mounted and answer",
        readings=tuple(readings),
        findings=tuple(findings),
        limit=f"an answer within {patience:g} s (option seconds)",
    )


def _wanted(context: Context) -> dict[str, str]:
    """Return the mounts that there should be: path and source, which is empty where nobody says."""
    recorded = (read_config(context.root, CONFIG) or {}).get("mounts") or []
    wanted = {str(mount["path"]): str(mount.get("source") or "") for mount in recorded}
    named: Sequence[object] = context.settings.option(CHECK, "paths")
    return {**{str(path).rstrip("/"): "" for path in named}, **wanted}


def _ask(paths: Sequence[str], patience: float) -> Mapping[str, float | OSError]:
    """Return the seconds after which each file system answered, or its error; those that do not answer are left out."""
    answers: dict[str, float | OSError] = {}

    def ask(path: str) -> None:
        begun = time.monotonic()
        try:
            os.statvfs(path)
            answers[path] = time.monotonic() - begun
        except OSError as error:
            answers[path] = error

    threads = [threading.Thread(target=ask, args=(path,), daemon=True) for path in paths]
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    # What comes in late has not come.
    return dict(answers)


def _silence(path: str, source: str, patience: float, again: bool) -> Finding:
    of = f" ({source})" if source else ""
    words = f"{path}{of} does not answer within {patience:g} s{', twice running' if again else ''}"
    hint = "Look at its server and at the network to it; who works there waits"
    return Finding(FAIL if again else UNKNOWN, words, path, hint)


CHECK = Check(
    name="mounts",
    title="Shared file systems",
    explain=(
        "Each file system of role shared_fs and each path of option paths is mounted, from the source that the "
        "settings name, and answers (statvfs) within option seconds, 3 by default. One that does not is unknown, and "
        "fails when it does not answer twice running; the others are judged all the same."
    ),
    tiers=(PERIODIC, DEEP),
    measure=_measure,
    limit_s=5.0,
    action=OBSERVE,
    options={"seconds": 3.0, "paths": []},
)
