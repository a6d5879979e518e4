# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Call the hpcnode that is installed on a node, where its code is ours to the byte.

Then the code need not travel once more: a module that imports half of the node core is sent as a zip file of several
hundred KiB, to each node and for each task. Versions are not compared: only the content tells what runs.
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
"""Exit status of the command below where hpcnode is missing or is not ours. hpcnode itself uses 0 to 3."""
# One line a file, sorted by path: what sha256sum prints.
_COMMAND = """\
cd /usr/lib/hpcai/lib/hpcai_node 2>/dev/null || exit {other}
found=$(find . -name '*.py' -type f -exec sha256sum {{}} + | LC_ALL=C sort -k 2 | sha256sum)
test "${{found%% *}}" = {digest} || exit {other}
cd / && exec {words}"""


@dataclass(frozen=True)
class Answer:
    """What hpcnode answered.

    :ivar document: the object that ``--json`` prints.
    :ivar problems: the lines that it wrote to standard error, without its own name.
    """

    document: dict[str, Any]
    problems: list[str]


def core_digest(core: Path = CORE) -> str:
    """Return one SHA-256 over all files of the node core, as the command on a node finds it."""
    files = sorted(f"./{path.relative_to(core).as_posix()}" for path in core.rglob("*.py"))
    lines = (f"{hashlib.sha256((core / path).read_bytes()).hexdigest()}  {path}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def command(words: Sequence[str], digest: str, python: str = "") -> str:
    """Return the shell command that calls hpcnode with these words, if it is the one of that digest.

    :param python: runs it in place of the one in its first line.
    """
    program = [python, "-I", HPCNODE] if python else [HPCNODE]
    return _COMMAND.format(other=OTHER_CODE, digest=digest, words=shlex.join([*program, "--json", *words]))


class InstalledAction(ActionBase):
    """An internal module that runs by the installed hpcnode where it can, and else as every module does.

    Before the install, in check mode of a first run for example, there is nothing that could be called.
    """

    TRANSFERS_FILES = False

    def spec(self) -> Mapping[str, Any]:
        """Return the module's argument_spec."""
        raise NotImplementedError

    def words(self, options: Mapping[str, Any]) -> list[str] | None:
        """Return how hpcnode is called for these options; None where only the module can do what they say."""
        raise NotImplementedError

    def python(self, task_vars: Mapping[str, Any]) -> str | None:
        """Return the Python that runs hpcnode, if not that of its first line; None where the module has to find it."""
        return ""

    def result(self, answer: Answer, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what the module returns, with ``msg`` if it is a failure; None where the module has work to do."""
        raise NotImplementedError

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call hpcnode, or have the module run."""
        base_result = super().run(tmp, task_vars)
        _valid, options = self.validate_argument_spec(self.spec())
        words, python = self.words(options), self.python(task_vars or {})
        answer = None
        if words is not None and python is not None and not self._task.async_val:
            answer = call(self, words, python)
        result = self.result(answer, options) if answer else None
        if result is None:
            module = self._execute_module(task_vars=task_vars, wrap_async=self._task.async_val)
            return {**base_result, **module}
        return {**base_result, **result, "failed": "msg" in result}


def call(action: ActionBase, words: Sequence[str], python: str = "") -> Answer | None:
    """Call the installed hpcnode on the task's host; None where there is none like ours, or it did not answer.

    Nothing has been done by an hpcnode of another content. Whatever else went wrong, the module will meet it again and
    say so.
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
