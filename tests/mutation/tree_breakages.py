# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make breakages` breaks in the archive, in the simulator and in the set-up of tests. See breakages.py."""

from __future__ import annotations

from mutation.breakages import CONTAINERS, CONTRACT, UNIT, Breakage, broken

TREE_BREAKAGES: tuple[Breakage, ...] = (
    *broken(
        "galaxy.yml",
        f"{CONTRACT}/test_archive.py",
        (
            "the archive contains the tests",
            "    - recursive-include docs *.md",
            "    - recursive-include tests *.py\n    - recursive-include docs *.md",
            "test_the_archive_contains_only_files_for_users",
        ),
        (
            "the archive contains what ansible-galaxy includes by default",
            "  omit_default_directives: true\n",
            "",
            "test_the_archive_contains_only_files_for_users",
        ),
        (
            "the archive has no playbooks",
            "    - recursive-include playbooks **\n",
            "",
            "test_the_archive_contains_all_plugins_roles_and_playbooks",
            "test_the_archive_contains_each_kind_of_file",
        ),
        (
            "the archive lacks files of the top folder",
            "COPYING REUSE.toml requirements.txt",
            "COPYING REUSE.toml",
            "test_the_archive_contains_each_kind_of_file",
        ),
        (
            "the archive lacks images that its pages show",
            "*.rst *.svg *.png *.yml",
            "*.rst *.yml",
            "test_links_between_documents_are_valid",
        ),
    ),
    *broken(
        "README.md",
        f"{CONTRACT}/test_archive.py",
        (
            "a link of the README leads nowhere",
            "](docs/architecture.md)",
            "](docs/no-such-page.md)",
            "test_links_between_documents_are_valid",
        ),
    ),
    *broken(
        f"{CONTAINERS}/apt_sources.py",
        f"{CONTRACT}/simulator/test_host.py",
        (
            "machines get the packages of the host's suite",
            "word.replace(codename, suite)",
            "word",
            "test_the_mirror_of_a_debian_13_host_is_used_for_the_machines_suite",
        ),
        (
            "package sources with another key are used",
            '"debian-archive" in signer',
            "signer",
            "test_the_mirror_of_a_debian_13_host_is_used_for_the_machines_suite",
        ),
        (
            "package sources with backports are used",
            "(-updates|-security)?",
            "(-updates|-security|-backports)?",
            "test_sources_in_one_line_format_are_read",
        ),
        (
            "package sources of Ubuntu are used for Debian",
            """ if fields.get("ID", "").strip('"') == "debian" else \"\"""",
            "",
            "test_ubuntu_sources_are_not_used_for_debian",
        ),
        (
            "machines use a proxy on the host's loopback",
            'return re.search(r"//(127\\.|localhost|\\[::1\\])", value) is not None',
            "return False",
            "test_a_proxy_on_loopback_is_not_used_by_machines",
        ),
    ),
    *broken(
        f"{CONTAINERS}/podman.py",
        f"{CONTRACT}/simulator/test_host.py",
        (
            "crun is used with cgroups v1, where it cannot start systemd",
            '("crun", "runc") if plain_cgroup_v2() else ("runc",)',
            '("crun", "runc")',
            "test_the_container_runtime_depends_on_the_cgroup_version",
        ),
    ),
    *broken(
        f"{CONTAINERS}/firewall.py",
        f"{CONTRACT}/simulator/test_host.py",
        (
            "forwarding stays on after the last network",
            "        if before.exists() and not ours:",
            "        if False:",
            "test_forwarding_is_allowed_while_a_network_is_open_and_then_restored",
        ),
        (
            "machines cannot connect if the host's packet filter drops by default",
            "        if _closed(chain):",
            "        if False:",
            "test_forwarding_is_allowed_while_a_network_is_open_and_then_restored",
        ),
    ),
    *broken(
        f"{CONTAINERS}/inotify.py",
        f"{CONTRACT}/simulator/test_host.py",
        (
            "a low limit of inotify instances stays",
            "    if found >= REQUIRED:",
            "    if True:",
            "test_a_low_limit_of_inotify_instances_is_raised",
            "test_a_limit_of_inotify_instances_that_cannot_be_raised_is_an_error",
        ),
    ),
    *broken(
        f"{CONTAINERS}/abilities.py",
        f"{CONTRACT}/simulator/test_host.py",
        (
            "cgroups v2 without the controllers that Slurm needs are used",
            'missing = sorted({*NEEDED_V2} - {*unified.read_text(encoding="ascii").split()})',
            "missing = list[str]()",
            "test_cgroups_are_used_if_the_host_has_all_controllers",
        ),
    ),
    *broken(
        "tests/setup/site_check.sh",
        f"{UNIT}/setup/test_site_check.py",
        (
            "a second run of make site may change something",
            "if grep 'changed=[1-9]' <<<\"$recaps\"; then",
            "if false; then",
            "test_fails_if_the_second_run_changes_something_and_removes_the_site",
        ),
        (
            "a failed make site-down passes",
            "! grep -q '^teardown.yml failed' \"$log\"",
            "true",
            "test_fails_if_the_teardown_fails",
        ),
        (
            "a site that somebody uses is removed",
            "    exit 77\n",
            "    true\n",
            "test_leaves_a_site_that_runs_already_alone",
        ),
    ),
)
