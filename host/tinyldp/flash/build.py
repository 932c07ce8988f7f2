"""The builder for boards that compile a few kilobytes: a Task in, a few small files out.

The device's own modules (tinyldp_device.small and what it uses) are cut down to
what the Task needs, its integers written into them; classes with one instance
dissolve into functions, names are shortened, and each statement is minified
into one line of the file `steps`, which main.py compiles line by line.
"""

from __future__ import annotations

import ast
import itertools
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from tinyldp.errors import UserError
from tinyldp.flash.dissolve import dissolved
from tinyldp.flash.specialise import specialise
from tinyldp.lanes.flatten import Module, minified, parsed, pruned
from tinyldp.study import refuse_rounds
from tinyldp_device.mechanism import step_words
from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import RELEASE_VALUES_AT
from tinyldp_protocol.task import JITTERSORT, OLH, OUE, STASWITCH, Task

PROGRAM = Path(__file__).with_name("microbit_program.py")
CLASSES = frozenset(
    {"Crc32", "Entropy", "HardwareRng", "Outbox", "Quantizer"}
    | {"RanSwitch", "StaSwitch", "JitterSort", "Grr", "Oue", "Olh"}
    | {"SmallSerial", "SmallPost", "SmallAgent", "State", "Identity"}
)
# Found on the board, with a margin, for each mechanism: what is larger may find no room to be
# set up or compiled in. It is that which binds: 2 KB and more are left when all is there.
LARGEST_DATA = 1152
LONGEST_LINE = 850
# Of one buffer, for which the heap must be free in one piece.
LARGEST_BUFFER = 560
# Bytes of sample.py, which is compiled last, and of data, together.
LARGEST_BOTH = 1250
# Without line numbers (opt_level). A carriage return is a new line, too.
MAIN = b"""import gc
import micropython
micropython.opt_level(3)
steps=open('steps')
while 1:
 step=steps.readline()
 if not step:break
 exec(step)
 gc.collect()
loop()
"""
SAMPLE = b"from microbit import button_a\n\n\ndef sample():\n    return button_a.get_presses()\n"

_OF_MAIN = frozenset({"gc", "micropython", "step", "steps", "loop"})

# Names that main.py uses, and those of the firmware's methods that modules call.
_KEPT = """append any bytes clear close copy count find format get index init items join keys
open pop read readinto readline remove reset size sleep sort split update values write
gc micropython step steps loop sample time"""
# Names that the firmware has in ROM: a new one takes about 9 bytes of heap for good.
_ROM = """NO v1 COW MEH ODD ODE SAD YES add bit i2c off spi DUCK EVEN FUNK NYAN Type XMAS blit crop
freq mem8 more pack pin0 pin1 pin2 pin3 pin4 pin5 pin6 pin7 pin8 pin9 play scan seed show stop
ANGRY BADDY BLUES CHASE GHOST HAPPY HEART HOUSE SILLY SKULL SMILE SNAKE SWORD const get_x get_y
get_z is_on lower mem16 micro panic pin10 pin11 pin12 pin13 pin14 pin15 pin16 pin19 pin20 pitch
rfind strip uname union upper width ASLEEP CLOCK1 CLOCK2 CLOCK3 CLOCK4 CLOCK5 CLOCK6 CLOCK7
CLOCK8 CLOCK9 PACMAN PYTHON RABBIT SQUARE TARGET TSHIRT choice enable extend height insert invert
lstrip random rindex rsplit rstrip scroll unpack ARROW_E ARROW_N ARROW_S ARROW_W BA_DING CLOCK10
CLOCK11 CLOCK12 DIAMOND FUNERAL GIRAFFE JUMP_UP NO_PULL PRELUDE PULL_UP WEDDING compass disable
discard display heading isalpha isdigit islower isspace isupper popitem randint replace reverse
uniform ARROW_NE ARROW_NW ARROW_SE ARROW_SW BIRTHDAY CONFUSED FABULOUS POWER_UP RINGTONE TORTOISE
TRIANGLE UMBRELLA calcsize endswith fromkeys get_mode get_pull issubset set_pull shift_up
BUTTERFLY DADADADUM JUMP_DOWN PITCHFORK PULL_DOWN PUNCHLINE SURPRISED WAWAWAWAA"""


@dataclass(frozen=True)
class Build:
    """What goes on the board."""

    files: dict[str, bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))


def build_microbit(task: Task, sample: bytes = SAMPLE, program: str | None = None) -> Build:
    """The files for a micro:bit that runs this Task; sample: source that defines sample().

    program: what runs, a script that constructs each of its own classes without bases once.
    Raises UserError, with the sizes, when they cannot fit.
    """
    if not task.id:
        raise UserError("The Task has no id: read it from a Task file.")
    refuse_rounds(task, "A micro:bit")
    program = PROGRAM.read_text() if program is None else program
    own = {
        node.name
        for node in ast.parse(program).body
        if isinstance(node, ast.ClassDef) and not node.bases
    }
    statements = dissolved(modules_of(task, program), CLASSES | own, _OF_MAIN)
    # Called by main.py itself: inside exec() there is not enough stack.
    last = statements[-1] if statements else None
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call) or last.value.args:
        raise UserError("The program must end with the call of a function that runs forever.")
    statements[-1] = ast.Assign([ast.Name("loop", ast.Store())], last.value.func, lineno=0)
    rename = _Rename(_short_names(statements))
    lines = []
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        lines.append(_line(rename.visit(node)))
    longest = max(map(len, lines))
    data = task_data(task)
    for what, size, most in (
        ("the data of its Task", data, LARGEST_DATA),
        ("its longest line of code", longest, LONGEST_LINE),
        ("the largest buffer of its Task", max(task_buffers(task)), LARGEST_BUFFER),
        ("its sample.py", len(sample), LARGEST_BOTH - data),
    ):
        if size > most:
            raise UserError(
                f"This Task does not fit on a micro:bit: {what} has {size} bytes, at most {most} "
                f"fit (its code has {sum(map(len, lines))})."
            )
    files = {"main.py": MAIN, "steps": b"".join(lines), "sample.py": sample}
    return Build(files)


def modules_of(task: Task, program: str) -> dict[str, Module]:
    """What of each module the program needs for this Task, its integers written in."""
    modules = pruned(parsed(program, lift=True))
    # Once more when the other mechanisms are gone: their attributes have the same names.
    for _ in range(2):
        trees = {name: ast.Module(module.body, []) for name, module in modules.items()}
        specialise(trees.values(), task)
        modules = pruned({name: Module(tree.body) for name, tree in trees.items()})
    return modules


def task_data(task: Task) -> int:
    """Bytes of heap for buffers whose size the Task decides, in the board's blocks of 16."""
    return sum(16 + (size + 15) // 16 * 16 for size in task_buffers(task))


def task_buffers(task: Task) -> list[int]:
    """The bytes of each of these."""
    frame = HEAD + RELEASE_VALUES_AT + 1 + task.batch * task.width + TAIL
    sizes = [frame] * (task.outbox + 1) + [4 * task.outbox, 4 * len(task.bins or ())]
    sizes += [3 * max(4, step_words(task))]
    if task.window:
        sizes.append(task.window * task.width)
    if task.mechanism == STASWITCH:
        sizes.append(task.window * (1 if task.window <= 256 else 2))
    elif task.mechanism == JITTERSORT:
        sizes += [task.window * 2, 4 * len(task.thresholds)]
    elif task.mechanism in (OUE, OLH):
        sizes.append(task.width)
    return sizes


def _line(node: ast.stmt) -> bytes:
    """A statement in one line. Arguments are positional, so that they can have short names."""
    for part in ast.walk(node):
        if isinstance(part, ast.arguments):
            part.posonlyargs, part.args = part.args, []
    return minified(Module([node])).replace(b",/)", b")").replace(b"\n", b"\r") + b"\n"


def _short_names(statements: list[ast.stmt]) -> dict[str, str]:
    """A short name for each that the program defines, the shortest for the most frequent."""
    own: set[str] = set()
    used: Counter[str] = Counter()
    for top in statements:
        foreign = isinstance(top, (ast.Import, ast.ImportFrom))
        for node in ast.walk(top):
            if isinstance(node, ast.Attribute):
                used[node.attr] += 1
                if isinstance(node.ctx, ast.Store):
                    own.add(node.attr)
            elif isinstance(node, ast.Name):
                used[node.id] += 1
                if not isinstance(node.ctx, ast.Load):
                    own.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                own.add(node.name)
            elif isinstance(node, ast.alias) and foreign:
                own.discard(node.name)
    imported = {
        alias.name
        for top in statements
        if isinstance(top, (ast.Import, ast.ImportFrom))
        for alias in top.names
    }
    renamed = sorted(
        (n for n in own - imported if n not in _KEPT.split() and not n.startswith("__")),
        key=lambda name: (-used[name], name),
    )
    return dict(zip(renamed, _names(used.keys() | imported), strict=False))


def _names(taken: Set[str]) -> Iterator[str]:
    yield from (name for name in _ROM.split() if name not in taken)
    for name in map("".join, itertools.product(string.ascii_uppercase, repeat=2)):
        if name not in taken:
            yield name


class _Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def _new(self, name: str) -> str:
        return self._names.get(name, name)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._new(node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        return ast.Attribute(node.value, self._new(node.attr), node.ctx)

    def visit_Global(self, node: ast.Global) -> ast.Global:
        return ast.Global([self._new(name) for name in node.names])

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._new(node.arg))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.name = self._new(node.name)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.name = self._new(node.name)
        return node
