# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vmss_impact with a simulated Azure: it always prepares reports, sends them only on request, and none twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .reading import Finished, Source, ansible, facts

IMPACTS = r"/workloadImpacts/"


def health(vm_id: str, host: str = "GGBB90904476", verdict: str = "fail", time: str = "2026-11-22T16:40:00Z") -> Any:
    """The health result of a node that lacks a GPU, with this verdict."""
    lost = {"verdict": verdict, "summary": "7 of 8 GPUs", "device": "0003:00:00.0", "cause": "node"}
    check = {"name": "gpu_count", "verdict": verdict, "action": "replace", "fault": "NHC2009", "findings": [lost]}
    node = {"name": "compute-3", "vm_id": vm_id, "host": host}
    return {"schema": 1, "command": "health", "tier": "periodic", "time": time, "node": node, "checks": [check]}


def node(source: Source, name: str = "compute000003", **more: Any) -> dict[str, Any]:
    """A node with its ids from the inventory and a health result."""
    known = facts(source.read(), name)
    vm_id = known["azure_vm_id"]
    return {"azure_id": known["azure_id"], "vm_id": vm_id, "health": health(vm_id, **more)}


def report(source: Source, *nodes: dict[str, Any], flags: tuple[str, ...] = (), **options: Any) -> Finished:
    """Run the module, with the connection options of the inventory's file."""
    folder = source.path.parent
    arguments = {"nodes": list(nodes), "path": "report", "sources": [str(source.path)], **options}
    return ansible(
        "ansible",
        "localhost",
        "-i",
        "localhost,",
        "-m",
        "hpcai.azure.vmss_impact",
        "-a",
        json.dumps(arguments),
        *flags,
        cwd=folder,
        env={"ANSIBLE_NOCOLOR": "1"},
    )


def result_of(done: Finished) -> dict[str, Any]:
    """The result of the module, which must succeed."""
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout.partition("=> ")[2]))


def impact_requests(source: Source) -> list[str]:
    """The methods of all requests to Azure for impact reports."""
    return [item["method"] for item in source.simulator.requests() if "workloadimpacts" in item["path"].lower()]


def test_reports_are_prepared_but_not_sent_by_default(source: Source, tmp_path: Path) -> None:
    done = result_of(report(source, node(source)))

    assert (done["changed"], done["sent"], done["known"]) == (True, [], [])
    assert impact_requests(source) == []
    (prepared,) = json.loads((source.path.parent / "report/impacts.json").read_text())["impacts"]
    assert prepared == done["impacts"][0]
    assert prepared["body"]["properties"]["impactCategory"] == "Resource.Hpc.Unhealthy.HpcMissingGpu"
    assert "GGBB90904476" in json.loads((source.path.parent / "report/hosts.json").read_text())["hosts"]


@pytest.mark.thorough
def test_a_second_run_with_the_same_results_changes_nothing(source: Source) -> None:
    broken = node(source)
    result_of(report(source, broken))
    assert result_of(report(source, broken))["changed"] is False


def test_a_report_is_sent_only_once(source: Source) -> None:
    first = result_of(report(source, node(source), send=True))

    (name,) = first["sent"]
    (taken,) = source.simulator.model.impacts.values()
    assert taken["name"] == name
    assert taken["properties"]["impactedResourceId"] == first["impacts"][0]["body"]["properties"]["impactedResourceId"]
    assert impact_requests(source) == ["GET", "PUT"]

    again = result_of(report(source, node(source, time="2026-11-23T08:00:00Z"), send=True))
    assert (again["known"], again["sent"]) == ([name], [])
    assert impact_requests(source) == ["GET", "PUT", "GET"]
    properties = again["impacts"][0]["body"]["properties"]
    assert properties["startDateTime"] == "2026-11-22T16:40:00Z"


def test_check_mode_predicts_the_sent_reports(source: Source) -> None:
    done = result_of(report(source, node(source), flags=("--check", "--diff"), send=True))

    assert (done["changed"], len(done["sent"])) == (True, 1)
    assert impact_requests(source) == ["GET"]
    assert not (source.path.parent / "report").exists()


@pytest.mark.thorough
def test_warnings_are_not_reported(source: Source) -> None:
    done = result_of(report(source, node(source, verdict="warn"), send=True))

    assert (done["impacts"], done["sent"]) == ([], [])
    assert impact_requests(source) == []


def test_a_node_without_physical_host_is_named_and_not_sent(source: Source) -> None:
    done = result_of(report(source, node(source, host=""), node(source, "compute000000"), send=True))

    (reason,) = done["not_sent"].values()
    assert "physical host is unknown" in reason
    assert len(done["sent"]) == 1
    assert done["unknown_hosts"] == ["compute-3"]


def test_a_node_on_a_known_bad_host_is_a_warning(source: Source) -> None:
    result_of(report(source, node(source)))

    done = report(source, node(source, "compute000000", verdict="pass", time="2026-11-23T08:00:00Z"))

    (suspect,) = result_of(done)["suspects"]
    assert "came up on the physical host GGBB90904476, which had a hardware fault" in suspect["warning"]
    assert "[WARNING]: compute-3 came up on the physical host" in done.stdout + done.stderr


def test_a_health_result_of_another_machine_is_refused(source: Source) -> None:
    known = node(source)
    known["health"]["node"]["vm_id"] = "99999999-0000-4000-8000-000000000000"

    done = report(source, known, send=True)

    assert done.returncode != 0
    assert "the health result belongs to the machine 99999999-0000-4000-8000-000000000000" in done.stdout
    assert impact_requests(source) == []


@pytest.mark.thorough
def test_an_unregistered_provider_is_an_error_with_advice(simulate: Callable[..., Source]) -> None:
    source = simulate(unregistered=("Microsoft.Impact",))

    done = report(source, node(source), send=True)

    assert done.returncode != 0
    assert "409 MissingSubscriptionRegistration" in done.stdout
    assert "Register the resource provider Microsoft.Impact in the subscription" in done.stdout
    # The prepared report is kept, and the module does not register the provider itself.
    assert (source.path.parent / "report/impacts.json").exists()
    assert {item["method"] for item in source.simulator.requests()} == {"GET"}


@pytest.mark.thorough
def test_a_missing_role_is_an_error_that_names_it(source: Source) -> None:
    broken = node(source)
    source.simulator.add_fault(f"PUT .*{IMPACTS}", status=403, code="AuthorizationFailed")

    done = report(source, broken, send=True)

    assert done.returncode != 0
    assert "Microsoft.Impact/workloadImpacts/write or the role Azure Impact Reporter" in done.stdout
    assert "Sent: none." in done.stdout


def test_a_refused_report_does_not_stop_the_others(source: Source) -> None:
    good, gone = node(source), node(source, "compute000000", host="GGBB1")
    gone["azure_id"] = gone["azure_id"][:-1] + "99"

    done = report(source, gone, good, send=True)

    assert done.returncode != 0
    assert "404 NotFound" in done.stdout
    assert [item["properties"]["impactedResourceId"] for item in source.simulator.model.impacts.values()] == [
        good["azure_id"]
    ]


def test_a_report_whose_answer_was_lost_counts_as_sent(source: Source) -> None:
    broken = node(source)
    source.simulator.add_fault(f"PUT .*{IMPACTS}", action="strip", fields=["name"], times=1)

    done = result_of(report(source, broken, send=True))

    assert len(done["sent"]) == len(source.simulator.model.impacts) == 1
    assert impact_requests(source) == ["GET", "PUT", "GET"]


@pytest.mark.thorough
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_azure_is_asked_again(source: Source, status: int) -> None:
    broken = node(source)
    source.simulator.add_fault(f"PUT .*{IMPACTS}", status=status, headers={"Retry-After": "1"}, times=1)
    assert len(result_of(report(source, broken, send=True))["sent"]) == 1


def test_the_token_is_not_shown(source: Source) -> None:
    done = report(source, node(source), flags=("-vvv",), send=True)

    assert done.returncode == 0
    assert source.simulator.token not in done.stdout + done.stderr
    assert source.simulator.token not in (source.path.parent / "report/impacts.json").read_text()


@pytest.mark.thorough
def test_an_unwritable_folder_is_reported(source: Source) -> None:
    (source.path.parent / "report").write_text("a file")

    done = report(source, node(source))

    assert done.returncode != 0
    assert "report" in done.stdout
    assert "Not a directory" in done.stdout


@pytest.mark.thorough
def test_without_health_results_nothing_is_written(source: Source) -> None:
    source.write()
    done = result_of(report(source, hosts=["silent"], variable="checked"))
    assert (done["changed"], done["left_out"]) == (False, ["silent"])
    assert not (source.path.parent / "report").exists()


@pytest.mark.thorough
def test_nodes_can_be_read_from_variables_of_hosts(source: Source) -> None:
    known = node(source)
    variables = {"azure_id": known["azure_id"], "azure_vm_id": known["vm_id"], "checked": {"health": known["health"]}}
    hosts = {"compute-3": variables, "silent": {**variables, "checked": {"unreachable": True}}, "strange": {}}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [
            {
                "hpcai.azure.vmss_impact": {"path": "report", "hosts": list(hosts), "variable": "checked"},
                "register": "done",
            },
            {
                "ansible.builtin.assert": {
                    "that": [
                        "done.impacts | length == 1",
                        "done.impacts[0].node == 'compute-3'",
                        "done.left_out == ['silent', 'strange']",
                    ]
                }
            },
        ],
    }
    folder = source.path.parent
    (folder / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"localhost": None, **hosts}}}))
    (folder / "play.yml").write_text(json.dumps([play]))

    done = ansible("ansible-playbook", "-i", "hosts.yml", "-c", "local", "play.yml", cwd=folder)

    assert done.returncode == 0, done.stdout + done.stderr
    (prepared,) = json.loads((folder / "report/impacts.json").read_text())["impacts"]
    assert prepared["node"] == "compute-3"
