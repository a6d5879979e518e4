# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The one runner through which commands go out."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Result:
    """What a command answered: exit status and both outputs."""

    command: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str


Run = Callable[[Sequence[str]], Result]
"""Anything that runs a command; tests pass a recorded one."""


class CommandFailed(RuntimeError):
    """A command that had to succeed did not; the message names it and what it said."""


_BURIAL_S = 1.0
"""How long a killed command is waited for, in seconds."""


def run(command: Sequence[str], timeout_s: float = 120) -> Result:
    """Run ``command`` without a shell, in the C locale and UTC, and return what it answered.

    A command that is missing gives exit status 127, one that cannot be executed 126, one that outlasts ``timeout_s``
    seconds is killed and gives 124. It has no standard input, so it cannot wait for an answer.
    """
    env = {**os.environ, "LC_ALL": "C", "LANG": "C", "TZ": "UTC"}
    try:
        # This core knows nothing of Ansible: there is no AnsibleModule here whose run_command could be called.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            list(command),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        return Result(tuple(command), 127, "", f"{command[0]}: command not found")
    except OSError as error:
        return Result(tuple(command), 126, "", f"{command[0]}: {error.strerror}")
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _give_up(process)
        return Result(tuple(command), 124, "", f"no answer within {timeout_s:g} s")
    except BaseException:
        _give_up(process)
        raise
    return Result(tuple(command), process.returncode, stdout, stderr)


def _give_up(process: subprocess.Popen[str]) -> None:
    """Kill a process, and wait for it briefly: one that sits in a driver does not even die, and waiting would hang."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_BURIAL_S)
    for output in (process.stdout, process.stderr):
        if output:
            output.close()


def must(result: Result) -> Result:
    """Return ``result`` if the command succeeded.

    :raises CommandFailed: it did not.
    """
    if result.rc != 0:
        said = (result.stderr.strip() or result.stdout.strip() or "nothing").splitlines()[-1]
        raise CommandFailed(f"'{' '.join(result.command)}' failed (exit status {result.rc}): {said}")
    return result


def wait_until(done: Callable[[], bool], seconds: float, pause_s: float = 1.0) -> bool:
    """Look until ``done`` says so, at least once, and for no longer than ``seconds``; return what it said last."""
    deadline = time.monotonic() + seconds
    while not done():
        rest = deadline - time.monotonic()
        if rest <= 0:
            return False
        time.sleep(min(pause_s, rest))
    return True
