# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One source from its options to its hosts: ask or remember, check, and decide what an error is worth."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from .answer import Answer
from .cache import AnswerCache, Kept
from .errors import InventoryError
from .hosts import Hosts, make_hosts
from .options import FAIL, USE_CACHE, Options

# An error that names fifty scale sets helps nobody more than one that names the first few.
_MOST_ERRORS = 5


class Outcome(NamedTuple):
    """What a source brought.

    :ivar problems: why it is not complete and current; empty when it is.
    """

    answer: Answer
    hosts: Hosts
    fetched_at: float
    from_cache: bool
    problems: list[str]


def read_source(
    options: Options,
    ask: Callable[[], Answer],
    cache: AnswerCache | None,
    *,
    remember: bool = True,
    clock: Callable[[], float] = time.time,
) -> Outcome:
    """Return what a source brings, by itself or from the cache.

    :param ask: asks Azure.
    :param cache: where answers are kept; None if they are not.
    :param remember: whether an earlier answer counts for anything (it does not with --flush-cache).
    :raises InventoryError: there is no answer that the options allow to be used.
    """
    kept = cache.load() if cache and remember else None
    if cache and kept and cache.is_fresh(kept):
        outcome = _outcome(options, kept, from_cache=True)
        if not outcome.problems:
            return outcome
    try:
        answer = ask()
    except InventoryError as error:
        return _fall_back(options, kept, [str(error)])
    outcome = _outcome(options, Kept(answer, clock()), from_cache=False, before=kept)
    if not outcome.problems:
        if cache:
            cache.store(answer)
        return outcome
    # An inventory without any host is no partial one, whatever on_error says.
    if options.on_error in (FAIL, USE_CACHE) or not outcome.hosts.hosts:
        return _fall_back(options, kept, outcome.problems)
    return outcome


def _outcome(options: Options, kept: Kept, *, from_cache: bool, before: Kept | None = None) -> Outcome:
    hosts = make_hosts(kept.answer, options.connection, options.hostnames, options.wants)
    problems = [*kept.answer["errors"], *_too_few(options, kept.answer, hosts, before)]
    return Outcome(kept.answer, hosts, kept.fetched_at, from_cache, problems)


def _too_few(options: Options, answer: Answer, hosts: Hosts, before: Kept | None) -> list[str]:
    """Return what is wrong with the number of hosts. A list that failed explains it already."""
    if answer["errors"]:
        return []
    problems = []
    if len(hosts.hosts) < options.min_hosts:
        problems.append(f"{len(hosts.hosts)} hosts were found, min_hosts wants {options.min_hosts}.")
    if before and options.max_drop_percent is not None:
        was, now = len(before.answer["instances"]), len(answer["instances"])
        drop = 100.0 * (was - now) / was if was else 0.0
        if drop > options.max_drop_percent:
            problems.append(
                f"{now} instances were listed, {drop:.0f} % less than the {was} of last time; max_drop_percent allows "
                f"{options.max_drop_percent:g}. If it is meant, run once with --flush-cache."
            )
    return problems


def _fall_back(options: Options, kept: Kept | None, problems: list[str]) -> Outcome:
    if options.on_error != USE_CACHE:
        raise InventoryError(_joined(problems))
    if kept is None:
        raise InventoryError(f"{_joined(problems)} There is no earlier answer to use instead.")
    outcome = _outcome(options, kept, from_cache=True)
    return outcome._replace(problems=problems + outcome.problems)


def _joined(problems: list[str]) -> str:
    shown = " ".join(problems[:_MOST_ERRORS])
    more = len(problems) - _MOST_ERRORS
    return f"{shown} (and {more} more errors)" if more > 0 else shown
