#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: slurm_database
short_description: Run a MariaDB server with the database for slurmdbd
version_added: "0.1.0"
description:
  - Writes the server's settings, initializes a new data directory, runs the server, and creates the database and its
    user.
  - The database user has no password. Only the operating system's user of the same name can log in, through the socket.
  - By default, the server gets the settings that Slurm recommends. InnoDB's buffer pool gets a quarter of the machine's
    memory, at most 4 GiB.
  - Never moves, empties or deletes a database.
author:
  - hpcai.azure contributors (@hpcai)
options:
  name:
    description: Name of the database.
    type: str
    default: slurm_acct_db
  user:
    description: Name of the database user. It must be the operating system's user that slurmdbd runs as.
    type: str
    default: slurm
  datadir:
    description:
      - Data directory of the server, such as a folder on a data disk that is kept when the machine is deleted. If the
        directory contains data of MariaDB, the server uses this data. Otherwise the directory must be empty.
      - If empty, the server's default data directory is used.
      - The module refuses this option if the server runs with another data directory that contains this database,
        because the server would no longer find the database.
    type: str
    default: ""
  settings_file:
    description: Settings file that the server reads after its own files.
    type: path
    default: /etc/mysql/mariadb.conf.d/zz-hpcai-slurm.cnf
  settings:
    description: Settings of the server, which override the recommended ones. Null omits a setting.
    type: dict
    default: {}
  service:
    description: The server's systemd service.
    type: str
    default: mariadb
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    details:
      - If the server is not installed or does not run, check mode assumes that the database and the user are missing.
  diff_mode:
    description: Shows the settings before and after, and the SQL statements.
  platform:
    description: Works with MariaDB 10.5 and later.
"""

EXAMPLES = r"""
- name: Keep the accounting database on the data disk
  hpcai.azure.slurm_database:
    datadir: /data/slurm/database
"""

RETURN = r"""
actions:
  description: Actions that the module took. In check mode, the actions that it would take.
  returned: success
  type: list
  elements: str
  sample:
    - write /etc/mysql/mariadb.conf.d/zz-hpcai-slurm.cnf
    - "mariadb: systemctl restart"
    - CREATE DATABASE `slurm_acct_db`
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run, wait_until
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import daemon
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm import database

_START_S = 60


def serve(module: AnsibleModule, wanted: database.DatabaseOptions) -> tuple[list[str], list[dict[str, str]]]:
    """Run the server with its settings, and return the actions and the diffs."""
    root = Root("/")
    database.check(wanted)
    new = database.is_new_place(wanted, root)
    database.check_move(wanted, database.read_server(wanted, run))
    file = database.settings_change(wanted, root)
    actions = [f"make {wanted.datadir}"] if new else []
    actions += [f"write {wanted.settings_file}"] if file.changes else []
    if not module.check_mode:
        if new:
            database.make_place(wanted, root, run)
        file.apply()
    service = module.params["service"]
    facts = daemon.read_facts(service, [file.path], run)
    made = daemon.plan(facts, daemon.DesiredState(running=True, enabled=True), may_come=module.check_mode)
    actions += [f"{service}: systemctl {verb}" for verb in made.verbs]
    if not module.check_mode:
        daemon.apply(service, made, run)
        wait_until(lambda: bool(database.read_server(wanted, run).datadir), _START_S)
    return actions, [file.as_diff()] if file.changes else []


def fill(module: AnsibleModule, wanted: database.DatabaseOptions) -> list[str]:
    """Create the database and the user if they are missing, and return the statements."""
    server = database.read_server(wanted, run)
    if not module.check_mode and not server.datadir:
        raise CommandFailed(
            f"MariaDB does not answer root on its socket within {_START_S} s. See "
            f"'journalctl -u {module.params['service']}'."
        )
    statements = database.plan_sql(wanted, server)
    if not module.check_mode:
        database.apply_sql(statements, run)
    return list(statements)


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "default": "slurm_acct_db"},
            "user": {"type": "str", "default": "slurm"},
            "datadir": {"type": "str", "default": ""},
            "settings_file": {"type": "path", "default": "/etc/mysql/mariadb.conf.d/zz-hpcai-slurm.cnf"},
            "settings": {"type": "dict", "default": {}},
            "service": {"type": "str", "default": "mariadb"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    datadir = asked["datadir"].rstrip("/")
    wanted = database.DatabaseOptions(asked["name"], asked["user"], datadir, asked["settings_file"], asked["settings"])
    try:
        actions, diffs = serve(module, wanted)
        statements = fill(module, wanted)
    except (database.Refused, CommandFailed, OSError) as error:
        module.fail_json(msg=str(error))
    if statements:
        diffs.append({"before": "", "after": "".join(f"{statement};\n" for statement in statements)})
    module.exit_json(changed=bool(actions or statements), actions=[*actions, *statements], diff=diffs)


if __name__ == "__main__":
    main()
