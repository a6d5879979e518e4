# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls the installed hpcnode of a node, if its code is identical to that of the controller.

This avoids sending the code again: a module that imports half of the node core is a zip file of several hundred KiB,
which Ansible sends to each node for each task. The content is compared, because the version does not prove it.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

CORE = Path(__file__).resolve().parents[1] / "module_utils/_node"
HPCNODE = "/usr/bin/hpcnode"
OTHER_CODE = 96
"""Exit status of the command below if hpcnode is missing or its code differs. hpcnode itself uses 0 to 3."""
# The digest covers the output of sha256sum, with one line per file, sorted by path.
_COMMAND = """\
cd /usr/lib/hpcai/lib/hpcai_node 2>/dev/null || exit {other}
found=$(find . -name '*.py' -type f -exec sha256sum {{}} + | LC_ALL=C sort -k 2 | sha256sum)
test "${{found%% *}}" = {digest} || exit {other}
cd / && exec {words}"""


@dataclass(frozen=True)
class Answer:
    """Output of hpcnode.

    :ivar document: the object that ``--json`` prints.
    :ivar problems: the lines on standard error, without the prefix ``hpcnode``.
    """

    document: dict[str, Any]
    problems: list[str]


def core_digest(core: Path = CORE) -> str:
    """Return the SHA-256 of all files of the node core, as the command on a node computes it."""
    files = sorted(f"./{path.relative_to(core).as_posix()}" for path in core.rglob("*.py"))
    lines = (f"{hashlib.sha256((core / path).read_bytes()).hexdigest()}  {path}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def command(words: Sequence[str], digest: str, python: str = "") -> str:
    """Return the shell command that runs hpcnode with these arguments, if its code has that digest.

    :param python: the Python to use instead of that in the first line of hpcnode.
    """
    program = [python, "-I", HPCNODE] if python else [HPCNODE]
    return _COMMAND.format(other=OTHER_CODE, digest=digest, words=shlex.join([*program, "--json", *words]))


class InstalledAction(ActionBase):
    """Runs an internal module with the installed hpcnode if possible, else like any other module.

    Before the installation, for example in check mode of a first run, there is no hpcnode.
    """

    TRANSFERS_FILES = False

    def spec(self) -> Mapping[str, Any]:
        """Return the module's argument_spec."""
        raise NotImplementedError

    def words(self, options: Mapping[str, Any]) -> list[str] | None:
        """Return the arguments of hpcnode for these options, or None if only the module supports them."""
        raise NotImplementedError

    def python(self, task_vars: Mapping[str, Any]) -> str | None:
        """Return the Python that runs hpcnode, empty for that of its first line, or None to run the module instead."""
        return ""

    def result(self, answer: Answer, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the module's result, with ``msg`` if it is a failure, or None if the module must run."""
        raise NotImplementedError

    def module(self, options: Mapping[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run the module, and return its result."""
        result: dict[str, Any] = self._execute_module(task_vars=task_vars, wrap_async=self._task.async_val)
        return result

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run hpcnode, or else the module."""
        base_result = super().run(tmp, task_vars)
        _valid, options = self.validate_argument_spec(self.spec())
        words, python = self.words(options), self.python(task_vars or {})
        answer = None
        if words is not None and python is not None and not self._task.async_val:
            answer = call(self, words, python)
        result = self.result(answer, options) if answer else None
        if result is None:
            return {**base_result, **self.module(options, task_vars or {})}
        return {**base_result, **result, "failed": "msg" in result}


def call(action: ActionBase, words: Sequence[str], python: str = "") -> Answer | None:
    """Run the installed hpcnode on the task's host. Return None if its code differs, or if it did not answer.

    An hpcnode with other code is not run. Other errors are ignored here, because the module will report them.
    """
    done = action._low_level_execute_command(command(words, core_digest(), python))
    try:
        document = json.loads(done["stdout"])
        status = document["status"]
    except (ValueError, TypeError, KeyError):
        return None
    if status != done["rc"] or "error" in document:
        return None
    lines = (line.strip() for line in done["stderr"].splitlines())
    return Answer(document, [line.split(": ", 1)[1] for line in lines if line.startswith("hpcnode ") and ": " in line])
