# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether a containerised step runs in its container: another os-release and another mount namespace than the host's.

Where plugstack.conf does not reach a node, a job with --container-image runs on the host, and ends well. Both halves
run in one job, on the same nodes: a job may have a mount namespace of its own without any container.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...machine.run import Run

# In an image there may be no more than a shell and cat. Its first line names the node, on both sides.
_PROBE = 'echo "$SLURMD_NODENAME"; readlink /proc/self/ns/mnt; cat /etc/os-release'
_LIMIT_MIN = 10


@dataclass(frozen=True)
class Side:
    """What a step saw on one node."""

    namespace: str
    release: str

    @property
    def name(self) -> str:
        """The distribution, for people."""
        for line in self.release.splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip().strip("\"'")
        return "a system without a name"


def outer(program: list[str], nodes: int) -> list[str]:
    """Return the command that gives ``program`` a job."""
    return ["salloc", "--quiet", f"--nodes={nodes}", f"--time={_LIMIT_MIN}", "--job-name=container-check", *program]


def probe(image: str | None, run: Run) -> tuple[dict[str, Side], str]:
    """Run the probe on each node of this job, in a container of ``image``, or without one on the host.

    :return: what was seen by node, and what srun said where it failed.
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
        lines[0]: Side(lines[1], "\n".join(lines[2:]))
        for lines in lines_by_rank.values()
        if len(lines) > 2 and lines[0]
    }
    errors = [line for line in answer.stderr.splitlines() if line.strip()]
    return sides, "" if answer.rc == 0 else (errors[0] if errors else f"exit status {answer.rc}")


def judge(host: dict[str, Side], container: dict[str, Side]) -> list[str]:
    """Return what is wrong, a line for each node; nothing where each container was one."""
    problems = [f"{node}: the step in the container gave no answer" for node in sorted(set(host) - set(container))]
    for node in sorted(set(host) & set(container)):
        outside, inside = host[node], container[node]
        if inside.namespace == outside.namespace:
            problems.append(
                f"{node}: the step ran on the host, not in the container: its mount namespace is the host's "
                f"({inside.namespace}), and it saw {inside.name}"
            )
        elif inside.release == outside.release:
            problems.append(
                f"{node}: the step saw the host's os-release ({inside.name}): take an image of another system"
            )
    return problems or ([] if host else ["no node gave an answer"])
