# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No code queries Slurm for jobs in a format that prints text chosen by users.

For example, a job named ``x JobState=CONFIGURING`` forges a field of ``scontrol show job``.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

from ansible_collections.hpcai.azure.plugins.module_utils._node.job import requeue
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover import look

ROOT = pathlib.Path(__file__).parents[3]
WITH_TEXT = re.compile(r"show\s+(job|step)s?\b|(?<!C\()\b(sacct|strigger)\b")
# squeue(1): id, array, user, state, nodes; partition, slurmctld's reason, times. Users cannot choose the text of any.
PLAIN_LETTERS = {"%A", "%i", "%u", "%U", "%T", "%t", "%N", "%D", "%P", "%r", "%V", "%S", "%l"}
PLAIN_FIELDS = {"JobID", "State", "RestartCnt", "BatchFlag", "Requeue", "ArrayJobID", "ArrayTaskID"}


def commands() -> Iterator[tuple[str, str]]:
    """Place and text of each list, tuple and call in Python code, and of each line of other files."""
    for folder in ("plugins", "roles", "playbooks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or path.suffix in (".md", ".json", ".pyc"):
                continue
            where, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
            if path.suffix != ".py":
                yield from ((f"{where}:{number}", line) for number, line in enumerate(text.splitlines(), 1))
                continue
            for node in ast.walk(ast.parse(text)):
                words = node.elts if isinstance(node, (ast.List, ast.Tuple)) else getattr(node, "args", ())
                if isinstance(words, list):
                    constants = [str(word.value) for word in words if isinstance(word, ast.Constant)]
                    yield f"{where}:{getattr(node, 'lineno', 0)}", " ".join(constants)


RECOVER = "plugins/module_utils/_node/recover"
WITH_TEXT_ALLOWED = (
    # Fields are separated by a random text that no comment or account can contain;
    # test_a_comment_cannot_forge_a_record, test_an_account_cannot_forge_a_record.
    "plugins/module_utils/_node/ledger/accounting.py",
    "plugins/module_utils/_node/ledger/accounts.py",
    # The path of a job's log, which is opened with the rights of the job's user only.
    f"{RECOVER}/job_log.py",
)
# A job's own process reads its comment, to add to it.
OWN_COMMENT = f"{RECOVER}/comment.py"

# JSON, in which a text cannot become a field.
AS_JSON = "plugins/module_utils/_node/metrics/slurm.py"


def test_no_command_prints_text_that_a_user_chose() -> None:
    found = [f"{where}: {words}" for where, words in commands() if WITH_TEXT.search(words)]
    json = [one for one in found if one.startswith(AS_JSON)]
    assert all("--json" in one for one in json)
    assert [one for one in found if not one.startswith(WITH_TEXT_ALLOWED) and one not in json] == []


def test_squeue_prints_only_fields_without_user_text() -> None:
    asked = [(where, words) for where, words in commands() if "--format=" in words and "squeue" in words]
    assert asked
    wrong = [where for where, words in asked if set(re.findall(r"%[.\d]*\w", words)) - PLAIN_LETTERS]
    wrong = [where for where in wrong if not where.startswith(OWN_COMMENT)]
    assert wrong == []
    assert set(requeue.FIELDS) <= PLAIN_FIELDS
    # slurmctld only accepts names of nodes to be excluded.
    assert set(look.FIELDS) <= PLAIN_FIELDS | {"UserID", "ExcNodes"}
