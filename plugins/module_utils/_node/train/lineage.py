# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where the checkpoints of a run come from: recipe, trainer, commit, data, parent step, nodes and versions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..job.hashes import sha256_of
from ..job.stage.sums import read_sums
from ..machine.run import Run
from ..version import VERSION
from .record import Record

SCHEMA = 1
FILE = "lineage.json"
_PACKAGES = """\
import importlib.metadata, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def lineage(
    record: Record,
    trainer: str,
    source: str,
    sums: str,
    python: str,
    image: str,
    packages: Sequence[str],
    run: Run,
) -> dict[str, Any]:
    """Return the lineage of the last run of a record. What is unknown is empty.

    :param trainer: path of the trainer.
    :param source: the folder where the job was submitted, whose git commit is recorded.
    :param sums: file of the data set's sums; empty for none.
    :param python: the interpreter; empty in a container, whose image names the versions.
    :param packages: requirements, as the recipe has them.
    :raises ConfigError: the sums are invalid.
    """
    last = record.runs[-1]
    commit = run(["git", "-C", source, "rev-parse", "HEAD"]).stdout.strip() if source else ""
    changed = run(["git", "-C", source, "status", "--porcelain"]).stdout.strip() if commit else ""
    try:
        trainer_sha = sha256_of(trainer)
    except OSError:
        trainer_sha = ""
    return {
        "schema": SCHEMA,
        "recipe": record.recipe,
        "trainer": trainer_sha,
        "commit": commit if _COMMIT.fullmatch(commit) else "",
        "uncommitted_changes": bool(changed),
        "data": read_sums(sums).digest if sums else "",
        "parent_step": last.started_at,
        "nodes": list(last.nodes),
        "image": image,
        "versions": {"hpcnode": VERSION, **(_versions(python, packages, run) if python else {})},
    }


def _versions(python: str, packages: Sequence[str], run: Run) -> dict[str, str]:
    names = [re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0] for one in packages]
    try:
        found = json.loads(run([python, "-c", _PACKAGES, *names]).stdout)
    except ValueError:
        return {}
    return {str(name): str(version) for name, version in found.items()} if isinstance(found, dict) else {}
