# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The form of a benchmark: over which nodes it runs, the command, and what the output means.

A benchmark returns a health check's answer (``health.check.Answer``), so that its result has the same verdicts, limits
and page as the checks. Nothing of a benchmark reaches the arbiter, so it never drains a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

from ..health.check import DEEP, FAIL, OBSERVE, UNKNOWN, WARN, Answer, Check, Finding, Reading
from ..health.settings import SITE, Settings, in_words
from ..machine.run import Result, last_line
from ..sku.types import Threshold, VmSize

TIER = "benchmark"
"""What documents and reports have as their tier."""
EACH, PAIRS, TOGETHER = ("each", "pairs", "together")
"""Over which nodes one run goes: each node alone, two nodes, or all nodes. Runs of different nodes go at the same
time."""
NOT_STARTED = (
    "Unable to allocate resources",
    "Unable to create step for job",
    "--mpi=list for acceptable types",
    "Invalid node name specified",
    "Requested nodes are busy",
    "Job violates accounting",
    "error while loading shared libraries",
    "execve():",
    "DUE TO PREEMPTION",
    "unrecognized option",
    "pyxis: couldn't",
    "pyxis: failed",
)
"""Messages of Slurm and its plugins which mean that the program did not run, so that nothing was measured."""
OVERDUE = (124, 137)
_UNUSABLE = (126, 127)


@dataclass(frozen=True)
class Options:
    """What a user chose for a run.

    :ivar size: facts of the nodes' VM size; None if it is not known: there are then no limits and no masks.
    :ivar gpus: GPUs per node; 0 without GPUs.
    :ivar container: image of the containers in which the program runs, as in srun's ``--container-image``; empty for
        the host.
    :ivar mounts: srun's ``--container-mounts``.
    :ivar program: path of the program, or of its folder; empty for the usual places.
    :ivar mpi: srun's ``--mpi``.
    :ivar slurm: more options of salloc: partition, account, reservation, constraint.
    :ivar environment: more variables of the program.
    :ivar own: the benchmark's own options (``Benchmark.options``) that were given.
    :ivar limits: limits that replace those of the VM size, by name.
    """

    size: VmSize | None = None
    gpus: int = 0
    container: str = ""
    mounts: str = ""
    program: str = ""
    mpi: str = "pmix"
    slurm: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)

    def threshold(self, name: str) -> Threshold | None:
        """Return the limit of this name: the user's, or else that of the VM size; None if neither has one."""
        return Settings(limits=self.limits).threshold(self.size, name)

    def option(self, benchmark: Benchmark, name: str) -> str:
        """Return a benchmark's own option, or its default."""
        return self.own.get(name, benchmark.options[name])


@dataclass(frozen=True)
class Step:
    """The command that srun starts on the nodes of a run.

    :ivar tasks: tasks per node.
    :ivar program: the words of the program.
    :ivar srun: options of srun, such as the CPU masks.
    :ivar environment: variables of the program.
    """

    tasks: int
    program: tuple[str, ...]
    srun: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """What a run measured.

    :ivar details: what a reader may want to see in addition: a table, the environment in force.
    """

    answer: Answer
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its manifest, its command, and the parser of its output.

    :ivar name: short and unique.
    :ivar explain: what is measured, the limit and its source, in one to three sentences.
    :ivar scope: EACH, PAIRS or TOGETHER.
    :ivar step: returns the command for these nodes.
    :ivar parse: returns what the output of a run that succeeded means. It must not raise.
    :ivar limit_s: timeout of one run in seconds.
    :ivar applies: returns an empty text if a VM size has what is measured, else the reason why not.
    :ivar thresholds: names of the limits that it compares with.
    :ivar options: its own options with their defaults.
    :ivar check_option: raises ValueError if the text is not a valid value of the option with this name.
    """

    name: str
    title: str
    explain: str
    scope: str
    step: Callable[[Benchmark, Options, Sequence[str]], Step]
    parse: Callable[[Benchmark, Options, Sequence[str], Result], Measured]
    limit_s: int
    applies: Callable[[VmSize | None], str] = lambda size: ""
    thresholds: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    check_option: Callable[[str, str], object] = lambda name, text: None

    @property
    def check(self) -> Check:
        """Its manifest in the form of a health check, for the verdict and the page."""
        return Check(self.name, self.title, self.explain, (DEEP,), lambda _context: Answer(), action=OBSERVE)


def check_whole(text: str) -> None:
    """Check a whole number above 0.

    :raises ValueError: it is something else.
    """
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ValueError("give a whole number above 0")


def judge_run(benchmark: Benchmark, options: Options, nodes: Sequence[str], result: Result) -> Measured:
    """Return what a run says. A run that did not start, hung or crashed has measured nothing: UNKNOWN."""
    output = f"{result.stdout}\n{result.stderr}"
    if result.rc in OVERDUE:
        return not_measured(f"it did not finish within {benchmark.limit_s} s")
    if result.rc in _UNUSABLE or (result.rc and any(words in output for words in NOT_STARTED)):
        return not_measured(f"it did not start: {last_line(result)}")
    return benchmark.parse(benchmark, options, nodes, result)


def not_measured(words: str, hint: str = "") -> Measured:
    """Return the result of a run that measured nothing."""
    return Measured(Answer(findings=(Finding(UNKNOWN, " ".join(words.split()), hint=hint),)))


def failed_run(result: Result) -> Measured | None:
    """Return the result if the program failed; None if it succeeded."""
    return not_measured(f"it failed with exit status {result.rc}: {last_line(result)}") if result.rc else None


def details_lines(details: Mapping[str, Any]) -> Iterator[str]:
    """Return the details of a run for people: the environment in force, the curve, the scaling."""
    for term, words in dict(details.get("environment") or {}).items():
        yield f"{term}: {words}"
    for row in details.get("rows") or ():
        expected = "" if row["expected_gbps"] is None else f", expected about {row['expected_gbps']:.3g}"
        yield f"{row['bytes']:>12} B  {row['bus_gbps']:.3f} GB/s{expected}"
    for row in details.get("scaling") or ():
        yield f"{row['nodes']} nodes: {row['bus_gbps']:.4g} GB/s, efficiency {row['efficiency']:.0%}"


def limit_findings(
    reading: Reading, limit: Threshold | None, what: str, hint: str, stated: bool = True
) -> list[Finding]:
    """Return a finding if a value misses its limit.

    :param stated: whether a source states the limit for just this measurement. Otherwise a miss is only a warning,
        unless the user set the limit.
    """
    if limit is None or isinstance(reading.value, str):
        return []
    # Written so that NaN misses every limit.
    if reading.value <= limit.limit if limit.at_most else reading.value >= limit.limit:
        return []
    bound = "most" if limit.at_most else "least"
    words = f"{what} is {reading.value:.4g} {reading.unit}, but should be at {bound} {limit.limit:g}"
    verdict = FAIL if stated or limit.source == SITE else WARN
    return [Finding(verdict, words, reading.device, hint)]


def limit_words(limit: Threshold | None) -> str:
    """Return the limit with its source; empty without one."""
    return in_words(limit) if limit else ""
