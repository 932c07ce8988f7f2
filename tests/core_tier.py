"""What device and protocol source may say, so that the smallest board can run it.

The core tier is everything but MQTT and the boards' own files: it must compile
on MicroPython 1.9.2, hold every integer in 31 bits, and do nothing at import
but define. faults() gives one line for each place that breaks a rule.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

PACKAGES = ("tinyldp_protocol", "tinyldp_device")
FULL_TIER = ("tinyldp_device/links/mqtt.py", "tinyldp_device/boards/")
# The standard modules that every supported board has, or that are imported under try.
IMPORTS = ("array", "hashlib", "os")
MISSING_NAMES = ("property", "memoryview", "enumerate", "super", "open", "print", "eval", "exec")
SYNTAX: dict[type[ast.AST], str] = {
    ast.JoinedStr: "f-string",
    ast.AnnAssign: "annotation",
    ast.NamedExpr: "walrus",
    ast.AsyncFunctionDef: "async",
    ast.Await: "async",
    ast.Match: "match",
    ast.MatMult: "matrix product",
}
# Functions that run for each sample, by module: they must not allocate.
PER_SAMPLE = {
    "agent.py": ("tick", "_put_wide", "_close"),
    "rounds.py": ("tick",),
    "ledger.py": ("step", "_place"),
    "oraclerounds.py": ("step",),
    "epochs.py": ("step",),
    "thresh.py": ("step", "_ends"),
    "heavythresh.py": ("step", "compare", "_begin", "_add", "_close", "_three_at"),
    "quantize.py": ("symbol",),
    "switch.py": ("step", "flush", "_release"),
    "jittersort.py": ("step", "flush"),
    "oracles.py": ("step", "flush"),
    "hashing.py": ("multilinear", "halfsiphash"),
    "entropy.py": ("word", "refill", "_fill"),
    "outbox.py": ("add", "slot", "free"),
    "framing.py": ("frame",),
    "messages.py": ("set_word",),
    "small.py": ("tick", "_close"),
    "smallserial.py": ("frame",),
}
ALLOCATES: dict[type[ast.AST], str] = {
    ast.Lambda: "lambda",
    ast.With: "with",
    ast.GeneratorExp: "generator",
    ast.Yield: "generator",
    ast.YieldFrom: "generator",
    ast.ListComp: "comprehension",
    ast.SetComp: "comprehension",
    ast.DictComp: "comprehension",
    ast.List: "list",
    ast.Dict: "dict",
    ast.Set: "set",
    ast.Slice: "slice",
    ast.Starred: "star argument",
    ast.FunctionDef: "closure",
}


def is_core(path: str) -> bool:
    """Whether a file, by its path from the packages' folder, belongs to the core tier."""
    return not path.startswith(FULL_TIER)


def faults(files: Mapping[str, str]) -> list[str]:
    """Every broken rule in the two packages; files: source by path, such as tinyldp_device/x.py."""
    found = []
    homes: dict[str, str] = {}
    for path, source in files.items():
        name = PurePosixPath(path).name
        if name != "__init__.py" and homes.setdefault(name, path) != path:
            found.append(f"{path}: another module is called so, too: {homes[name]}")
        if is_core(path):
            tree = ast.parse(source)
            for line, fault in sorted({*syntax(source, tree), *_core(path, tree)}):
                found.append(f"{path}:{line}: {fault}")
    return found


def syntax(source: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What MicroPython 1.9.2 cannot compile: pairs of line and fault."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NUMBER and "_" in token.string:
            yield token.start[0], "underscore in a number"
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if type(node) in SYNTAX:
            yield line, SYNTAX[type(node)]
        elif (isinstance(node, ast.FunctionDef) and node.returns) or (
            isinstance(node, ast.arg) and node.annotation
        ):
            yield line, "annotation"
        elif isinstance(node, ast.arguments) and node.posonlyargs:
            yield node.posonlyargs[0].lineno, "positional-only parameter"
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            if any(isinstance(item, ast.Starred) for item in node.elts):
                yield line, "star in a display"
        elif isinstance(node, ast.Dict) and None in node.keys:
            yield line, "star in a display"


def _core(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What the core tier adds: numbers, imports, import-time code, the path of a sample."""
    yield from _numbers(tree)
    yield from _imports(path, tree)
    for node in tree.body:
        if not _defines(node):
            yield node.lineno, "runs at import"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                if not _defines(item):
                    yield item.lineno, "runs at import"
        elif isinstance(node, ast.Name) and node.id in MISSING_NAMES:
            yield node.lineno, f"{node.id} is not on every board"
    yield from _allocations(path, tree)


def _numbers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    negated = {
        id(node.operand)
        for node in ast.walk(tree)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)):
            yield node.lineno, "float"
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div):
            yield node.lineno, "true division"
        elif isinstance(node, ast.expr):
            n = _constant(node)
            if n is not None and not -(1 << 30) <= n < (1 << 30) + (id(node) in negated):
                yield node.lineno, "integer beyond 30 bits"


def _constant(node: ast.expr) -> int | None:
    """The value of an expression of integer constants."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant):
            if type(part.value) is not int:
                return None
        elif not isinstance(part, (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)):
            return None
    value = eval(compile(ast.Expression(node), "constant", "eval"))  # only operators on integers
    return value if isinstance(value, int) else None


def _imports(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    allowed = PACKAGES[:1] if path.startswith(PACKAGES[0]) else PACKAGES
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield node.lineno, "import without from"
        elif isinstance(node, ast.ImportFrom):
            package, _, module = (node.module or "").partition(".")
            if node.level or not ((package in allowed and module) or node.module in IMPORTS):
                yield node.lineno, f"import of {node.module}"
            for name in node.names:
                if name.asname or name.name == "*":
                    yield node.lineno, "import alias"


def _defines(node: ast.stmt) -> bool:
    """Whether a statement only defines: an import, a function, a class, a constant, a docstring."""
    if isinstance(node, ast.Assign):
        return all(
            isinstance(part, (ast.Constant, ast.Tuple, ast.Name, ast.BinOp, ast.UnaryOp))
            or not isinstance(part, ast.expr)
            for part in ast.walk(node.value)
        )
    if isinstance(node, ast.Try):
        handlers = [item for handler in node.handlers for item in handler.body]
        return (
            all(map(_defines, [*node.body, *handlers])) and not node.orelse and not node.finalbody
        )
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return not node.decorator_list
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _allocations(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    names = PER_SAMPLE.get(PurePosixPath(path).name, ())
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    for name in names:
        if name not in [function.name for function in functions]:
            yield 1, f"there is no {name}: PER_SAMPLE is out of date"
    for function in functions:
        raised = {
            id(part)
            for node in ast.walk(function)
            if isinstance(node, ast.Raise)
            for part in ast.walk(node)
        }
        for node in ast.walk(function):
            if node is function or id(node) in raised:
                continue
            if type(node) in ALLOCATES:
                fault = ALLOCATES[type(node)]
                yield getattr(node, "lineno", function.lineno), f"{fault} in {function.name}()"
            elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
                yield node.lineno, f"tuple in {function.name}()"
            elif (
                isinstance(node, ast.Constant) and isinstance(node.value, str) and "%" in node.value
            ):
                yield node.lineno, f"formatting in {function.name}()"
