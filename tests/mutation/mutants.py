# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mutants of a source file: each of them inverts one comparison or another decision.

Mutants of a second kind move a boundary, for example from above a limit to at the limit.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

INVERTED, BOUNDARY = KINDS = ("inverted", "boundary")

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


@dataclass(frozen=True)
class Mutant:
    """A source file with one decision changed.

    :ivar kind: INVERTED or BOUNDARY.
    :ivar line: the line of the decision.
    :ivar change: the decision before and after, in Python.
    :ivar code: the code of the complete module.
    """

    kind: str
    line: int
    change: str
    code: types.CodeType


class _Slot(NamedTuple):
    """A position in the syntax tree: an item of a list or an attribute of a node."""

    holder: Any
    key: Any

    def get(self) -> Any:
        return self.holder[self.key] if isinstance(self.holder, list) else getattr(self.holder, self.key)

    def put(self, part: ast.AST) -> None:
        if isinstance(self.holder, list):
            self.holder[self.key] = part
        else:
            setattr(self.holder, self.key, part)


class _Change(NamedTuple):
    """One change: the new part, its position, and the expression that shows the change."""

    kind: str
    slot: _Slot
    part: ast.AST
    seen_in: _Slot


def mutants_of(source: str, path: str) -> Iterator[Mutant]:
    """Yield the mutants of a source file, in the order of its lines.

    :param path: the file name to set in the code.
    """
    tree = ast.parse(source)
    for change in sorted(_changes(tree), key=lambda one: (one.seen_in.get().lineno, one.seen_in.get().col_offset)):
        expression, before = change.seen_in.get(), change.slot.get()
        was = ast.unparse(expression)
        change.slot.put(change.part)
        code = compile_source(ast.fix_missing_locations(tree), path)
        yield Mutant(change.kind, expression.lineno, f"{was}  ->  {ast.unparse(change.seen_in.get())}", code)
        change.slot.put(before)


def compile_source(source: str | ast.Module, path: str) -> types.CodeType:
    """Return the code of a module, as an import compiles it."""
    code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    return code


def _changes(tree: ast.Module) -> Iterator[_Change]:
    for slot in _slots(tree):
        part = slot.get()
        if isinstance(part, ast.Compare):
            for number, comparison in enumerate(part.ops):
                place = _Slot(part.ops, number)
                yield _Change(INVERTED, place, _OPPOSITE[type(comparison)](), slot)
                if type(comparison) in _MOVED:
                    yield _Change(BOUNDARY, place, _MOVED[type(comparison)](), slot)
        elif isinstance(part, ast.BoolOp):
            yield _Change(INVERTED, _Slot(part, "op"), ast.Or() if isinstance(part.op, ast.And) else ast.And(), slot)
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            yield _Change(INVERTED, slot, part.operand, slot)
        elif isinstance(part, (ast.If, ast.IfExp, ast.While)):
            yield from _negated(_Slot(part, "test"))
        elif isinstance(part, ast.comprehension):
            for number in range(len(part.ifs)):
                yield from _negated(_Slot(part.ifs, number))


def _negated(condition: _Slot) -> Iterator[_Change]:
    """Yield the negation of each operand of a condition that is not a comparison, such as a name or a call."""
    part = condition.get()
    if isinstance(part, ast.BoolOp):
        for number in range(len(part.values)):
            yield from _negated(_Slot(part.values, number))
    elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
        if isinstance(part.operand, ast.BoolOp):
            yield from _negated(_Slot(part, "operand"))
    elif not isinstance(part, ast.Compare):
        yield _Change(INVERTED, condition, ast.UnaryOp(ast.Not(), part), condition)


def _slots(tree: ast.AST) -> Iterator[_Slot]:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, list):
                yield from (_Slot(value, number) for number in range(len(value)) if isinstance(value[number], ast.AST))
            elif isinstance(value, ast.AST):
                yield _Slot(parent, name)
