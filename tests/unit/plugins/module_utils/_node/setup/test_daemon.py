# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a service is restarted, enabled or stopped, and what is reported if that fails."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.daemon import DesiredState, Plan, ServiceFacts

RUNNING = DesiredState(running=True, enabled=True)
STOPPED = DesiredState(running=False, enabled=False)
HEALTHY = ServiceFacts(
    name="munge",
    loaded=True,
    load_state="loaded",
    active="active",
    enabled=True,
    started_at=1000.0,
    newest_file=("/etc/munge/munge.key", 999.0),
    needs_daemon_reload=False,
)
# Without FragmentPath and DropInPaths, which would be looked up on the machine that runs the test.
SHOWN = """\
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
ExecMainStartTimestamp=Sat 2026-11-21 10:50:01.250000 UTC
NeedDaemonReload=no
"""
STARTED_AT = 1795258201.25


def but(**changes: object) -> ServiceFacts:
    """The healthy service with some changes."""
    return dataclasses.replace(HEALTHY, **changes)  # type: ignore[arg-type]


class Systemd:
    """A fake systemctl and journalctl; ``refused`` has the errors of other verbs. Records the commands."""

    def __init__(self, shown: str = SHOWN, journal: str = "", is_active: str = "active", **refused: str) -> None:
        self.shown, self.journal, self.is_active, self.refused = shown, journal, is_active, refused
        self.commands: list[str] = []

    def __call__(self, command: Sequence[str]) -> Result:
        self.commands.append(" ".join(command))
        verb = command[1]
        if command[0] == "journalctl":
            return Result(tuple(command), 0, self.journal, "")
        if verb == "show":
            return Result(tuple(command), 0, self.shown, "")
        if verb == "is-active":
            return Result(tuple(command), 0 if self.is_active == "active" else 3, self.is_active + "\n", "")
        refusal = self.refused.get(verb.replace("-", "_"), "")
        return Result(tuple(command), 1 if refusal else 0, "", refusal)


def test_a_running_service_with_its_current_files_is_left_alone() -> None:
    assert daemon.plan(HEALTHY, RUNNING) == Plan((), ())


def test_a_service_without_any_file_is_left_alone() -> None:
    assert daemon.plan(but(newest_file=None), RUNNING) == Plan((), ())


def test_a_file_as_old_as_the_process_does_not_restart_it() -> None:
    assert daemon.plan(but(newest_file=("/f", 1000.0)), RUNNING).verbs == ()


def test_a_newer_file_restarts_the_service_and_is_named() -> None:
    made = daemon.plan(but(newest_file=("/etc/munge/munge.key", 1000.001)), RUNNING)
    assert made == Plan(("restart",), ("/etc/munge/munge.key is newer than the running process",))


def test_a_running_service_with_unknown_start_time_is_restarted() -> None:
    assert daemon.plan(but(started_at=None), RUNNING).verbs == ("restart",)


def test_a_running_service_is_restarted_if_one_of_its_files_would_be_written_first() -> None:
    made = daemon.plan(HEALTHY, RUNNING, pending=True)
    assert made == Plan(("restart",), ("one of its files would be written first",))
    assert daemon.plan(but(active="inactive", enabled=False), STOPPED, pending=True) == Plan((), ())


@pytest.mark.parametrize("state", ["inactive", "failed", "deactivating", "auto-restart", "auto-restart-queued"])
def test_a_service_that_is_not_up_is_started(state: str) -> None:
    assert daemon.plan(but(active=state), RUNNING) == Plan(("restart",), (f"it is {state}",))


@pytest.mark.parametrize("state", ["active", "activating", "reloading"])
def test_a_service_that_is_starting_or_reloading_is_not_restarted(state: str) -> None:
    assert daemon.plan(but(active=state), RUNNING).verbs == ()


def test_changed_unit_files_are_read_before_the_restart() -> None:
    made = daemon.plan(but(needs_daemon_reload=True, enabled=False), RUNNING)
    assert made.verbs == ("daemon-reload", "enable", "restart")
    assert made.reasons == ("unit files changed since systemd read them", "it is not enabled")


def test_enabling_alone_does_not_restart() -> None:
    assert daemon.plan(but(enabled=False), RUNNING) == Plan(("enable",), ("it is not enabled",))


@pytest.mark.parametrize("desired", [RUNNING, DesiredState(running=True, enabled=False)])
def test_a_unit_that_cannot_be_enabled_or_disabled_is_left_as_it_is(desired: DesiredState) -> None:
    assert daemon.plan(but(enabled=None), desired) == Plan((), ())


@pytest.mark.parametrize("state", ["active", "activating", "auto-restart"])
def test_a_service_to_be_stopped_is_stopped_and_disabled(state: str) -> None:
    made = daemon.plan(but(active=state), STOPPED)
    assert made == Plan(("disable", "stop"), ("it is enabled", f"it is {state}"))


@pytest.mark.parametrize("state", ["inactive", "failed", "deactivating"])
def test_a_stopped_service_stays_stopped_whatever_its_files(state: str) -> None:
    assert daemon.plan(but(active=state, enabled=False, newest_file=("/f", 9999.0)), STOPPED) == Plan((), ())


@pytest.mark.parametrize(
    ("desired", "verbs"),
    [
        (RUNNING, ("enable", "restart")),
        (DesiredState(running=True, enabled=False), ("restart",)),
        (DesiredState(running=False, enabled=True), ("enable",)),
    ],
)
def test_a_unit_that_a_package_may_still_install_is_planned_for(desired: DesiredState, verbs: tuple[str, ...]) -> None:
    facts = but(loaded=False, load_state="not-found", active="inactive", enabled=False, started_at=None)
    assert daemon.plan(facts, desired, may_come=True) == Plan(verbs, ("systemd does not know munge yet",))


@pytest.mark.parametrize("load_state", ["masked", "bad-setting"])
def test_an_existing_unit_that_cannot_be_loaded_is_never_planned_for(load_state: str) -> None:
    with pytest.raises(CommandFailed, match=load_state):
        daemon.plan(but(loaded=False, load_state=load_state), RUNNING, may_come=True)


@pytest.mark.parametrize("load_state", ["not-found", "masked", "bad-setting"])
@pytest.mark.parametrize("desired", [RUNNING, DesiredState(running=False, enabled=True)])
def test_a_unit_that_cannot_be_loaded_is_an_error(load_state: str, desired: DesiredState) -> None:
    with pytest.raises(CommandFailed) as caught:
        daemon.plan(but(loaded=False, load_state=load_state), desired)
    assert str(caught.value) == (
        f"systemd cannot load munge (LoadState={load_state}): install the package that contains it, or unmask it."
    )


def test_a_missing_unit_counts_as_stopped() -> None:
    facts = but(loaded=False, load_state="not-found", active="inactive", enabled=False, started_at=None)
    assert daemon.plan(facts, STOPPED) == Plan((), ())


def test_a_masked_service_that_still_runs_is_stopped() -> None:
    facts = but(loaded=False, load_state="masked", enabled=False)
    assert daemon.plan(facts, STOPPED) == Plan(("stop",), ("it is active",))


def test_the_facts_are_read_from_systemctl_show(tmp_path: pathlib.Path) -> None:
    watched = tmp_path / "munge.key"
    watched.touch()
    os.utime(watched, (500, 500))
    systemd = Systemd()
    assert daemon.read_facts("munge", [str(watched)], systemd) == ServiceFacts(
        name="munge",
        loaded=True,
        load_state="loaded",
        active="active",
        enabled=True,
        started_at=STARTED_AT,
        newest_file=(str(watched), 500.0),
        needs_daemon_reload=False,
    )
    assert systemd.commands == [
        "systemctl show munge --timestamp=us+utc --property=LoadState,ActiveState,SubState,UnitFileState,"
        "ExecMainStartTimestamp,FragmentPath,DropInPaths,NeedDaemonReload"
    ]


def test_the_facts_of_a_missing_unit_are_read() -> None:
    facts = daemon.read_facts("nosuch", [], Systemd("LoadState=not-found\nActiveState=inactive\nSubState=dead\n"))
    assert (facts.loaded, facts.load_state, facts.active) == (False, "not-found", "inactive")
    assert (facts.enabled, facts.started_at, facts.newest_file) == (False, None, None)


def test_a_masked_unit_counts_as_not_loaded() -> None:
    facts = daemon.read_facts("munge", [], Systemd("LoadState=masked\nActiveState=inactive\nUnitFileState=masked\n"))
    assert (facts.loaded, facts.load_state, facts.enabled) == (False, "masked", False)


@pytest.mark.parametrize(
    ("state", "enabled"),
    [
        ("enabled", True),
        ("disabled", False),
        # Lost at the next boot.
        ("enabled-runtime", False),
        ("static", None),
        ("generated", None),
        ("alias", None),
        ("indirect", None),
        ("", False),
    ],
)
def test_a_unit_counts_as_enabled_only_if_it_starts_at_each_boot(state: str, enabled: bool | None) -> None:
    shown = SHOWN.replace("UnitFileState=enabled", f"UnitFileState={state}")
    assert daemon.read_facts("munge", [], Systemd(shown)).enabled is enabled


def test_a_service_that_fails_repeatedly_does_not_count_as_starting() -> None:
    shown = SHOWN.replace("ActiveState=active", "ActiveState=activating")
    failing = daemon.read_facts("slurmd", [], Systemd(shown.replace("SubState=running", "SubState=auto-restart")))
    starting = daemon.read_facts("slurmd", [], Systemd(shown.replace("SubState=running", "SubState=start-pre")))
    assert (failing.active, starting.active) == ("auto-restart", "activating")


def test_unit_files_and_drop_ins_count_among_the_files(tmp_path: pathlib.Path) -> None:
    unit, first, second = tmp_path / "munge.service", tmp_path / "10.conf", tmp_path / "20.conf"
    for age, file in enumerate((unit, first, second), start=1):
        file.touch()
        os.utime(file, (age, age))
    shown = f"{SHOWN}FragmentPath={unit}\nDropInPaths={first} {second}\n"
    assert daemon.read_facts("munge", [], Systemd(shown)).newest_file == (str(second), 2.0 + 1)
    os.utime(unit, (9, 9))
    assert daemon.read_facts("munge", [], Systemd(shown)).newest_file == (str(unit), 9.0)


def test_changed_unit_files_are_noticed() -> None:
    shown = SHOWN.replace("NeedDaemonReload=no", "NeedDaemonReload=yes")
    assert daemon.read_facts("munge", [], Systemd(shown)).needs_daemon_reload is True


def test_a_drop_in_that_systemd_has_not_read_is_noticed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "DROP_INS", str(tmp_path))

    def needs_it(drop_ins: str = "") -> bool:
        return daemon.read_facts("munge", [], Systemd(f"{SHOWN}DropInPaths={drop_ins}\n")).needs_daemon_reload

    folder = tmp_path / "munge.service.d"
    folder.mkdir()
    (folder / "notes.txt").touch()
    (folder / "masked.conf").symlink_to("/dev/null")
    assert not needs_it()
    (folder / "hpcai.conf").touch()
    assert needs_it()
    assert not needs_it(f"{folder}/hpcai.conf")


def test_a_machine_without_systemd_is_an_error() -> None:
    def run(command: Sequence[str]) -> Result:
        return Result(tuple(command), 127, "", "systemctl: command not found")

    with pytest.raises(CommandFailed, match="systemctl: command not found"):
        daemon.read_facts("munge", [], run)


@pytest.mark.parametrize("text", ["", "  ", "n/a"])
def test_a_missing_timestamp_is_none(text: str) -> None:
    assert daemon.parse_timestamp(text) is None


def test_timestamps_are_read_to_the_microsecond() -> None:
    assert daemon.parse_timestamp("Thu 1970-01-01 00:00:01.000001 UTC") == 1.000001
    assert daemon.parse_timestamp("Sat 2026-11-21 10:50:01.250000 UTC") == STARTED_AT


def test_timestamps_are_read_under_a_german_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    # AnsibleModule sets the process's locale to the user's, and strptime uses its names of weekdays.
    monkeypatch.setattr("calendar.day_abbr", ["Mo", "Di", "Mi", "Do", "Fr", "Sa", "So"])
    monkeypatch.setattr("_strptime._getlang", lambda: ("de_DE", "UTF-8"))
    assert daemon.parse_timestamp("Sat 2026-11-21 10:50:01.250000 UTC") == STARTED_AT


def test_the_newest_of_files_and_entries_counts(tmp_path: pathlib.Path) -> None:
    folder, file = tmp_path / "slurm", tmp_path / "munge.key"
    folder.mkdir()
    entry = folder / "slurm.conf"
    for path in (file, entry):
        path.touch()
    for age, path in enumerate((file, entry, folder), start=1):
        os.utime(path, (age, age))
    watched = [str(file), str(folder)]
    assert daemon.newest(watched) == (str(folder), 3.0)
    os.utime(entry, (4, 4))
    assert daemon.newest(watched) == (str(entry), 4.0)
    os.utime(file, (5, 5))
    assert daemon.newest(watched) == (str(file), 5.0)


def test_removing_a_file_makes_its_folder_newer(tmp_path: pathlib.Path) -> None:
    removed = tmp_path / "gres.conf"
    removed.touch()
    os.utime(removed, (1, 1))
    os.utime(tmp_path, (1, 1))
    removed.unlink()
    youngest = daemon.newest([str(tmp_path)])
    assert youngest is not None
    assert youngest[0] == str(tmp_path)
    assert youngest[1] > 1


def test_missing_files_and_dangling_links_are_no_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert daemon.newest([str(tmp_path / "missing"), str(tmp_path / "dangling")]) is None
    assert daemon.newest([]) is None


def test_the_verbs_are_run_in_their_order() -> None:
    systemd = Systemd()
    daemon.apply("munge", Plan(("daemon-reload", "enable", "restart"), ()), systemd)
    assert systemd.commands == ["systemctl daemon-reload", "systemctl enable munge", "systemctl restart munge"]


def test_a_failed_restart_reports_the_services_log_and_stops() -> None:
    systemd = Systemd(journal="\nmunged: Error: Keyfile is insecure\n  exited \n", restart="Job for munge failed.\n")
    with pytest.raises(CommandFailed) as caught:
        daemon.apply("munge", Plan(("restart", "enable"), ()), systemd)
    assert str(caught.value) == "'systemctl restart munge' failed: munged: Error: Keyfile is insecure | exited"
    assert systemd.commands == [
        "systemctl restart munge",
        "journalctl --unit munge --no-pager --quiet --output=cat --lines=5",
    ]


def test_a_failed_restart_without_a_journal_reports_systemctls_error() -> None:
    with pytest.raises(CommandFailed, match=r"failed: Unit munge\.service not found\.$"):
        daemon.apply("munge", Plan(("restart",), ()), Systemd(restart="Unit munge.service not found.\n"))


@pytest.mark.parametrize(
    ("verb", "command"), [("enable", "systemctl enable munge"), ("daemon-reload", "systemctl daemon-reload")]
)
def test_any_other_failure_reports_systemctls_error_and_no_log(verb: str, command: str) -> None:
    systemd = Systemd(journal="all is well", enable="Access denied\n", daemon_reload="Access denied\n")
    with pytest.raises(CommandFailed) as caught:
        daemon.apply("munge", Plan((verb,), ()), systemd)
    assert str(caught.value) == f"'{command}' failed (exit status 1): Access denied"


@pytest.mark.parametrize("state", ["active", "reloading"])
def test_a_service_that_is_up_is_no_problem(state: str) -> None:
    systemd = Systemd(is_active=state)
    assert daemon.check_running("munge", systemd) is None
    assert systemd.commands == ["systemctl is-active munge"]


def test_a_service_that_did_not_stay_up_is_reported_with_its_log() -> None:
    systemd = Systemd(is_active="failed", journal="Address already in use\n")
    assert daemon.check_running("munge", systemd) == "munge is failed: Address already in use"
    assert daemon.check_running("munge", Systemd(is_active="activating")) == "munge is activating: no log"


def test_the_diff_shows_state_commands_and_reasons() -> None:
    facts = but(active="failed", enabled=False)
    assert daemon.as_diff(facts, RUNNING, daemon.plan(facts, RUNNING)) == {
        "before": "active: failed\nenabled: False\n",
        "after": (
            "active: active\nenabled: True\nsystemctl enable\nsystemctl restart\n"
            "because it is not enabled\nbecause it is failed\n"
        ),
    }


def test_the_diff_of_a_stop_keeps_a_unit_that_cannot_be_disabled() -> None:
    facts = but(enabled=None)
    assert daemon.as_diff(facts, STOPPED, daemon.plan(facts, STOPPED)) == {
        "before": "active: active\nenabled: None\n",
        "after": "active: inactive\nenabled: None\nsystemctl stop\nbecause it is active\n",
    }


def test_no_change_has_no_diff() -> None:
    assert daemon.as_diff(HEALTHY, RUNNING, Plan((), ())) == {}
