# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several threads that get the first answers of a process get whole ones."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.sdk_models import guard, make_safe

REPOSITORY = Path(__file__).resolve().parents[5]
# Threads change places as often as they can, as they do by chance on a busy machine.
FIRST_ANSWERS = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from azure.mgmt.network import models
from azure.mgmt.network._utils.model_base import Model, _deserialize
if sys.argv[2] == "safe":
    from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.sdk_models import make_safe
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
    """How many classes eight threads completed at the same time in a fresh process, and how many failed."""
    command = [sys.executable, "-c", FIRST_ANSWERS, str(REPOSITORY / ".collections"), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    kinds, failures = done.stdout.split()
    return int(kinds), int(failures)


def test_no_thread_fails_over_another_ones_work() -> None:
    pytest.importorskip("azure.mgmt.network._utils.model_base", reason="this release of the SDK completes no classes")
    kinds, failures = first_answers("safe")
    assert kinds > 500
    assert failures == 0


class Base:
    """As the SDK's base of classes is, as far as it matters here; slow."""

    _calculated: ClassVar[set[str]] = set()
    inside, most = 0, 0

    def __new__(cls) -> Any:
        Base.inside += 1
        Base.most = max(Base.most, Base.inside)
        time.sleep(0.02)
        Base.inside -= 1
        Base._calculated.add(f"{cls.__module__}.{cls.__qualname__}")
        return super().__new__(cls)


def made_together(*kinds: type) -> int:
    """Make an object of each class at the same time; how many threads were at work at most."""
    Base.most = 0
    threads = [threading.Thread(target=kind) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Base.most


def test_classes_are_completed_one_by_one_and_used_together() -> None:
    kinds = [type(f"Kind{number}", (Base,), {}) for number in range(4)]
    assert made_together(*kinds) > 1
    Base._calculated.clear()
    guard(Base)
    assert made_together(*kinds) == 1
    assert made_together(*kinds) > 1
    assert isinstance(kinds[0](), kinds[0])


def test_a_package_without_such_classes_is_left_alone() -> None:
    make_safe("json")
