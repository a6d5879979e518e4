# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role health_checks makes of its variables: the scripts, the files, and where the arbiter runs."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import PROLOG
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.scratch import SCRATCH
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.install import scripts_from
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.options import DEFAULT_LIMITS, KINDS
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.runner import BURIAL_S, TERM_S
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.layout import TOOL
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.reasons import PROLOG_SCRIPT

from .conftest import LOCAL, Show

ROLES = pathlib.Path(__file__).parents[3] / "roles"
HOSTS: dict[str, Any] = {
    "all": {
        "vars": LOCAL,
        "children": {
            "hpcai_controller": {"hosts": {"ctl": {}, "ctl2": {}}},
            "hpcai_compute": {"hosts": {"node": {}}},
        },
    }
}
SHOWN = {name: f"{{{{ __health_checks_{name} }}}}" for name in ("files", "arbiter", "has_arbiter", "hooks")}
CASES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "some": {
        "health_checks_config": {"skip": ["gemm"], "warn_only": ["load"], "prometheus": None},
        "health_checks_report": {"field": "Comment", "boot": None},
        "health_checks_arbiter": {"max_out": "4", "confirm": {"free_space": 3}, "interval_s": None},
    },
    "short prologs": {"slurm_job_hook_limits": {"prolog": {"script": 3, "total": 40}}},
    "shorter": {"slurm_job_hook_limits": {"prolog": {"total": 12}}},
    "absent": {"health_checks_state": "absent"},
}


@pytest.fixture(scope="module")
def made(show: Show) -> dict[str, dict[str, dict[str, Any]]]:
    """What each host makes of each case's variables."""
    functions = "{{ group_names | map('regex_replace', '^hpcai_', '') | list }}"
    return {
        name: show("hpcai.azure.health_checks", HOSTS, SHOWN, **{"health_checks_functions": functions, **variables})
        for name, variables in CASES.items()
    }


def test_there_is_one_arbiter_on_the_first_controller(made: Any) -> None:
    assert {host: shown["has_arbiter"] for host, shown in made["nothing"].items()} == {
        "ctl": True,
        "ctl2": False,
        "node": False,
    }


def test_the_arbiter_is_restarted_by_another_version_of_hpcnode() -> None:
    """It runs for ever, and goes on with the version it was started from."""
    tasks = yaml.safe_load((ROLES / "health_checks/tasks/arbiter.yml").read_text(encoding="utf-8"))
    (files,) = (task["hpcai.azure.daemon"]["files"] for task in tasks if "hpcai.azure.daemon" in task)
    assert set(files) == {"/etc/hpcai/health_arbiter.json", TOOL}


def test_files_are_merged_and_a_null_gives_the_default(made: Any) -> None:
    files = {file["name"]: file["settings"] for file in made["some"]["node"]["files"]}
    assert files == {
        "health": {"off": ["gemm"], "warn_only": ["load"]},
        "health_report": {"field": "Comment", "refuse_jobs": True},
    }
    arbiter = made["some"]["ctl"]["arbiter"]
    assert (arbiter["max_out"], arbiter["confirm"], arbiter["escalate"]) == ("4", {"free_space": 3}, False)
    assert "interval_s" not in arbiter


def test_a_misspelt_name_is_refused_where_ansible_runs(show: Show) -> None:
    """Before anything is written, and in check mode too: the file's content cannot be made."""
    misspelt = {"health_checks_config": {"options": {"free_space": {"fail_procent": 3}}}}
    with pytest.raises(AnsibleError, match=r"options\.free_space: .* fail_procent, did you mean fail_percent\?"):
        show("hpcai.azure.health_checks", HOSTS, SHOWN, **misspelt)
    shown = show("hpcai.azure.health_checks", HOSTS, SHOWN, **misspelt, health_checks_state="absent")
    assert shown["node"]["files"][0]["settings"] == {}


@pytest.mark.parametrize("case", ["nothing", "short prologs", "shorter"])
def test_scripts_are_ones_that_the_runner_takes(made: Any, case: str) -> None:
    hooks = made[case]["node"]["hooks"]
    wanted = {kind: scripts_from(kind, hooks[kind]) for kind in KINDS}
    assert {kind: list(scripts) for kind, scripts in wanted.items()} == {
        "prolog": [PROLOG_SCRIPT],
        "epilog": ["70-health"],
        "health": ["30-health"],
    }
    assert all(script.limit for scripts in wanted.values() for script in scripts.values())


@pytest.mark.parametrize(("case", "total"), [("nothing", DEFAULT_LIMITS["prolog"].total), ("short prologs", 40)])
def test_a_prolog_ends_by_itself_before_it_is_ended(made: Any, case: str, total: float) -> None:
    """One that is ended has failed, and Slurm drains its node whatever the arbiter thinks."""
    script = made[case]["node"]["hooks"]["prolog"][PROLOG_SCRIPT]
    within = float(re.findall(r"--within ([\d.]+)", script["content"])[0])
    assert within < script["limit"] <= total - TERM_S - BURIAL_S
    assert within >= 20


def test_the_scratch_before_a_job_is_left_to_the_checks() -> None:
    """Otherwise the prolog of the role slurm would drain nodes beyond the arbiter's limit."""
    hooks = yaml.safe_load((ROLES / "slurm/vars/main/jobs.yml").read_text(encoding="utf-8"))["__slurm_job_hooks"]
    assert hooks["prolog"]["10-scratch"]["content"].endswith("exec /usr/bin/hpcnode job scratch --unless-checked\n")
    assert SCRATCH.blocks_job
    assert PROLOG in SCRATCH.tiers


def test_the_prolog_calls_what_nodes_run(made: Any) -> None:
    content = made["nothing"]["node"]["hooks"]["prolog"][PROLOG_SCRIPT]["content"]
    assert re.search(r"\nexec /usr/bin/hpcnode health prolog --within [0-9.]+\n\Z", content)


def test_the_periodic_run_ends_before_slurmd_ends_it(made: Any) -> None:
    script = made["nothing"]["node"]["hooks"]["health"]["30-health"]
    assert script["limit"] + TERM_S + BURIAL_S <= DEFAULT_LIMITS["health"].total < 60


def test_an_epilog_never_fails(made: Any) -> None:
    assert made["nothing"]["node"]["hooks"]["epilog"]["70-health"]["content"].endswith("\nexit 0\n")


def test_it_can_be_taken_away(made: Any) -> None:
    assert made["absent"]["node"]["hooks"] == {"prolog": {}, "epilog": {}, "health": {}}
