"""Functions that are called at one place, or only give an expression, go where they are called.

On a micro:bit a function costs some 60 bytes beside its body, and C stack.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections import Counter

from tinyldp.flash.names import Rename, Replace, global_loads, stored

_serial = itertools.count()


def inline(statements: list[ast.stmt], functions: dict[str, ast.stmt]) -> None:
    """Rewrite in place, one function after the other, until none is left to inline."""
    while True:
        counts = Counter(
            name for tree in [*statements, *functions.values()] for name in global_loads(tree)
        )
        at_top = {name for node in statements for name in global_loads(node)}
        for name, node in functions.items():
            if not isinstance(node, ast.FunctionDef) or not counts[name] or name in at_top:
                continue
            sites = _Sites(name, node)
            if not sites.wanted(counts[name]):
                continue
            for key, function in functions.items():
                if key != name and isinstance(function, ast.FunctionDef):
                    function.body = sites.replaced(function.body)
            left = [n for t in [*statements, *functions.values()] for n in global_loads(t)]
            if name not in left:
                del functions[name]
                break
        else:
            return


class _Sites(ast.NodeTransformer):
    """The calls of one function."""

    def __init__(self, name: str, function: ast.FunctionDef) -> None:
        self._name = name
        self._function = function
        self._parameters = [argument.arg for argument in function.args.args]
        body = [n for n in function.body if not _is_docstring(n)]
        self._body = body
        self._value = None
        # What a body gives at its end, when that is its only return.
        self._result: ast.expr | None = None
        returns = [part for n in body for part in ast.walk(n) if isinstance(part, ast.Return)]
        if len(body) == 1 and isinstance(body[0], ast.Return):
            self._value = body[0].value
        elif len(returns) == 1 and returns[0] is body[-1]:
            self._body = body[:-1]
            self._result = returns[0].value
        elif returns:
            self._body = []

    def wanted(self, count: int) -> bool:
        if self._value is not None:
            uses = Counter(n.id for n in ast.walk(self._value) if isinstance(n, ast.Name))
            once = all(uses[parameter] <= 1 for parameter in self._parameters)
            return once and (count == 1 or len(ast.unparse(self._value)) < 24)
        return bool(self._body) and count == 1

    def _is_call(self, node: ast.AST | None) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == self._name
        )

    def replaced(self, body: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for node in body:
            for inner in ("body", "orelse", "finalbody"):
                if isinstance(getattr(node, inner, None), list):
                    setattr(node, inner, self.replaced(getattr(node, inner)))
            for handler in getattr(node, "handlers", []):
                handler.body = self.replaced(handler.body)
            if self._value is not None:
                result.append(self.visit(node))
            elif isinstance(node, (ast.Expr, ast.Assign)) and self._is_call(node.value):
                result += self._spliced(node)
            else:
                result.append(node)
        return result

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if self._value is None or not self._is_call(node):
            return node
        values = dict(zip(self._parameters, node.args, strict=True))
        return Replace(values).visit(copy.deepcopy(self._value))

    def _spliced(self, site: ast.Expr | ast.Assign) -> list[ast.stmt]:
        call = site.value
        assert isinstance(call, ast.Call)
        names = {*self._parameters, *(n for n in stored(self._function) if "." not in n)}
        fresh = {name: f"{name}_{next(_serial)}" for name in names}
        result: list[ast.stmt] = [
            ast.Assign([ast.Name(fresh[parameter], ast.Store())], value)
            for parameter, value in zip(self._parameters, call.args, strict=True)
        ]
        result += [Rename(fresh).visit(copy.deepcopy(node)) for node in self._body]
        if isinstance(site, ast.Assign):
            value = copy.deepcopy(self._result) or ast.Constant(None)
            result.append(ast.Assign(site.targets, Rename(fresh).visit(value)))
        return result


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
