# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode clocks: shows the GPUs' clocks, or sets them as the settings file says."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from ..machine.config import FOLDER
from ..machine.gpu import GpuError, connect
from ..machine.lock import Locked
from ..machine.root import Root
from ..setup import clocks
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, UsageError, no_arguments

_DESCRIPTION = """\
Shows or sets the clocks of the node's NVIDIA GPUs.

The Ansible module hpcai.azure.gpu_clocks writes /etc/hpcai/clocks.json if persistent: true is set. This command records
locked clocks in /run/hpcai/clocks.json, because the driver has no function that reads them back. It works on the
running machine only, because it needs the driver.
"""
_STATUSES = """\
Exit status: 0 the clocks are as wanted, 1 they are not, or a GPU failed, 2 there is no driver, or it does not answer, 3
wrong usage.
"""
_STATUS = f"""\
Shows the clocks, and whether they match /etc/hpcai/clocks.json. It changes nothing.

{_STATUSES}"""
_APPLY = f"""\
Sets the clocks of /etc/hpcai/clocks.json. Without that file it does nothing.

{_STATUSES}"""
_RESET = f"""\
Resets application clocks and locked clocks of all GPUs. The next boot applies /etc/hpcai/clocks.json again.

{_STATUSES}"""

_JOB_START = """\
Sets the highest clocks on the GPUs of a job that asks for them (--constraint=maxclocks). The prolog 25-clocks calls it.
If the epilog of an earlier job did not run, it also restores the clocks of these GPUs. A failure is only reported,
because the job can run with other clocks too.

Exit status: 0 done, or not asked for, 2 the clocks could not be set.
"""
_JOB_END = """\
Restores the clocks of /etc/hpcai/clocks.json on the GPUs of a job, or the default clocks without that file. The epilog
25-clocks calls it.

Exit status: 0 done, or nothing to do, 2 the clocks could not be set.
"""


def _for_job(args: argparse.Namespace) -> Answer:
    # Imported here, because only a prolog and an epilog need it.
    from ..job.clocks import end, start

    root = Root(args.root)
    if not root.is_this_machine:
        raise UsageError(f"clocks {args.action} works on the running machine only: leave out --root")
    try:
        done = (start if args.action == "job-start" else end)(os.environ, root)
    except (GpuError, Locked, OSError) as error:
        return Answer(UNKNOWN, f"the clocks could not be set: {error}", {"changed": [], "problems": [str(error)]})
    text = "\n".join([done.words, *done.problems])
    return Answer(
        UNKNOWN if done.problems else GOOD, text, {"changed": list(done.changed), "problems": list(done.problems)}
    )


def _execute(args: argparse.Namespace) -> Answer:
    if args.action in ("job-start", "job-end"):
        return _for_job(args)
    root = Root(args.root)
    options = clocks.read_options(root)
    if not root.is_this_machine:
        if args.action != "status":
            raise UsageError(f"clocks {args.action} works on the running machine only: leave out --root")
        words = f"no driver can be queried below {root.path}: leave out --root"
        return Answer(UNKNOWN, words, {"wanted": _options(options), "gpus": []})
    if args.action == "apply" and options is None:
        text = f"there is no {FOLDER}/clocks.json: nothing to do"
        return Answer(GOOD, text, {"wanted": None, "changed": False, "gpus": []})
    desired = clocks.ClockOptions(state="default", on_unsupported="warn") if args.action == "reset" else options
    try:
        return _ensure(root, desired, options, args.action == "status")
    except GpuError as error:
        return Answer(UNKNOWN, str(error), {"wanted": _options(options), "error": error.kind, "gpus": []})


def _options(options: clocks.ClockOptions | None) -> dict[str, Any] | None:
    return None if options is None else options.as_options()


def _ensure(
    root: Root, desired: clocks.ClockOptions | None, options: clocks.ClockOptions | None, check: bool
) -> Answer:
    # Without settings, status computes the change to the defaults only to read the clocks, and ignores that change.
    asked = desired or clocks.ClockOptions(state="default")
    driver = connect(root, asked.timeout)
    try:
        outcome = clocks.ensure(root, driver, asked, check_mode=check)
    except (Locked, ValueError) as error:
        return Answer(BAD, str(error), {"wanted": _options(options), "gpus": []})
    finally:
        driver.close()
    lost = any(gpu["failed"] for gpu in outcome.gpus)
    off = bool(outcome.problems) or (check and desired is not None and outcome.changed)
    data: dict[str, Any] = {
        "via": outcome.via,
        "wanted": _options(options),
        "as_wanted": not off if desired else None,
        "changed": outcome.changed and not check,
        "gpus": list(outcome.gpus),
        "problems": list(outcome.problems),
        "warnings": list(outcome.warnings) if desired else [],
    }
    change = "NOT as wanted" if check else "changed"
    lines = [_line(gpu, change if desired else "") for gpu in outcome.gpus]
    lines += [f"failed: {problem}" for problem in outcome.problems] if desired else []
    lines += [f"warning: {warning}" for warning in data["warnings"]]
    if desired is None:
        lines.append(f"there is no {FOLDER}/clocks.json: no clocks are set")
    return Answer(BAD if off or lost else GOOD, "\n".join(lines), data)


def _line(gpu: Mapping[str, Any], change: str) -> str:
    where = f"GPU {gpu['index']} {gpu['busid'] or '?'}"
    if gpu["failed"]:
        return f"{where}: {gpu['msg']}"
    shown = gpu["clocks"]
    parts = [f"{name} {_pair(shown[key])}" for name, key in _SHOWN if shown[key] is not None]
    if gpu["mig"]:
        parts.append("MIG")
    if gpu["persistence"] is False:
        parts.append("persistence mode off")
    if gpu["changed"]:
        parts.append(change)
    return f"{where}: {', '.join(word for word in parts if word)}"


_SHOWN = (
    ("current", "current"),
    ("application", "application"),
    ("locked (recorded)", "locked"),
    ("highest", "highest"),
)


def _pair(clocks_mhz: Mapping[str, int | None]) -> str:
    if not any(clocks_mhz.values()):
        return "none"
    return f"{clocks_mhz['memory_mhz'] or '-'}/{clocks_mhz['graphics_mhz'] or '-'} MHz"


COMMAND = Command(
    name="clocks",
    summary="show or set the GPUs' clocks",
    description=_DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=(
        Action("status", "show the clocks, and whether they match the settings", _STATUS),
        Action("apply", "set the clocks of the settings", _APPLY),
        Action("reset", "reset all clocks", _RESET),
        Action("job-start", "set the clocks that a job asks for", _JOB_START),
        Action("job-end", "undo what job-start did", _JOB_END),
    ),
    default="status",
)
