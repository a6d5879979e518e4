# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A gallery with versions of one image. All have the same content, the baked node image."""

from __future__ import annotations

import json
from typing import Any

from simulator.scenario import LOCATION, SUBSCRIPTION

from .cluster import RESOURCE_GROUP, Cluster

GALLERY = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/galleries/hpc"
VERSIONS = [f"{GALLERY}/images/node/versions/{version}" for version in ("1.0.0", "1.1.0", "1.2.0")]


def add_gallery(cluster: Cluster) -> None:
    """Create the gallery and its versions."""
    # Untyped, because the SDK documents its bodies only as models and streams.
    calls: Any = cluster.sdk()
    where = {"location": LOCATION}
    calls.galleries.begin_create_or_update(RESOURCE_GROUP, "hpc", json.dumps(where).encode()).result()
    identifier = {"publisher": "p", "offer": "o", "sku": "s"}
    properties = {"osType": "Linux", "osState": "Generalized", "hyperVGeneration": "V2", "identifier": identifier}
    definition = json.dumps({**where, "properties": properties}).encode()
    calls.gallery_images.begin_create_or_update(RESOURCE_GROUP, "hpc", "node", definition).result()
    source = {"storageProfile": {"source": {"id": f"{GALLERY}/made/elsewhere"}}}
    regions = {"publishingProfile": {"targetRegions": [{"name": LOCATION}]}}
    version = json.dumps({**where, "properties": {**source, **regions}}).encode()
    for version_id in VERSIONS:
        create = calls.gallery_image_versions.begin_create_or_update
        create(RESOURCE_GROUP, "hpc", "node", version_id.rpartition("/")[2], version).result()
