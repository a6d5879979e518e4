# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of checks: what `make check`, `make test` and `make test-all` run, in order. To add a check, add a line.

A step that exits with 77 could not run here; its last line of output says why, and it counts as skipped.
"""

from __future__ import annotations

import dataclasses

PYTEST = ("python", "-m", "pytest")
NOT_THOROUGH = "not thorough"
DAILY = ("-m", NOT_THOROUGH)
"""By this `make test` leaves tests to `make test-all`."""
# What depends on the versions of ansible-core and of Azure's SDK. What runs on the nodes imports neither, and has most
# of the tests. Daily a smoke: the SDK's models and errors, filters, the inventory from sign-in to hosts, a playbook.
NODE = "tests/unit/plugins/module_utils/_node"
# The half of these that runs beside the other one: both wait for most of their time.
JOBS = ("cli", "job", "setup", "slurm")
INVENTORY = "tests/contract/inventory"
VERSION_SMOKE = (
    *PYTEST,
    *("tests/unit/plugins/filter", "tests/unit/plugins/inventory", "tests/unit/plugins/plugin_utils/_azure"),
    *(f"{INVENTORY}/test_inventory_{name}.py" for name in ("hosts", "shipped", "no_hosts")),
    *("tests/contract/playbooks/test_guard_play.py", "tests/contract/modules", *DAILY),
)
# What a playbook refuses takes as long as what it does. Which hosts are chosen, how they are reached and what their
# tags may hold is decided by code of ours on facts that have been read. Neither asks more of the versions.
OURS_ALONE = (
    "inventory_command",
    "inventory_connection",
    "inventory_hostile_tags",
    "inventory_odd_instances",
    "inventory_selection",
    "replace_refusals",
)
VERSION_MATRIX = (
    *(*PYTEST, "tests/unit/plugins", f"--ignore={NODE}", "tests/contract/modules"),
    *(INVENTORY, *(f"--ignore={INVENTORY}/test_{name}.py" for name in OURS_ALONE)),
)
# The tests of what runs the tests.
RUNNER = ("tests/unit/setup", "tests/unit/mutation")
# The simulator's own tests.
SIMULATOR = "tests/contract/simulator"
# Where stand-ins for the release files of enroot and pyxis are built.
STAND_INS = ".cache/enroot_pyxis"


@dataclasses.dataclass(frozen=True)
class Step:
    """One command. Its programs come from the virtual environment first, then from the system."""

    name: str
    command: tuple[str, ...]
    # Part of `make check` as well, whose steps together take less than 90 s on two CPUs that have nothing else to do.
    quick: bool = False
    # Steps that must have passed before this one makes sense. Nearly all take their programs from the environment.
    needs: tuple[str, ...] = ("venv",)
    venv: str = ".venv"
    # What `make test-all` runs in the command's place.
    whole: tuple[str, ...] = ()
    # Part of `make test` only where one of these has changed since the last whole run that docs/evidence.md records.
    watches: tuple[str, ...] = ()
    # Part of `make test-all` alone.
    exhaustive: bool = False
    # Its last line of output belongs into the summary.
    tells: bool = False
    # It goes before others wherever both could compute: it waits for jobs, or for a machine that is slow as it is, and
    # ends last.
    urgent: bool = False
    # Seconds after which it counts as hung.
    limit: int = 300


# Four run at a time, in this order. The scenario takes longest, as it waits for jobs: it is first.
STEPS = (
    Step("venv", ("tests/setup/venv.sh",), quick=True, needs=(), tells=True),
    Step("host", ("tests/setup/host.sh",), needs=(), limit=900),
    Step(
        "stand-ins",
        ("env", "PYTHONPATH=tests", "python", "-m", "stand_ins.enroot_pyxis", STAND_INS),
        needs=("venv", "host"),
    ),
    Step("molecule", ("molecule", "test", "-s", "cluster"), needs=("venv", "stand-ins"), urgent=True, limit=4800),
    # Clusters for tests that need one of their own; molecule's has the others.
    Step(
        "cluster",
        (*PYTEST, "tests/cluster", "--durations=25"),
        needs=("venv", "stand-ins"),
        exhaustive=True,
        urgent=True,
        limit=4800,
    ),
    Step("blob", ("tests/setup/blob.sh",), needs=("host",), tells=True, limit=600),
    Step(
        "contract",
        (*PYTEST, "tests/contract", f"--ignore={SIMULATOR}", *DAILY, "--durations=25"),
        limit=3600,
    ),
    Step(
        "sanity",
        # The tests are two thirds of all files; ruff and mypy read them too.
        ("python", "tests/setup/sanity.py", "--exclude", "tests/"),
        whole=("python", "tests/setup/sanity.py"),
        tells=True,
        limit=1800,
    ),
    Step(
        "unit-node",
        (*PYTEST, NODE, *(f"--ignore={NODE}/{part}" for part in JOBS), *DAILY),
        quick=True,
        limit=2400,
    ),
    Step("unit-jobs", (*PYTEST, *(f"{NODE}/{part}" for part in JOBS), *DAILY), quick=True, limit=2400),
    Step("ansible-lint", ("ansible-lint", "--offline"), quick=True),
    Step("mypy", ("mypy",), quick=True),
    Step(
        "docs", ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--check-extra-docs-refs", "."), quick=True
    ),
    # After the scenario has its cluster: until then both would compute all the time.
    Step("hardware", ("tests/setup/hardware.sh", *DAILY), needs=("venv", "host"), urgent=True, limit=4800),
    Step(
        "unit",
        (*PYTEST, "tests/unit", f"--ignore={NODE}", *(f"--ignore={path}" for path in RUNNER)),
        quick=True,
        limit=900,
    ),
    Step("ruff", ("ruff", "check", "."), quick=True),
    Step("ruff-format", ("ruff", "format", "--check", "."), quick=True),
    Step("shellcheck", ("tests/setup/shellcheck.sh",), quick=True),
    Step("yamllint", ("yamllint", "--strict", "."), quick=True),
    Step("changelog", ("antsibull-changelog", "lint"), quick=True),
    Step("licences", ("reuse", "lint", "--lines"), quick=True),
    Step("archive", (*PYTEST, "tests/contract/test_archive.py"), quick=True),
    Step(
        "simulator",
        (*PYTEST, SIMULATOR, *DAILY, "--durations=10"),
        watches=("tests/simulator", SIMULATOR),
        limit=1800,
    ),
    Step("runner", (*PYTEST, *RUNNER), watches=("tests/setup", "tests/mutation", *RUNNER), limit=900),
    Step("molecule-node", ("molecule", "test", "-s", "node"), needs=("venv", "stand-ins"), limit=1800),
    Step("venv-oldest", ("tests/setup/venv.sh", "oldest"), needs=(), tells=True, limit=600),
    Step(
        "tests-oldest",
        VERSION_SMOKE,
        # Its ansible-core is of the release that .venv has on Python 3.11.
        whole=(*VERSION_MATRIX, f"--ignore={INVENTORY}/test_replace.py"),
        needs=("venv-oldest",),
        venv=".venv-oldest",
        limit=2700,
    ),
    Step("venv-newest", ("tests/setup/venv.sh", "newest"), needs=(), tells=True, limit=600),
    Step(
        "tests-newest",
        VERSION_SMOKE,
        whole=VERSION_MATRIX,
        needs=("venv-newest",),
        venv=".venv-newest",
        limit=2700,
    ),
    Step("docs-site", ("tests/setup/docs.sh",), exhaustive=True, limit=600),
    Step(
        "mutants",
        ("env", "PYTHONPATH=tests:tests/setup", "python", "-m", "mutation.health_checks"),
        exhaustive=True,
        limit=4800,
    ),
)


def with_thorough_tests(step: Step) -> Step:
    """The step with the tests that `make test` leaves out."""
    words = step.whole or step.command
    at = next((index for index in range(len(words)) if words[index : index + 2] == DAILY), len(words))
    return dataclasses.replace(step, command=words[:at] + words[at + 2 :], limit=2 * step.limit)
