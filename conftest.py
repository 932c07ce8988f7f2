"""Lanes for all tests: what is missing is skipped loudly, or fails where it is required.

TINYLDP_REQUIRE lists, with commas, what must be there: lanes, or anything that
a test hands to `need`. Every test that uses a lane is counted in a table at the
end. firmware_tests/portable is written once and run on several lanes.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tinyldp.lanes import LANES, Lane, Result, open_lane
from tinyldp.lanes.board import Board
from tinyldp.lanes.cpython import CPython
from tinyldp.lanes.flatfiles import FlatFiles
from tinyldp.lanes.microbit import Microbit
from tinyldp.lanes.port import Port
from tinyldp.lanes.relay import RelayedBoard
from tinyldp.lanes.serial import Serial

pytest_plugins = ["tests.turns"]
# How long an example takes is the machine's business: speed is measured in benchmarks.
settings.register_profile("tinyldp", deadline=None)
settings.load_profile("tinyldp")

FIRMWARE_TESTS = Path(__file__).parent / "firmware_tests"
PORTABLE = FIRMWARE_TESTS / "portable"


class Guarded(CPython):
    """CPython, where an integer of the device's that does not fit in 31 bits is an error."""

    name = "guarded"

    def command(self, main: str, args: tuple[str, ...], heap: str | None) -> list[str]:
        guard = str(FIRMWARE_TESTS / "guard.py")
        return [sys.executable, "-I", "-S", "-B", guard, main, *args]


class SerialBoard(Serial):
    """The board on the port that TINYLDP_SERIAL names, or else a relayed one."""

    def __init__(self) -> None:
        self._relayed = None
        port = os.environ.get("TINYLDP_SERIAL")
        if port is None:
            self._relayed = RelayedBoard(heap="2M")
            port = self._relayed.port
        try:
            super().__init__(port)
        except BaseException:
            if self._relayed is not None:
                self._relayed.stop()
            raise

    @classmethod
    def missing(cls) -> str | None:
        return super().missing() or (
            None if "TINYLDP_SERIAL" in os.environ else RelayedBoard.missing()
        )

    def stop(self) -> None:
        super().stop()
        if self._relayed is not None:
            self._relayed.stop()


class SerialMicrobit(Serial):
    """An emulated micro:bit's port, as far as mpremote gets there."""

    name = "serial-microbit"

    def __init__(self) -> None:
        self._emulated = Microbit()
        try:
            self._emulated.put({"x": b""})
            self._port = Port(self._emulated.start("x"))
            with Board(self._port.path) as board:
                for file in ("main.py", "x"):
                    FlatFiles(board).remove(file)
            super().__init__(self._port.path)
        except BaseException:
            self._emulated.stop()
            raise

    @classmethod
    def missing(cls) -> str | None:
        return super().missing() or Microbit.missing()

    def stop(self) -> None:
        super().stop()
        self._port.stop()
        self._emulated.stop()


LANES[Guarded.name] = Guarded
LANES[SerialMicrobit.name] = SerialMicrobit
LANES[SerialBoard.name] = SerialBoard
PORTABLE_LANES = ("cpython", "guarded", "unix", "wasm", "serial")
REQUIRED = [name for name in os.environ.get("TINYLDP_REQUIRE", "").split(",") if name]
ALWAYS = ("cpython", "guarded")
# What can be required; a name that is not here would require nothing, silently.
KNOWN = (*LANES, "mosquitto")


def required(name: str) -> bool:
    """Whether it must be there: serial-microbit must, where serial and microbit must."""
    return name in ALWAYS or name in REQUIRED or all(part in REQUIRED for part in name.split("-"))


ALL_REQUIRED = all(required(name) for name in KNOWN)


def pytest_configure() -> None:
    for name in REQUIRED:
        if name not in KNOWN:
            raise pytest.UsageError(f"TINYLDP_REQUIRE names {name}; known are {', '.join(KNOWN)}")


def missing(name: str, reason: str | None) -> None:
    """Skip, or fail when `name` is required, for a reason; None: nothing is missing."""
    assert name in KNOWN
    if reason is None:
        return
    if required(name):
        pytest.fail(f"{name} is required: {reason}", pytrace=False)
    pytest.skip(f"no {name}: {reason}")


# The test that is set up or runs.
CURRENT: list[pytest.Item] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    CURRENT[:] = [item]


@pytest.fixture(scope="session")
def need() -> Callable[[str, str | None], None]:
    """need(name, reason) skips or fails the test unless reason is None; a lane is counted."""

    def needed(name: str, reason: str | None) -> None:
        properties = CURRENT[0].user_properties
        if name in LANES and ("lane", name) not in properties:
            properties.append(("lane", name))
        missing(name, reason)

    return needed


@pytest.fixture
def lane(request: pytest.FixtureRequest) -> Iterator[Lane]:
    """A fresh lane; a test takes it with @pytest.mark.parametrize("lane", [...], indirect=True)."""
    request.node.user_properties.append(("lane", request.param))
    missing(request.param, LANES[request.param].missing())
    with open_lane(request.param) as opened:
        yield opened


@functools.cache
def run_portable(lane: str, module: Path) -> Result:
    """Run all tests of a portable module on a lane, once."""
    with open_lane(lane) as opened:
        opened.install()
        shared = [PORTABLE / name for name in ("helpers.py", "asked.py")]
        files = [FIRMWARE_TESTS / "run_tests.py", *shared, module]
        opened.put({file.name: file.read_bytes() for file in files})
        try:
            return opened.run("run_tests.py", module.stem, timeout=300)
        except TimeoutError as error:
            # As a result, so that one that hangs is not waited for again by its every test.
            return Result(-1, b"", str(error).encode())


class PortableError(Exception):
    """What a lane printed about a failed test."""


class PortableItem(pytest.Item):
    """One test function on one lane."""

    def __init__(self, *, lane: str, test: str, line: int, **kwargs: object) -> None:
        super().__init__(**kwargs)  # pyright: ignore[reportArgumentType]
        self.lane = lane
        self.test = test
        self.line = line
        self.user_properties.append(("lane", lane))
        # Where tests run side by side, one process runs all of a module on a lane.
        self.add_marker(pytest.mark.xdist_group(f"{lane}-{self.path.stem}"))

    def runtest(self) -> None:
        missing(self.lane, LANES[self.lane].missing())
        result = run_portable(self.lane, self.path)
        # Each report begins with a line "= ok NAME" or "= failed NAME".
        for report in result.stdout.decode(errors="replace").replace("\r", "").split("\n= "):
            head, _, details = report.removeprefix("= ").partition("\n")
            if head == f"ok {self.test}":
                return
            if head == f"failed {self.test}":
                raise PortableError(details)
        error = result.stderr.decode(errors="replace")
        raise PortableError(f"did not run (exit code {result.exit_code})\n{error}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None):
        if isinstance(excinfo.value, PortableError):
            return f"on {self.lane}: {excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line, self.name


class PortableModule(pytest.File):
    """A test module written for MicroPython, times the lanes."""

    def collect(self) -> Iterator[PortableItem]:
        nodes = [
            node
            for node in ast.parse(self.path.read_text()).body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        if not nodes:
            raise self.CollectError(f"{self.path} has no test.")
        for node in nodes:
            for lane in PORTABLE_LANES:
                yield PortableItem.from_parent(
                    self,
                    name=f"{node.name}[{lane}]",
                    lane=lane,
                    test=node.name,
                    line=node.lineno - 1,
                )


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> PortableModule | None:
    if module_path.parent == PORTABLE:
        return PortableModule.from_parent(parent, path=module_path)
    return None


TALLY: dict[str, Counter[str]] = {}
SKIPPED: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        SKIPPED.append(report.nodeid)
    if report.when == "call" or report.outcome != "passed":
        for key, lane in report.user_properties:
            if key == "lane":
                TALLY.setdefault(str(lane), Counter())[report.outcome] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything is required, no test may be skipped for any other reason either."""
    if SKIPPED and ALL_REQUIRED:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if SKIPPED and ALL_REQUIRED:
        terminalreporter.section("skipped, which fails where everything is required")
        for name in SKIPPED:
            terminalreporter.write_line(name)
    if terminalreporter.config.option.collectonly:
        return
    terminalreporter.section("lanes")
    if not TALLY:
        terminalreporter.write_line("none of these tests uses a lane")
        return
    outcomes = ("passed", "failed", "skipped")
    terminalreporter.write_line(f"{'':16}" + "".join(f"{name:>9}" for name in outcomes))
    for lane in (name for name in LANES if name in TALLY):
        counts = "".join(f"{TALLY[lane][name]:9}" for name in outcomes)
        reason = LANES[lane].missing()
        terminalreporter.write_line(
            f"{lane:16}{counts}" + (f"  MISSING: {reason}" if reason else "")
        )
