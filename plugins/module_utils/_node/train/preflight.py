# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The checks of a node before a training starts on it: a problem found here costs seconds, later it costs hours."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..job.hashes import sha256_of
from ..machine.run import Result, Run
from ..machine.verdict import FAIL, PASS, UNKNOWN, worst
from ..slurm.nodes import is_out
from .estimate import checkpoint_bytes
from .memory import gib
from .plan import Plan

_DIGEST = re.compile(r"([^@\s]+)@sha256:([0-9a-f]{64})")
_KEPT = 3
"""Checkpoints that a node holds: two that are kept or uploading, and the one being written."""


@dataclass(frozen=True)
class Check:
    """The verdict of a check of this node.

    :ivar name: its name.
    :ivar verdict: pass, warn, fail or unknown.
    :ivar words: what was found, and for a failure what to do.
    :ivar everywhere: whether it would fail on any other node too.
    """

    name: str
    verdict: str
    words: str
    everywhere: bool = False


@dataclass(frozen=True)
class NodeNeeds:
    """What a training needs on this node.

    :ivar node: the node's name in Slurm; empty outside of a job.
    :ivar run: the folder of its checkpoints.
    :ivar trainer: path of the trainer.
    :ivar python: the interpreter; empty in a container.
    :ivar image: the container image; empty for none.
    :ivar needs_image: whether the recipe runs in an image only.
    :ivar data: the folder of the data set; empty for none.
    :ivar sums: the file of its SHA-256 sums; empty for none.
    :ivar staged: whether the data set is staged after these checks.
    :ivar nodes: number of nodes.
    :ivar sharded: whether each node writes its part of a checkpoint.
    """

    node: str
    run: str
    trainer: str
    python: str
    image: str
    needs_image: bool
    data: str
    nodes: int
    sharded: bool = True
    sums: str = ""
    staged: bool = False


def checks(wanted: NodeNeeds, plan: Plan | None, run: Run) -> list[Check]:
    """Check this node.

    :param plan: the plan of a transformer for this VM size and these nodes; None if there is none.
    """
    found = [_health(wanted.node, run), _fits(plan), _folder(wanted, plan), _trainer(wanted, run), _image(wanted)]
    return [*found, *_data(wanted, run)]


def verdict(found: Iterable[Check]) -> str:
    """Return the worst verdict."""
    return worst(one.verdict for one in found)


def _health(node: str, run: Run) -> Check:
    """Return what is known of this node's health.

    The prolog ran the checks before this job, but only root and the group adm can read the results. What they caused is
    public: the arbiter drains a faulty node.
    """
    known = _states([node], run) if node else {}
    bad = _out(known)
    if bad:
        return Check("health", FAIL, f"{node} is drained: {bad[node]}")
    answer = run(["hpcnode", "health", "status", "--json"])
    if answer.rc == 1:
        words = f"health checks failed: {_failed_checks(answer)}. See 'hpcnode health status' on this node."
        return Check("health", FAIL, words)
    if answer.rc == 0:
        return Check("health", PASS, "no health check failed")
    if known:
        return Check("health", PASS, f"{node} is not drained")
    return Check("health", UNKNOWN, "the health of this node is unknown")


def _failed_checks(answer: Result) -> str:
    try:
        tiers = json.loads(answer.stdout)["tiers"].values()
        names = [one["name"] for tier in tiers for one in tier["checks"] if one["verdict"] == FAIL]
    except (ValueError, KeyError, TypeError, AttributeError):
        names = []
    return ", ".join(dict.fromkeys(map(str, names))) or "a latched finding"


def drained(nodes: Sequence[str], run: Run) -> dict[str, str]:
    """Return why Slurm has drained nodes or set them down, by node; empty also if slurmctld does not answer.

    A node that a running job uses shows as draining.
    """
    return _out(_states(nodes, run))


def _states(nodes: Sequence[str], run: Run) -> dict[str, tuple[str, str]]:
    """Return state and reason by node; empty if slurmctld does not answer."""
    words = ["sinfo", "--noheader", "--all", "--Node", f"--nodes={','.join(nodes)}", "--format=%N|%T|%E"]
    found: dict[str, tuple[str, str]] = {}
    for line in run(words).stdout.splitlines():
        name, _bar, rest = line.partition("|")
        state, _bar, reason = rest.partition("|")
        if name in nodes and state:
            found[name] = state, reason
    return found


def _out(states: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    return {
        name: f"{state.strip('*')} ({reason.strip()})"
        for name, (state, reason) in states.items()
        if is_out(state) or state.lower().startswith("maint")
    }


def _fits(plan: Plan | None) -> Check:
    if plan is None:
        return Check("plan", PASS, "this model has no plan")
    if not plan.fits:
        words = f"it does not fit on {plan.job.nodes} x {plan.size.name}: {plan.problems[0]}"
        return Check("plan", FAIL, words, everywhere=True)
    return Check("plan", PASS, f"it fits on {plan.job.nodes} x {plan.size.name}")


def _folder(wanted: NodeNeeds, plan: Plan | None) -> Check:
    try:
        os.makedirs(wanted.run, exist_ok=True)
        probe = f"{wanted.run}/.hpcai-preflight-{os.getpid()}"
        with open(probe, "w", encoding="ascii"):
            pass
        os.unlink(probe)
        status = os.statvfs(wanted.run)
    except OSError as error:
        return Check("scratch", FAIL, f"cannot write to {wanted.run}: {error.strerror}. Check the node's scratch.")
    free = status.f_bavail * status.f_frsize
    if plan is None:
        return Check("scratch", PASS, f"{gib(free)} are free in {wanted.run}")
    one = checkpoint_bytes(plan.model) * (plan.job.checkpoint_copies / wanted.nodes if wanted.sharded else 1)
    # Those of earlier runs are among the ones that the training keeps.
    needed = max(_KEPT * one - _checkpoints(wanted.run), one)
    if free < needed:
        words = f"{wanted.run} has {gib(free)} free, and {_KEPT} checkpoints need {gib(needed)}: remove old files."
        return Check("scratch", FAIL, words)
    return Check("scratch", PASS, f"{gib(free)} are free in {wanted.run}, {gib(needed)} are needed")


def _checkpoints(folder: str) -> int:
    """Return the bytes of the checkpoints in a folder."""
    total = 0
    for path in glob.glob(f"{glob.escape(folder)}/*step*/**", recursive=True):
        with contextlib.suppress(OSError):
            total += os.lstat(path).st_size
    return total


def _trainer(wanted: NodeNeeds, run: Run) -> Check:
    if not os.path.isfile(wanted.trainer):
        return Check("trainer", FAIL, f"{wanted.trainer} is missing: run the role hpcai.azure.training on this node.")
    if wanted.python and run([wanted.python, "-c", "import sys"]).rc != 0:
        return Check("trainer", FAIL, f"{wanted.python} does not run on this node: give --python.")
    return Check("trainer", PASS, wanted.trainer)


def _image(wanted: NodeNeeds) -> Check:
    if not wanted.image:
        if wanted.needs_image:
            words = "this recipe runs in a container image only: give --image NAME@sha256:DIGEST."
            return Check("image", FAIL, words, everywhere=True)
        return Check("image", PASS, "no container")
    with_digest = _DIGEST.fullmatch(wanted.image)
    if wanted.image.startswith("/"):
        return _image_file(with_digest[1] if with_digest else wanted.image, with_digest[2] if with_digest else "")
    if not with_digest:
        words = f"{wanted.image} has no digest, so its content may change: use NAME@sha256:DIGEST."
        return Check("image", FAIL, words, everywhere=True)
    return Check("image", PASS, wanted.image)


def _image_file(path: str, digest: str) -> Check:
    """Check an image that is a file.

    :param digest: the SHA-256 that it must have; empty to accept any content.
    """
    try:
        found = sha256_of(path) if digest else ""
    except OSError as error:
        return Check("image", FAIL, f"cannot read {path}: {error.strerror}")
    if found != digest:
        return Check("image", FAIL, f"{path} has the SHA-256 {found}, not {digest}: copy the image to this node again.")
    if not os.path.isfile(path):
        return Check("image", FAIL, f"{path} is missing on this node.")
    return Check("image", PASS, f"{path} has its digest" if digest else path)


def _data(wanted: NodeNeeds, run: Run) -> Iterator[Check]:
    if not wanted.data:
        return
    if not os.path.isdir(wanted.data):
        if wanted.staged:
            yield Check("data", UNKNOWN, f"{wanted.data} is not staged yet")
        else:
            yield Check("data", FAIL, f"{wanted.data} is missing on this node: copy the data there, or give --source.")
        return
    sums = ["--sums", wanted.sums] if wanted.sums else []
    answer = run(["hpcnode", "stage", "verify", "--target", wanted.data, *sums])
    if answer.rc == 0:
        yield Check("data", PASS, f"{wanted.data} agrees with its manifest")
    elif answer.rc != 1:
        yield Check("data", UNKNOWN, f"{wanted.data} has no manifest")
    elif wanted.staged:
        # A run may have been killed while it staged; staging copies what is missing, and refuses what differs.
        yield Check("data", UNKNOWN, f"{wanted.data} is not complete: staging continues")
    else:
        yield Check("data", FAIL, f"{wanted.data} differs from its manifest: stage again.")
