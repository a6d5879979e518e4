# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Listing blobs."""

from __future__ import annotations

from .events import LISTED, Blob, Event, blob_of
from .outcome import BlobError
from .place import Place
from .tool import Azcopy, call

_PROPERTIES = "ContentMD5;ContentEncoding;LastModifiedTime"


def list_blobs(tool: Azcopy, place: Place) -> list[Blob]:
    """Return all blobs below a place, sorted by name; none where there are none.

    Folders of a hierarchical account, which are listed as blobs of their own, are left out.

    :raises BlobError: they could not be listed, or not all.
    """
    found: list[Blob] = []
    strange: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == LISTED:
            try:
                found.append(blob_of(event))
            except ValueError as error:
                strange.append(str(error))

    words = ["list", tool.credential.sign(place.address), "--location", "Blob", "--machine-readable"]
    said = call(tool, [*words, "--properties", _PROPERTIES], place, on_event=hear)
    if said.rc or strange:
        raise BlobError(f"{place.address} cannot be listed: {said.words or strange[0]}.", said.why)
    return sorted((blob for blob in found if not blob.name.endswith("/")), key=lambda blob: blob.name)
