"""The packages cut down to what a tiny board needs: flat, minified, one file a module.

A micro:bit compiles about 2 KB at a time and has 9 KB of heap for code and data, so
only the definitions and methods that a program can reach go along, and integer
constants are written out where they are used.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping

from tinyldp.errors import UserError
from tinyldp.lanes.packages import PACKAGES, sources

_OPERATORS = {ast.LShift: operator.lshift, ast.Mult: operator.mul, ast.Sub: operator.sub}


class Module:
    """A module's top-level statements by the names that they define, and its imports."""

    def __init__(self, body: list[ast.stmt]) -> None:
        self.body = body
        self.definitions: dict[str, ast.stmt] = {}
        self.imports: dict[str, str] = {}
        self.constants: dict[str, int] = {}
        for node in self.body:
            if isinstance(node, ast.ImportFrom):
                self.imports.update((name.name, node.module or "") for name in node.names)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.definitions[node.name] = node
            else:
                for part in ast.walk(node):
                    if isinstance(part, ast.alias):
                        self.definitions[part.name] = node
                    elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        self.definitions[part.id] = node
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value = _integer(node.value)
                if value is not None:
                    self.constants[node.targets[0].id] = value


def _integer(node: ast.expr) -> int | None:
    """The integer that is written here, perhaps as a power of two, a product or a difference."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _integer(node.left), _integer(node.right)
        if left is not None and right is not None:
            return _OPERATORS[type(node.op)](left, right)
    return None


class _Fold(ast.NodeTransformer):
    """Writes out integer constants."""

    def __init__(self, constants: dict[str, int]) -> None:
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._constants:
            return ast.copy_location(ast.Constant(self._constants[node.id]), node)
        return node


class _Lift(ast.NodeTransformer):
    """Takes imports from the packages out of functions: on a flat board all are at the top."""

    def __init__(self) -> None:
        self.lifted: list[ast.stmt] = []
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if not self._depth or (node.module or "").partition(".")[0] not in PACKAGES:
            return node
        self.lifted.append(node)
        return ast.Pass()


class _Reach:
    """What a program can reach; a method counts as reached when its name is used anywhere."""

    def __init__(self, modules: Mapping[str, Module], program: str) -> None:
        self._modules = modules
        self.attributes: set[str] = set()
        known = -1
        while known != len(self.attributes):
            known = len(self.attributes)
            self.kept: dict[str, set[str]] = {name: set() for name in modules}
            for node in modules[program].body:
                self._visit(program, node)

    def _visit(self, name: str, node: ast.AST) -> None:
        module = self._modules[name]
        if isinstance(node, ast.ImportFrom):
            return
        if isinstance(node, ast.Attribute):
            self.attributes.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            home = name if node.id in module.definitions else module.imports.get(node.id, "")
            if home in self._modules and node.id not in self.kept[home]:
                if node.id not in self._modules[home].definitions:
                    raise UserError(f"{home} has no {node.id}, which {name} imports.")
                self.kept[home].add(node.id)
                self._visit(home, self._modules[home].definitions[node.id])
        elif isinstance(node, ast.ClassDef):
            for item in [*node.bases, *node.body]:
                if self.wants(item):
                    self._visit(name, item)
            return
        for child in ast.iter_child_nodes(node):
            self._visit(name, child)

    def wants(self, item: ast.AST) -> bool:
        """Whether this statement of a class has to go along."""
        return (
            not isinstance(item, ast.FunctionDef)
            or item.name.startswith("__")
            or item.name in self.attributes
        )


def parsed(program: str, lift: bool = False) -> dict[str, Module]:
    """The packages' modules, and `program` under that name, with integer constants written out.

    lift: imports within functions count, too; else what they import is left out.
    """
    modules: dict[str, Module] = {}
    for path, source in {**sources(), "program.py": program.encode()}.items():
        body = ast.parse(source).body
        if lift:
            lifting = _Lift()
            body = [lifting.visit(node) for node in body]
            body[:0] = lifting.lifted
        modules[path[:-3].replace("/", ".")] = Module(body)
    # Once more for those that are made of others.
    for _ in range(2):
        for path, module in modules.items():
            constants = dict(module.constants)
            for name, home in module.imports.items():
                if home in modules and name in modules[home].constants:
                    constants[name] = modules[home].constants[name]
            modules[path] = Module([_Fold(constants).visit(node) for node in module.body])
    return modules


def pruned(modules: Mapping[str, Module]) -> dict[str, Module]:
    """Only what `program` can reach, by modules; each with one import for each name it uses."""
    reach = _Reach(modules, "program")
    result = {}
    for name, kept in reach.kept.items():
        module = modules[name]
        body = [
            node
            for node in module.body
            if name == "program" or any(module.definitions[key] is node for key in kept)
        ]
        for node in body:
            if isinstance(node, ast.ClassDef):
                node.body = [item for item in node.body if reach.wants(item)] or [ast.Pass()]
        body = [node for node in body if not isinstance(node, ast.ImportFrom)]
        used = {n.id for node in body for n in ast.walk(node) if isinstance(n, ast.Name)}
        imports: list[ast.stmt] = [
            ast.ImportFrom(home, [ast.alias(key)], 0)
            for key, home in module.imports.items()
            if key in used
        ]
        if body:
            result[name] = Module([*imports, *body])
    return result


def minified(module: Module) -> bytes:
    """The module's source for a board without folders. Needs the package python-minifier."""
    try:
        from python_minifier import minify
    except ImportError:
        raise UserError("Fitting code to a board needs the PyPI package python-minifier.") from None
    body = [
        ast.ImportFrom(flat(node.module or ""), node.names, 0)
        if isinstance(node, ast.ImportFrom)
        else node
        for node in module.body
    ]
    text = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
    return minify(
        text, remove_literal_statements=True, rename_globals=False, hoist_literals=False
    ).encode()


def load_order(files: Mapping[str, bytes]) -> list[str]:
    """Modules as a board shall import them, whose memory shrinks with each.

    None before what it imports; of those that could be next, the largest.
    """
    waiting = {name[:-3]: data for name, data in files.items()}
    imports = {
        name: {
            node.module for node in ast.walk(ast.parse(data)) if isinstance(node, ast.ImportFrom)
        }
        for name, data in waiting.items()
    }
    order = []
    while waiting:
        ready = [name for name in waiting if not imports[name] & waiting.keys()]
        order.append(max(ready, key=lambda name: len(waiting[name])))
        del waiting[order[-1]]
    return order


def flatten(program: str) -> dict[str, bytes]:
    """The files that `program` needs on a board without folders, itself as program.py.

    main.py loads them, then calls the program's main(), if there is one, for
    code that runs inside an import has little stack left. The program imports
    from the packages with `from MODULE import NAMES` only. Raises UserError
    when python-minifier is not installed.
    """
    modules = pruned(parsed(program))
    files = {flat(name) + ".py": minified(module) for name, module in modules.items()}
    # Collecting after each keeps what stays together, and the rest in one piece.
    loads = [f"import {name}\ngc.collect()\n" for name in load_order(files)]
    if "main" in modules["program"].definitions:
        loads.append("program.main()\n")
    files["main.py"] = "".join(["import gc\n", *loads]).encode()
    return files


def flat(module: str) -> str:
    """A module's name on a board without folders."""
    return module.rpartition(".")[2] if module.partition(".")[0] in PACKAGES else module
