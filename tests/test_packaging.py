"""The other ways onto a board, mip and freezing: they list exactly what there is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.packaging import PACKAGE_JSON, ROOT, modules, package_json
from tinyldp.flash.provision import BOARDS, needed
from tinyldp.lanes.board import Board
from tinyldp.lanes.packages import sources
from tinyldp.lanes.relay import RelayedBoard
from tinyldp.lanes.serial import Serial

BOARD_FILES = ROOT / "device" / "tinyldp_device" / "boards"


def test_package_json_lists_what_there_is() -> None:
    assert PACKAGE_JSON.read_text() == package_json(), "run: python -m tests.packaging"
    listed = json.loads(PACKAGE_JSON.read_text())["urls"]
    assert {path for path, _ in listed} == set(sources())
    assert all((PACKAGE_JSON.parent / url).is_file() for _, url in listed)
    # The check itself: one module less is another text.
    assert PACKAGE_JSON.read_text() != package_json().replace(json.dumps(listed[3]), "")


def test_manifest_freezes_what_there_is() -> None:
    manifest = ROOT / "device" / "manifest.py"
    frozen: list[str] = []

    def package(name: str, base_path: str) -> None:
        base = manifest.parent / base_path
        frozen.extend(path.relative_to(base).as_posix() for path in base.glob(f"{name}/**/*.py"))

    exec(manifest.read_text(), {"package": package})
    assert sorted(frozen) == sorted(modules())


def test_mip_installs_it(need: Callable[[str, str | None], None]) -> None:
    need("serial", Serial.missing() or RelayedBoard.missing())
    with RelayedBoard() as board:
        command = [sys.executable, "-m", "mpremote", "connect", board.port]
        command += ["mip", "install", "--target", "lib", "--no-mpy", str(PACKAGE_JSON)]
        done = subprocess.run(command, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        with Board(board.port) as found:
            code = "import tinyldp_device.boards.start as s\nprint(s.__file__)"
            assert found.exec(code).strip() == b"lib/tinyldp_device/boards/start.py"


def test_board_files_are_short_and_complete() -> None:
    """Under 40 lines; those that `flash` knows give what boards/start.py asks for."""
    helpers = {"__init__", "files", "repl", "start", "terminal"}
    for path in BOARD_FILES.glob("*.py"):
        if path.stem not in helpers:
            assert len(path.read_text().splitlines()) < 40, path.name
    for board in set(BOARDS.values()):
        text = (BOARD_FILES / f"{board}.py").read_text()
        assert all(f"\ndef {name}():" in text for name in ("source", "slots", "open_line"))
        assert "import FileSlot, ledger_slots" in text
        files: dict[str, bytes] = needed(board)
        others = {f"tinyldp_device/boards/{other}.py" for other in set(BOARDS.values()) - {board}}
        assert f"tinyldp_device/boards/{board}.py" in files
        assert not others & set(files)


def test_needed_modules_are_all_that_are_imported(tmp_path: Path) -> None:
    """Nothing that a module imports is left behind."""
    for board in set(BOARDS.values()):
        files = needed(board)
        for path, source in files.items():
            for other in sources():
                module = other[:-3].replace("/", ".")
                if f"from {module} import" in source.decode():
                    assert other in files, (board, path, other)
