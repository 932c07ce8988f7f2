"""The builder for tiny boards, step by step: what goes away, and that nothing else changes."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from typing import Any

import pytest

from firmware_tests.microbit import RAN, STA, TASKS, crr, crr_by_table, jittersort, lba, make_task
from tests.epochs_tasks import epoch_task
from tinyldp.errors import UserError
from tinyldp.flash.build import _KEPT, CLASSES, MAIN, SAMPLE, build_microbit, task_data
from tinyldp.flash.dissolve import dissolved
from tinyldp.flash.inline import inline
from tinyldp.flash.names import Rename, Replace, global_loads, stored
from tinyldp.flash.specialise import specialise
from tinyldp.lanes.flatten import Module
from tinyldp_protocol.task import CRR_BATCH, HEAVYTHRESH, MIN_ERROR, Task


def text(nodes: list[ast.stmt]) -> str:
    return ast.unparse(ast.fix_missing_locations(ast.Module(nodes, [])))


def executed(nodes: list[ast.stmt]) -> Any:
    """What the statements leave in the variable `log`; dotted names are made plain ones."""
    plain = {
        node.id: node.id.replace(".", "__")
        for tree in nodes
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
    }
    for tree in nodes:
        Rename(plain).visit(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                node.name = node.name.replace(".", "__")
            elif isinstance(node, ast.Global):
                node.names = [name.replace(".", "__") for name in node.names]
    names: dict[str, Any] = {"log": []}
    exec(text(nodes), names)
    return names["log"]


class TestSpecialise:
    def folded(self, source: str, task: Task = STA) -> str:
        module = ast.parse(source)
        specialise([module], task)
        return ast.unparse(module)

    def test_the_tasks_integers_are_written_in(self) -> None:
        assert self.folded("a = task.window + 1") == "a = 9"
        assert self.folded("a = task.thresholds[0]") == f"a = {1 << 20}"
        assert self.folded("a = task.bins is None") == "a = True"
        assert self.folded("a = task.id") == f"a = {STA.id!r}"

    def test_branches_that_cannot_be_taken_go(self) -> None:
        source = "def f(x):\n if task.mechanism == 1:\n  return x\n return x + task.batch\n"
        assert self.folded(source) == "def f(x):\n    return x + 4"
        assert self.folded(source, RAN) == "def f(x):\n    return x"

    def test_what_is_unknown_stays(self) -> None:
        source = "def f(x):\n    if x == 1 or x.task == 2:\n        return x"
        assert self.folded(source) == source

    def test_an_attribute_is_a_constant_only_if_it_is_stored_once(self) -> None:
        once = "class A:\n def __init__(self):\n  self._n = 3\n def f(self):\n  return self._n\n"
        assert "return 3" in self.folded(once)
        assert "return self._n" in self.folded(once + " def g(self):\n  self._n += 1\n")
        # A public one may be stored from anywhere.
        assert "return self.n" in self.folded(once.replace("_n", "n"))

    def test_a_local_name_in_a_loop_is_not_folded(self) -> None:
        source = "def f():\n    n = 0\n    while n < 3:\n        n += 1\n    return n"
        assert self.folded(source) == source

    def test_the_length_of_a_list_of_the_tasks(self) -> None:
        assert self.folded("a = len(task.thresholds)") == "a = 1"
        assert self.folded("a = len(other)") == "a = len(other)"

    @pytest.mark.parametrize("expression", ["7 // 2 % 3", "1 << 4 | 3", "-5 >> 1", "not 3 < 2"])
    def test_arithmetic_is_pythons(self, expression: str) -> None:
        assert ast.literal_eval(self.folded(f"a = {expression}")[4:]) == eval(expression)


class TestNames:
    def test_what_is_stored_and_loaded(self) -> None:
        function = ast.parse("def f(a):\n b = a + c\n d.e = b\n c2 += 1\n").body[0]
        assert stored(function) == {"b", "c2"}
        assert set(global_loads(function)) == {"c", "d"}

    def test_rename_and_replace(self) -> None:
        assert ast.unparse(Rename({"a": "b"}).visit(ast.parse("a = a.a"))) == "b = b.a"
        replaced = Replace({"a": ast.Constant(1)}).visit(ast.parse("a = a + a.b"))
        assert ast.unparse(replaced) == "a = 1 + 1 .b"


def inlined(source: str) -> tuple[list[ast.stmt], list[str]]:
    """The program after inlining, and the functions that are left."""
    body = ast.parse(source).body
    functions = {n.name: n for n in body if isinstance(n, ast.FunctionDef)}
    rest = [n for n in body if not isinstance(n, ast.FunctionDef)]
    left: dict[str, ast.stmt] = dict(functions)
    inline(rest, left)
    return [*left.values(), *rest], list(left)


class TestInline:
    def same(self, source: str, left: list[str]) -> None:
        program, functions = inlined(source)
        assert functions == left
        assert executed(program) == executed(ast.parse(source).body)

    def test_an_expression(self) -> None:
        self.same("def g(a, b): return a - b\ndef f(x):\n log.append(g(x, 2))\nf(5)\nf(7)\n", ["f"])

    def test_a_body(self) -> None:
        source = (
            "def g(a):\n n = a\n n += 1\n log.append(n)\n"
            "def f(n):\n g(n)\n log.append(n)\nf(1)\nf(2)\n"
        )
        self.same(source, ["f"])

    def test_a_body_that_gives_a_value(self) -> None:
        source = (
            "def g(a):\n n = a * 2\n return n + 1\n"
            "def f(n):\n r = g(n)\n log.append((n, r))\nf(1)\nf(2)\n"
        )
        self.same(source, ["f"])

    def test_returns_from_the_midst(self) -> None:
        source = (
            "def g(a):\n if a < 0:\n  return 'less'\n for i in range(a):\n  if i == 2: break\n"
            " if a > 3:\n  return 'more'\n"
            "def f(a):\n try:\n  r = g(a)\n finally:\n  log.append(a)\n log.append(r)\n"
            "def h(a):\n for i in range(2):\n  g2(a)\n  log.append(i)\n"
            "def g2(a):\n if a:\n  log.append('a')\n  return\n log.append('b')\n"
            "f(-1)\nf(2)\nf(9)\nh(0)\nh(1)\n"
        )
        self.same(source, ["f", "h"])

    def test_returns_in_a_loop_stay(self) -> None:
        source = (
            "def g(a):\n for i in range(a):\n  if i == 2:\n   return i\n"
            "def f(a):\n r = g(a)\n log.append(r)\nf(1)\nf(5)\n"
        )
        self.same(source, ["g", "f"])

    def test_what_gives_a_value_twice(self) -> None:
        source = (
            "def g(a):\n n = a * 2\n log.append(n)\n return n + 1\n"
            "def f(n):\n r = g(n)\n log.append((n, r))\n"
            "def h(n):\n r = g(n + 1)\n log.append((n, r))\n"
            "f(1)\nf(2)\nh(2)\nh(3)\n"
        )
        self.same(source, ["f", "h"])
        # Not a third time, and not what gives nothing.
        self.same(source + "def i(n):\n r = g(n)\ni(4)\ni(5)\n", ["g", "f", "h", "i"])
        given = source.replace(" return n + 1", " log.append(n)").replace("r = g", "r = 0\n g")
        self.same(given, ["g", "f", "h"])

    def test_what_raises_is_written_at_every_place(self) -> None:
        source = (
            "def fail(why):\n log.append(why)\n raise ValueError(why)\n"
            "def f(a):\n if a == 1:\n  fail('one')\n if a == 2:\n  fail('two')\n return a\n"
            "for i in range(4):\n try:\n  log.append(f(i))\n"
            " except ValueError as error:\n  log.append(str(error))\n"
        )
        self.same(source, ["f"])

    def test_names_do_not_meet_by_accident(self) -> None:
        """A body loads the global `n`, and goes where a local one is called so."""
        source = (
            "def n(): return 7\n"
            "def g(a):\n m = n() + a\n m += n()\n log.append(m)\n"
            "def f():\n n = 1\n g(n)\n log.append(n)\n n = 2\n"
            "f()\n"
        )
        program, functions = inlined(source)
        assert "g" not in functions
        assert executed(program) == [15, 1]

    def test_a_caller_that_would_grow_too_large(self) -> None:
        long = "\n".join(f" log.append(a + {i})" for i in range(60))
        source = (
            "def g(a):\n if a:\n  return 1\n return 2\n"
            f"def f(a):\n r = g(a)\n log.append(r)\n{long}\n"
            "f(0)\nf(1)\n"
        )
        self.same(source, ["g", "f"])


DEVICE = """
class Counter:
    def __init__(self, start):
        self.n = start
        self._step = 2

    def add(self, k):
        self.n += k * self._step
        return self.n


class Base:
    def __init__(self, counter):
        self.counter = counter
        self.seen = [1]

    def note(self):
        self.seen.append(self.counter.add(3))


class Derived(Base):
    def __init__(self, counter):
        Base.__init__(self, counter)
        self.more = len(self.seen)


def make(counter):
    return Derived(counter)


class Kept:
    def __init__(self, n):
        self.n = n

    def twice(self):
        return self.n * 2
"""
PROGRAM = """
from device import Counter, Kept, make

def play():
    thing.note()
    thing.note()
    for one in kept:
        log.append(one.twice())
    log.append((thing.seen, thing.more, counter.n))

counter = Counter(4)
thing = make(counter)
kept = (Kept(3), Kept(5))
play()
"""


def dissolve(device: str, program: str, classes: set[str]) -> list[ast.stmt]:
    modules = {
        "program": Module(ast.parse(program).body),
        "device": Module(ast.parse(device).body),
    }
    return dissolved(modules, frozenset(classes), frozenset({"log"}))


class TestDissolve:
    def test_it_does_what_the_classes_did(self) -> None:
        program = PROGRAM.replace("from device import Counter, Kept, make", "")
        expected = executed(ast.parse(DEVICE + program).body)
        statements = dissolve(DEVICE, PROGRAM, {"Counter", "Base", "Derived"})
        classes = [node.name for node in statements if isinstance(node, ast.ClassDef)]
        assert classes == ["Kept"]
        assert expected == [6, 10, ([1, 10, 16], 1, 16)]
        assert executed(statements) == expected

    def test_what_is_not_used_any_more_is_deleted(self) -> None:
        program = "from device import once\nx = once(3)\nlog.append(x)\nlog.append(2)\n"
        statements = dissolve("def once(n):\n return [n, n]\n", program, set())
        deleted = [t.id for n in statements if isinstance(n, ast.Delete) for t in n.targets]  # pyright: ignore[reportAttributeAccessIssue]
        assert sorted(deleted) == ["once", "program..x"]
        assert executed(statements) == [[3, 3], 2]

    def test_what_may_not_be_there_is_not_deleted(self) -> None:
        program = "if not log:\n x = 3\nif log:\n y = 4\n log.append(y)\nlog.append(5)\n"
        assert executed(dissolve("", program, set())) == [5]

    def test_a_call_that_was_not_known_to_be_one_leaves_out_an_argument(self) -> None:
        device = (
            "class Box:\n"
            "    def __init__(self, n):\n        self.n = n\n"
            "    def add(self, m, more=1):\n        self.n += m + more\n"
            "        return self.n\n"
            "    def both(self, m, more):\n        return self.add(m, more)\n"
        )
        program = (
            "from device import Box\nbox = Box(2)\nsame = box\n"
            "log.append(same.both(3, 4))\nlog.append(same.add(5))\n"
        )
        assert executed(dissolve(device, program, {"Box"})) == [9, 15]

    def test_an_empty_program(self) -> None:
        assert dissolve("", "", set()) == []

    def test_the_last_statements_code_comes_before_what_fills_the_memory(self) -> None:
        """But after the start's large functions, which are gone by then."""
        long = "".join(f"    log.append(n + {i})\n" for i in range(20))
        device = f"def first(n):\n{long}def last(n):\n{long}"
        program = (
            "from device import first, last\nfirst(1)\ndata = [0] * 9\nmore = (1, 2, 3)\n"
            "last(len(data) + len(more))\n"
        )
        statements = dissolve(device, program, set())
        lines = [text([node]).split("(")[0].split("\n")[0] for node in statements]
        assert lines[:3] == ["def first", "first", "del first"]
        at = {line.split(" = ")[0]: i for i, line in enumerate(lines)}
        assert at["def last"] < at["program..data"]
        assert at["program..more"] < at["program..data"]
        expected = [1 + i for i in range(20)] + [12 + i for i in range(20)]
        assert executed(statements) == expected

    def test_constructed_twice_is_refused(self) -> None:
        program = "from device import Counter\na = Counter(1)\nb = Counter(2)\n"
        with pytest.raises(UserError, match="constructs Counter twice"):
            dissolve(DEVICE, program, {"Counter"})

    def test_one_name_in_two_modules_is_refused(self) -> None:
        modules = {
            "program": Module(ast.parse("from one import f\nf()\n").body),
            "one": Module(ast.parse("def f(): pass\n").body),
            "two": Module(ast.parse("def f(): pass\n").body),
        }
        with pytest.raises(UserError, match="define f, one is two"):
            dissolved(modules, frozenset(), frozenset())


@functools.cache
def steps(task: Task) -> str:
    return build_microbit(task).files["steps"].decode()


class TestBuild:
    def test_only_rounds_have_a_ledger(self) -> None:
        assert "'ledger0'" in steps(lba())
        assert "'ledger0'" not in steps(STA)

    def test_heavythresh_is_refused(self) -> None:
        with pytest.raises(UserError, match="HeavyThresh does not fit on a micro:bit"):
            build_microbit(epoch_task(HEAVYTHRESH))

    def test_crr_of_blocks_and_of_least_loss_is_refused(self) -> None:
        with pytest.raises(UserError, match=r"CRR of blocks .* does not fit on a micro:bit"):
            build_microbit(make_task(**crr(2, mechanism=CRR_BATCH, rule=MIN_ERROR, block=3)))
        assert build_microbit(make_task(**crr_by_table(2, 3))).size < 10_000
        with pytest.raises(UserError, match=r'"min_error" does not fit .* "preserve" it fits'):
            build_microbit(make_task(**crr(2, rule=MIN_ERROR)))

    def test_crr_fits_up_to_8_symbols(self) -> None:
        assert build_microbit(make_task(**crr(8))).size
        with pytest.raises(UserError, match="does not fit on a micro:bit: the data of its Task"):
            build_microbit(make_task(**crr(9)))
        # What is read must be read by less.
        with pytest.raises(UserError, match=r"does not fit on a micro:bit: its sample\.py"):
            build_microbit(make_task(**crr(8)), SAMPLE + b"x = 1\n")

    def test_only_the_tasks_mechanism_goes_along(self) -> None:
        # Of StaSwitch: how late each value is.
        assert "'B',[0]*8" in steps(STA)
        assert "'B'" not in steps(RAN)
        assert len(steps(RAN)) < len(steps(STA))
        # JitterSort's keys; the distance of two GRR lies is a number written in.
        jittersort = steps(TASKS["JitterSort 2L+1=93"])
        assert "262144" not in jittersort
        grr = steps(TASKS["GRR d=16"])
        assert "262144" in grr
        assert "'H',[" not in grr
        assert "'H',[0]*93" in jittersort

    def test_each_line_is_python_for_the_board(self) -> None:
        for statement in steps(STA).split("\n"):
            source = statement.replace("\r", "\n")
            tree = ast.parse(source)
            assert len(tree.body) == bool(source), source
            for node in ast.walk(tree):
                assert not isinstance(node, (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr))

    def test_kept_names_are_kept(self) -> None:
        """What main.py and the firmware's objects are asked by must not be renamed."""
        source = steps(STA)
        for use in (".readinto(", ".write(", ".read()", ".close()", "sample()", "def loop("):
            assert use in source, use
        program = (
            "class Mine:\n    def __init__(self):\n        self.held = []\n        self.size = 1\n"
            "    def append(self, data):\n        self.held.append(data)\n"
            "task = None\nmine = [Mine(), Mine()]\n"
            "def play():\n    mine[0].append(5)\n    print(mine[1].held, mine[0].size)\nplay()\n"
        ).replace("class Mine:", "class Mine(object):")
        built = build_microbit(STA, program=program).files["steps"].decode()
        assert ".append(5)" in built
        assert ".size" in built
        assert "held" not in built
        assert {"gc", "micropython", "step", "steps", "loop", "sample"} <= set(_KEPT.split())
        for name in re.findall(rb"\.(\w+)\(", MAIN):
            assert name.decode() in {*_KEPT.split(), "opt_level", "collect"}

    def test_the_id_comes_from_the_task_file(self) -> None:
        task = make_task()
        task.id = b""
        with pytest.raises(UserError, match="no id"):
            build_microbit(task)

    @pytest.mark.parametrize(
        ("changed", "what"),
        [
            ({"outbox": 80}, "the data of its Task"),
            (jittersort(151), "the data of its Task"),
            ({"symbols": 181, "bins": list(range(0, 180_000, 1000))}, "its longest line of code"),
        ],
    )
    def test_refusals_name_the_sizes(self, changed: dict[str, Any], what: str) -> None:
        with pytest.raises(UserError) as refused:
            build_microbit(make_task(**changed))
        found = re.fullmatch(
            rf"This Task does not fit on a micro:bit: {what} has (\d+) bytes, at most (\d+) fit "
            r"\(its code has (\d+)\)\.",
            str(refused.value),
        )
        assert found is not None, str(refused.value)
        assert int(found[1]) > int(found[2])

    def test_data_grows_with_what_the_task_asks_for(self) -> None:
        grows: list[Callable[[int], Task]] = [
            lambda n: make_task(outbox=n),
            lambda n: make_task(batch=n),
            lambda n: make_task(window=n, k=n, thresholds=[1000]),
        ]
        for task in grows:
            assert task_data(task(40)) > task_data(task(8))

    def test_a_program_that_ends_with_no_call(self) -> None:
        with pytest.raises(UserError, match="must end with the call"):
            build_microbit(STA, program="task = None\nx = 1\n")

    def test_dissolved_classes_leave_no_class_behind(self) -> None:
        source = steps(STA)
        assert len(re.findall(r"^class ", source, re.MULTILINE)) < 6
        assert "self" not in source
        assert "SmallAgent" in CLASSES
