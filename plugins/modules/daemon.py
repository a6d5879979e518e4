#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: daemon
short_description: Keep a systemd service running on its current configuration
version_added: "0.1.0"
description:
  - Enables and starts a systemd service, and restarts it if, and only if, one of its files is younger than its running
    main process.
  - This replaces the usual pair of a changed task and a handler. A handler is lost when the run is cut off, or the
    host drops out, between the two. Here the need for a restart is read off the machine each time, so the next run
    makes good what an earlier one left undone.
  - The unit's own file and drop-ins always count. When they changed, C(systemctl daemon-reload) comes first.
  - A service that fails over and over counts as not running, also between two of systemd's attempts.
  - Fails, with the last lines of the service's journal, if the service does not stay up.
  - In an image at rest, where no systemd runs, the service is enabled or disabled, and neither started nor stopped.
author:
  - hpcai.azure contributors (@hpcai)
options:
  name:
    description: Name of the service, with or without C(.service).
    type: str
    required: true
  state:
    description:
      - V(running) starts the service if needed, and restarts it if it runs on an older configuration.
      - V(stopped) stops it.
    type: str
    choices: [running, stopped]
    default: running
  enabled:
    description:
      - Whether the service starts at boot. Defaults to V(true) for O(state=running), else to V(false).
      - A unit that has nothing to enable or disable, such as a static one, is left as it is.
    type: bool
  files:
    description:
      - Configuration files and folders that the service reads when it starts.
      - Of a folder, the entries count and the folder itself, so that a file which was removed is noticed too.
      - A file that does not exist is not an error.
    type: list
    elements: path
    default: []
  pending:
    description:
      - Whether an earlier task changed one of O(files) or of the unit's own files. It counts in check mode alone, where
        that task has not written them, so that the restart is predicted.
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
      - A unit that systemd does not know is no failure there, because in check mode the task that installs its package
        has not done so either. The module says that it would start the service, and warns that it cannot tell whether
        anything will bring the unit.
  diff_mode:
    description: Shows the service's state before and after, the commands, and the reason for each.
  idempotent:
    description: A second run with unchanged files changes nothing.
  platform:
    description: Works on systemd 249 or later, as in Ubuntu 22.04, Debian 12 and Enterprise Linux 9.
notes:
  - A file counts by its modification time. A tool that writes a file and gives it an old one hides the change.
seealso:
  - module: ansible.builtin.systemd_service
"""

EXAMPLES = r"""
- name: Run munge on the key that lies on disk
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
  description: The verbs given to C(systemctl), in their order; empty when nothing had to be done.
  returned: success
  type: list
  elements: str
  sample: [daemon-reload, restart]
reasons:
  description: Why each of them was needed.
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
            f"systemd does not know {name}. Check mode cannot tell whether an earlier task would have installed it; "
            "if none does, the real run fails here."
        )
    module.exit_json(
        changed=bool(made.verbs),
        commands=list(made.verbs),
        reasons=list(made.reasons),
        diff=dict(daemon.as_diff(facts, desired, made)),
    )


if __name__ == "__main__":
    main()
