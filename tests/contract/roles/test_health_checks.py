# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of the role health_checks: scripts, files, and the host of the arbiter. No task runs."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from stand_ins import own_folders

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.diag import CAPTURE_S
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.perform import CaptureSettings
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import PROLOG
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.scratch import SCRATCH
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.install import scripts_from
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.options import DEFAULT_LIMITS, KINDS
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.runner import BURIAL_S, TERM_S
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.gather import Settings as GoodputSettings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.exposition import TEXT_FOLDER
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.settings import Settings as RecoverySettings
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.layout import TOOL
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.arbiter.reasons import PROLOG_SCRIPT

from .conftest import LOCAL, Evaluate

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
EXPRESSIONS = {name: f"{{{{ __health_checks_{name} }}}}" for name in ("files", "arbiter", "has_arbiter", "hooks")}
FACTS = {"pkg_mgr": "apt", "distribution": "Debian", "distribution_major_version": "13"}
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
    "captures": {"health_checks_capture": {"on_fault": True}, "health_checks_arbiter": {"capture_s": None}},
    "captures, own time": {"health_checks_capture": {"on_fault": True}, "health_checks_arbiter": {"capture_s": 900}},
    "captures nothing": {"health_checks_capture": {"on_fault": None, "keep": 2}},
}


@pytest.fixture(scope="module")
def by_case(evaluate: Evaluate) -> dict[str, dict[str, dict[str, Any]]]:
    """The role's internal variables by case and host."""
    functions = "{{ group_names | map('regex_replace', '^hpcai_', '') | list }}"
    return {
        name: evaluate(
            "hpcai.azure.health_checks", HOSTS, EXPRESSIONS, **{"health_checks_functions": functions, **variables}
        )
        for name, variables in CASES.items()
    }


def test_there_is_one_arbiter_on_the_first_controller(by_case: Any) -> None:
    assert {host: values["has_arbiter"] for host, values in by_case["nothing"].items()} == {
        "ctl": True,
        "ctl2": False,
        "node": False,
    }


def test_a_controller_that_is_not_the_first_one_any_more_loses_its_services(tmp_path: pathlib.Path) -> None:
    """Else two recoveries would decide about each job. In check mode, because nothing can be stopped here."""
    files = [f"/etc/systemd/system/hpcai-{name}.service" for name in ("health-arbiter", "recovery")]
    metrics = [f"/var/lib/prometheus/node-exporter/hpcai_{name}.prom" for name in ("health_arbiter", "goodput")]
    folders = ["/var/lib/prometheus/node-exporter", "/etc/systemd/system"]
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.file": {"path": "{{ item }}", "state": "directory"}, "loop": folders},
        {"ansible.builtin.copy": {"dest": "{{ item }}", "content": ""}, "loop": files + metrics},
        {"ansible.builtin.include_role": {"name": "hpcai.azure.health_checks", "tasks_from": "configure.yml"}},
    ]
    for task in tasks[:2]:
        task["check_mode"] = False
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "hpcai_controller", "gather_facts": False, "tasks": tasks}]), encoding="utf-8"
    )
    old = {"vars": {**LOCAL, "ansible_facts": FACTS, "health_checks_recovery": {"interval_s": 5}}}
    inventory = {"all": {**old, "children": {"hpcai_controller": {"hosts": {"new": {}, "old": {}}}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory, sort_keys=False), encoding="utf-8")
    done = own_folders.ansible_playbook(tmp_path, "-i", "hosts.yml", "play.yml", "--check", "--limit", "old")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout
    for name in ("Stop hpcai-health-arbiter", "Stop hpcai-recovery", "Remove the ledger's units, settings and metrics"):
        assert name in shown, shown
    by_role = shown.partition("include_role")[2]
    for item in [*files, *metrics]:
        assert f"changed: [old] => (item={item})" in by_role, shown


def test_a_new_version_of_hpcnode_restarts_the_arbiter() -> None:
    """The arbiter runs forever, and without a restart would keep its old version."""
    tasks = yaml.safe_load((ROLES / "health_checks/tasks/service.yml").read_text(encoding="utf-8"))
    (files,) = (task["hpcai.azure.daemon"]["files"] for task in tasks if "hpcai.azure.daemon" in task)
    assert set(files) == {"/etc/hpcai/{{ __health_checks_file }}.json", TOOL}


def test_each_service_of_the_controller_has_its_unit_and_settings() -> None:
    tasks = yaml.safe_load((ROLES / "health_checks/tasks/configure.yml").read_text(encoding="utf-8"))
    services = [task["vars"] for task in tasks if "vars" in task]
    assert [(one["__health_checks_unit"], one["__health_checks_file"]) for one in services] == [
        ("hpcai-health-arbiter", "health_arbiter"),
        ("hpcai-recovery", "recovery"),
    ]
    for one in services:
        assert (ROLES / f"health_checks/templates/{one['__health_checks_unit']}.service.j2").is_file()


@pytest.mark.parametrize("unit", ["recovery", "goodput"])
def test_what_reads_the_records_of_users_jobs_has_a_limit_of_memory(unit: str) -> None:
    """Else a user with enough jobs would end slurmctld, which runs on the same machine."""
    text = (ROLES / f"health_checks/templates/hpcai-{unit}.service.j2").read_text(encoding="utf-8")
    assert "\nMemoryMax=1G\n" in text


def test_settings_are_merged_and_null_restores_the_default(by_case: Any) -> None:
    files = {file["name"]: file["settings"] for file in by_case["some"]["node"]["files"]}
    assert files == {
        "health": {"off": ["gemm"], "warn_only": ["load"]},
        "diag": {"on_fault": False, "keep": 5, "upload": "", "pseudonyms": False},
        "health_report": {"field": "Comment", "refuse_jobs": True},
    }
    arbiter = by_case["some"]["ctl"]["arbiter"]
    assert (arbiter["max_out"], arbiter["confirm"], arbiter["escalate"]) == ("4", {"free_space": 3}, False)
    assert "interval_s" not in arbiter


@pytest.mark.parametrize(
    ("case", "waits_s"), [("nothing", 0), ("captures", 400), ("captures, own time", 900), ("captures nothing", 0)]
)
def test_the_arbiter_waits_for_the_diagnostics_that_nodes_collect(by_case: Any, case: str, waits_s: float) -> None:
    """Else the restart of a node would destroy them before they are collected."""
    assert by_case[case]["ctl"]["arbiter"]["capture_s"] == waits_s


def test_the_arbiter_waits_longer_than_the_collection_may_take(by_case: Any) -> None:
    """The rest of the time is for the copy to Blob storage."""
    assert by_case["captures"]["ctl"]["arbiter"]["capture_s"] >= CAPTURE_S + 60


def test_a_misspelt_setting_is_refused_before_anything_is_written(evaluate: Evaluate) -> None:
    """The content of the file cannot be rendered, so the run stops before anything is written, also in check mode."""
    misspelt = {"health_checks_config": {"options": {"free_space": {"fail_procent": 3}}}}
    with pytest.raises(AnsibleError, match=r"options\.free_space: .* fail_procent, did you mean fail_percent\?"):
        evaluate("hpcai.azure.health_checks", HOSTS, EXPRESSIONS, **misspelt)
    values = evaluate("hpcai.azure.health_checks", HOSTS, EXPRESSIONS, **misspelt, health_checks_state="absent")
    assert values["node"]["files"][0]["settings"] == {}


@pytest.mark.parametrize("case", ["nothing", "short prologs", "shorter"])
def test_the_runner_accepts_the_scripts(by_case: Any, case: str) -> None:
    hooks = by_case[case]["node"]["hooks"]
    wanted = {kind: scripts_from(kind, hooks[kind]) for kind in KINDS}
    assert {kind: list(scripts) for kind, scripts in wanted.items()} == {
        "prolog": [PROLOG_SCRIPT],
        "epilog": ["70-health"],
        "health": ["30-health"],
    }
    assert all(script.limit for scripts in wanted.values() for script in scripts.values())


@pytest.mark.parametrize(("case", "total"), [("nothing", DEFAULT_LIMITS["prolog"].total), ("short prologs", 40)])
def test_a_prolog_ends_before_its_time_limit(by_case: Any, case: str, total: float) -> None:
    """A prolog that is killed at its time limit has failed, and Slurm drains its node regardless of the arbiter."""
    script = by_case[case]["node"]["hooks"]["prolog"][PROLOG_SCRIPT]
    within = float(re.findall(r"--within ([\d.]+)", script["content"])[0])
    assert within < script["limit"] <= total - TERM_S - BURIAL_S
    assert within >= 20


def test_the_health_checks_check_the_scratch_before_a_job() -> None:
    """Otherwise the prolog of the role slurm would drain nodes beyond the arbiter's limit."""
    hooks = yaml.safe_load((ROLES / "slurm/vars/main/jobs.yml").read_text(encoding="utf-8"))["__slurm_job_hooks"]
    assert hooks["prolog"]["10-scratch"]["content"].endswith("exec /usr/bin/hpcnode job scratch --unless-checked\n")
    assert SCRATCH.blocks_job
    assert PROLOG in SCRATCH.tiers


def test_the_prolog_calls_the_command_health_prolog(by_case: Any) -> None:
    content = by_case["nothing"]["node"]["hooks"]["prolog"][PROLOG_SCRIPT]["content"]
    assert re.search(r"\nexec /usr/bin/hpcnode health prolog --within [0-9.]+\n\Z", content)


def test_the_periodic_run_ends_before_slurmds_limit(by_case: Any) -> None:
    script = by_case["nothing"]["node"]["hooks"]["health"]["30-health"]
    assert script["limit"] + TERM_S + BURIAL_S <= DEFAULT_LIMITS["health"].total < 60


def test_an_epilog_never_fails(by_case: Any) -> None:
    assert by_case["nothing"]["node"]["hooks"]["epilog"]["70-health"]["content"].endswith("\nexit 0\n")


def test_absent_removes_the_scripts(by_case: Any) -> None:
    assert by_case["absent"]["node"]["hooks"] == {"prolog": {}, "epilog": {}, "health": {}}


@pytest.mark.parametrize(
    ("variable", "settings"),
    [
        ("health_checks_capture", CaptureSettings()),
        ("health_checks_goodput", GoodputSettings()),
        ("health_checks_recovery", RecoverySettings()),
    ],
)
def test_the_role_documents_each_setting_of_the_node(variable: str, settings: object) -> None:
    specs = yaml.safe_load((ROLES / "health_checks/meta/argument_specs.yml").read_text(encoding="utf-8"))
    assert set(specs["argument_specs"]["main"]["options"][variable]["options"]) == set(vars(settings))


def test_ledger_and_recovery_are_set_up_only_with_settings(evaluate: Evaluate) -> None:
    expressions = {"ledger": "{{ __health_checks_wants_goodput }}", "recovery": "{{ __health_checks_wants_recovery }}"}
    assert evaluate("hpcai.azure.health_checks", HOSTS, expressions)["ctl"] == {"ledger": False, "recovery": False}
    wanted = {"health_checks_goodput": {"days": 1}, "health_checks_recovery": {"interval_s": 5}}
    found = evaluate("hpcai.azure.health_checks", HOSTS, expressions, **wanted)
    assert found["ctl"] == {"ledger": True, "recovery": True}
    found = evaluate("hpcai.azure.health_checks", HOSTS, expressions, **wanted, health_checks_state="absent")
    assert found["ctl"] == {"ledger": False, "recovery": False}


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"hpcai_monitoring": True}, {"metrics": TEXT_FOLDER}),
        ({"hpcai_monitoring": True, "slurm_accounting": True}, {"metrics": TEXT_FOLDER}),
        (
            {"hpcai_monitoring": True, "health_checks_goodput": {"days": 1, "metrics": None}},
            {"days": 1, "metrics": TEXT_FOLDER},
        ),
        ({"hpcai_monitoring": True, "health_checks_goodput": {"metrics": ""}}, {"metrics": ""}),
        ({"hpcai_monitoring": True, "slurm_accounting": False}, {}),
        ({"health_checks_goodput": {"days": 1}}, {"days": 1}),
    ],
    ids=["monitored", "accounting", "other settings", "no metrics", "no accounting", "not monitored"],
)
def test_the_ledger_of_a_monitored_cluster_writes_metrics(
    evaluate: Evaluate, given: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Otherwise the page about goodput is empty. Without slurmdbd there is nothing to compute."""
    expressions = {"settings": "{{ __health_checks_goodput }}", "wanted": "{{ __health_checks_wants_goodput }}"}
    found = evaluate("hpcai.azure.health_checks", HOSTS, expressions, **given)["ctl"]
    assert found == {"settings": settings, "wanted": bool(settings)}
