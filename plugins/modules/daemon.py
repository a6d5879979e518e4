#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: daemon
short_description: Keep a systemd service running with its current configuration
version_added: "0.1.0"
description:
  - Enables and starts a systemd service. Restarts it only if one of its files is newer than its running main process.
  - Use this module instead of a handler. A handler is lost if the run is interrupted, or the host fails, between the
    changed task and the handler. This module checks on the machine whether a restart is needed. The next run therefore
    does the restart that an interrupted run did not do.
  - The unit's own file and its drop-ins are always checked. If they changed, C(systemctl daemon-reload) runs first.
  - If a service fails repeatedly, systemd shows it as C(activating) while it waits for the next restart attempt. The
    module counts such a service as not running. With O(state=running), the module restarts it.
  - If the service does not stay up, the module fails with the last lines of the service's journal.
  - In an image, where systemd does not run, the service is only enabled or disabled, not started or stopped.
author:
  - hpcai.azure contributors (@hpcai)
options:
  name:
    description: Name of the service, with or without C(.service).
    type: str
    required: true
  state:
    description:
      - V(running) starts the service if needed. It restarts the service if a configuration file is newer than the main
        process.
      - V(stopped) stops the service.
    type: str
    choices: [running, stopped]
    default: running
  enabled:
    description:
      - Whether the service starts at boot. Defaults to V(true) for O(state=running), else to V(false).
      - A unit that cannot be enabled or disabled, such as a static one, stays as it is.
    type: bool
  files:
    description:
      - Configuration files and folders that the service reads when it starts.
      - For a folder, its entries and the folder itself are checked, so that a removed file is noticed too.
      - A file that does not exist is not an error.
    type: list
    elements: path
    default: []
  pending:
    description:
      - Tells the module that an earlier task of the play changes a file in O(files), the unit's own file or a drop-in.
        This option is used only in check mode. In check mode the earlier task does not write the file, but with this
        option the module can still predict the restart.
    type: bool
    default: false
  settle:
    description: Seconds that the service must stay up after a start or restart before it counts as running.
    type: float
    default: 1
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    details:
      - In check mode, earlier tasks install no packages. The module therefore does not fail if systemd does not know
        the unit. It reports that it would start the service, and warns that it cannot tell whether an earlier task
        installs the unit.
  diff_mode:
    description: Shows the service's state before and after, the commands, and the reason for each.
  idempotent:
    description: A second run with unchanged files changes nothing.
  platform:
    description: Works with systemd 249 or later, as in Ubuntu 22.04, Debian 12 and Enterprise Linux 9.
notes:
  - Files are compared by modification time. If a tool writes a file and sets an old modification time, the change is
    not noticed.
seealso:
  - module: ansible.builtin.systemd_service
"""

EXAMPLES = r"""
- name: Run munge with its current key
  hpcai.azure.daemon:
    name: munge
    files:
      - /etc/munge/munge.key

- name: Keep slurmctld off a compute node
  hpcai.azure.daemon:
    name: slurmctld
    state: stopped
"""

RETURN = r"""
commands:
  description:
    - Commands of C(systemctl) that the module ran, in order. In check mode, the commands that it would run. Empty if no
      command was needed.
  returned: success
  type: list
  elements: str
  sample: [daemon-reload, restart]
reasons:
  description: Why the commands were needed.
  returned: success
  type: list
  elements: str
  sample:
    - /etc/munge/munge.key is newer than the running process
"""

import time
from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import check_seconds
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup import daemon


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["running", "stopped"], "default": "running"},
            "enabled": {"type": "bool"},
            "files": {"type": "list", "elements": "path", "default": []},
            "pending": {"type": "bool", "default": False},
            "settle": {"type": "float", "default": 1},
        },
        supports_check_mode=True,
    )
    name, running = module.params["name"], module.params["state"] == "running"
    enabled = module.params["enabled"]
    desired = daemon.DesiredState(running=running, enabled=running if enabled is None else enabled)
    try:
        settle = check_seconds("settle", module.params["settle"], zero=True)
        facts = daemon.read_facts(name, module.params["files"], run)
        pending = module.check_mode and module.params["pending"]
        made = daemon.plan(facts, desired, may_come=module.check_mode, pending=pending)
        if not module.check_mode:
            daemon.apply(name, made, run)
            if "restart" in made.verbs:
                time.sleep(settle)
                problem = daemon.check_running(name, run)
                if problem:
                    raise CommandFailed(problem)
    except (CommandFailed, ValueError) as error:
        module.fail_json(msg=str(error))
    if made.verbs and facts.unknown:
        module.warn(
            f"systemd does not know {name}. Check mode cannot tell whether an earlier task would have installed it. "
            "If none does, the real run fails here."
        )
    module.exit_json(
        changed=bool(made.verbs),
        commands=list(made.verbs),
        reasons=list(made.reasons),
        diff=dict(daemon.as_diff(facts, desired, made)),
    )


if __name__ == "__main__":
    main()
