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
  - Does the same as C(hpcnode diag collect), and returns where the archive is. It only reads, has time and size limits,
    and can be used beside a running job.
  - If the disk is full, the archive is written to C(/run/hpcai/diag), in memory.
  - Nothing needs to be installed on the machine. Tools that are missing are recorded in the archive's index.
author:
  - hpcai.azure contributors (@hpcai)
options:
  extra:
    description: Diagnostic tools that take minutes, to run as well if they are installed.
    type: list
    elements: str
    choices: [nvidia_bug_report, sos]
    default: []
  limit:
    description: Time limit of all items together, in seconds.
    type: float
    default: 300
  pseudonyms:
    description: Whether to replace names of users and machines, and addresses.
    type: bool
    default: false
  salt:
    description: Any text. Machines with the same text use the same pseudonyms. By default it is random.
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

- name: Fetch them
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
  description: The machine's name in the archive, which is its pseudonym with O(pseudonyms).
  returned: success
  type: str
  sample: compute-3
bytes:
  description: Size of the archive.
  returned: success
  type: int
  sample: 182734
hidden:
  description: How many values were hidden.
  returned: success
  type: int
  sample: 12
missing:
  description: Items that are not available on this machine.
  returned: success
  type: list
  elements: str
  sample: [packages_rpm, fabric_manager]
names:
  description: The name behind each pseudonym. Keep it apart from the archive.
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
