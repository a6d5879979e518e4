# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Check whether a containerized step runs in its container: with another os-release and mount namespace than the host.

If a node does not read plugstack.conf, a job with --container-image runs on the host and succeeds. The step on the
host and the step in the container run in one job, because a job may have its own mount namespace without a container.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.run import Run

# An image may contain only a shell and cat. The first line is the node's name, on the host and in the container.
_PROBE = 'echo "$SLURMD_NODENAME"; readlink /proc/self/ns/mnt; cat /etc/os-release'
_LIMIT_MIN = 10


@dataclass(frozen=True)
class StepFacts:
    """What a step saw on one node."""

    namespace: str
    release: str

    @property
    def name(self) -> str:
        """The distribution's name, for messages."""
        for line in self.release.splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip().strip("\"'")
        return "an unnamed distribution"


def outer(program: list[str], nodes: int) -> list[str]:
    """Return the command that runs ``program`` in a job."""
    return ["salloc", "--quiet", f"--nodes={nodes}", f"--time={_LIMIT_MIN}", "--job-name=container-check", *program]


def probe(image: str | None, run: Run) -> tuple[dict[str, StepFacts], str]:
    """Run the probe on each node of this job, in a container of ``image``, or without one on the host.

    :return: the results by node, and srun's error message if it failed.
    """
    container = [f"--container-image={image}"] if image else []
    answer = run(["srun", "--mpi=none", "--ntasks-per-node=1", "--label", *container, "sh", "-c", _PROBE])
    lines_by_rank: dict[str, list[str]] = {}
    for line in answer.stdout.splitlines():
        rank, colon, text = line.partition(":")
        if colon and rank.strip().isdecimal():
            # srun puts one space after the colon.
            lines_by_rank.setdefault(rank.strip(), []).append(text[1:] if text.startswith(" ") else text)
    sides = {
        lines[0]: StepFacts(lines[1], "\n".join(lines[2:]))
        for lines in lines_by_rank.values()
        if len(lines) > 2 and lines[0]
    }
    errors = [line for line in answer.stderr.splitlines() if line.strip()]
    return sides, "" if answer.rc == 0 else (errors[0] if errors else f"exit status {answer.rc}")


def judge(host: dict[str, StepFacts], container: dict[str, StepFacts]) -> list[str]:
    """Return the problems, one line for each node; empty if each container step ran in its container."""
    problems = [f"{node}: the step in the container did not answer" for node in sorted(set(host) - set(container))]
    for node in sorted(set(host) & set(container)):
        outside, inside = host[node], container[node]
        if inside.namespace == outside.namespace:
            problems.append(
                f"{node}: the step ran on the host, not in the container: its mount namespace is the host's "
                f"({inside.namespace}), and it saw {inside.name}"
            )
        elif inside.release == outside.release:
            problems.append(
                f"{node}: the step saw the host's os-release ({inside.name}). Use an image of another distribution"
            )
    return problems or ([] if host else ["no node answered"])
