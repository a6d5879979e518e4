#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_diag
short_description: Collect the diagnostics of a machine in one archive, without secrets
version_added: "0.2.0"
description:
  - Does the same as C(hpcnode diag collect), and returns the path of the archive. The module changes nothing on the
    machine except that it writes the archive. It has time and size limits, and can run while jobs run.
  - If the disk is full, the archive is written to C(/run/hpcai/diag), which is in memory.
  - The archive consists of items, such as the output of a command or a log. Nothing needs to be installed on the
    machine. The archive's index records tools that are missing.
author:
  - hpcai.azure contributors (@hpcai)
options:
  extra:
    description: Diagnostic tools to run as well if they are installed. Each may take up to 300 seconds, so also set a
      higher O(limit).
    type: list
    elements: str
    choices: [nvidia_bug_report, sos]
    default: []
  limit:
    description: Time limit in seconds for collecting all items. Items that are not collected by then are left out or
      truncated, and the archive's index says so.
    type: float
    default: 300
  pseudonyms:
    description: Whether to replace user names, machine names and addresses with pseudonyms.
    type: bool
    default: false
  salt:
    description: Any text. Machines with the same text use the same pseudonyms. By default, each run uses random text.
    type: str
extends_documentation_fragment:
  - hpcai.azure.node
  - hpcai.azure.internal
attributes:
  check_mode:
    description: Collects nothing.
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Each run makes a new archive.
    support: none
  platform:
    description: Works on a running machine only.
seealso:
  - name: Diagnostics
    description: What is collected, and what never is.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_diagnose.rst
"""

EXAMPLES = r"""
- name: Collect the diagnostics
  hpcai.azure.node_diag:
  register: collected

- name: Fetch the archive
  ansible.builtin.fetch:
    src: "{{ collected.path }}"
    dest: diagnostics/
"""

RETURN = r"""
path:
  description: The archive on the machine; only root can read it.
  returned: success
  type: str
  sample: /var/lib/hpcai/diag/hpcai-diag-compute-3-20260101T000000Z.tar.gz
node:
  description: The machine's name in the archive. With O(pseudonyms=true), this is its pseudonym.
  returned: success
  type: str
  sample: compute-3
bytes:
  description: Size of the archive in bytes.
  returned: success
  type: int
  sample: 182734
hidden:
  description: How many secret values were replaced in the archive.
  returned: success
  type: int
  sample: 12
missing:
  description: Items that the archive does not contain, because a tool or file is missing on this machine, or because a
    limit was reached.
  returned: success
  type: list
  elements: str
  sample: [packages_rpm, fabric_manager]
names:
  description: The pseudonym of each name that was replaced. Empty unless O(pseudonyms=true). Do not pass this
    dictionary on with the archive.
  returned: success
  type: dict
  sample: {compute-3: host-8b1f2c3d}
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.archive import write_bundle
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.catalog import EXTRA
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.collect import TOTAL_S
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.perform import Options, make
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed

SPEC = {
    "extra": {"type": "list", "elements": "str", "choices": list(EXTRA), "default": []},
    "limit": {"type": "float", "default": TOTAL_S},
    "pseudonyms": {"type": "bool", "default": False},
    "salt": {"type": "str", "no_log": True},
}


def main() -> NoReturn:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    given = module.params
    if module.check_mode:
        module.exit_json(changed=True, path="", node="", bytes=0, hidden=0, missing=[], names={})
    salt = (given["salt"] or "") if given["pseudonyms"] else None
    try:
        made = make(Root(), Options(frozenset(given["extra"]), given["limit"], salt))
        path = write_bundle(Root(), made.bundle)
    except (CommandFailed, OSError) as error:
        module.fail_json(msg=f"no diagnostics were collected: {error}")
    module.exit_json(changed=True, path=path, names=made.names, **made.bundle.summary())


if __name__ == "__main__":
    main()
