"""Functions that are called once, only give an expression, or raise, go where they are called.

On a micro:bit a function costs some 60 bytes beside its body, and a call a seventh of
the C stack.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Iterator

from tinyldp.flash.names import Rename, Replace, global_loads, stored
from tinyldp.flash.specialise import is_docstring
from tinyldp.flash.trees import Transformer, copied, size, walk

# Nodes of a function that others are spliced into, with them: it has to be compiled at once.
LARGEST = 300
# Nodes of one that gives a value and may be spliced twice: of Entropy.word, whose callers
# are deep in the stack already.
_SMALL = 80


def inline(
    statements: list[ast.stmt],
    functions: dict[str, ast.stmt],
    resident: set[str] | None = None,
    largest: int = LARGEST,
) -> None:
    """Rewrite in place, one function after the other, until none is left to inline.

    The smallest first, and those that become loops last: whether they fit depends on what
    is there already. resident: functions that stay; what only one of these calls goes there,
    even if the start calls it, too. largest: as LARGEST.
    """
    serial = itertools.count()
    _part_names(statements, functions, serial)
    inliner = _Inliner(statements, functions, serial, largest)
    while any(inliner.inlined(looped) for looped in (False, True)):
        pass
    while resident and inliner.inlined(False, resident):
        pass


class _Inliner:
    """Knows what each function loads and how large it is."""

    def __init__(
        self,
        statements: list[ast.stmt],
        functions: dict[str, ast.stmt],
        serial: Iterator[int],
        largest: int,
    ) -> None:
        self._functions = functions
        self._serial = serial
        self._largest = largest
        self._top = Counter(name for node in statements for name in global_loads(node))
        self._last = {name for node in statements[-1:] for name in global_loads(node)}
        self._loads = {name: Counter(global_loads(node)) for name, node in functions.items()}
        self._sizes = {name: size(node) for name, node in functions.items()}

    def inlined(self, looped: bool, resident: set[str] | None = None) -> bool:
        """Whether there was another function to inline: it is gone then, from all the resident."""
        names = [name for name in self._functions if not resident or name in resident]
        counts = Counter() if resident else self._top.copy()
        for name in names:
            counts.update(self._loads[name])
        at_top = self._last if resident else self._top
        for name in sorted(names, key=self._sizes.__getitem__):
            node = self._functions[name]
            if not isinstance(node, ast.FunctionDef) or not counts[name] or name in at_top:
                continue
            sites = _Sites(name, node, self._serial)
            if sites.looped != looped or not sites.wanted(counts[name]):
                continue
            callers = [key for key in names if key != name and name in self._loads[key]]
            room = self._largest - self._sizes[name]
            if not sites.short and any(self._sizes[key] > room for key in callers):
                continue
            for key in callers:
                self._replace(key, sites)
            if not any(name in self._loads[key] for key in names):
                if resident:
                    resident.remove(name)
                if name not in self._top and not any(name in n for n in self._loads.values()):
                    del self._functions[name], self._loads[name], self._sizes[name]
                return True
        return False

    def _replace(self, name: str, sites: _Sites) -> None:
        """Write the body into this caller."""
        function = self._functions[name]
        if not isinstance(function, ast.FunctionDef):
            return
        sites.local = {argument.arg for argument in function.args.args}
        sites.local |= {local for local in stored(function) if "." not in local}
        function.body = sites.replaced(function.body)
        self._loads[name] = Counter(global_loads(function))
        self._sizes[name] = size(function)


def _part_names(
    statements: list[ast.stmt], functions: dict[str, ast.stmt], serial: Iterator[int]
) -> None:
    """Rename local names that are global ones, too: a body may come to where they are local."""
    taken = set(functions).union(*map(stored, statements))
    for node in functions.values():
        if isinstance(node, ast.FunctionDef):
            own = {argument.arg for argument in node.args.args} | stored(node)
            fresh = {name: f"{name}_{next(serial)}" for name in sorted(own & taken)}
            fresh = {name: new for name, new in fresh.items() if "." not in name}
            Rename(fresh).visit(node)
            for argument in node.args.args:
                argument.arg = fresh.get(argument.arg, argument.arg)


class _Sites(Transformer):
    """The calls of one function."""

    def __init__(self, name: str, function: ast.FunctionDef, serial: Iterator[int]) -> None:
        self._name = name
        self._function = function
        self._serial = serial
        self._parameters = [argument.arg for argument in function.args.args]
        body = [n for n in function.body if not is_docstring(n)]
        self._body = body
        self._value = None
        # What a body gives at its end, when that is its only return.
        self._result: ast.expr | None = None
        # Whether it returns from its midst: then it becomes a loop that is left at once.
        self.looped = False
        # Whether it may go to any function, however large.
        self.short = False
        # Names of the caller's that no function it calls changes: they need no second one.
        self.local: set[str] = set()
        returns = [part for n in body for part in walk(n) if isinstance(part, ast.Return)]
        if len(body) == 1 and isinstance(body[0], ast.Return):
            self._value = body[0].value
            self.short = True
        elif len(returns) == 1 and returns[0] is body[-1]:
            self._body = body[:-1]
            self._result = returns[0].value
        elif returns:
            self.looped = True
            if any(isinstance(n, ast.Return) for n in _in_loops(body)):
                self._body = []

    def wanted(self, count: int) -> bool:
        if self._value is not None:
            uses = Counter(n.id for n in walk(self._value) if isinstance(n, ast.Name))
            once = all(uses[parameter] <= 1 for parameter in self._parameters)
            return once and (count == 1 or len(ast.unparse(self._value)) < 24)
        raises = len(self._body) < 4 and isinstance((self._body or [None])[-1], ast.Raise)
        twice = count == 2 and self._result is not None and size(self._function) <= _SMALL
        return bool(self._body) and (count == 1 or raises or twice)

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
        return Replace(values).visit(copied(self._value))

    def _spliced(self, site: ast.Expr | ast.Assign) -> list[ast.stmt]:
        call = site.value
        assert isinstance(call, ast.Call)
        given = dict(zip(self._parameters, call.args, strict=True))
        constant = {
            n: v
            for n, v in given.items()
            if isinstance(v, ast.Constant) or (isinstance(v, ast.Name) and v.id in self.local)
        }
        own = {n for n in stored(self._function) if "." not in n}
        constant = {n: v for n, v in constant.items() if n not in own}
        names = {*self._parameters, *own} - constant.keys()
        fresh = {name: f"{name}_{next(self._serial)}" for name in sorted(names)}
        result: list[ast.stmt] = [
            ast.Assign([ast.Name(fresh[parameter], ast.Store())], value)
            for parameter, value in given.items()
            if parameter in fresh
        ]
        put = Replace(constant)
        body = [put.visit(Rename(fresh).visit(copied(node))) for node in self._body]
        if self.looped:
            left = _Leave(site)
            body = [new for node in body for new in _listed(left.visit(node))]
            if not isinstance(body[-1], ast.Break):
                body += left.leave(None)
            return [*result, ast.While(ast.Constant(True), body, [])]
        result += body
        if isinstance(site, ast.Assign):
            value: ast.expr = self._result or ast.Constant(None)
            value = put.visit(Rename(fresh).visit(copied(value)))
            result.append(ast.Assign(site.targets, value))
        return result


class _Leave(Transformer):
    """A return becomes what the site does with the value, and a break."""

    def __init__(self, site: ast.Expr | ast.Assign) -> None:
        self._site = site

    def leave(self, value: ast.expr | None) -> list[ast.stmt]:
        if isinstance(self._site, ast.Assign):
            targets = copied(self._site.targets)
            return [ast.Assign(targets, value or ast.Constant(None)), ast.Break()]
        if value is None or isinstance(value, ast.Constant):
            return [ast.Break()]
        return [ast.Expr(value), ast.Break()]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        return self.leave(node.value)


def _listed(node: ast.stmt | list[ast.stmt]) -> list[ast.stmt]:
    return node if isinstance(node, list) else [node]


def _in_loops(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Everything inside the loops of these statements."""
    for node in body:
        for part in walk(node):
            if isinstance(part, (ast.For, ast.While)):
                yield from walk(part)
