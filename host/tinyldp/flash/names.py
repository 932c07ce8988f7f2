"""Names in statements: who stores and loads them, and replacing them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping

from tinyldp.flash.specialise import targets


def stored(node: ast.AST) -> set[str]:
    """The names that a statement stores into; a comprehension's are its own."""
    return {
        part.id
        for statement in ast.walk(node)
        for target in targets(statement)
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def global_loads(node: ast.AST, local: frozenset[str] = frozenset()) -> Iterator[str]:
    """The names of its surroundings that a statement loads, each time it does."""
    if isinstance(node, ast.FunctionDef):
        local |= {argument.arg for argument in node.args.args}
        local |= {name for name in stored(node) if "." not in name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
        yield node.id
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield from () if node.target.id in local else (node.target.id,)
    for child in ast.iter_child_nodes(node):
        yield from global_loads(child, local)


class Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)


class Replace(ast.NodeTransformer):
    """Replaces loads of names by expressions."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._values:
            return copy.deepcopy(self._values[node.id])
        return node
