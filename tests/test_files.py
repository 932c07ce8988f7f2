"""What is written: whole or not at all, and never over a product of another kind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.collecting import make_task
from tinyldp import cli
from tinyldp.collect.store import Store
from tinyldp.errors import UserError
from tinyldp.files import (
    CERTIFICATE,
    PICTURE,
    REPORT,
    STORE,
    STUDY,
    TABLE,
    TASK,
    keep_kind,
    replace_file,
    replacing_text,
)
from tinyldp_protocol.task import write_file

STUDY_TEXT = """\
[study]
name = "grr"
[mechanism]
name = "grr"
[privacy]
epsilon = 1
[values]
domain = 4
[fleet]
devices = 20
"""


@pytest.fixture
def products(tmp_path: Path) -> dict[str, Path]:
    """One file of each kind that commands write or read, under names that do not tell."""
    study = tmp_path / "a.toml"
    study.write_text(STUDY_TEXT)
    assert cli.main(["plan", str(study)]) == 0
    assert cli.main(["certify", str(tmp_path / "a.task")]) == 0
    picture = tmp_path / "a.png"
    assert cli.main(["simulate", str(study), "--steps", "2", "--picture", str(picture)]) == 0
    Store.create(tmp_path / "a.db", make_task()).close()
    assert cli.main(["report", str(tmp_path / "a.db"), "--html", str(tmp_path / "a.html")]) == 0
    table = tmp_path / "a.csv"
    table.write_text("step,symbol\n0,1\n")
    named = {
        STUDY: study,
        TASK: tmp_path / "a.task",
        CERTIFICATE: tmp_path / "a.task.cert.json",
        PICTURE: picture,
        STORE: tmp_path / "a.db",
        REPORT: tmp_path / "a.html",
        TABLE: table,
    }
    for kind, path in named.items():
        (tmp_path / kind).write_bytes(path.read_bytes())
    return named


def test_only_the_same_kind_is_replaced(products: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("years of work")
    (tmp_path / "package.json").write_text('{"name": "mine"}')
    for own in products:
        for kind, path in products.items():
            bare = tmp_path / kind
            if kind == own:
                keep_kind(path, own)
                continue
            with pytest.raises(UserError, match=f"{kind}|is no {own}"):
                keep_kind(path, own)
            with pytest.raises(UserError, match="is kept"):
                keep_kind(bare, own)
        if own != TABLE:
            keep_kind(tmp_path / own, own)
        for foreign in ("notes", "package.json"):
            with pytest.raises(UserError, match=f"is no {own} and is kept"):
                keep_kind(tmp_path / foreign, own)
        keep_kind(tmp_path / "new", own)
        keep_kind("/dev/null", own)
    (tmp_path / "empty.db").touch()
    (tmp_path / "torn.task").write_bytes(write_file(make_task())[:-3])
    with pytest.raises(UserError, match="is no report"):
        keep_kind(tmp_path / "torn.task", REPORT)
    keep_kind(tmp_path / "torn.task", TASK)


def test_only_own_pages_are_replaced(products: dict[str, Path], tmp_path: Path) -> None:
    """A page that only speaks of tinyldp is somebody's own."""
    page = products[REPORT].read_bytes()
    mine = tmp_path / "mine.html"
    for foreign in (
        b"<!DOCTYPE html>\n<title>tinyldp report, my notes on it</title>\n" + b"<p>work</p>" * 999,
        b"<!DOCTYPE html>\n<html lang='en'><p>Made by tinyldp.</p>\n",
        b"<!doctype html>\n",
    ):
        mine.write_bytes(foreign)
        with pytest.raises(UserError, match="is no report and is kept"):
            keep_kind(mine, REPORT)
    mine.write_bytes(page)
    keep_kind(mine, REPORT)
    # An earlier version's, with nothing in its head.
    mine.write_bytes(page.replace(b'<meta name="generator" content="tinyldp">\n', b""))
    assert mine.read_bytes() != page
    keep_kind(mine, REPORT)


def test_no_command_writes_over_another_product(
    products: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever their names are."""
    study, task, store = (str(products[kind]) for kind in (STUDY, TASK, STORE))
    commands = {
        TASK: ["plan", study, "-o"],
        CERTIFICATE: ["certify", task, "-o"],
        REPORT: ["report", store, "--html"],
        PICTURE: ["simulate", study, "--steps", "2", "--picture"],
    }
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for own, command in commands.items():
        for kind in products:
            for path in (products[kind], tmp_path / kind):
                if kind != own:
                    assert cli.main([*command, str(path)]) == 2, (own, path)
                    assert capsys.readouterr().out == ""
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_disk_that_fills_up(
    products: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old files stay as they are, and nothing is left beside them."""
    values = tmp_path / "values"
    study, task, store = (str(products[kind]) for kind in (STUDY, TASK, STORE))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for command in (
        ["plan", study],
        ["certify", task],
        ["report", store, "--html", str(products[REPORT])],
        ["report", store, "--html", str(tmp_path / "new.html")],
        ["simulate", study, "--steps", "2", "--picture", str(products[PICTURE])],
        ["simulate", study, "--steps", "2", "--picture", str(tmp_path / "new.svg")],
    ):
        assert cli.main(command) == 2, command
    with pytest.raises(UserError, match="No space"), replacing_text(values, TABLE) as file:
        file.write("step,symbol\n")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_work_that_is_cut_short_leaves_the_old_file(
    error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    replace_file(path, b"old", TABLE)

    def write() -> None:
        with replacing_text(path, TABLE) as file:
            file.write("new")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
