# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._azure.garbage import no_search


class Circle:
    """Refers to itself, so only the search for garbage finds that nobody else does."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _leave_the_collector_as_it_was() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_no_search_while_hosts_are_read_but_again_afterwards() -> None:
    with no_search():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_a_search_that_was_off_stays_off() -> None:
    gc.disable()

    with no_search():
        pass

    assert not gc.isenabled()


def test_search_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), no_search():
        raise ValueError("broken")

    assert gc.isenabled()


def test_what_was_read_is_not_searched_again() -> None:
    before = gc.get_freeze_count()

    with no_search():
        hosts = [[number] for number in range(1000)]

    assert gc.get_freeze_count() >= before + len(hosts)


def test_an_inventory_that_is_read_anew_does_not_keep_the_old_one() -> None:
    with no_search():
        circle = Circle()
        old = weakref.ref(circle)
    del circle
    gc.collect()
    assert old() is not None

    with no_search():
        gc.collect()

    assert old() is None
