"""Device modules narrowed to one Task: what its integers decide is decided at build time.

`task.NAME` and `self._task.NAME` become the Task's integer, an attribute that is only ever one
constant becomes that constant, branches that cannot be taken go away.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tinyldp.flash.trees import Transformer, copied, walk
from tinyldp_protocol.task import FIELDS, Task

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}
_LONGEST_BYTES = 64


def specialise(
    modules: Iterable[ast.Module], task: Task, more: Mapping[str, int] | None = None
) -> None:
    """Rewrite the modules of one program in place, until nothing changes any more.

    more: what the program takes for the Task's, besides its integers.
    """
    modules = list(modules)
    numbers = {name: getattr(task, name) for name in FIELDS}
    numbers.update(width=task.width, payload=task.payload, id=task.id, **(more or {}))
    before = None
    present = [ast.dump(module) for module in modules]
    while before != present:
        before = present
        attributes = _constant_attributes(modules)
        functions = _constant_functions(modules)
        for module in modules:
            Fold(numbers, attributes, functions).visit(module)
            for node in walk(module):
                if isinstance(node, ast.FunctionDef):
                    fold_locals(node, _plain)
            ast.fix_missing_locations(module)
        present = [ast.dump(module) for module in modules]


def _literal(value: Any) -> ast.expr:
    if isinstance(value, list):
        return ast.Tuple([ast.Constant(n) for n in value], ast.Load())
    return ast.Constant(value)


def _plain(node: ast.AST | None) -> bool:
    """Whether this is a constant that may stand wherever its name stood."""
    return isinstance(node, ast.Constant) and (
        node.value is None or isinstance(node.value, (int, bool))
    )


def _short(value: object) -> bool:
    return isinstance(value, bytes) and len(value) < 4


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement stores into."""
    if isinstance(node, ast.Assign):
        pending = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        pending = [node.target]
    else:
        return
    while pending:
        target = pending.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            pending.extend(target.elts)
        else:
            yield target


def _is_task(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id == "task") or (
        isinstance(node, ast.Attribute) and node.attr == "_task"
    )


def _constant_attributes(modules: Iterable[ast.Module]) -> dict[str, ast.Constant]:
    """Private attributes that are stored once in all modules, and then a constant."""
    stores: Counter[str] = Counter()
    values: dict[str, ast.Constant] = {}
    for module in modules:
        for node in walk(module):
            for target in targets(node):
                if isinstance(target, ast.Attribute):
                    stores[target.attr] += 1
                    value = node.value if isinstance(node, ast.Assign) else None
                    if isinstance(value, ast.Constant) and (_plain(value) or _short(value.value)):
                        values[target.attr] = value
    return {name: value for name, value in values.items() if stores[name] == 1 and name[0] == "_"}


def _constant_functions(modules: Iterable[ast.Module]) -> dict[str, ast.Constant]:
    """Functions that do nothing but give a constant."""
    values: dict[str, ast.Constant] = {}
    for module in modules:
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                last = node.body[-1]
                value = last.value if isinstance(last, ast.Return) else None
                others = [n for n in node.body[:-1] if not is_docstring(n)]
                if _plain(value) and isinstance(value, ast.Constant) and not others:
                    values[node.name] = value
    return values


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is(node: ast.expr, n: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == n


def _leaves(body: list[ast.stmt]) -> bool:
    return any(isinstance(n, (ast.Break, ast.Continue)) for node in body for n in walk(node))


class Fold(Transformer):
    """Writes out what is known, and computes what follows from it."""

    def __init__(
        self,
        numbers: dict[str, Any],
        attributes: dict[str, ast.Constant],
        functions: dict[str, ast.Constant],
    ) -> None:
        self._numbers = numbers
        self._attributes = attributes
        self._functions = functions

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            if _is_task(node.value):
                return _literal(self._numbers[node.attr])
            if node.attr in self._attributes:
                return ast.Constant(self._attributes[node.attr].value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr in self._attributes:
            return ast.Pass()
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if (
            isinstance(node.value, ast.Tuple)
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
        ):
            return node.value.elts[node.slice.value]
        return node

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        """What is done once needs no loop."""
        self.generic_visit(node)
        once = ast.dump(ast.Call(ast.Name("range", ast.Load()), [ast.Constant(1)], []))
        if ast.dump(node.iter) != once or node.orelse or _leaves(node.body):
            return node
        return [ast.Assign([node.target], ast.Constant(0), lineno=0), *node.body]

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, (ast.FloorDiv, ast.Mult)) and _is(node.right, 1):
            return node.left
        if isinstance(node.op, (ast.Add, ast.Sub)) and _is(node.right, 0):
            return node.left
        left = node.left
        # n + 1 - 1
        if (
            isinstance(node.op, ast.Sub)
            and isinstance(left, ast.BinOp)
            and isinstance(left.op, ast.Add)
            and _is(left.right, 1)
            and _is(node.right, 1)
        ):
            return left.left
        return self._computed(node, node.op, node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._computed(node, node.op, node.operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) != 1:
            return node
        if isinstance(node.left, ast.Tuple) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return ast.Constant(isinstance(node.ops[0], ast.IsNot))
        return self._computed(node, node.ops[0], node.left, node.comparators[0])

    def _computed(self, node: ast.expr, op: ast.AST, *operands: ast.expr) -> ast.expr:
        if type(op) not in _OPERATORS or not all(isinstance(n, ast.Constant) for n in operands):
            return node
        values = [n.value for n in operands if isinstance(n, ast.Constant)]
        try:
            result = _OPERATORS[type(op)](*values)
        except TypeError:
            # An integer that this Task lacks: only another mechanism computes with it.
            return node
        if isinstance(result, bytes) and len(result) > _LONGEST_BYTES:
            return node
        return ast.Constant(result)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self._functions:
            return ast.Constant(self._functions[name].value)
        if name in ("max", "min") and all(map(_plain, node.args)):
            choose = max if name == "max" else min
            return ast.Constant(choose(map(ast.literal_eval, node.args)))
        if name == "len" and isinstance(node.args[0], ast.Tuple):
            return ast.Constant(len(node.args[0].elts))
        if name == "bytes" and len(node.args) == 1:
            value = node.args[0]
            if isinstance(value, ast.Constant) and type(value.value) is int:
                return ast.Constant(bytes(value.value))
            if isinstance(value, ast.List) and all(map(_plain, value.elts)):
                return ast.Constant(bytes(ast.literal_eval(value)))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        decisive = isinstance(node.op, ast.Or)
        values: list[ast.expr] = []
        for i, value in enumerate(node.values):
            if isinstance(value, ast.Constant):
                if bool(value.value) == decisive:
                    values.append(value)
                    break
                if i < len(node.values) - 1:
                    continue
            values.append(value)
        node.values = values
        return values[0] if len(values) == 1 else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return self.visit(node.body if node.test.value else node.orelse)
        self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return (node.body if node.test.value else node.orelse) or [ast.Pass()]
        return node


def fold_locals(function: ast.FunctionDef, known: Callable[[ast.AST], bool]) -> None:
    """Write out local names that are stored once, and then a constant; cut dead statements."""
    stores: Counter[str] = Counter(arg.arg for arg in function.args.args)
    values: dict[str, ast.expr] = {}
    for node in walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] += 1
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            # A dotted name is a global one of dissolve's.
            if known(node.value) and "." not in node.targets[0].id:
                values[node.targets[0].id] = node.value
        elif isinstance(node, ast.ExceptHandler) and node.name:
            stores[node.name] += 2
    once = {name: value for name, value in values.items() if stores[name] == 1}
    _FoldLocals(once).visit(function)
    _cut(function.body)


class _FoldLocals(Transformer):
    def __init__(self, known: dict[str, ast.expr]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._known:
            return copied(self._known[node.id])
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id in self._known:
            return ast.Pass()
        self.generic_visit(node)
        return node


def _cut(body: list[ast.stmt]) -> None:
    """Drop what follows a return, and statements that do nothing."""
    for i, node in enumerate(body):
        for inner in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, inner, None), list):
                _cut(getattr(node, inner))
        if isinstance(node, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
            del body[i + 1 :]
            break
    useful = [node for node in body if not isinstance(node, ast.Pass)]
    if body:
        body[:] = useful or [ast.Pass()]
