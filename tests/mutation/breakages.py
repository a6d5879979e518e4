# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make breakages` breaks, and the tests that must then fail: the node core, Slurm, roles.

azure_breakages.py has those of the code that sends requests to Azure, tree_breakages.py those of the archive, the
simulator and the set-up of tests, node_breakages.py those whose tests need nodes.
To add a breakage, add an entry: what is broken, the text before, the text after, and the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

NODE = "plugins/module_utils/_node"
SLURM = "plugins/plugin_utils/_slurm"
CONTAINERS = "tests/simulator/backends/containers"
UNIT, CONTRACT = "tests/unit", "tests/contract"
UNIT_NODE = f"{UNIT}/{NODE}"


@dataclass(frozen=True)
class Breakage:
    """One fault in one file.

    :ivar what: what is wrong then.
    :ivar before: a text that occurs exactly once in the file.
    :ivar after: the text that replaces it.
    :ivar tests: the tests that must fail, such as ``tests/unit/test_a.py::test_b``.
    """

    what: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def broken(file: str, tests: str, *entries: tuple[str, ...]) -> tuple[Breakage, ...]:
    """Return the breakages of a file.

    :param tests: the file of the tests.
    :param entries: what is broken, the text before, the text after, and the names of the tests.
    """
    return tuple(
        Breakage(what, file, before, after, tuple(f"{tests}::{name}" for name in names))
        for what, before, after, *names in entries
    )


BREAKAGES: tuple[Breakage, ...] = (
    *broken(
        f"{NODE}/machine/user_folders.py",
        f"{UNIT_NODE}/machine/test_user_folders.py",
        (
            "a link below a user's folder is followed",
            "_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
            "_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
            "test_entries_that_a_user_could_have_created_are_not_entered",
        ),
    ),
    *broken(
        f"{NODE}/machine/own_files.py",
        f"{UNIT_NODE}/machine/test_own_files.py",
        (
            "a job's record goes to a folder of another user",
            "handle = open_own(folder, flags) if in_own_folder else os.open(folder, flags)",
            "handle = os.open(folder, flags)",
            "test_a_folder_of_another_user_gets_no_record",
        ),
    ),
    *broken(
        f"{NODE}/recover/watch.py",
        f"{UNIT_NODE}/recover/test_watch.py",
        (
            "a file of another user ends a job",
            "progress.cannot_see(clock())",
            "pass",
            "test_a_file_of_another_user_ends_no_job",
        ),
    ),
    *broken(
        f"{NODE}/job/events/service.py",
        f"{UNIT_NODE}/job/events/test_service.py",
        (
            "a job between two steps does not keep another user from starting an event",
            "self._jobs_here().items() if uid not in users]",
            "self._jobs_here().items() if users and uid not in users]",
            "test_the_jobs_are_read_from_the_machine",
        ),
    ),
    *broken(
        "roles/portal/files/hpcai_portal/config.py",
        f"{UNIT}/portal/test_config.py",
        (
            "notebooks of all users have the same origin",
            '    if settings["domain"]:\n',
            "    if False:\n",
            "test_with_a_domain_notebooks_have_names_below_it",
        ),
    ),
    *broken(
        f"{NODE}/setup/scratch/plan.py",
        f"{UNIT_NODE}/setup/scratch/test_refusals.py",
        (
            "a disk with foreign data is used",
            "    if refusals:\n",
            "    if False:\n",
            "test_a_disk_with_foreign_content_is_refused_and_named",
        ),
    ),
    *broken(
        f"{NODE}/setup/scratch/plan.py",
        f"{UNIT_NODE}/setup/scratch/test_present.py",
        (
            "a missing member of the array is ignored",
            "    if lost > 0:\n",
            "    if False:\n",
            "test_the_array_is_rebuilt_from_fewer_disks_if_that_is_allowed",
        ),
    ),
    *broken(
        f"{NODE}/setup/tools/plan.py",
        f"{UNIT_NODE}/setup/tools/test_exchange.py",
        (
            "a version of hpcnode that a process uses is removed",
            "    kept = {*in_use, *",
            "    kept = {*",
            "test_a_running_tool_continues_with_its_own_version",
        ),
    ),
    *broken(
        f"{NODE}/setup/access/plan.py",
        f"{UNIT_NODE}/setup/access/test_access.py",
        (
            "users' services continue after their last job",
            "LINGERING: _LINGERING_TEXT if options.present else None",
            "LINGERING: None",
            "test_files_that_sshd_includes_are_written_before_sshds_own",
        ),
        (
            "PAM locks out the user who runs the playbook",
            '    if options.me and options.me != "root" and options.me not in admins:',
            "    if False:",
            "test_locking_out_the_user_who_runs_it_is_refused",
        ),
    ),
    *broken(
        f"{NODE}/elastic/machines.py",
        f"{UNIT_NODE}/elastic/test_left_machines.py",
        (
            "a node that a person has drained loses its machine",
            "    elif node.is_kept_by_people:\n",
            "    elif False:\n",
            "test_a_node_that_is_drained_while_it_boots_does_not_make_the_daemon_ask_azure_all_the_time",
        ),
        (
            "a lower maximum deletes the machine of a node that a person has drained",
            "not lease.retire and not node.away and not node.is_kept_by_people",
            "not lease.retire and not node.away",
            "test_machines_beyond_a_lower_maximum_go_when_their_jobs_have_ended",
        ),
    ),
    *broken(
        f"{NODE}/train/record.py",
        f"{UNIT_NODE}/train/test_record.py",
        (
            "exit status 75, with which a training continues, counts as a failure",
            "    if before_limit or status == CONTINUE:\n",
            "    if before_limit:\n",
            "test_how_a_run_ended",
        ),
        ("a hang counts as a crash of a node", "    if hung:\n", "    if False:\n", "test_a_hang_has_no_failed_node"),
    ),
    *broken(
        f"{NODE}/metrics/progress.py",
        f"{UNIT_NODE}/metrics/test_floods.py",
        (
            "a user's messages keep out those of others",
            "if self._accepted[uid] > MOST_PER_S:",
            "if False:",
            "test_a_user_has_a_number_of_messages_per_second",
        ),
        (
            "a user with many silent connections keeps others out",
            "oldest = next(iter(self.open))",
            "oldest = next(reversed(self.open))",
            "test_if_there_are_too_many_silent_connections_the_oldest_is_closed",
        ),
    ),
    *broken(
        f"{NODE}/train/memory.py",
        f"{UNIT_NODE}/train/test_golden.py",
        ("a logit takes 6 instead of 10 bytes", "LOGIT = 10.0", "LOGIT = 6.0", "test_peaks_of_a_real_gpu"),
    ),
    *broken(
        f"{NODE}/job/checkpoint/state.py",
        f"{UNIT_NODE}/job/checkpoint/test_watch.py",
        (
            "a checkpoint of another job is published",
            "if first and nodes > 1 and not 0 < member.started <= one.when",
            "if False and nodes > 1",
            "test_a_checkpoint_of_an_unknown_attempt_is_not_published",
        ),
    ),
    *broken(
        f"{NODE}/job/checkpoint/state.py",
        f"{UNIT_NODE}/job/checkpoint/test_directory.py",
        (
            "a record of another schema is read",
            'if given["schema"] != RECORD_SCHEMA',
            "if False",
            "test_a_record_of_a_newer_hpcnode_counts_as_none",
        ),
    ),
    *broken(
        f"{SLURM}/roll.py",
        f"{UNIT}/plugins/plugin_utils/_slurm/test_roll.py",
        (
            "a drained node with jobs is reimaged",
            "        return WAITING if node.has_jobs else FREE",
            "        return FREE",
            "test_the_phase_of_a_node_follows_from_azure_and_slurm",
        ),
        (
            "a canary is resumed before its checks",
            "    back = () if canary else",
            "    back = () if False else",
            "test_a_canary_is_one_node_of_each_set_and_stays_drained",
        ),
        (
            "a rollout that stops continues with other nodes",
            "    if stopping:\n",
            "    if False:\n",
            "test_a_stop_releases_nodes_that_are_only_drained_and_waits_for_the_others",
        ),
    ),
    *broken(
        f"{SLURM}/files.py",
        f"{UNIT}/plugins/plugin_utils/_slurm/test_files.py",
        (
            "SlurmctldParameters without enable_configless are accepted",
            "    if needs and not has:",
            "    if False:",
            "test_the_users_parameters_must_keep_configless",
        ),
    ),
    *broken(
        f"{SLURM}/config.py",
        f"{UNIT}/plugins/plugin_utils/_slurm/test_config.py",
        (
            "a value may contain a line break, and so another key of slurm.conf",
            '    if "\\n" in text or "\\r" in text:\n',
            "    if False:\n",
            "test_refuses_values_that_slurm_would_misread_and_names_the_key",
        ),
    ),
    *broken(
        "roles/slurm/vars/main/repository.yml",
        f"{CONTRACT}/roles/test_slurm_pins.py",
        (
            "the newest Slurm of two repositories is installed",
            "{% if __slurm_repository.suite in __slurm_other_suites %}",
            "{% if false %}",
            "test_slurm_comes_from_the_wanted_suite_only",
        ),
    ),
    *broken(
        f"{NODE}/setup/shared_fs/mounting.py",
        f"{UNIT_NODE}/setup/shared_fs/test_mounting.py",
        (
            "SELinux forbids sshd the keys on NFS",
            "    if any(mount.kind != LUSTRE for mount in mounts):\n",
            "    if False:\n",
            "test_sshd_may_read_keys_on_nfs_until_the_mount_is_removed",
        ),
    ),
    *broken(
        f"{NODE}/metrics/exporter.py",
        f"{CONTRACT}/roles/test_monitoring_exporter.py",
        (
            "the exporter's port is free while it restarts",
            '    _notify(environment, f"FDSTORE=1\\n{_KEPT}", made.fileno())\n',
            "",
            "test_a_user_cannot_take_the_port_while_the_exporter_restarts",
        ),
        (
            "systemd keeps the port from an older exporter",
            "            _forget(kept, environment)\n    else:\n",
            "            pass\n    else:\n",
            "test_an_exporter_that_becomes_older_than_systemd_sockets_can_listen",
        ),
    ),
    *broken(
        "roles/monitoring/vars/main.yml",
        f"{CONTRACT}/roles/test_monitoring_fakes.py",
        (
            "each machine may publish metrics of elastic sets",
            "  - hpcai_(slurm|elastic|goodput)_.*\n",
            "  - hpcai_(slurm|goodput)_.*\n",
            "test_only_controllers_may_publish_what_only_controllers_write",
        ),
    ),
)
"""Breakages whose tests need no nodes."""
