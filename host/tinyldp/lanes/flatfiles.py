"""The file system of boards without folders, without rename and with 64 bytes of patience."""

from __future__ import annotations

from tinyldp.errors import UserError
from tinyldp.lanes.board import Board

# What such a board receives before it has to answer, less the byte that ends a line.
_LINE = 60
_READ = 128


class FlatFiles:
    """A micro:bit's files, in short lines of its raw REPL."""

    def __init__(self, board: Board) -> None:
        self._board = board
        board.command(b"import os", "asked for its files")

    def sizes(self) -> dict[str, int]:
        """Every file and its size in bytes."""
        return dict(self._board.value(b"[(n,os.size(n))for n in os.listdir()]", "listed"))

    def read(self, name: str) -> bytes | None:
        """A file's content, or None where there is none."""
        if name not in self.sizes():
            return None
        what = f"asked for {name}"
        self._board.command(b"f=open(%r,'rb')" % name, what)
        content = b""
        while part := self._board.value(b"f.read(%d)" % _READ, what):
            content += part
        self._board.command(b"f.close()", what)
        return content

    def put(self, name: str, content: bytes) -> None:
        """Write a whole file, read it back and compare."""
        what = f"given {name}"
        self._board.command(b"f=open(%r,'wb')" % name, what)
        at = 0
        while at < len(content):
            size = 48
            while len(line := b"f.write(%r)" % content[at : at + size]) > _LINE:
                size -= 1
            self._board.command(line, what)
            at += size
        self._board.command(b"f.close()", what)
        if self.read(name) != content:
            raise UserError(f"{name} on the board is not what was sent.")

    def remove(self, name: str) -> None:
        self._board.command(b"os.remove(%r)" % name, "cleaned")
