# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The findings about the pinning of a job: code, severity and meaning of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..machine.cpuset import EMPTY, CpuSet

ERROR, WARNING, INFO = SEVERITIES = ("error", "warning", "info")
"""error: slow or certainly a mistake; warning: possibly slow or a mistake; info: a remark."""

CODES: Mapping[str, tuple[str, str]] = {
    "no_process": (ERROR, "no process was found"),
    "not_readable": (ERROR, "the threads of the processes cannot be read"),
    "use_unknown": (INFO, "it is unknown which GPUs ranks use"),
    "unpinned": (ERROR, "a rank may run on every CPU of a machine with several NUMA nodes"),
    "spans_nodes": (ERROR, "a rank may run on several NUMA nodes, though there are enough ranks for one on each"),
    "spans_nodes_few_ranks": (INFO, "a rank may run on several NUMA nodes, with fewer ranks than nodes"),
    "far_from_gpu": (ERROR, "a rank cannot run on its GPU's NUMA node"),
    "far_from_assumed_gpu": (WARNING, "the same, if the GPU is known only from the environment"),
    "far_from_hca": (WARNING, "a rank cannot run on the NUMA node of any adapter that it has open"),
    "overlap": (ERROR, "ranks share CPUs unintentionally"),
    "shared_domain": (INFO, "ranks share a whole NUMA node, as intended with whole_domain masks"),
    "shared_core": (WARNING, "ranks have different hardware threads of one core"),
    "threads_exceed_cpus": (INFO, "a rank has more threads than CPUs, most of them asleep"),
    "busy_threads_exceed_cpus": (WARNING, "a rank has more runnable threads than CPUs"),
    "thread_outside_mask": (WARNING, "threads may run on CPUs on which their process's main thread may not"),
    "offline_cpu": (WARNING, "a mask contains offline CPUs"),
    "uneven_spread": (WARNING, "some NUMA nodes have more ranks than their share"),
    "idle_node": (WARNING, "a NUMA node has no rank, though there are enough ranks"),
    "gpu_idle": (WARNING, "a GPU has no process, though ranks use others"),
    "gpu_shared": (WARNING, "several ranks use one GPU"),
    "rank_without_gpu": (WARNING, "a rank uses no GPU, though others do"),
    "memory_far": (WARNING, "memory of a rank is on other NUMA nodes than its CPUs"),
    "memory_policy": (WARNING, "a memory policy allocates memory on other NUMA nodes than the rank's"),
    "memory_not_allowed": (ERROR, "a rank may not allocate memory on the NUMA node of its CPUs"),
    "locality_unknown": (INFO, "the firmware does not report the NUMA node of a device"),
    "cpus_on_several_nodes": (WARNING, "the firmware lists CPUs on several NUMA nodes"),
    "cpus_without_node": (WARNING, "CPUs are on no NUMA node"),
    "cpus_restricted": (INFO, "the control group allows only some of the CPUs"),
}
"""Severity and meaning of each finding, by its code."""


class UnknownFinding(ValueError):
    """The code or severity does not exist; the message lists the valid ones."""


class NothingToJudge(ValueError):
    """``fail_on`` is set, but no process is selected."""


@dataclass(frozen=True)
class Finding:
    """A finding about the pinning.

    :ivar code: a key of ``CODES``.
    :ivar text: what was found, in one sentence.
    :ivar action: what to do about it; empty if nothing needs to be done.
    :ivar ranks: labels of the ranks involved.
    :ivar pids: their processes.
    :ivar cpus: CPUs involved.
    :ivar nodes: NUMA nodes involved.
    :ivar gpus: indices of GPUs involved.
    """

    code: str
    text: str
    action: str = ""
    ranks: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    cpus: CpuSet = EMPTY
    nodes: CpuSet = EMPTY
    gpus: CpuSet = EMPTY

    @property
    def severity(self) -> str:
        """``error``, ``warning`` or ``info``."""
        return CODES[self.code][0]


def matching(findings: Collection[Finding], names: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings whose code or severity is in ``names``."""
    return tuple(found for found in findings if {found.code, found.severity} & set(names))


def check_names(names: Collection[str], selects: bool) -> None:
    """Check that each of ``names`` is a code or a severity, and that processes are selected.

    :param selects: whether the user selected processes.
    :raises UnknownFinding: a name is neither a code nor a severity.
    :raises NothingToJudge: no process is selected, so the check would always pass.
    """
    strange = [name for name in names if name not in CODES and name not in SEVERITIES]
    if strange:
        raise UnknownFinding(
            f"{', '.join(strange)} is neither a finding's code nor a severity; "
            f"severities are {', '.join(SEVERITIES)}, codes {', '.join(CODES)}."
        )
    if names and not selects:
        raise NothingToJudge(
            "fail_on judges processes, but none are selected: set processes, pids, cgroup or slurm_job_id."
        )
