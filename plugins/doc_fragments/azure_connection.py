# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of everything on the controller that speaks to Azure."""

from __future__ import annotations

import re


class ModuleDocFragment:
    """Where Azure is and who asks."""

    DOCUMENTATION = r"""
options:
  cloud:
    description:
      - Which of Azure's clouds the subscriptions are in.
    type: str
    default: AzureCloud
    choices: [AzureCloud, AzureUSGovernment, AzureChinaCloud]
  endpoint:
    description:
      - Base URL of Azure Resource Manager, where it is not the one of O(cloud), such as Azure Stack's or a simulated
        one.
      - Plain V(http) is refused for anything but this machine, as the token would go over the network unencrypted.
    type: str
    env:
      - name: HPCAI_AZURE_ENDPOINT
  auth_source:
    description:
      - How to sign in. All but V(token) are done by the Python package C(azure-identity).
      - V(auto) takes, in this order, what the environment variables E(AZURE_CLIENT_ID) and the like say, a workload
        identity, a managed identity, C(az login). With O(token) set it is the same as V(token).
      - V(cli) is whoever is logged in with C(az login).
      - V(managed_identity) is the identity of the virtual machine that Ansible runs on, O(client_id) picks one of
        several.
      - V(workload_identity) is the federated identity of a Kubernetes pod or a pipeline.
      - V(service_principal) takes O(tenant_id), O(client_id) and O(client_secret) or O(certificate_path).
      - V(environment) takes the environment variables of C(azure-identity)'s C(EnvironmentCredential) and nothing else.
      - V(token) sends O(token) as it is.
    type: str
    default: auto
    choices: [auto, cli, managed_identity, workload_identity, service_principal, environment, token]
  tenant_id:
    description:
      - The directory to sign in to.
      - For O(auth_source=cli), O(auth_source=workload_identity) and O(auth_source=service_principal).
    type: str
  client_id:
    description:
      - The application, or the user-assigned managed identity, that signs in.
    type: str
  client_secret:
    description:
      - Secret of the application. Keep it in a vault, or better use an identity that needs none.
    type: str
  certificate_path:
    description:
      - Certificate of the application with its private key (PEM or PKCS12), instead of O(client_secret).
    type: str
  token:
    description:
      - A bearer token for a simulated Azure on this machine. It is refused for any other O(endpoint).
    type: str
    env:
      - name: HPCAI_AZURE_TOKEN
"""

    # A module's options cannot say that they come from the environment; its text has to. The annotation keeps the
    # yamllint of ansible-test away, which knows no text but one that is written out.
    MODULE: str = re.sub(r"    env:\n(?:      - name: \w+\n)+", "", DOCUMENTATION)

    SOURCES = r"""
options:
  sources:
    description:
      - Files of inventory sources of P(hpcai.azure.azure_vmss#inventory). Each machine is asked for with the connection
        options of the first source that looks into its subscription, so that nothing has to be configured twice.
      - Without it, the connection options of the task apply. O(endpoint) and O(token) then default to the environment
        variables E(HPCAI_AZURE_ENDPOINT) and E(HPCAI_AZURE_TOKEN).
    type: list
    elements: path
    default: []
"""
