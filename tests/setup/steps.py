# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of checks: what `make check`, `make test` and `make test-all` run, in order. To add a check, add a line.

A step that exits with 77 cannot run on this machine. It counts as skipped, and its last line of output is the reason.
"""

from __future__ import annotations

import dataclasses

PYTEST = ("python", "-m", "pytest", "--reruns=1", "--max-suite-reruns=3", "--rerun-show-tracebacks")
"""A test that fails is repeated once, because other steps may have taken the CPUs from it. The summary names the tests
that then pass, and the log shows why they failed. If more than three tests fail, the load is not the reason."""
NOT_THOROUGH = "not thorough"
DAILY = ("-m", NOT_THOROUGH)
"""Options of pytest with which `make test` omits the tests that only `make test-all` runs."""
# Most tests are of the code that runs on nodes. It imports neither ansible-core nor the Azure SDK, so these tests do
# not run again for other versions of them.
NODE = "tests/unit/plugins/module_utils/_node"
# Four steps run these tests in parallel, because all of them spend most of their time waiting. Other folders of the
# core, also new ones, are in the step "unit-node".
JOBS = ("cli", "job", "slurm")
HEALTH = ("diag", "health", "setup")
MACHINE = ("boot", "machine", "recover")
INVENTORY = "tests/contract/inventory"
# The other users of the SDK: deployments, quotas and images.
STACK = ("tests/contract/stack", "tests/contract/preflight", "tests/contract/images")
# A daily smoke test for other versions: the SDK's models and errors, filters, the inventory from sign-in to hosts, a
# playbook, a stack from an empty subscription.
VERSION_SMOKE = (
    *PYTEST,
    *("tests/unit/plugins/filter", "tests/unit/plugins/inventory", "tests/unit/plugins/plugin_utils/_azure"),
    *(f"{INVENTORY}/test_inventory_{name}.py" for name in ("hosts", "shipped", "no_hosts")),
    *("tests/contract/stack/test_provision.py", "tests/contract/preflight/test_azure_preflight.py"),
    "tests/contract/images/test_vmss_image.py",
    *("tests/contract/playbooks/test_guard_play.py", "tests/contract/modules", *DAILY),
)
# Tests that gain nothing from other versions: they test the collection's own code on facts that were already read
# (selection, connection, tags), or refusals of playbooks, which take as long as the playbooks themselves.
VERSION_INDEPENDENT = (
    "inventory_command",
    "inventory_connection",
    "inventory_hostile_tags",
    "inventory_odd_instances",
    "inventory_selection",
    "replace_refusals",
)
# It imports neither ansible-core nor the Azure SDK; one of its tests needs the packages of the documentation.
REPORT = "tests/unit/plugins/plugin_utils/_report"
VERSION_MATRIX = (
    *(*PYTEST, "tests/unit/plugins", f"--ignore={NODE}", f"--ignore={REPORT}", "tests/contract/modules", *STACK),
    *(INVENTORY, *(f"--ignore={INVENTORY}/test_{name}.py" for name in VERSION_INDEPENDENT)),
)
# The tests of the test runner.
RUNNER = ("tests/unit/setup", "tests/unit/mutation")
# The simulator's own tests.
SIMULATOR = "tests/contract/simulator"
# Half of the time of tests/contract: a step of its own runs at the same time.
ROLES = ("tests/contract/roles", "tests/contract/stack", "tests/contract/training")
# A cluster that has its own step in `make test`.
OLDEST_NODES = "tests/cluster/test_oldest_nodes.py"
# Tests of whole features, each on a cluster of its own with its own ports and network. They are steps of their own, so
# that they run at the same time, and an interrupted `make test-all` repeats little. Other files of tests/cluster, also
# new ones, are in the step "cluster".
FEATURES = tuple(
    f"tests/cluster/test_{name}.py"
    for name in ("benchmarks", "monitoring", "provisioned_site", "readme", "roll", "slurm_rest", "tutorial", "watch")
)
PORTAL = tuple(f"tests/cluster/test_{name}.py" for name in ("portal", "portal_jobs", "slurm_web"))
TRAININGS = ("tests/cluster/test_training_recipes.py",)
# Elastic sets spend most of the time waiting for machines. The seeds are played on the cluster of the first file.
ELASTIC = ("tests/cluster/test_elastic.py", "tests/cluster/test_elastic_seeds.py")
ELASTIC_FAULTS = tuple(f"tests/cluster/test_elastic_{name}.py" for name in ("faults", "crashes"))
ELASTIC_SETS = ("tests/cluster/test_elastic_sets.py",)
# The clusters that have steps of their own in `make test-all`.
OWN_STEPS = {
    "cluster-features": FEATURES,
    "cluster-elastic": ELASTIC,
    "cluster-elastic-faults": ELASTIC_FAULTS,
    "cluster-elastic-sets": ELASTIC_SETS,
    "cluster-portal": PORTAL,
    "trainings": TRAININGS,
}
# Clusters of `make test-all` that run on the oldest suite too.
SUITE_DEPENDENT = tuple(
    f"tests/cluster/test_{name}.py" for name in ("login_node", "slurm_rest", "portal", "monitoring", "watch")
)
# The oldest suite of the nodes.
OLDEST_SUITE = "bookworm"
# The folder with the release files of enroot and pyxis, or with stand-ins for them.
STAND_INS = ".cache/enroot_pyxis"


@dataclasses.dataclass(frozen=True)
class Step:
    """One command. Programs in the virtual environment come before those of the system."""

    name: str
    command: tuple[str, ...]
    # Part of `make check` as well. All of its steps together take less than 90 s on two idle CPUs.
    quick: bool = False
    # Steps that must pass before this one can run. Nearly all need the virtual environment.
    needs: tuple[str, ...] = ("venv",)
    # Steps that must end before this one starts, passed or not, because both use the same ports, addresses or files.
    after: tuple[str, ...] = ()
    venv: str = ".venv"
    # What `make test-all` runs instead of the command.
    full_command: tuple[str, ...] = ()
    # Part of `make test` only if one of these changed since the last full run that docs/evidence.md records as passed.
    watches: tuple[str, ...] = ()
    # Part of `make test-all` only.
    exhaustive: bool = False
    # The summary shows its last line of output.
    shows_last_line: bool = False
    # Has priority for CPU time, because it ends last: it waits for jobs or for a slow machine.
    urgent: bool = False
    # Seconds after which it is killed.
    limit: int = 300


def clusters(name: str, *paths: str, after: tuple[str, ...] = (), suite: str = "") -> Step:
    """Tests on clusters of their own, on nodes of the default suite or of another one."""
    environment = ("env", f"HPCAI_SUITE={suite}") if suite else ()
    return Step(
        name,
        # With what passed tests print: their figures.
        (*environment, *PYTEST, *paths, "-rP", "--durations=25"),
        needs=("venv", "stand-ins"),
        after=after,
        exhaustive=True,
        urgent=True,
        limit=7200,
    )


# Four steps run at a time, in this order. The scenario comes first because it takes longest: it waits for jobs.
STEPS = (
    Step("venv", ("tests/setup/venv.sh",), quick=True, needs=(), shows_last_line=True),
    Step("host", ("tests/setup/host.sh",), needs=(), limit=900),
    Step("stand-ins", ("tests/setup/stand_ins.sh",), needs=("venv", "host"), shows_last_line=True, limit=900),
    Step("molecule", ("molecule", "test", "-s", "cluster"), needs=("venv", "stand-ins"), urgent=True, limit=6000),
    # Tests that need their own cluster. The others share Molecule's.
    clusters(
        "cluster",
        "tests/cluster",
        *(f"--ignore={path}" for path in (OLDEST_NODES, *(path for paths in OWN_STEPS.values() for path in paths))),
    ),
    *(clusters(name, *paths) for name, paths in OWN_STEPS.items()),
    # What a newcomer runs first. Its port and network are its own.
    Step(
        "site",
        ("tests/setup/site_check.sh",),
        needs=("venv", "stand-ins"),
        exhaustive=True,
        limit=2400,
    ),
    Step("blob", ("tests/setup/blob.sh",), needs=("host",), shows_last_line=True, limit=600),
    Step("portal", ("tests/setup/portal.sh",), needs=("venv", "host"), shows_last_line=True, limit=900),
    Step(
        "contract",
        (*PYTEST, "tests/contract", *(f"--ignore={path}" for path in (SIMULATOR, *ROLES)), *DAILY, "--durations=25"),
        # nft, promtool and udevadm. Without them tests are skipped.
        needs=("venv", "host"),
        limit=3600,
    ),
    Step("contract-roles", (*PYTEST, *ROLES, *DAILY, "--durations=25"), needs=("venv", "host"), limit=3600),
    Step(
        "sanity",
        # Without the tests, which are two thirds of all files: ruff and mypy check them too.
        ("python", "tests/setup/sanity.py", "--exclude", "tests/"),
        full_command=("python", "tests/setup/sanity.py"),
        shows_last_line=True,
        limit=1800,
    ),
    Step(
        "unit-node",
        (*PYTEST, NODE, *(f"--ignore={NODE}/{part}" for part in (*JOBS, *HEALTH, *MACHINE)), *DAILY),
        quick=True,
        limit=2400,
    ),
    Step("unit-health", (*PYTEST, *(f"{NODE}/{part}" for part in HEALTH), *DAILY), quick=True, limit=2400),
    Step("unit-machine", (*PYTEST, *(f"{NODE}/{part}" for part in MACHINE), *DAILY), quick=True, limit=2400),
    Step("unit-jobs", (*PYTEST, *(f"{NODE}/{part}" for part in JOBS), *DAILY), quick=True, limit=2400),
    Step("ansible-lint", ("ansible-lint", "--offline"), quick=True, urgent=True),
    Step("mypy", ("mypy",), quick=True),
    Step("docs", ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--check-extra-docs-refs", ".")),
    # At this position it starts when the scenario has its cluster. Until then both would compete for the CPUs.
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
    Step("changelog", ("antsibull-changelog", "lint")),
    Step("licences", ("tests/setup/licences.sh",), quick=True),
    Step("archive", (*PYTEST, "tests/contract/test_archive.py")),
    Step(
        "simulator",
        (*PYTEST, SIMULATOR, *DAILY, "--durations=10"),
        watches=("tests/simulator", SIMULATOR),
        limit=1800,
    ),
    Step(
        "runner",
        (*PYTEST, *RUNNER),
        watches=("tests/setup", "tests/mutation", "tests/release", *RUNNER),
        limit=900,
    ),
    # The scenario "cluster" has the same roles; here they run on a node with stand-in GPUs.
    Step(
        "molecule-node",
        ("molecule", "test", "-s", "node"),
        needs=("venv", "stand-ins"),
        exhaustive=True,
        limit=1800,
    ),
    # On nodes of the oldest suite: from an empty node to a job, then a second run.
    Step("oldest-nodes", (*PYTEST, OLDEST_NODES), needs=("venv", "stand-ins"), limit=2400),
    # The complete scenario on the oldest suite, without the races of 1,000 tries.
    Step(
        "molecule-oldest",
        ("env", f"HPCAI_SUITE={OLDEST_SUITE}", "HPCAI_TESTS=not race", "molecule", "test", "-s", "cluster"),
        needs=("venv", "stand-ins"),
        after=("molecule",),
        exhaustive=True,
        urgent=True,
        limit=4800,
    ),
    # The emulated machine with the oldest suite: its daily tests.
    Step(
        "hardware-oldest",
        ("env", f"HPCAI_SUITE={OLDEST_SUITE}", "tests/setup/hardware.sh", "-m", f"({NOT_THOROUGH})"),
        needs=("venv", "host"),
        after=("hardware",),
        exhaustive=True,
        urgent=True,
        limit=4800,
    ),
    # Clusters of the oldest suite with what depends most on the release of Slurm, Python and Prometheus: a login node
    # (copies of slurm.conf, because there is no sackd), slurmrestd, the portal, the monitoring, goodput and recovery.
    # They take about 20 CPU minutes. CONTRIBUTING.md says why the other clusters are left out.
    clusters(
        "cluster-oldest", *SUITE_DEPENDENT, after=("cluster", "cluster-features", "cluster-portal"), suite=OLDEST_SUITE
    ),
    # Slurm's power saving differs between releases.
    clusters("elastic-oldest", *ELASTIC, after=("cluster-elastic",), suite=OLDEST_SUITE),
    clusters("elastic-faults-oldest", *ELASTIC_FAULTS, after=("cluster-elastic-faults",), suite=OLDEST_SUITE),
    clusters("elastic-sets-oldest", *ELASTIC_SETS, after=("cluster-elastic-sets",), suite=OLDEST_SUITE),
    Step("venv-oldest", ("tests/setup/venv.sh", "oldest"), needs=(), shows_last_line=True, limit=600),
    Step(
        "tests-oldest",
        VERSION_SMOKE,
        # test_replace.py is omitted because its ansible-core is of the same release as .venv's on Python 3.11.
        full_command=(*VERSION_MATRIX, f"--ignore={INVENTORY}/test_replace.py"),
        needs=("venv-oldest",),
        venv=".venv-oldest",
        limit=2700,
    ),
    Step("venv-newest", ("tests/setup/venv.sh", "newest"), needs=(), shows_last_line=True, limit=600),
    Step(
        "tests-newest",
        VERSION_SMOKE,
        full_command=VERSION_MATRIX,
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
    Step(
        "breakages",
        ("env", "PYTHONPATH=tests:tests/setup", "python", "-m", "mutation.breaking"),
        # nft and udevadm. Without them tests are skipped.
        needs=("venv", "host"),
        exhaustive=True,
        shows_last_line=True,
        limit=4800,
    ),
)


def with_thorough_tests(step: Step) -> Step:
    """The step with the tests that `make test` omits."""
    words = step.full_command or step.command
    at = next((index for index in range(len(words)) if words[index : index + 2] == DAILY), len(words))
    return dataclasses.replace(step, command=words[:at] + words[at + 2 :], limit=2 * step.limit)
