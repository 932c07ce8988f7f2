"""Run a program with a small board's integers: guard.py PROGRAM ARGUMENTS.

Every constant, and every result of an operation or of a call by name, in the
device and protocol packages is checked as it arises: OverflowError for an
integer outside [-2^30, 2^30), TypeError for a float. A value that a caller
brings along is only checked when something is made of it.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import runpy
import sys
from types import CodeType
from typing import Any

PACKAGES = ("tinyldp_device", "tinyldp_protocol")
_CHECK = "__guard__"


def checked(value: Any) -> Any:
    """The value, when a board with 31-bit small integers could hold it without allocating."""
    if isinstance(value, float):
        raise TypeError(f"a float: {value}")
    if isinstance(value, int) and not -(1 << 30) <= value < 1 << 30:
        raise OverflowError(f"not a small integer: {value}")
    return value


class Guard(ast.NodeTransformer):
    """Wraps expressions whose value may be a new number in a call of checked()."""

    def _wrapped(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        return self._check(node)

    def _check(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Call(ast.Name(_CHECK, ast.Load()), [node], []), node)

    visit_BinOp = _wrapped

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        by_name = isinstance(node.func, ast.Name) or getattr(name, "id", "") == "int"
        return self._check(node) if by_name else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        # A negated constant is one constant: -2^30 is small, though 2^30 is not.
        if not isinstance(node.operand, ast.Constant):
            self.generic_visit(node)
        return self._check(node)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return self._check(node) if isinstance(node.value, (int, float)) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        again = ast.parse(ast.unparse(node.target), mode="eval").body
        return [node, ast.copy_location(ast.Expr(self._check(again)), node)]


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module's source, guarded, and keeps no compiled file."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = Guard().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec")

    def exec_module(self, module: Any) -> None:
        module.__dict__[_CHECK] = checked
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of the two packages where every other finder would, too."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = None
        if fullname.partition(".")[0] in PACKAGES:
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            if spec is not None and spec.origin is not None:
                spec.loader = Loader(fullname, spec.origin)
        return spec


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path[0] = "."
    sys.meta_path.insert(0, Finder())
    runpy.run_path(sys.argv[0], run_name="__main__")
