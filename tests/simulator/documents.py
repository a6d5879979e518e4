# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources without machines, by id. Ids are compared without case, as Resource Manager does."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from simulator.resources import Document


class Documents:
    """All documents of one subscription, in order of creation."""

    def __init__(self) -> None:
        self._all: dict[str, Document] = {}
        self._lock = threading.RLock()

    def __iter__(self) -> Iterator[Document]:
        with self._lock:
            return iter(list(self._all.values()))

    def get(self, azure_id: str) -> Document | None:
        """The document with this id."""
        with self._lock:
            return self._all.get(azure_id.lower().rstrip("/"))

    def add(self, document: Document) -> Document:
        """Add a document."""
        with self._lock:
            self._all[document.id.lower()] = document
        return document

    def remove(self, azure_id: str) -> None:
        """Delete a document and everything whose id is below its id."""
        with self._lock:
            for document in [self.get(azure_id), *self.below(azure_id)]:
                if document is not None:
                    self._all.pop(document.id.lower(), None)

    def of(self, kind: str, group: str | None = None) -> list[Document]:
        """The documents of a type, in a group if one is given (in lower case)."""
        return [
            item
            for item in self
            if item.kind.lower() == kind.lower() and (group is None or item.resource_group.lower() == group)
        ]

    def below(self, azure_id: str) -> list[Document]:
        """The documents whose id is below this id."""
        prefix = azure_id.lower().rstrip("/") + "/"
        return [item for item in self if item.id.lower().startswith(prefix)]
