#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: blob_copy
short_description: Copy missing or changed files from or to Azure Blob storage
version_added: "0.1.0"
description:
  - Copies a folder of a Blob container to a folder of the machine, or the other way round, with C(azcopy). Copies only
    the files that are missing or different at the destination. Removes nothing.
  - Records each downloaded file with a hash in C(.hpcai-stage) below O(dest). The next run downloads a file again if
    its blob has another size, MD5 or modification time than in this record, or if the file has another size. If
    O(full) is true, the module compares the file's content instead of its size.
  - The module verifies the length of a downloaded file, and the MD5 if the blob has one. Only then does the file get
    its final name.
  - For uploads, the module compares each file's size and MD5 with those of the blob. It uploads a file again if the
    blob has no MD5. azcopy stores an MD5 with each blob that it uploads.
  - For a data set that the nodes of a job share, use C(hpcnode stage). It copies on all of these nodes at the same
    time.
author:
  - hpcai.azure contributors (@hpcai)
options:
  source:
    description:
      - The source, either a URL or a folder of the machine. The URL is that of a container or of a folder in it, such
        as C(https://ACCOUNT.blob.core.windows.net/CONTAINER/FOLDER).
      - If the module runs as root, it refuses a folder of the machine that other users can write to or replace, or that
        contains such a folder, and it uploads no symbolic links. Otherwise a user could have any file of root uploaded.
        In this case, set C(become_user) to the owner of the files.
    type: str
    required: true
  dest:
    description:
      - The destination. It is a folder of the machine if O(source) is a URL, and a URL if O(source) is a folder.
      - If the module runs as root, it refuses a folder that other users can write to or replace. This includes the
        existing folders below O(dest) in which the files would be. In this case, set C(become_user) to the owner of the
        files.
    type: str
    required: true
  pattern:
    description:
      - Copy only files whose name, without the folder, matches this pattern. V(*) matches any text. The pattern can
        contain one range such as V({000..063}), which matches each of its numbers. By default, all files are copied.
    type: str
    default: ""
  decompress:
    description:
      - Decompress blobs whose C(Content-Encoding) is V(gzip), verify gzip's checksum, and remove V(.gz) from their
        names.
    type: bool
    default: false
  full:
    description:
      - Whether to compare existing files with the record by content instead of size. This option concerns downloads
        only.
    type: bool
    default: false
  credential:
    description:
      - Credentials. V(identity) uses a managed identity of the machine, V(workload) a workload identity, V(sas) a
        shared access signature. V(none) uses no credentials, for public data.
      - Only root can use the managed identity. For other users, V(identity) gives only the access that
        C(blob_staging_grants) of the role P(hpcai.azure.blob_staging#role) grants to their groups.
      - Defaults to V(sas) if O(sas) or O(sas_file) is set. Otherwise the module uses C(blob_staging_credential), which
        the role P(hpcai.azure.blob_staging#role) writes to C(/etc/hpcai/blob.json). If this file does not exist, the
        default is V(identity).
    type: str
    choices: [identity, workload, sas, none]
  client_id:
    description:
      - Client id of the managed identity, for machines that have several. If empty, the module uses the client id in
        C(/etc/hpcai/blob.json), if this file contains one.
    type: str
    default: ""
  sas:
    description:
      - A shared access signature, without the question mark. Use a short-lived one. While azcopy runs, the signature is
        visible in azcopy's arguments. Other users can read these, unless C(/proc) is mounted with C(hidepid).
      - Mutually exclusive with O(sas_file).
    type: str
  sas_file:
    description:
      - A file on the machine that contains a shared access signature. Root or the user that the module runs as must own
        the file. Other users must have no permissions for it, so use the mode C(0600).
    type: path
  cap_mbps:
    description: Bandwidth limit in megabits per second. V(0) means no limit.
    type: float
    default: 0
  timeout:
    description: Timeout of the copy in seconds.
    type: int
    default: 3600
  azcopy:
    description:
      - Path of the azcopy program. Defaults to the path in C(/etc/hpcai/blob.json), which the role
        P(hpcai.azure.blob_staging#role) writes. If this file does not exist, the default is V(azcopy).
    type: str
  work:
    description:
      - Folder for azcopy's logs and plans, which are removed after success. Defaults to the folder in
        C(/etc/hpcai/blob.json), which the role P(hpcai.azure.blob_staging#role) writes. If this file does not exist or
        contains no folder, the default is the system's folder for temporary files.
    type: path
extends_documentation_fragment:
  - hpcai.azure.node
attributes:
  diff_mode:
    description: Shows the names of the copied files.
seealso:
  - name: Staging data sets
    description: How C(hpcnode stage) copies on the nodes of a job, how to limit the bandwidth, and what can go wrong.
    link: https://github.com/hpcai/azure/blob/main/docs/docsite/rst/guide_staging.rst
"""

EXAMPLES = r"""
- name: Copy a tokenizer to each node
  hpcai.azure.blob_copy:
    source: https://models.blob.core.windows.net/tokenizers/llama
    dest: /scratch/tokenizer

- name: Upload the results of a benchmark
  hpcai.azure.blob_copy:
    source: /scratch/results
    dest: https://models.blob.core.windows.net/results/{{ inventory_hostname }}
    pattern: "*.json"

- name: Download and decompress a data set, with a shared access signature from a variable
  hpcai.azure.blob_copy:
    source: https://data.blob.core.windows.net/cosmoflow
    dest: /scratch/cosmoflow
    decompress: true
    cap_mbps: 2300
    sas: "{{ staging_sas }}"
"""

RETURN = r"""
files:
  description:
    - Names of the files that the module copied, relative to source and destination. In check mode, the names of the
      files that it would copy.
  returned: success
  type: list
  elements: str
  sample: [tokenizer.json, vocab/merges.txt]
same:
  description: Number of files that were already up to date.
  returned: success
  type: int
  sample: 12
bytes:
  description: Size of the copied files in bytes, as stored in Blob storage.
  returned: success
  type: int
  sample: 1842767
"""

from typing import NoReturn

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.credential import (
    KINDS,
    SAS,
    SAS_VARIABLE,
    credential_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.azcopy.options import Limits, cap_of, read_settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.stage.copy import CopyOptions, copy
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed


def main() -> NoReturn:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "required": True},
            "dest": {"type": "str", "required": True},
            "pattern": {"type": "str", "default": ""},
            "decompress": {"type": "bool", "default": False},
            "full": {"type": "bool", "default": False},
            "credential": {"type": "str", "choices": list(KINDS)},
            "client_id": {"type": "str", "default": ""},
            "sas": {"type": "str", "no_log": True},
            "sas_file": {"type": "path"},
            "cap_mbps": {"type": "float", "default": 0.0},
            "timeout": {"type": "int", "default": 3600},
            "azcopy": {"type": "str"},
            "work": {"type": "path"},
        },
        mutually_exclusive=[("sas", "sas_file")],
        supports_check_mode=True,
    )
    asked = module.params
    try:
        if asked["timeout"] < 1:
            raise ValueError("timeout must be at least 1.")
        settings = read_settings(Root("/"))
        kind = asked["credential"] or (SAS if asked["sas"] or asked["sas_file"] else settings.credential)
        given = {SAS_VARIABLE: asked["sas"]} if asked["sas"] else None
        options = CopyOptions(
            source=asked["source"],
            dest=asked["dest"],
            pattern=asked["pattern"],
            decompress=asked["decompress"],
            full=asked["full"],
            credential=credential_of(kind, asked["client_id"] or settings.client_id, asked["sas_file"] or "", given),
            limits=Limits(cap_mbps=cap_of(asked["cap_mbps"], 0, 1), total_s=asked["timeout"]),
            azcopy=asked["azcopy"] or settings.azcopy,
            work=asked["work"] or settings.work_folder,
        )
        done = copy(options, apply=not module.check_mode)
    except (ValueError, CommandFailed, OSError) as error:
        module.fail_json(msg=str(error))
    if done.problem:
        module.fail_json(msg=done.problem)
    names = "".join(f"{name}\n" for name in done.names)
    module.exit_json(
        changed=bool(done.names),
        files=list(done.names),
        same=done.same,
        bytes=done.size,
        diff={"before_header": asked["dest"], "after_header": asked["dest"], "before": "", "after": names},
    )


if __name__ == "__main__":
    main()
