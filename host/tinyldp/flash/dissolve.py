"""A program of classes with one instance each becomes functions and global names.

On a tiny board a class, an instance and `self` cost more memory than what they
hold. dissolved() gives the program as a list of top-level statements in the one
namespace of a script: what a statement needs is defined just before it, and
deleted as soon as nothing that follows uses it, so that the code of the start
is gone when the loop begins.

Rules for the modules: a dissolved class is constructed at one place (those in
REUSED: one at a time), stores its attributes through self only, and constructs
others in __init__ without a condition around it.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Mapping

from tinyldp.errors import UserError
from tinyldp.flash.inline import LARGEST, inline
from tinyldp.flash.names import Rename, Replace, global_loads, stored
from tinyldp.flash.specialise import Fold, fold_locals, is_docstring
from tinyldp.flash.trees import Transformer, copied, walk
from tinyldp.lanes.flatten import Module

# Constructing one again starts the same one anew.
REUSED = frozenset({"Crc32", "State"})
# A class whose instances are what they are made with, and the one whose methods call its own.
PLAIN, CALLER = "FileSlot", "State"
# A class of an exception that adds nothing takes some 200 bytes; these the firmware has, and
# raises in nothing that a device's modules do.
SPARE = ("EOFError", "AssertionError", "NotImplementedError")
# Characters of a function of the start that is waited for.
_LARGE = 300
# Stands for the only instance of a class.
_MARK = "@"


def dissolved(
    modules: Mapping[str, Module],
    classes: frozenset[str],
    kept: frozenset[str],
    largest: int = LARGEST,
) -> list[ast.stmt]:
    """The statements of modules["program"], with all that they need, in order.

    classes: the names of those to dissolve; kept: names that are never deleted.
    largest: nodes of a function, see inline.
    """
    program = _Program(modules, classes)
    statements: list[ast.stmt] = []
    body = [
        copied(node)
        for node in modules["program"].body
        if not isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))
    ]
    names = {name: f"program..{name}" for node in body for name in stored(node)}
    program.rename(names)
    for node in body:
        statements += program.expanded(Rename(names).visit(node))
    functions = program.functions()
    spared = Replace(program.spared)
    for node in [*statements, *functions.values()]:
        spared.visit(node)
    _settle(statements, functions)
    _set_apart(statements, functions)
    # What nobody calls any more must not count as a caller.
    needed = _needed(statements, functions, _carried(statements, functions))
    for name in functions.keys() - needed:
        del functions[name]
    resident = _needed(statements[-1:], functions, _carried(statements, functions))
    inline(statements, functions, resident & functions.keys(), largest)
    for node in [*statements, *functions.values()]:
        ast.fix_missing_locations(node)
    return _in_order(statements, functions, kept, largest > LARGEST)


class _Program:
    """The definitions of all modules in one namespace, and the classes to dissolve."""

    def __init__(self, modules: Mapping[str, Module], classes: frozenset[str]) -> None:
        self._definitions: dict[str, ast.stmt] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        self._built: Counter[str] = Counter()
        self._own: list[ast.FunctionDef] = []
        # Whether PLAIN is but its argument.
        self.plain = False
        # Exceptions by those that stand for them.
        self.spared: dict[str, ast.expr] = {}
        for path, module in modules.items():
            for node in module.body:
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    if (getattr(node, "module", "") or "") in modules:
                        continue
                    for alias in node.names:
                        single = copy.copy(node)
                        single.names = [alias]
                        self._definitions[alias.name] = single
                elif path == "program" and isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    self._own += [n for n in walk(node) if isinstance(n, ast.FunctionDef)]
                    self._define(node, path, classes)
                elif path != "program" or isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    self._define(node, path, classes)
        self._plain()
        self._spare_exceptions()
        # Functions that only construct: they are written where they are called.
        self._makers: dict[str, tuple[ast.FunctionDef, ast.Call]] = {}
        known = -1
        while known != len(self._makers):
            known = len(self._makers)
            for name, node in list(self._definitions.items()):
                made = self._construction(node)
                if isinstance(node, ast.FunctionDef) and made is not None:
                    self._makers[name] = node, made
                    del self._definitions[name]

    def _plain(self) -> None:
        """The methods of PLAIN become functions, of its only attribute and their arguments."""
        node = self._definitions.get(PLAIN)
        bases = {
            base.id
            for other in self._definitions.values()
            if isinstance(other, ast.ClassDef)
            for base in other.bases
            if isinstance(base, ast.Name)
        }
        if not isinstance(node, ast.ClassDef) or PLAIN in bases or CALLER not in self._classes:
            return
        self.plain = True
        del self._definitions[PLAIN]
        names = []
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                names.append(method.name)
                function = _OnlyAttribute(method.args.args[0].arg).visit(method)
                function.name = f"{PLAIN}.{method.name}"
                self._definitions[function.name] = function
        for method in self._classes[CALLER].body:
            _PlainCalls(names).visit(method)

    def _spare_exceptions(self) -> None:
        spare = list(SPARE)
        for name, node in list(self._definitions.items()):
            if (
                spare
                and isinstance(node, ast.ClassDef)
                and [ast.unparse(base) for base in node.bases] == ["Exception"]
                and all(isinstance(n, ast.Pass) or is_docstring(n) for n in node.body)
            ):
                del self._definitions[name]
                self.spared[name] = ast.Name(spare.pop(0), ast.Load())

    def _construction(self, node: ast.stmt) -> ast.Call | None:
        """What a function constructs, if it does nothing else."""
        body = [n for n in getattr(node, "body", []) if not is_docstring(n)]
        value = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            if value.func.id in self._makers:
                return self._made(value)
            if value.func.id in self._classes:
                return value
        return None

    def _made(self, call: ast.Call) -> ast.Call:
        """The construction, with the arguments of this call."""
        assert isinstance(call.func, ast.Name)
        function, made = self._makers[call.func.id]
        names = [argument.arg for argument in function.args.args]
        return Replace(dict(zip(names, call.args, strict=True))).visit(copied(made))

    def _define(self, node: ast.stmt, path: str, classes: frozenset[str]) -> None:
        if isinstance(node, ast.ClassDef) and node.name in classes:
            self._classes[node.name] = node
            return
        names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
        if isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        for name in names:
            if name in self._definitions:
                raise UserError(f"Two modules of this build define {name}, one is {path}.")
            self._definitions[name] = node

    def rename(self, names: Mapping[str, str]) -> None:
        """Give the program's own functions the new names of its variables."""
        for node in self._own:
            local = stored(node) | {argument.arg for argument in node.args.args}
            Rename({name: new for name, new in names.items() if name not in local}).visit(node)

    def _methods(self, name: str) -> dict[str, ast.FunctionDef]:
        """The methods of a class, its bases' under their own names when it overrides them."""
        node = self._classes[name]
        methods: dict[str, ast.FunctionDef] = {}
        for base in node.bases:
            if isinstance(base, ast.Name):
                for key, method in self._methods(base.id).items():
                    methods[f"{base.id}.{key}" if key == "__init__" else key] = method
        methods.update((item.name, item) for item in node.body if isinstance(item, ast.FunctionDef))
        return methods

    def _constants(self, name: str) -> dict[str, ast.expr]:
        return {
            item.targets[0].id: item.value
            for item in self._classes[name].body
            if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)
        }

    def functions(self) -> dict[str, ast.stmt]:
        """All definitions by name: methods as CLASS.METHOD."""
        functions = {name: self._expanded_function(n) for name, n in self._definitions.items()}
        for name in self._built:
            for key, method in self._methods(name).items():
                if not key.endswith("__init__"):
                    node = copied(method)
                    me = node.args.args.pop(0).arg
                    Replace({me: ast.Name(_MARK + name, ast.Load())}).visit(node)
                    node.name = f"{name}.{key}"
                    functions[node.name] = self._expanded_function(node)
            for key, value in self._constants(name).items():
                target = ast.Name(f"{name}.{key}", ast.Store())
                functions[target.id] = ast.Assign([target], value)
        return functions

    def _expanded_function(self, node: ast.stmt) -> ast.stmt:
        """Constructions in functions can only be of what may be started anew."""
        node = copied(node)
        for part in walk(node):
            if isinstance(part, ast.FunctionDef):
                part.body = [new for old in part.body for new in self.expanded(old)]
        return node

    def expanded(self, node: ast.stmt) -> list[ast.stmt]:
        """A statement, before it the bodies of the __init__ of all that it constructs."""
        before: list[ast.stmt] = []
        program = self

        class Constructions(Transformer):
            def visit_Call(self, node: ast.Call) -> ast.expr:
                self.generic_visit(node)
                if program.plain and isinstance(node.func, ast.Name) and node.func.id == PLAIN:
                    return node.args[0]
                if isinstance(node.func, ast.Name) and node.func.id in program._makers:
                    node = program._made(node)
                if isinstance(node.func, ast.Name) and node.func.id in program._classes:
                    name = node.func.id
                    before.extend(program._initialised(name, name, "__init__", node.args))
                    return ast.Name(_MARK + name, ast.Load())
                return node

        if isinstance(node, ast.FunctionDef):
            return [node]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if (
                isinstance(function, ast.Attribute)
                and function.attr == "__init__"
                and isinstance(function.value, ast.Name)
            ):
                me, *arguments = node.value.args
                assert isinstance(me, ast.Name)
                arguments = [Constructions().visit(argument) for argument in arguments]
                return before + self._initialised(
                    me.id.lstrip(_MARK), function.value.id, "__init__", arguments
                )
        result = Constructions().visit(node)
        return [*before, result]

    def _initialised(
        self, name: str, base: str, method: str, arguments: list[ast.expr]
    ) -> list[ast.stmt]:
        """What base.__init__ does for the one instance of class `name`."""
        if base == name:
            self._built[name] += 1
            if self._built[name] > 1 and name not in REUSED:
                raise UserError(f"This build constructs {name} twice.")
        node = self._methods(base).get(method)
        if node is None:
            return []
        node = copied(node)
        me, *parameters = [argument.arg for argument in node.args.args]
        values = dict(zip(parameters[::-1], node.args.defaults[::-1], strict=False))
        values.update(zip(parameters, arguments, strict=False))
        names = {me: _MARK + name}
        for name_ in stored(node):
            names.setdefault(name_, f"{base}..{name_}")
        statements: list[ast.stmt] = []
        for parameter in parameters:
            value = values[parameter]
            if isinstance(value, ast.Name) and parameter not in stored(node):
                names[parameter] = value.id
                continue
            names[parameter] = f"{base}..{parameter}"
            target = ast.Name(names[parameter], ast.Store())
            statements.append(ast.Assign([target], copied(value)))
        Rename(names).visit(node)
        return statements + [new for old in node.body for new in self.expanded(old)]


class _OnlyAttribute(Transformer):
    """self.x, whatever x is, becomes self."""

    def __init__(self, me: str) -> None:
        self._me = me

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == self._me:
            return node.value
        self.generic_visit(node)
        return node


class _PlainCalls(Transformer):
    """x.method(...) becomes PLAIN.method(x, ...)."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in self._names:
            function = ast.Name(f"{PLAIN}.{node.func.attr}", ast.Load())
            return ast.Call(function, [node.func.value, *node.args], [])
        return node


class _Members(Transformer):
    """@CLASS.name becomes the global name CLASS.name."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id.startswith(_MARK):
            return ast.Name(f"{node.value.id[1:]}.{node.attr}", node.ctx)
        return node


def _instance(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith(_MARK)


def _known(node: ast.AST) -> bool:
    """Whether a name that is only ever this may be replaced by it."""
    return _instance(node) or (
        isinstance(node, ast.Constant)
        and (node.value is None or isinstance(node.value, (int, bool)))
    )


def _settle(statements: list[ast.stmt], functions: dict[str, ast.stmt]) -> None:
    """Find out which name means which instance, and then which means a constant."""
    fixed: dict[str, ast.expr] = {}
    present = [ast.dump(tree) for tree in [*statements, *functions.values()]]
    for known in (_instance, _known):
        before = None
        while before != present:
            before = present
            _settle_once(statements, functions, fixed, known)
            present = [ast.dump(tree) for tree in [*statements, *functions.values()]]


def _settle_once(
    statements: list[ast.stmt],
    functions: dict[str, ast.stmt],
    fixed: dict[str, ast.expr],
    known: Callable[[ast.AST], bool],
) -> None:
    trees = [*statements, *functions.values()]
    for tree in trees:
        _Members().visit(tree)
    stores = Counter(
        node.id
        for tree in trees
        for node in walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    for node in trees:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if "." in name and stores[name] == 1 and known(node.value):
                fixed[name] = node.value
    replace = Replace(fixed)
    fold = Fold({}, {}, {})
    kept: list[ast.stmt] = []
    for node in statements:
        if not (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in fixed
        ):
            new = fold.visit(replace.visit(node))
            kept += new if isinstance(new, list) else [new]
    statements[:] = [node for node in kept if not isinstance(node, ast.Pass)]
    for name in functions:
        functions[name] = fold.visit(replace.visit(functions[name]))
    _fix_parameters([*statements, *functions.values()], functions, known)
    for node in functions.values():
        for part in walk(node):
            if isinstance(part, ast.FunctionDef):
                fold_locals(part, known)


def _set_apart(statements: list[ast.stmt], functions: dict[str, ast.stmt]) -> None:
    """Tuples of integers become definitions, to be compiled as early as functions are."""
    kept: list[ast.stmt] = []
    for node in statements:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            target = node.targets[0]
            if isinstance(target, ast.Name) and all(map(_known, node.value.elts)):
                functions[target.id] = node
                continue
        kept.append(node)
    statements[:] = kept
    found: dict[str, ast.stmt] = {}
    for function in functions.values():
        if isinstance(function, ast.FunctionDef):
            _Tuples(found).visit(function)
    functions.update(found)


class _Tuples(Transformer):
    """Gives those in functions, which would be made anew each time, a name of their own."""

    def __init__(self, found: dict[str, ast.stmt]) -> None:
        self._found = found

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        if len(node.elts) < 2 or not all(map(_known, node.elts)):
            return node
        name = f"tuple..{ast.unparse(node)}"
        self._found[name] = ast.Assign([ast.Name(name, ast.Store())], node, lineno=0)
        return ast.Name(name, ast.Load())


def _fix_parameters(
    trees: list[ast.stmt], functions: dict[str, ast.stmt], known: Callable[[ast.AST], bool]
) -> None:
    """Write into a function what every call gives it.

    Only instances, until all of them are known: another may call the same function.
    """
    calls: dict[str, list[ast.Call]] = {}
    mentions: Counter[str] = Counter()
    # Names that mean something else where a function is called.
    local: dict[str, set[str]] = {}
    for tree in trees:
        mentions.update(global_loads(tree))
        names: set[str] = set()
        for node in walk(tree):
            if isinstance(node, ast.FunctionDef):
                names |= stored(node) | {argument.arg for argument in node.args.args}
        for node in walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                calls.setdefault(node.func.id, []).append(node)
                local.setdefault(node.func.id, set()).update(names)
    for name, function in functions.items():
        mine = calls.get(name, [])
        if not isinstance(function, ast.FunctionDef) or not mine or mentions[name] != len(mine):
            continue
        changed = stored(function)
        arguments = function.args
        if known is _instance and arguments.defaults:
            # A call may leave them out that is not known to be one.
            continue
        for call in mine:
            # What a call leaves out is written out.
            lacking = len(arguments.args) - len(call.args)
            if lacking:
                call.args += copied(arguments.defaults[-lacking:])
        arguments.defaults = []
        for i in reversed(range(len(function.args.args))):
            parameter = function.args.args[i].arg
            given = mine[0].args[i]
            fixed = known(given) or (
                known is _known
                and isinstance(given, ast.Name)
                and given.id in functions
                and given.id not in local[name]
            )
            if (
                fixed
                and parameter not in changed
                and len({ast.dump(call.args[i]) for call in mine}) == 1
            ):
                for call in mine:
                    del call.args[i]
                del function.args.args[i]
                Replace({parameter: given}).visit(function)


def _in_order(
    statements: list[ast.stmt],
    functions: dict[str, ast.stmt],
    kept: frozenset[str],
    first: bool,
) -> list[ast.stmt]:
    """Definitions before the first statement that needs them, deletions after the last.

    What the last statement needs comes before that, as soon as the large functions of the
    start are gone: compiling a function takes several times its size, setting up hardly any.
    first: the loop itself at once, as long as memory is whole, for it is the largest.
    """
    carried = _carried(statements, functions)
    needs = [_needed([node], functions, carried) for node in statements]
    sizes = {name: len(ast.unparse(node)) for name, node in functions.items()}
    early = 0
    for i, needed in enumerate(needs[:-1]):
        if any(sizes.get(name, 0) > _LARGE for name in needed - needs[-1]):
            early = i + 1
    if first:
        needs[0] |= set(global_loads(statements[-1]))
    if needs:
        # But not the user's sample.py, whose size is not known here.
        needs[early] |= {n for n in needs[-1] if not isinstance(functions.get(n), ast.ImportFrom)}
    # Where a condition is false there is nothing to delete.
    unsure = {name for node in statements if isinstance(node, ast.If) for name in stored(node)}
    for node in statements:
        if not isinstance(node, ast.If):
            unsure -= stored(node)
    result: list[ast.stmt] = []
    there: set[str] = set()
    for i, node in enumerate(statements):
        # The largest first: what compiles it needs several times its size.
        new = [name for name in functions if name in needs[i] and name not in there]
        for name in sorted(new, key=lambda name: -sizes[name]):
            there.add(name)
            result.append(_with_globals(functions[name]))
        result.append(node)
        there |= stored(node)
        later = set().union(*needs[i + 1 :]) if i + 1 < len(statements) else needs[i]
        gone = sorted(name for name in there if name not in later | kept | unsure)
        if gone:
            there -= set(gone)
            result.append(ast.Delete([ast.Name(name, ast.Del()) for name in gone]))
    return result


def _carried(statements: list[ast.stmt], functions: Mapping[str, ast.stmt]) -> dict[str, set[str]]:
    """The classes whose instances a variable may hold: their methods' names must stay."""
    carried: dict[str, set[str]] = {}
    for node in statements:
        loaded = set(global_loads(node))
        classes = {name for name in loaded if isinstance(functions.get(name), ast.ClassDef)}
        classes = classes.union(*(carried.get(name, set()) for name in loaded))
        for name in stored(node):
            carried[name] = carried.get(name, set()) | classes
    return carried


def _needed(
    nodes: list[ast.stmt], functions: Mapping[str, ast.stmt], carried: Mapping[str, set[str]]
) -> set[str]:
    """All names that the nodes use, and what these use in turn."""
    names: set[str] = set()
    pending: list[ast.AST] = list(nodes)
    while pending:
        node = pending.pop()
        names_here = list(global_loads(node))
        names_here += [c for name in names_here for c in carried.get(name, ())]
        for name in names_here:
            if name not in names:
                names.add(name)
                if name in functions:
                    pending.append(functions[name])
    return names


def _with_globals(node: ast.stmt) -> ast.stmt:
    """A function, with a statement of which global names it stores."""
    if isinstance(node, ast.FunctionDef):
        names = sorted(name for name in stored(node) if "." in name)
        if names:
            node.body.insert(0, ast.Global(names))
    return node
