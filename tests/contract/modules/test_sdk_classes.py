# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The classes of the real SDK, which the collection's threads use at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
# A short switch interval makes threads interrupt each other often, as happens by chance on a busy machine.
FIRST_ANSWERS = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from azure.mgmt.network import models
from azure.mgmt.network._utils.model_base import Model, _deserialize
if sys.argv[2] == "safe":
    from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.clients import make_safe
    make_safe("azure.mgmt.network")
kinds = [kind for kind in vars(models).values() if isinstance(kind, type) and issubclass(kind, Model)]
start, failed = threading.Barrier(8), []
def work():
    start.wait()
    for kind in kinds:
        try:
            kind.__new__(kind)
        except RuntimeError as error:
            failed.append(error)
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(kinds), len(failed))
"""


def first_answers(how: str) -> tuple[int, int]:
    """Initialise the SDK's classes in eight threads of a new process. Returns the numbers of classes and failures."""
    command = [sys.executable, "-c", FIRST_ANSWERS, str(REPOSITORY / ".collections"), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    kinds, failures = done.stdout.split()
    return int(kinds), int(failures)


def test_threads_can_initialise_the_sdks_classes_at_the_same_time() -> None:
    pytest.importorskip(
        "azure.mgmt.network._utils.model_base", reason="this release of the SDK does not initialise classes"
    )
    kinds, failures = first_answers("safe")
    assert kinds > 500
    assert failures == 0
