# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instances of a rollout: which have the image of their set's model, and updates that run in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from . import images, instance_operations
from .clients import Clients
from .errors import InventoryError
from .images import Image, Member, SetImages
from .targets import SetName, Target, find_targets

REREAD_S = 15.0
"""Time after which instances that an earlier run or somebody else is changing are listed again."""
GIVE_UP_S = 600.0
"""Time after which a list that keeps failing stops the rollout."""

Open = Callable[[str, bool], AbstractContextManager[Clients]]
"""Returns clients for a subscription. The second argument is ``only_lists``."""


class ModelChanged(InventoryError):
    """Somebody else gave a scale set's model another image during the rollout."""


@dataclass(frozen=True)
class InstanceState:
    """What a rollout needs to know of an instance. ``outdated`` is None if it does not exist (any more)."""

    outdated: bool | None
    changing: bool


class Fleet:
    """The instances of a rollout.

    :param targets: the instances by node name.
    :param open_clients: returns clients.
    :param wanted: the image that each set's model should have. Sets that are not listed: the model's own.
    :param foresee: the models do not have these images yet.
    :param clock: a monotonic clock.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        open_clients: Open,
        wanted: Mapping[SetName, str] | None = None,
        *,
        foresee: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets = dict(targets)
        self._open, self._clock = open_clients, clock
        self._wanted, self._foresee = dict(wanted or {}), foresee
        self._sets = {name: images.make_set_name(target.azure_id) for name, target in targets.items()}
        self._members: dict[SetName, Mapping[str, Member]] = {}
        self._images: dict[SetName, Image] = {}
        self._read_at = self._good_at = clock()
        self._stale = True
        self._running: dict[str, threading.Thread] = {}
        self._ended: dict[str, InventoryError | None] = {}
        self._lock = threading.Lock()
        self.updated: list[str] = []
        """Nodes whose instances were updated, in this order."""

    def read(self) -> None:
        """List all instances.

        :raises ModelChanged: a model has another image than wanted.
        :raises InventoryError: a request failed, or a set is Flexible.
        """
        names = sorted(set(self._sets.values()))
        changed: list[str] = []
        for subscription in sorted({name.subscription for name in names}):
            with self._open(subscription, True) as clients:
                for found in images.read_sets(clients, [name for name in names if name.subscription == subscription]):
                    self._images[found.name] = image = self._image(found)
                    self._members[found.name] = {member.azure_id.lower(): member for member in found.members}
                    if str(image).lower() != str(found.image).lower() and not self._foresee:
                        changed.append(f"The model of {found.name} has the image {found.image}, not {image}.")
        self._read_at = self._good_at = self._clock()
        self._stale = False
        if changed:
            # The list is complete nevertheless, and shows which updates have ended.
            raise ModelChanged(f"{' '.join(changed)} Somebody else changed it.")

    def _image(self, found: SetImages) -> Image:
        """Return the image that the instances of a set should have."""
        asked = self._wanted.get(found.name)
        return found.image if asked is None else images.parse_image(asked, found.image)

    def refresh(self) -> str:
        """Collect the updates that have ended, list again if needed, and return why the rollout must stop, or ''."""
        problem = ""
        for name, error in self._collect().items():
            self._stale = True
            if error is None:
                self.updated.append(name)
            else:
                problem = problem or f"{name}: {error}"
        changing = [name for name in self._targets if name not in self._running and self.state(name).changing]
        if self._stale or (changing and self._clock() - self._read_at >= REREAD_S):
            try:
                self.read()
            except InventoryError as error:
                # A rollout takes hours, so one failed list does not stop it.
                self._read_at = self._clock()
                if self._clock() - self._good_at >= GIVE_UP_S or isinstance(error, ModelChanged):
                    problem = problem or str(error)
        # An instance that was deleted meanwhile was not updated.
        self.updated = [name for name in self.updated if self.state(name).outdated is not None]
        return problem or self._unchanged()

    def _collect(self) -> dict[str, InventoryError | None]:
        with self._lock:
            ended, self._ended = self._ended, {}
        for name in ended:
            self._running.pop(name).join()
        return ended

    def _unchanged(self) -> str:
        """Return an error if an instance still has its old image after Azure has reported success."""
        if self._stale:
            return ""
        for name in self.updated:
            if self.state(name).outdated:
                return f"{name}: Azure reports success, but the instance does not have the image {self.image_of(name)}."
        return ""

    def image_of(self, name: str) -> Image | None:
        """Return the image that a node should have."""
        return self._images.get(self._sets[name])

    def state(self, name: str) -> InstanceState:
        """Return the state of a node's instance, as it was listed last."""
        target, scale_set = self._targets[name], self._sets[name]
        member = self._members.get(scale_set, {}).get(target.azure_id.lower())
        if member is None or member.vm_id.lower() != target.vm_id.lower():
            return InstanceState(None, False)
        running = name in self._running or (self._stale and name in self.updated)
        return InstanceState(not member.has(self._images[scale_set]), running or member.changing)

    def set_of(self, name: str) -> str:
        """Return what identifies a node's scale set."""
        return str(self._sets[name])

    def start(self, names: Iterable[str]) -> None:
        """Update the instances of these nodes in the background."""
        for name in names:
            if name not in self._running:
                # A daemon thread, because a request that hangs must not keep Ansible from exiting.
                thread = threading.Thread(target=self._update, args=(name,), name=f"update-{name}", daemon=True)
                self._running[name] = thread
                thread.start()

    def _update(self, name: str) -> None:
        target, error = self._targets[name], None
        try:
            # Immediately before the update, because an id may belong to another machine meanwhile.
            with self._open(target.subscription, True) as clients:
                gone = find_targets(clients, [target]).gone
            if not gone:
                with self._open(target.subscription, False) as clients:
                    instance_operations.update_to_model(clients, [target])
        except InventoryError as raised:
            error = raised
        except Exception as raised:  # the thread must report any error
            error = InventoryError(f"{type(raised).__name__}: {raised}")
        with self._lock:
            self._ended[name] = error
