"""The command line: `tinyldp COMMAND`."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from tinyldp.errors import UserError, keep_apart
from tinyldp.files import CERTIFICATE, REPORT, keep_folder, keep_kind

# What a report of HeavyThresh looks at one by one.
_ITEMS = "items of the dictionary"
# Of the emulated board, which takes it for its own generator's.
_EMULATED = (
    "this computer's, by way of QEMU; the board calls it hardware, as it would its own generator"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when all it promises held, 1 when not, 2 for bad input."""
    parser = _parser()
    _prepare_streams()
    options = parser.parse_args(arguments)
    # Ended by a service manager or a closed terminal as by a person: nothing is left behind.
    with contextlib.suppress(ValueError):
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            signal.signal(number, signal.default_int_handler)
    try:
        code = options.command(options)
        # Here, and not at the interpreter's end, where nobody would catch what it raises.
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"tinyldp {options.name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"tinyldp {options.name}: stopped.", file=sys.stderr)
        return 130
    except MemoryError:
        what = "this needs more memory than there is; fewer devices, steps or symbols need less"
        print(f"tinyldp {options.name}: {what}.", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        _discard_output()
        return 1
    except OSError as error:
        # Input and files have sentences of their own: this is the output, on a full disk say.
        _discard_output()
        print(f"tinyldp {options.name}: {error.strerror or error}.", file=sys.stderr)
        return 1


def _prepare_streams() -> None:
    """Whatever the terminal can't show becomes a question mark; a closed one swallows all."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence, as of any other bad input."""
        said = re.sub(r"^argument (\S+): (?=must )", r"\1 ", message).removeprefix("argument ")
        self.exit(2, f"{self.prog}: {said}; see {self.prog} --help.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="tinyldp", description="Local differential privacy on streams.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('tinyldp')}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(command=run)
        added.add_argument("--json", action="store_true", help="print the result as JSON")
        return added

    demo = command("demo", _demo, "The whole line on this computer, on real MicroPython.")
    demo.add_argument(
        "--recording",
        action="append",
        type=Path,
        metavar="FILE",
        help="play this recording (CSV or AWD) instead of the sample ones; may be repeated",
    )
    demo.add_argument(
        "--steps", type=_positive, default=10080, help="readings each device plays (10080: a week)"
    )
    demo.add_argument(
        "--output", type=_path, default=Path("demo-output"), help="folder for what it leaves"
    )

    plan = command("plan", _plan, "Choose the integers of a study, and write its Task.")
    plan.add_argument("study", type=Path, metavar="STUDY.toml")
    plan.add_argument("-o", "--output", type=_path, metavar="TASK", help="default: STUDY.task")

    certify = command("certify", _certify, "What exactly does this Task give away.")
    certify.add_argument("task", type=Path, metavar="TASK")
    certify.add_argument(
        "-o", "--output", type=_path, metavar="FILE", help="default: TASK.cert.json"
    )

    flash = command("flash", _flash, "Put the device package and a Task on a board, and start it.")
    flash.add_argument("task", type=Path, metavar="TASK")
    where = flash.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", help="serial port of a board with files, as /dev/ttyACM0")
    where.add_argument(
        "--lane", choices=["microbit"], help="build for and run on an emulated board"
    )
    flash.add_argument(
        "--sample",
        type=Path,
        metavar="FILE",
        help="module with the function sample() to copy along",
    )
    flash.add_argument(
        "--board", type=Path, metavar="FILE", help="board file for a board that has none here"
    )
    flash.add_argument("--mpy", action="store_true", help="compile the modules with mpy-cross")
    flash.add_argument(
        "--uncertified", action="store_true", help="flash a Task that has no certificate"
    )
    flash.add_argument(
        "--new-identity", action="store_true", help="erase the board's pseudonym, draw another"
    )
    flash.add_argument(
        "--cap",
        type=_decimal,
        metavar="EPSILON",
        help="of a new ledger: what the board may ever spend in --horizon steps (default: the"
        " Task's epsilon)",
    )
    flash.add_argument(
        "--horizon", type=_positive, metavar="STEPS", help="of a new ledger (default: the Task's w)"
    )
    flash.add_argument(
        "--allowance",
        type=_decimal,
        metavar="EPSILON",
        help="fixed with a board's first Task of epochs: what such Tasks may spend in all its life"
        " (default: this Task's epsilon)",
    )
    flash.add_argument(
        "--replace-main", action="store_true", help="overwrite a main.py that is not tinyldp's"
    )

    collect = command("collect", _collect, "Receive what a study's devices release.")
    collect.add_argument("study", type=Path, metavar="STUDY.toml")
    collect.add_argument("--db", help="file or database URL (default: STUDY.db)")
    collect.add_argument("--seconds", type=_positive, help="stop after so many seconds")
    collect.add_argument(
        "--until-ended",
        type=_positive,
        metavar="N",
        help="stop when N segments have become complete",
    )
    collect.add_argument(
        "--uncertified", action="store_true", help="collect under a Task that has no certificate"
    )

    report = command("report", _report, "Tables and pictures of what was collected.")
    report.add_argument("db", metavar="DB")
    report.add_argument("--html", type=_path, metavar="FILE", help="also write pictures to FILE")
    report.add_argument(
        "--csv", type=_path, metavar="FOLDER", help="also write each stream's values to FOLDER"
    )
    report.add_argument(
        "--postprocess",
        choices=["norm-sub", "simplex"],
        help="beside the raw frequencies, make them shares of a whole",
    )
    report.add_argument(
        "--curve",
        nargs="?",
        type=_count,
        const=0,
        metavar="N",
        help="also estimate the mean curve of shuffled streams, straight between knots N steps"
        " apart (default: the least N that keeps the noise down; 1: raw)",
    )

    simulate = command("simulate", _simulate, "A fleet of any size, on this computer.")
    simulate.add_argument("study", type=Path, metavar="STUDY.toml")
    simulate.add_argument("--devices", type=_whole, help="default: the study's [fleet] devices")
    simulate.add_argument(
        "--steps",
        type=_whole,
        help="of each device; a stream may end before (1000, sweeps 800, epochs all)",
    )
    simulate.add_argument(
        "--seed", type=_count, default=0, help="the same seed gives the same result (0)"
    )
    simulate.add_argument("--picture", type=_path, metavar="FILE", help="also draw it: PNG or SVG")
    simulate.add_argument(
        "--sweep",
        nargs="?",
        type=_positive,
        const=10,
        metavar="SEEDS",
        help="of a study of rounds: the mean error of all seven methods against epsilon and"
        " against w; of CRR: its loss against epsilon and the correlation of steps, beside"
        " k-ary randomized response; over so many seeds (10)",
    )

    audit = command("audit", _audit, "Attack the real device code; bound its epsilon from below.")
    audit.add_argument("task", type=Path, metavar="TASK")
    audit.add_argument(
        "--lane", help="where the device runs (unix; a Task with a method: cpython, no other)"
    )
    audit.add_argument(
        "--segments",
        type=_positive,
        metavar="N",
        help="of each input, or for an oracle reports of each value",
    )
    audit.add_argument(
        "--devices", type=_positive, metavar="N", help="with a method: devices under siege (1000)"
    )
    audit.add_argument(
        "--picture", type=_path, metavar="FILE", help="with a method: what is guessed, over windows"
    )
    audit.add_argument(
        "--epsilon", type=_decimal, help="look at delta here (default: the certificate's epsilon)"
    )
    audit.add_argument(
        "--confidence", type=_decimal, help="of the bounds, together (default: 0.999999)"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if number < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 999999999")
    return number


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise argparse.ArgumentTypeError("must be a whole number from 0 to 999999999999999999")
    return int(text)


def _whole(text: str) -> int:
    """Whose range depends on the study: what it is, is said where that is known."""
    if not re.fullmatch("[+-]?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError("must be a whole number of 18 digits at the most")
    return int(text)


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("must be a name, but is empty")
    return Path(text)


def _decimal(text: str) -> Fraction:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or not 0 <= number < 1000 or number.adjusted() < -18:
        raise argparse.ArgumentTypeError("must be a number from 0 up to 1000")
    return Fraction(number)


def _print_json(result: object) -> None:
    print(json.dumps(result, indent=2))


def _demo(options: argparse.Namespace) -> int:
    from tinyldp.demo.run import run_demo, text_result

    result = run_demo(options.output, options.recording, options.steps)
    if options.json:
        _print_json(result)
    else:
        print(text_result(result))
    return 0 if result["held"] else 1


def _plan(options: argparse.Namespace) -> int:
    from tinyldp.planning import plan, text_plan
    from tinyldp.progress import WorkProgress

    with WorkProgress("steps of planning") as progress:
        planned = plan(options.study, options.output, progress.update)
    if options.json:
        _print_json(planned.to_json())
    else:
        print(text_plan(planned))
    return 0


def _certify(options: argparse.Namespace) -> int:
    """1 when the Task gives away more than the target that it states."""
    from tinyldp.certify import certificate_path, certify, text_certificate, write_certificate
    from tinyldp.progress import WorkProgress
    from tinyldp.study import load_task

    task = load_task(options.task)
    path = options.output or certificate_path(options.task)
    keep_apart(path, options.task)
    keep_kind(path, CERTIFICATE)
    with WorkProgress("steps of certifying") as progress:
        certificate = certify(task, progress=progress.update)
    write_certificate(certificate, path)
    if options.json:
        _print_json(certificate.to_json())
    else:
        print(text_certificate(certificate))
        print(f"Certificate written to {path}.")
    return 0 if certificate.within_target else 1


def _certificate(options: argparse.Namespace, path: Path, task: Any) -> dict[str, Any] | None:
    """That of a Task file; None when the user goes on without one."""
    from tinyldp.certify import load_certificate

    try:
        return load_certificate(path, task)
    except UserError as error:
        if options.uncertified:
            return None
        sentence = str(error).rstrip(".")
        raise UserError(f"{sentence}; to go on all the same, say --uncertified.") from None


def _uncertified(certified: bool) -> str:
    return "" if certified else ", uncertified,"


def _flash(options: argparse.Namespace) -> int:
    from tinyldp.flash.provision import flash
    from tinyldp.progress import FileProgress
    from tinyldp.study import load_task

    task = load_task(options.task)
    certified = _certificate(options, options.task, task) is not None
    if options.lane:
        return _flash_emulated(options, task, certified)
    with FileProgress("copied") as progress:
        done = flash(
            options.port,
            task,
            sample=options.sample,
            board_file=options.board,
            compiled=options.mpy,
            new_identity=options.new_identity,
            replace_main=options.replace_main,
            cap=_units(options.cap),
            horizon=options.horizon,
            allowance=_units(options.allowance),
            progress=progress.update,
            waiting=lambda sentence: print(f"tinyldp flash: {sentence}", file=sys.stderr),
        )
    if options.json:
        _print_json({**asdict(done), **_spendings(done), "certified": certified})
    else:
        print(
            f"Task {done.task_id}{_uncertified(certified)} runs on the {done.board} board "
            f"at {done.port} (MicroPython {done.micropython}).\n"
            f"{done.files} files, {done.bytes} bytes, {done.copied} of them new, "
            f"all verified {done.verified}.\n"
            f"Pseudonym {done.pseudonym}, {done.identity}.\n"
            f"Readings come from {done.sample}."
        )
        for sentence in done.notes:
            print(sentence)
    return 0


def _spendings(done: Any) -> dict[str, float | None]:
    """In epsilon, as everywhere."""
    from tinyldp.study import EPSILON_UNIT

    units = {"cap": done.cap, "allowance": done.allowance}
    return {name: None if n is None else n / EPSILON_UNIT for name, n in units.items()}


def _units(epsilon: Fraction | None) -> int | None:
    """In what a device counts, rounded down."""
    from tinyldp.study import EPSILON_UNIT

    return None if epsilon is None else math.floor(epsilon * EPSILON_UNIT)


def _flash_emulated(options: argparse.Namespace, task: Any, certified: bool) -> int:
    """Build for the micro:bit, and run it in the emulator until Ctrl-C."""
    for name in ("board", "mpy", "new_identity", "replace_main"):
        if getattr(options, name):
            raise UserError(
                f"--{name.replace('_', '-')} is for a board at a port: the emulated one is new "
                "each time, and what runs there is built for it."
            )
    from tinyldp.flash.build import SAMPLE
    from tinyldp.flash.microbit import flash_microbit
    from tinyldp.flash.provision import STARTS, read_sample
    from tinyldp.lanes import open_lane
    from tinyldp.lanes.first_words import first_error
    from tinyldp.lanes.port import Port
    from tinyldp.progress import FileProgress

    sample = read_sample(options.sample) if options.sample else SAMPLE
    read_from = str(options.sample or "how often button A was pressed: name others with --sample")
    with open_lane(options.lane) as lane:
        with FileProgress("copied") as progress:
            build, pseudonym, process = flash_microbit(
                task,
                lane,
                sample,
                cap=_units(options.cap),
                horizon=options.horizon,
                lifetime=_units(options.allowance),
                progress=progress.update,
            )
        said = bytearray()

        def hear(deadline: float) -> bytes:
            part = process.read(1, max(0.0, deadline - time.monotonic()))
            said.extend(part)
            return part

        if why := first_error(hear, STARTS):
            raise UserError(f"The Task does not start on the emulated micro:bit: {why}.")
        with Port(process, bytes(said)) as port:
            result = {
                "lane": options.lane,
                "port": port.path,
                "task_id": task.id.hex(),
                "files": {name: len(data) for name, data in build.files.items()},
                "bytes": build.size,
                "pseudonym": pseudonym.hex(),
                "certified": certified,
                "sample": read_from,
                "entropy": _EMULATED,
            }
            if options.json:
                _print_json(result)
            else:
                print(
                    f"Task {task.id.hex()}{_uncertified(certified)} runs on an emulated "
                    f"micro:bit: {len(build.files)} files, {build.size} bytes.\n"
                    f"Pseudonym {pseudonym.hex()}, new. "
                    f"Collect from {port.path}; Ctrl-C ends the board.\n"
                    f"Readings come from {read_from}.\n"
                    f"Randomness: {_EMULATED}."
                )
            sys.stdout.flush()
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(1)
    return 0


def _collect(options: argparse.Namespace) -> int:
    from tinyldp.collect.collector import Collector
    from tinyldp.collect.store import Store
    from tinyldp.figures import counted
    from tinyldp.progress import Progress, WorkProgress
    from tinyldp.report import report_data
    from tinyldp.study import load_study, load_task

    study = load_study(options.study)
    path = options.study.with_suffix(".task")
    task = load_task(path)
    study.check(task)
    certificate = _certificate(options, path, task)
    if not study.serial and not study.mqtt:
        raise UserError(f"{options.study} names no links: add serial or mqtt under [links].")
    store = Store.create(options.db or options.study.with_suffix(".db"), task, certificate)
    try:
        collector = Collector(task, store, study.serial, study.mqtt)
        deadline = time.monotonic() + (options.seconds or float("inf"))
        wanted = options.until_ended or float("inf")

        def stop() -> bool:
            return time.monotonic() >= deadline or collector.ended() >= wanted

        links = ", ".join([*study.serial, *([f"mqtt {study.mqtt}"] if study.mqtt else [])])
        until = ""
        if options.until_ended:
            until = f" for {counted(options.until_ended, 'segment')} to end"
        title = f"Listening on {links}{until}; Ctrl-C ends it, and all is kept in {store.name}."
        with Progress(title=title) as progress:
            collector.run(stop, progress.update)
        with WorkProgress(_ITEMS) as looking:
            data = report_data(store, progress=looking.update)
        data["warnings"] += collector.strangers(path) + collector.waits()
        _show(data, options.json)
    except UserError:
        # A wrong port, say: nothing was collected.
        store.discard()
        raise
    finally:
        store.close()
    return 0


def _report(options: argparse.Namespace) -> int:
    from tinyldp.collect.store import Store
    from tinyldp.progress import WorkProgress
    from tinyldp.report import render_report, report_data, write_csv

    store = Store(options.db)
    try:
        if options.html:
            keep_apart(options.html, options.db)
            keep_kind(options.html, REPORT)
        if options.csv:
            keep_folder(options.csv)
        with WorkProgress(_ITEMS) as progress:
            data = report_data(
                store,
                postprocess=options.postprocess,
                curve=options.curve,
                progress=progress.update,
            )
        if options.html:
            render_report(store, options.html, title=f"tinyldp report of {options.db}", data=data)
        if options.csv:
            for sentence in write_csv(store, options.csv, data)[1]:
                print(f"tinyldp report: {sentence} It is left out.", file=sys.stderr)
        _show(data, options.json)
        if options.html and not options.json:
            print(f"Pictures: {options.html.resolve()}")
        if options.csv and not options.json:
            print(f"Values: {options.csv.resolve()}")
    finally:
        store.close()
    return 0


def _simulate(options: argparse.Namespace) -> int:
    from tinyldp.progress import WorkProgress
    from tinyldp.simulate import simulate, text_simulation, write_picture

    if options.picture:
        from tinyldp.simulate.pictures import check_picture

        keep_apart(options.picture, options.study)
        check_picture(options.picture)
    if options.sweep:
        return _sweep(options)
    with WorkProgress("device steps") as progress:
        result = simulate(
            options.study, options.devices, options.steps, options.seed, progress.update
        )
    if options.picture:
        write_picture(result, options.picture)
    if options.json:
        _print_json(result.to_json())
    else:
        print(text_simulation(result))
        if options.picture:
            print(f"Picture: {options.picture.resolve()}")
    return 0


def _sweep(options: argparse.Namespace) -> int:
    from tinyldp.progress import WorkProgress
    from tinyldp.simulate import SWEEP_STEPS, sweep, text_sweep, write_sweep_picture

    steps = SWEEP_STEPS if options.steps is None else options.steps
    with WorkProgress("runs") as progress:
        swept = sweep(options.study, options.devices, steps, options.sweep, progress.update)
    if options.picture:
        write_sweep_picture(swept, options.picture)
    if options.json:
        _print_json(swept.to_json())
    else:
        print(text_sweep(swept))
        if options.picture:
            print(f"Picture: {options.picture.resolve()}")
    return 0


def _audit(options: argparse.Namespace) -> int:
    """1 when the device gives away more than its certificate says, or breaks a promise of it."""
    from tinyldp.audit import CONFIDENCE, audit, text_audit
    from tinyldp.progress import WorkProgress
    from tinyldp.study import load_task

    task = load_task(options.task)
    confidence = CONFIDENCE if options.confidence is None else float(options.confidence)
    if task.method is not None:
        return _audit_rounds(options, task, confidence)
    for name in ("devices", "picture"):
        if getattr(options, name) is not None:
            raise UserError(f"--{name} is for a Task with a method, whose devices are asked.")
    with WorkProgress("segments") as progress:
        result = audit(
            task,
            options.lane or "unix",
            options.segments,
            options.epsilon,
            confidence,
            progress.update,
        )
    if options.json:
        _print_json(result.to_json())
    else:
        print(text_audit(result))
    return 0 if result.held else 1


def _audit_rounds(options: argparse.Namespace, task: Any, confidence: float) -> int:
    from tinyldp.audit import audit_rounds, text_round_audit
    from tinyldp.progress import WorkProgress

    if options.lane not in (None, "cpython"):
        raise UserError(
            f"A Task with a method is audited on the lane cpython, not on {options.lane}."
        )
    for name in ("segments", "epsilon"):
        if getattr(options, name) is not None:
            raise UserError(f"--{name} is for a Task without a method; see --devices.")
    with WorkProgress("devices") as progress:
        result = audit_rounds(task, options.devices, confidence, progress.update, options.picture)
    if options.json:
        _print_json(result.to_json())
    else:
        print(text_round_audit(result))
        if options.picture:
            print(f"Picture: {options.picture.resolve()}")
    return 0 if result.held else 1


def _show(data: dict[str, Any], as_json: bool) -> None:
    from tinyldp.report import text_report

    if as_json:
        _print_json(data)
    else:
        print(text_report(data, width=_width(), color=sys.stdout.isatty()), end="")


def _width() -> int:
    return shutil.get_terminal_size((120, 24)).columns
