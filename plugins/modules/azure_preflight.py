#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: azure_preflight
short_description: Check before the first write whether Azure lets a stack be made, and what it costs
version_added: "0.1.0"
description:
  - Reads quota, VM sizes, images, rights, resource providers, subnets, names, locks and policies of a subscription, and
    compares them with what O(stack) needs. Returns a verdict for each, with the value, the limit, the source, and what
    to do or to request from whom.
  - It changes nothing in Azure. It cannot know whether machines are in stock, because Azure says that only when they
    are ordered.
  - It multiplies list prices of a price file with 24 hours. A price that is not in the file is unknown, and makes the
    cost a lower bound.
  - A failed check does not fail the task. The playbook C(hpcai.azure.preflight) runs this module and fails.
  - Always runs on the machine where Ansible runs, for any host of the task.
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
  - azure-mgmt-resource-deployments >= 2.0.0
extends_documentation_fragment:
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  subscription_id:
    description: Id of the subscription.
    type: str
    required: true
  stack:
    description: The stack, the variable C(hpcai_stack).
    type: dict
    required: true
  vm_sizes:
    description: VM sizes described by hand, the variable C(hpcai_vm_sizes). By name, each with facts of the size.
    type: dict
    default: {}
  price_file:
    description:
      - Price file in JSON. Without it, the cost is unknown. The guide to costs describes its form.
      - It must exist, unless O(fetch_prices) is set.
    type: path
  fetch_prices:
    description:
      - Whether to read the list prices of what the stack needs from Azure's public price API, which needs no sign-in,
        and to write them to O(price_file).
      - V(never) sends no request to that API.
      - V(if_missing) reads them only if O(price_file) does not exist.
      - V(always) replaces O(price_file).
    type: str
    choices: [never, if_missing, always]
    default: never
  currency:
    description: Currency of the prices that are fetched, as three letters.
    type: str
    default: USD
  prices_endpoint:
    description: Base URL of the price API, for example of a mirror in a network without internet.
    type: str
    default: https://prices.azure.com
  report:
    description: File for the report in JSON. It contains no time, so the same answers give the same file.
    type: path
  timeout:
    description: Timeout in seconds for all requests together.
    type: int
    default: 3600
attributes:
  action:
    description: Runs on the machine where Ansible runs, because the credentials are there.
    support: full
  check_mode:
    description: Asks Azure and returns everything, without writing files.
    support: full
  diff_mode:
    description: Shows the price file and the report before and after.
    support: full
  idempotent:
    description: The same answers change nothing a second time.
    support: full
  platform:
    description: Nothing runs on a node.
    platforms: linux
    support: full
seealso:
  - ref: ansible_collections.hpcai.azure.docsite.guide_preflight
    description: All checks, and what to do if one fails.
  - ref: ansible_collections.hpcai.azure.docsite.guide_costs
    description: What a cluster costs, and the form of the price file.
"""

EXAMPLES = r"""
- name: Check what the stack needs, and what it costs
  hpcai.azure.azure_preflight:
    subscription_id: 00000000-0000-4000-8000-000000000001
    stack: "{{ hpcai_stack }}"
    price_file: prices.json
    fetch_prices: if_missing
    report: preflight.json
  delegate_to: localhost
  register: preflight

- name: Stop if something is missing
  ansible.builtin.assert:
    that: preflight.verdict not in ['fail', 'unknown']
    fail_msg: "{{ preflight.table }}"
"""

RETURN = r"""
verdict:
  description: The worst verdict of all checks, V(fail), V(unknown), V(warn) or V(pass).
  returned: success
  type: str
  sample: warn
counts:
  description: Number of verdicts of each kind.
  returned: success
  type: dict
  sample: {"warn": 1, "pass": 21}
checks:
  description: All verdicts, the worst first.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check.
      type: str
      sample: quota
    about:
      description: What was checked.
      type: str
      sample: Standard NDASv4_A100 Family
    verdict:
      description: V(fail), V(unknown), V(warn) or V(pass).
      type: str
      sample: warn
    summary:
      description: What was found.
      type: str
      sample: 384 vCPUs are free, 384 are needed at the largest size
    value:
      description: What was measured.
      type: str
      sample: 384 vCPUs more at the largest size
    limit:
      description: What it was compared with.
      type: str
      sample: 288, of which 0 are used
    source:
      description: The request or file with the answer.
      type: str
      sample: Microsoft.Compute/locations/westeurope/usages
    action:
      description: What to do, as a command or as a text to send to whoever can do it.
      type: str
      sample: az provider register --namespace Microsoft.Compute --subscription 00000000-0000-4000-8000-000000000001
cost:
  description:
    - The cost per day. C(total) and C(by_owner) have C(least) and C(most), for the smallest and the largest size of the
      cluster, and say whether these are complete. C(lines) has each piece with its price, or null if that is unknown.
    - C(currency) is empty if there is no price file.
  returned: success
  type: dict
  sample:
    currency: USD
    date: "2026-11-20"
    total: {"least": 43.2, "most": 2926.1, "least_complete": true, "most_complete": true}
table:
  description: The report as lines for a terminal.
  returned: success
  type: list
  elements: str
  sample: ["Preflight of hpc in westeurope: 1 warn, 21 pass."]
files:
  description: Files that were written, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [preflight.json]
requests:
  description: Number of requests that were sent, including retries.
  returned: success
  type: int
  sample: 42
"""
