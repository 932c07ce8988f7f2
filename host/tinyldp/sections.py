"""A TOML document of known sections and keys, read strictly.

Numbers stay exact: a float of the file is a Decimal here. Whatever is unknown,
of the wrong kind or out of bounds raises UserError, one sentence that names it.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

from tinyldp.errors import UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# What a Task's fields hold.
_LIMIT = 1 << 30
# Longest list read: more than any mechanism has bins or weights.
_LONGEST = 65536
# Bytes of a file: more than the longest list takes.
_LARGEST = 1 << 22
# Names that a sentence lists.
_FEW = 10


class Sections:
    """What a file states, by section and key; an absent key is None throughout.

    known: the keys that each section may have.
    """

    def __init__(self, data: bytes, known: Mapping[str, Iterable[str]]) -> None:
        self._document = _document(data)
        for section, content in self._document.items():
            if section not in known:
                raise UserError(f"[{_plain(section)}] is unknown{_meant(section, known)}.")
            if not isinstance(content, dict):
                raise UserError(f"[{section}] must be a section, not a value.")
            for key in content:
                if key not in known[section]:
                    raise UserError(
                        f"[{section}] {_plain(key)} is unknown{_meant(key, known[section])}."
                    )

    def given(self, section: str, key: str) -> Any:
        return self._document.get(section, {}).get(key)

    def text(self, section: str, key: str) -> str | None:
        value = self.given(section, key)
        if value is not None and (not isinstance(value, str) or not value):
            raise UserError(f"[{section}] {key} must be text.")
        return value

    def texts(self, section: str, key: str, what: str) -> tuple[str, ...]:
        """A list of distinct texts, empty when absent."""
        value = self.given(section, key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise UserError(f"[{section}] {key} must be a list of {what}.")
        for item in value:
            if value.count(item) > 1:
                raise UserError(f"[{section}] {key} names {item} twice.")
        return tuple(value)

    def integer(self, section: str, key: str) -> int | None:
        value = self.given(section, key)
        return None if value is None else _whole(value, f"[{section}] {key}")

    def integers(self, section: str, key: str) -> tuple[int, ...] | None:
        value = self.given(section, key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise UserError(f"[{section}] {key} must be a list of integers.")
        if len(value) > _LONGEST:
            raise UserError(f"[{section}] {key} is a list of {len(value)}: too long for any Task.")
        return tuple(_whole(item, f"[{section}] {key}") for item in value)

    def decimal(self, section: str, key: str) -> Fraction | None:
        """The exact value of an integer or a decimal number."""
        value = self.given(section, key)
        return None if value is None else _exact(value, f"[{section}] {key}")

    def decimals(self, section: str, key: str) -> tuple[Fraction, ...] | None:
        """The exact values of a list of them."""
        value = self.given(section, key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise UserError(f"[{section}] {key} must be a list of numbers.")
        return tuple(_exact(item, f"[{section}] {key}") for item in value)

    def rows(
        self, section: str, key: str, name: Callable[[int], str]
    ) -> tuple[tuple[Fraction, ...], ...] | None:
        """The exact values of a list of lists of numbers; name: of a row, by its index."""
        value = self.given(section, key)
        if value is None:
            return None
        what = f"[{section}] {key}"
        if not isinstance(value, list) or not value:
            raise UserError(f"{what} must be a list of rows, lists of numbers.")
        for at, row in enumerate(value):
            if not isinstance(row, list):
                raise UserError(
                    f"{what} must be a list of rows, lists of numbers, but {name(at)} is "
                    f"{short(row)}."
                )
        return tuple(
            tuple(_exact(item, f"{what}: each number of {name(at)}") for item in row)
            for at, row in enumerate(value)
        )

    def shown(self, section: str, key: str) -> str:
        """The value as a sentence may show it: short."""
        return short(self.given(section, key))


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: which known one is meant, if one is near."""
    found = difflib.get_close_matches(word.lower(), list(known), 1)
    return f"; the nearest known is {found[0]}" if found else ""


def _meant(word: str, known: Iterable[str]) -> str:
    """The same, and where none is near, all of them if they are few."""
    names = list(known)
    few = f"; known are {', '.join(names)}" if 1 < len(names) <= _FEW else ""
    return nearest(word, names) or few


def short(value: Any) -> str:
    """At most 25 characters of a value."""
    # Python prints no integer of more than 4,300 digits.
    if isinstance(value, int) and value.bit_length() > 4096:
        return "thousands of digits long"
    text = str(value)
    return text if len(text) <= 24 else text[:24] + "…"


def read_bytes(path: str | Path) -> bytes:
    """The content of a file; UserError when it can't be read, or never ends."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None
    if len(data) > _LARGEST:
        raise UserError(f"{path} is larger than any study or Task.")
    return data


def is_study(data: bytes) -> bool:
    """Whether this is TOML with a study's section, right or wrong."""
    try:
        return "study" in _document(data)
    except UserError:
        return False


def _document(data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"), parse_float=_number)
    except UnicodeDecodeError:
        raise UserError("this is no study file: it is not text.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"this is no TOML file: {error}.") from None
    except (ValueError, RecursionError):
        # Integers of thousands of digits, and brackets in thousands of brackets.
        raise UserError("this is no study file: nothing in a study is so long.") from None


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise UserError(f"a study holds no number such as {short(text)}.") from None


def _whole(value: Any, what: str) -> int:
    if isinstance(value, Decimal):
        raise UserError(
            f"{what} must be an integer, not {short(value)}: "
            "what a device executes is never rounded."
        )
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{what} must be an integer.")
    if abs(value) >= _LIMIT:
        raise UserError(f"{what} must be smaller than 2^30, but is {short(value)}.")
    return value


def _exact(value: Any, what: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise UserError(f"{what} must be a number.")
    # The exponent is looked at first: 1e999999999 would fill the memory.
    if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > 99):
        raise UserError(f"{what} must be an ordinary number, not {value}.")
    return Fraction(value)


def _plain(word: str) -> str:
    return short(ascii(word)[1:-1])
