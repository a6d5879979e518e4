# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the product's code with a tree of files as the live root: played.py ROOT WHAT ARGUMENT.

`module` runs main() of gpu_clocks with options, `command` runs `hpcnode clocks`, `processes` lists processes on GPUs,
`health` reads the GPUs' health, `step` performs the boot step `gpu` with prepared answers to its commands.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from ansible.module_utils.testing import patch_module_args

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps import gpu as gpu_step
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import clocks as command
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.parsing.parser import build_parser
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.gpus import Gpus
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.gpu import GpuError, compute_processes
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.modules import gpu_clocks


class Played(Root):
    """A tree that pretends to be this machine."""

    def __init__(self, path: str = "/") -> None:
        super().__init__(sys.argv[1] if path == "/" else path)
        self.tree = path == "/"

    @property
    def is_this_machine(self) -> bool:
        return self.tree

    def at(self, path: str) -> str:
        return os.path.join(self.path, path.lstrip("/"))


def step(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Perform the step `gpu`. Commands without a prepared answer do not exist; a loaded module appears in sysfs."""
    ran: list[str] = []

    def run(command: Sequence[str]) -> Result:
        ran.append(" ".join(command))
        rc, said = asked["answers"].get(ran[-1], (127, f"{command[0]}: command not found"))
        if command[0] == "modprobe" and rc == 0:
            os.makedirs(Played().at(f"/sys/module/{command[1]}"), exist_ok=True)
        return Result(tuple(command), rc, said if rc == 0 else "", said if rc else "")

    outcome = gpu_step.STEP.perform(Context(Played(), run, asked["check"], asked["seconds"]))
    return {**asdict(outcome), "ran": ran}


def health(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Read the GPUs' health by each method in turn; an error is returned as its kind and message."""
    gpus = Gpus(Played(), asked["limit_s"])
    answers: dict[str, Any] = {}
    for question in asked["questions"]:
        try:
            found = getattr(gpus, question)()
            answers[question] = found if isinstance(found, dict) else [_plain(one) for one in found]
        except GpuError as error:
            answers[question] = {"error": [error.kind, str(error)]}
    gpus.close()
    return answers


def _plain(one: Any) -> Any:
    return asdict(one) if is_dataclass(one) and not isinstance(one, type) else one


def main() -> int:
    """Do what the arguments say."""
    what, argument = sys.argv[2], json.loads(sys.argv[3])
    gpu_clocks.Root = command.Root = Played  # type: ignore[misc]
    if what == "module":
        with patch_module_args(argument):
            gpu_clocks.main()
    if what == "step":
        json.dump(step(argument), sys.stdout)
    if what == "health":
        json.dump(health(argument), sys.stdout)
    if what == "processes":
        json.dump(compute_processes(Played()), sys.stdout)
    if what == "command":
        answer = command.COMMAND.execute(build_parser([command.COMMAND]).parse_args(["clocks", *argument]))
        json.dump({"status": answer.status, "text": answer.text, "data": dict(answer.data)}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
