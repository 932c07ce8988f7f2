"""Walking through syntax trees and copying them, several times as fast as the standard library."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")
Node = TypeVar("Node", bound=ast.AST)
# Fields that hold no nodes, or only those that nothing is below: contexts and operators.
_LEAVES = frozenset(
    {"arg", "asname", "attr", "ctx", "id", "kind", "level", "module", "name", "op", "ops"}
    | {"type_comment"}
)


class _Inner(dict[type[ast.AST], tuple[str, ...]]):
    """For each type of nodes the fields in which others may be that are worth a look."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        fields = () if kind is ast.Constant else kind._fields
        self[kind] = found = tuple(name for name in fields if name not in _LEAVES)
        return found


_INNER = _Inner()


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes right below, but for contexts and operators."""
    for field in _INNER[type(node)]:
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    yield item


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below but for contexts and operators, in no particular order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        for field in _INNER[type(node)]:
            value = getattr(node, field, None)
            if isinstance(value, list):
                pending += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                pending.append(value)


class Transformer:
    """As ast.NodeTransformer, but what holds no other nodes is visited only where it is asked for.

    Nor are contexts and operators.
    """

    _visits: ClassVar[dict[type[ast.AST], Callable[..., Any]]] = {}

    def __init_subclass__(cls) -> None:
        names = [name for name in dir(cls) if name.startswith("visit_")]
        cls._visits = {getattr(ast, name[6:]): getattr(cls, name) for name in names}

    def visit(self, node: ast.AST) -> Any:
        visit = self._visits.get(type(node))
        return self.generic_visit(node) if visit is None else visit(self, node)

    def generic_visit(self, node: Node) -> Node:
        """Visit what is below, and put what that gives in its place."""
        for field in _INNER[type(node)]:
            old = getattr(node, field, None)
            if isinstance(old, list):
                new: list[Any] = []
                for item in old:
                    found = self.visit(item) if isinstance(item, ast.AST) else [item]
                    if isinstance(found, list):
                        new += found
                    elif found is not None:
                        new.append(found)
                old[:] = new
            elif isinstance(old, ast.AST):
                found = self.visit(old)
                if found is None:
                    delattr(node, field)
                elif found is not old:
                    setattr(node, field, found)
        return node


def copied(tree: T) -> T:
    """A copy of a node, of a list of nodes, or of anything that never changes."""
    if isinstance(tree, ast.AST):
        # Without fields it may be the only one of its type, which all trees share.
        if not tree._fields:
            return tree
        node: Any = type(tree)()
        for name, value in tree.__dict__.items():
            setattr(node, name, copied(value))
        return node
    if isinstance(tree, list):
        return [copied(item) for item in tree]  # pyright: ignore[reportReturnType]
    return tree


def size(node: ast.AST) -> int:
    """How many nodes these are, contexts and operators among them."""
    return sum(1 for _ in ast.walk(node))
