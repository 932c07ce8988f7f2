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
from tinyldp.flash.identities import Allowance, allowance_of
from tinyldp.flash.inline import LARGEST
from tinyldp.flash.names import stored
from tinyldp.flash.specialise import specialise
from tinyldp.flash.trees import Transformer, walk
from tinyldp.lanes.flatten import Module, minified, parsed, pruned
from tinyldp_device.ledger import RING_AT
from tinyldp_device.lifetime import state_bytes
from tinyldp_device.mechanism import small_pool_words
from tinyldp_protocol.framing import HEAD, TAIL
from tinyldp_protocol.messages import RELEASE_VALUES_AT, REPORT_AT
from tinyldp_protocol.task import (
    CRR,
    CRR_BATCH,
    HEAVYTHRESH,
    JITTERSORT,
    MIN_ERROR,
    OLH,
    OUE,
    STASWITCH,
    TABLE,
    Task,
)

PROGRAM = Path(__file__).with_name("microbit_program.py")
ROUNDS = Path(__file__).with_name("microbit_rounds.py")
EPOCHS = Path(__file__).with_name("microbit_epochs.py")
CLASSES = frozenset(
    {"Crc32", "Entropy", "HardwareRng", "Outbox", "Quantizer"}
    | {"RanSwitch", "StaSwitch", "JitterSort", "Grr", "Oue", "Olh"}
    | {"SmallSerial", "SmallSignals", "SmallPost", "SmallAgent", "State", "Identity"}
    | {"QuerySerial", "SmallRoundAgent", "RoundIdentity", "LifeIdentity", "Ledger"}
    | {"OracleRounds", "Epochs", "Lifetime", "Thresh"}
    | {"Crr", "Coupling", "MinError", "CrrTable"}
)
# Found on the board, with a margin, for each mechanism: what is larger may find no room to be
# set up or compiled in. It is that which binds: 2 KB and more are left when all is there.
LARGEST_DATA = 1152
LONGEST_LINE = 850
# Of one buffer, for which the heap must be free in one piece.
LARGEST_BUFFER = 560
# Bytes of sample.py, which is compiled last, and of data, together.
LARGEST_BOTH = 1250
# The same of CRR, whose code leaves less for sample.py; SAMPLE fits in any case.
CRR_DATA = 1200
CRR_BOTH = 1130
# The same of a device that is asked, whose code leaves less, and of one with epochs.
ASKED_DATA = 1100
ASKED_BOTH = 1300
EPOCHS_DATA = 750
EPOCHS_BOTH = 830
# Its calls would be too deep for the stack else.
ASKED_NODES = 335
EPOCHS_NODES = 410
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


def build_microbit(
    task: Task,
    sample: bytes = SAMPLE,
    program: str | None = None,
    allowance: Allowance | None = None,
) -> Build:
    """The files for a micro:bit that runs this Task; sample: source that defines sample().

    allowance: what the device was provisioned for, with a Task that has a method by default
    what that spends. program: what runs, a script that constructs each of its own classes
    without bases once.
    Raises UserError, with the sizes, when they cannot fit.
    """
    if not task.id:
        raise UserError("The Task has no id: read it from a Task file.")
    if task.mechanism == HEAVYTHRESH:
        raise UserError(
            "HeavyThresh does not fit on a micro:bit: its tables and its hash take more memory "
            "than is left there; Thresh fits."
        )
    if task.mechanism == CRR_BATCH and task.rule != TABLE:
        raise UserError(
            'CRR of blocks with the rule "min_error" does not fit on a micro:bit: its tables and '
            'its code take more memory than is left there; with a small "table" it fits, and CRR '
            "of single values."
        )
    if task.rule == MIN_ERROR and program is None:
        raise UserError(
            'CRR with the rule "min_error" does not fit on a micro:bit: its code takes more memory '
            'than is left there; with "preserve" it fits.'
        )
    if program is None:
        program = program_of(task)
    own = {
        node.name
        for node in ast.parse(program).body
        if isinstance(node, ast.ClassDef) and not node.bases
    }
    if task.method is not None and allowance is None:
        allowance = allowance_of(task)
    modules = modules_of(task, program, allowance)
    asked = task.method is not None or task.epochs is not None
    nodes, largest, both = LARGEST, LARGEST_DATA, LARGEST_BOTH
    if task.epochs is not None:
        nodes, largest, both = EPOCHS_NODES, EPOCHS_DATA, EPOCHS_BOTH
    elif asked:
        nodes, largest, both = ASKED_NODES, ASKED_DATA, ASKED_BOTH
    elif task.mechanism == CRR:
        largest, both = CRR_DATA, CRR_BOTH
    statements = dissolved(modules, CLASSES | own, _OF_MAIN, nodes)
    # Called by main.py itself: inside exec() there is not enough stack.
    last = statements[-1] if statements else None
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call) or last.value.args:
        raise UserError("The program must end with the call of a function that runs forever.")
    function = last.value.func
    statements.pop()
    assert isinstance(function, ast.Name)
    rename = _Rename({**_short_names(statements), function.id: "loop"})
    lines = []
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        lines.append(_line(rename.visit(node)))
    if asked:
        lines.insert(0, _roomy(lines))
    longest = max(map(len, lines))
    buffers = asked_buffers(task, allowance) if asked else task_buffers(task)
    data = heap_of(buffers)
    if task.mechanism == CRR:
        both = max(both, data + len(SAMPLE))
    for what, size, most in (
        ("the data of its Task", data, largest),
        ("its longest line of code", longest, LONGEST_LINE),
        ("the largest buffer of its Task", max(*buffers, _literal(task)), LARGEST_BUFFER),
        ("its sample.py", len(sample), both - data),
    ):
        if size > most:
            raise UserError(
                f"This Task does not fit on a micro:bit: {what} has {size} bytes, at most {most} "
                f"fit (its code has {sum(map(len, lines))})."
            )
    files = {"main.py": MAIN, "steps": b"".join(lines), "sample.py": sample}
    return Build(files)


def program_of(task: Task) -> str:
    """What runs there for this Task, before anything is written into it."""
    path = PROGRAM
    if task.method is not None:
        path = ROUNDS
    elif task.epochs is not None:
        path = EPOCHS
    return path.read_text()


def modules_of(task: Task, program: str, allowance: Allowance | None = None) -> dict[str, Module]:
    """What of each module the program needs for this Task, its integers written in."""
    more = {}
    if task.method is not None:
        made = allowance or allowance_of(task)
        more = {"cap": made.cap, "horizon": made.horizon}
    modules = pruned(parsed(program, lift=True))
    # Once more when the other mechanisms are gone: their attributes have the same names.
    for _ in range(2):
        trees = {name: ast.Module(module.body, []) for name, module in modules.items()}
        specialise(trees.values(), task, more)
        modules = pruned({name: Module(tree.body) for name, tree in trees.items()})
    return modules


def task_data(task: Task) -> int:
    """Bytes of heap for buffers whose size the Task decides."""
    return heap_of(task_buffers(task))


def heap_of(sizes: list[int]) -> int:
    """What so many bytes each take, in the board's blocks of 16."""
    return sum(16 + (size + 15) // 16 * 16 for size in sizes)


def asked_buffers(task: Task, allowance: Allowance | None = None) -> list[int]:
    """As task_buffers, of a device that is asked; an answer and what is stored come and go.

    allowance: with a Task that has a method by default what that spends.
    """
    frame = HEAD + REPORT_AT + 2 + task.payload + TAIL
    if task.method is None:
        stored = state_bytes(task)
    else:
        stored = RING_AT + 4 * (allowance or allowance_of(task)).horizon + 2 * task.payload
    sizes = [stored, stored + 8, stored + 8, frame, frame]
    for numbers in (task.thresholds, task.spends or task.levels, task.bins):
        sizes.append(4 * len(numbers or ()))
    return [*sizes, 3 * small_pool_words(task), task.width]


def _roomy(lines: list[bytes]) -> bytes:
    """A first line that makes room for all global names at once, as long as memory is whole.

    Else the dictionary would move each time that it is full, to a larger piece.
    """
    live: set[str] = set()
    most = 0
    for line in lines:
        for node in ast.parse(line.replace(b"\r", b"\n")).body:
            if isinstance(node, ast.Delete):
                live -= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                live.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                live |= {alias.name for alias in node.names}
            else:
                live |= stored(node)
        most = max(most, len(live))
    # Besides them main.py's own; while this runs, three more are there.
    return (
        b"import microbit;A=(dir(microbit.Image)+dir(microbit))[:%d]\r"
        b"for B in A:globals()[B]=0\rfor B in A:del globals()[B]\rdel A,B,microbit\n" % (most - 3)
    )


def task_buffers(task: Task) -> list[int]:
    """The bytes of each of these."""
    frame = HEAD + RELEASE_VALUES_AT + 1 + task.batch * task.width + TAIL
    sizes = [frame] * (task.outbox + 1) + [4 * task.outbox, 4 * len(task.bins or ())]
    sizes += [3 * small_pool_words(task)]
    if task.window:
        sizes.append(task.window * task.width)
    if task.mechanism == STASWITCH:
        sizes.append(task.window * (1 if task.window <= 256 else 2))
    elif task.mechanism == JITTERSORT:
        sizes += [task.window * 2, 4 * len(task.thresholds)]
    elif task.mechanism in (OUE, OLH):
        sizes.append(task.width)
    elif task.mechanism == CRR:
        n = task.symbols
        # belief, served, marginal, own; joint, transitions; plan
        sizes += [2 * n] * 4 + [2 * n * n] * 2 + [n * n * (n - 1)]
        if task.rule == MIN_ERROR:
            # loss; pairs; sampled; kept
            sizes += [2 * n * n, n * (n - 1), 4 * n, n]
    elif task.mechanism == CRR_BATCH:
        sizes.append(2 * len(task.table or ()))
    return sizes


def _literal(task: Task) -> int:
    """Bytes that the numbers of a table take at once, a word each, while it is made of them."""
    return 8 + 4 * len(task.table or ())


def _line(node: ast.stmt) -> bytes:
    """A statement in one line. Arguments are positional, so that they can have short names."""
    for part in walk(node):
        if isinstance(part, ast.arguments):
            part.posonlyargs, part.args = part.args, []
    return minified(Module([node])).replace(b",/)", b")").replace(b"\n", b"\r") + b"\n"


def _short_names(statements: list[ast.stmt]) -> dict[str, str]:
    """A short name for each that the program defines, the shortest for the most frequent.

    One that is deleted leaves its name to others that come later: each new one stays in
    memory for good.
    """
    own: set[str] = set()
    used: Counter[str] = Counter()
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for i, top in enumerate(statements):
        imports = isinstance(top, (ast.Import, ast.ImportFrom))
        local = _local_names(top)
        for node in walk(top):
            name, defined = "", False
            if isinstance(node, ast.Attribute):
                name, defined = node.attr, isinstance(node.ctx, ast.Store)
            elif isinstance(node, ast.Name):
                name, defined = node.id, not isinstance(node.ctx, ast.Load)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                name, defined = node.name, True
            elif isinstance(node, ast.alias) and imports:
                own.discard(node.name)
            if not name or name in local:
                continue
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                used[name] += 1
            if defined:
                own.add(name)
            first.setdefault(name, i)
            last[name] = len(statements)
            if isinstance(top, ast.Delete):
                last[name] = i
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
    short: dict[str, str] = {}
    busy: dict[str, list[tuple[int, int]]] = {}
    fresh = _names(used.keys() | imported)
    for name in renamed:
        span = first[name], last[name]
        left = (
            new
            for new, spans in busy.items()
            if all(span[1] < start or end < span[0] for start, end in spans)
        )
        new = next(left, None) or next(fresh)
        short[name] = new
        busy.setdefault(new, []).append(span)
    return short


def _local_names(top: ast.stmt) -> set[str]:
    """The names of a function's own; the minifier shortens them."""
    if not isinstance(top, ast.FunctionDef):
        return set()
    return {argument.arg for argument in top.args.args} | {
        name for name in stored(top) if "." not in name
    }


def _names(taken: Set[str]) -> Iterator[str]:
    yield from (name for name in _ROM.split() if name not in taken)
    for name in map("".join, itertools.product(string.ascii_uppercase, repeat=2)):
        if name not in taken:
            yield name


class _Rename(Transformer):
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
