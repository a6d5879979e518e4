# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""hpcnode arbiter: drains nodes that fail health checks, on the controller."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from typing import Any, Callable

from ..machine.atomic import require_readable
from ..machine.config import ConfigError
from ..machine.root import Root
from ..machine.run import run
from ..slurm.arbiter.settings import FILE, Settings, read_settings
from .command import BAD, GOOD, UNKNOWN, Action, Answer, Command, no_arguments, require_this_machine
from .service import alone, print_lines

_DESCRIPTION = """\
The arbiter runs on the controller. It reads the nodes' reports, drains nodes that fail, and resumes them when they are
repaired. It changes only its own drain reasons ('hpcai: health: ...'), and drains no more nodes than its drain limit
allows. The role hpcai.azure.health_checks writes its settings to /etc/hpcai/health_arbiter.json.

Nodes send their reports with 'hpcnode health report'. If something that every job needs is missing before a job,
'hpcnode health prolog' on the node asks the arbiter to drain the node.
"""
_STATUSES = """\
Exit status: 0 nothing to do, 1 an operator has to act, 2 not all nodes report, or the arbiter does not run.
"""
_STATUS = f"""\
Shows the result of the arbiter's last pass: drained nodes, nodes that the drain limit keeps in service, nodes that do
not report, and nodes marked for replacement.

{_STATUSES}"""
_LOOK = f"""\
Reads the reports once and acts on them. Use it where the arbiter does not run as a service. --check only shows what it
would do.

{_STATUSES}"""
_SERVE = """\
Reads the reports and acts on them repeatedly. hpcai-health-arbiter.service calls it.
"""
_MISSED = 6
"""After this many missed looks, the service counts as not running."""


def _add_look(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="only show what would be done")


def _add_prolog(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--within", type=float, metavar="SECONDS", help="timeout in seconds (60)")


def _execute(args: argparse.Namespace) -> Answer:
    root = Root(args.root)
    if args.action != "status":
        require_this_machine(root, f"arbiter {args.action}")
    return _ACTIONS[args.action](args, root)


def _settings(root: Root) -> Settings:
    settings = read_settings(root)
    if settings is None:
        raise ConfigError(f"no {FILE}: no arbiter runs here; the role hpcai.azure.health_checks sets one up")
    return settings


# Each action imports only what it needs, because a job waits for the prolog.
def _status(_args: argparse.Namespace, root: Root) -> Answer:
    from ..slurm.arbiter import status

    settings = _settings(root)
    require_readable(root, os.path.dirname(status.STATUS_FILE))
    document = status.read_status(root)
    if document is None:
        raise ConfigError("the arbiter has not run yet: see 'systemctl status hpcai-health-arbiter'")
    age = time.time() - document["time"]
    if age > _MISSED * settings.interval_s + 60:
        words = f"the arbiter last ran {int(age)} s ago: see 'systemctl status hpcai-health-arbiter'"
        return Answer(UNKNOWN, "\n".join([words, *status.lines(document)]), {**document, "runs": False})
    return _answer(document, {"runs": True})


def _answer(document: Mapping[str, Any], more: Mapping[str, Any]) -> Answer:
    from ..slurm.arbiter.status import is_bad, lacks_data, lines

    status = BAD if is_bad(document) else UNKNOWN if lacks_data(document) else GOOD
    return Answer(status, "\n".join(lines(document)), {**document, **more})


def _look(args: argparse.Namespace, root: Root) -> Answer:
    from ..slurm.arbiter.reconcile import LOCK, reconcile

    settings = _settings(root)
    if args.check:
        looked = reconcile(root, run, settings, time.time(), check=True)
    else:
        with alone(root, LOCK, "arbiter", "hpcai-health-arbiter"):
            looked = reconcile(root, run, settings, time.time())
    answer = _answer(looked.status, {"check": args.check})
    words = [f"would be done: {one.words}" if args.check else one.words for one in looked.done]
    return Answer(answer.status, "\n".join([*words, answer.text]), answer.data)


def _serve(_args: argparse.Namespace, root: Root) -> Answer:
    from ..slurm.arbiter.reconcile import LOCK, reconcile_forever

    settings = _settings(root)
    with alone(root, LOCK, "arbiter", "hpcai-health-arbiter"):
        return print_lines(reconcile_forever(root, run, settings))


# Units and prolog scripts of release 0.1.0 call 'arbiter tell' and 'arbiter prolog' until site.yml replaces them.
def _report(_args: argparse.Namespace, root: Root) -> Answer:
    from . import health

    return health.report(root)


def _prolog(args: argparse.Namespace, root: Root) -> Answer:
    from . import health

    return health.prolog(root, args.within)


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Root], Answer]] = {
    "status": _status,
    "look": _look,
    "serve": _serve,
    "tell": _report,
    "prolog": _prolog,
}

COMMAND = Command(
    name="arbiter",
    summary="which nodes are drained for failed health checks, on the controller",
    description=_DESCRIPTION,
    add_arguments=no_arguments,
    execute=_execute,
    actions=(
        Action("status", "show the result of the last pass", _STATUS),
        Action("look", "read the reports once and act on them", _LOOK, _add_look),
        Action("serve", "read the reports and act on them repeatedly, as a service", _SERVE),
        # Now 'health report' and 'health prolog'.
        Action("tell", "report the results to slurmctld", listed=False),
        Action("prolog", "find out whether a job may start on this node", "", _add_prolog, listed=False),
    ),
    default="status",
)
