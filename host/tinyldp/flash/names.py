"""Names in statements: who stores and loads them, and replacing them."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tinyldp.flash.specialise import targets
from tinyldp.flash.trees import Transformer, children, copied, walk


def stored(node: ast.AST) -> set[str]:
    """The names that a statement stores into; a comprehension's are its own."""
    return {
        part.id
        for statement in walk(node)
        if isinstance(statement, ast.stmt)
        for target in targets(statement)
        for part in walk(target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def global_loads(node: ast.AST) -> list[str]:
    """The names of its surroundings that a statement loads, each time it does."""
    found: list[str] = []
    _global_loads(node, frozenset(), found)
    return found


def _global_loads(node: ast.AST, local: frozenset[str], found: list[str]) -> None:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in local:
            found.append(node.id)
        return
    if isinstance(node, ast.FunctionDef):
        local |= {argument.arg for argument in node.args.args}
        local |= {name for name in stored(node) if "." not in name}
    elif (
        isinstance(node, ast.AugAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id not in local
    ):
        found.append(node.target.id)
    for child in children(node):
        _global_loads(child, local, found)


class Rename(Transformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)


class Replace(Transformer):
    """Replaces loads of names by expressions."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._values:
            return copied(self._values[node.id])
        return node
