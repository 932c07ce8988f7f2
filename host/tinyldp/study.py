"""The study file: what people decide, in TOML, and the Task that it amounts to.

    [study]      name
    [mechanism]  name "ranswitch" or "staswitch"; threshold (over 2^24);
                 window (RanSwitch only; k if absent)
    [privacy]    k; epsilon, delta (decimals; may be absent)
    [values]     domain (symbols), bins (ascending edges; then domain may be
                 absent), missing (a symbol; the first one above the bins' own
                 makes a symbol for missing readings alone)
    [timing]     tick (ms), batch, resend, beacon (ticks), outbox (frames)
    [fleet]      devices
    [links]      serial (list of ports), mqtt ("host:port")

Every number that a device will execute is an integer. epsilon and delta are
read as exact decimals and rounded down: the stricter target.
"""

import difflib
import sys
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

from tinyldp.errors import UserError
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.task import RANSWITCH, STASWITCH, Task, TaskError, read_file, write_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MECHANISMS = {"ranswitch": RANSWITCH, "staswitch": STASWITCH}
KEYS = {
    "study": ("name",),
    "mechanism": ("name", "threshold", "window"),
    "privacy": ("k", "epsilon", "delta"),
    "values": ("domain", "bins", "missing"),
    "timing": ("tick", "batch", "resend", "beacon", "outbox"),
    "fleet": ("devices",),
    "links": ("serial", "mqtt"),
}
# Read exactly and rounded down, in units of one over this.
EPSILON_UNIT = 1 << 16
DELTA_UNIT = 1 << 30
# Milliseconds aimed at where the study is silent.
_RESEND = 5_000
_BEACON = 10_000


@dataclass(frozen=True, slots=True)
class Study:
    """A study as its file states it, defaults filled in.

    epsilon in 2^-16 and delta over 2^30, both rounded down, or None. serial:
    ports; mqtt: "host:port" or None; devices: how many are expected, or None.
    """

    name: str
    mechanism: int
    threshold: int
    window: int
    k: int
    epsilon: int | None
    delta: int | None
    domain: int
    bins: tuple[int, ...] | None
    missing: int | None
    tick: int
    batch: int
    resend: int
    beacon: int
    outbox: int
    devices: int | None
    serial: tuple[str, ...]
    mqtt: str | None

    def task(self) -> Task:
        """The Task, with its id. Raises UserError when a bound does not hold."""
        try:
            task = Task(
                {
                    "mechanism": self.mechanism,
                    "window": self.window,
                    "k": self.k,
                    "epsilon": self.epsilon,
                    "delta": self.delta,
                    "symbols": self.domain,
                    "bins": None if self.bins is None else list(self.bins),
                    "missing": self.missing,
                    "thresholds": [self.threshold],
                    "tick": self.tick,
                    "batch": self.batch,
                    "resend": self.resend,
                    "beacon": self.beacon,
                    "outbox": self.outbox,
                }
            )
        except TaskError as error:
            raise UserError(str(error)) from None
        write_file(task)
        return task


def load_study(path: str | Path) -> Study:
    """Read and check a study file; UserError says in one sentence what is wrong."""
    try:
        document = tomllib.loads(_read(path).decode("utf-8-sig"), parse_float=_number)
    except UnicodeDecodeError:
        raise UserError(f"{path} is no study file: it is not text.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is no TOML file: {error}.") from None
    except (ValueError, RecursionError):
        # Integers of thousands of digits, and brackets in thousands of brackets.
        raise UserError(f"{path} is no study file: nothing in a study is so long.") from None
    try:
        study = _study(document)
        study.task()
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return study


def load_task(path: str | Path) -> Task:
    """Read a Task file; UserError says in one sentence what is wrong."""
    try:
        return read_file(_read(path))
    except Malformed as error:
        raise UserError(f"{path} is no Task file: its CBOR is not canonical ({error}).") from None
    except TaskError as error:
        raise UserError(f"{path}: {error}") from None


def broker_address(text: str) -> tuple[str, int]:
    """(host, port) of "host:port", or UserError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise UserError(f'The MQTT broker must be given as "host:port", not "{text}".')
    if not 1 <= int(port[:6]) <= 65535:
        raise UserError(f"The MQTT broker's port must lie in 1..65535, but is {port}.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise UserError(f"A study holds no number such as {_short(text)}.") from None


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None


def _study(document: dict[str, Any]) -> Study:
    _refuse_unknown(document)
    mechanism = _text(document, "mechanism", "name")
    if mechanism not in MECHANISMS:
        names = ", ".join(f'"{name}"' for name in MECHANISMS)
        raise UserError(f'[mechanism] name must be one of {names}, not "{mechanism}".')
    k = _integer(document, "privacy", "k")
    window = _optional(document, "mechanism", "window")
    if window is not None and MECHANISMS[mechanism] == STASWITCH:
        raise UserError("[mechanism] window is RanSwitch's alone: StaSwitch's is k.")
    tick = _integer(document, "timing", "tick", 1000)
    if tick < 1:
        raise UserError(f"[timing] tick must be a millisecond or more, but is {tick}.")
    bins = _integers(document, "values", "bins")
    domain = _optional(document, "values", "domain")
    missing = _optional(document, "values", "missing")
    if bins is not None:
        # The first symbol above the bins' own may be that of missing readings.
        own = len(bins) + 1
        found = own + 1 if missing == own else own
        if domain not in (None, found):
            raise UserError(f"[values] {len(bins)} edges make a domain of {found}, not {domain}.")
        domain = found
    if domain is None:
        raise UserError("[values] domain is missing: say how many symbols there are, or the bins.")
    devices = _optional(document, "fleet", "devices")
    if devices is not None and devices < 1:
        raise UserError(f"[fleet] devices must be 1 or more, but is {devices}.")
    mqtt = None
    if "mqtt" in document.get("links", {}):
        mqtt = _text(document, "links", "mqtt")
        broker_address(mqtt)
    return Study(
        name=_text(document, "study", "name"),
        mechanism=MECHANISMS[mechanism],
        threshold=_integer(document, "mechanism", "threshold"),
        window=k if window is None else window,
        k=k,
        epsilon=_decimal(document, "privacy", "epsilon", EPSILON_UNIT),
        delta=_decimal(document, "privacy", "delta", DELTA_UNIT),
        domain=domain,
        bins=bins,
        missing=missing,
        tick=tick,
        batch=_integer(document, "timing", "batch", 1),
        resend=_integer(document, "timing", "resend", max(2, -(-_RESEND // tick))),
        beacon=_integer(document, "timing", "beacon", max(1, -(-_BEACON // tick))),
        outbox=_integer(document, "timing", "outbox", 16),
        devices=devices,
        serial=_ports(document),
        mqtt=mqtt,
    )


def _refuse_unknown(document: dict[str, Any]) -> None:
    for section, content in document.items():
        if section not in KEYS:
            shown = _short(ascii(section)[1:-1])
            raise UserError(f"[{shown}] is unknown{_nearest(section, KEYS)}.")
        if not isinstance(content, dict):
            raise UserError(f"[{section}] must be a section, not a value.")
        for key in content:
            if key not in KEYS[section]:
                shown = _short(ascii(key)[1:-1])
                raise UserError(f"[{section}] {shown} is unknown{_nearest(key, KEYS[section])}.")


def _nearest(word: str, known: Any) -> str:
    return f"; the nearest known is {difflib.get_close_matches(word, known, 1, 0)[0]}"


def _text(document: dict[str, Any], section: str, key: str) -> str:
    value = document.get(section, {}).get(key)
    if value is None:
        raise UserError(f"[{section}] {key} is missing.")
    if not isinstance(value, str) or not value:
        raise UserError(f"[{section}] {key} must be text.")
    return value


def _optional(document: dict[str, Any], section: str, key: str) -> int | None:
    value = document.get(section, {}).get(key)
    return None if value is None else _whole(value, f"[{section}] {key}")


def _integer(document: dict[str, Any], section: str, key: str, default: int | None = None) -> int:
    value = _optional(document, section, key)
    if value is None:
        value = default
    if value is None:
        raise UserError(f"[{section}] {key} is missing.")
    return value


def _integers(document: dict[str, Any], section: str, key: str) -> tuple[int, ...] | None:
    value = document.get(section, {}).get(key)
    if value is None:
        return None
    if not isinstance(value, list):
        raise UserError(f"[{section}] {key} must be a list of integers.")
    return tuple(_whole(item, f"[{section}] {key}") for item in value)


def _whole(value: Any, what: str) -> int:
    if isinstance(value, Decimal):
        raise UserError(
            f"{what} must be an integer, not {value}: what a device executes is never rounded."
        )
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{what} must be an integer.")
    if abs(value) >= 1 << 30:
        raise UserError(f"{what} must be smaller than 2^30, but is {_short(value)}.")
    return value


def _decimal(document: dict[str, Any], section: str, key: str, unit: int) -> int | None:
    """An exact decimal of 0 or more, in units of 1/unit, rounded down."""
    value = document.get(section, {}).get(key)
    what = f"[{section}] {key}"
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise UserError(f"{what} must be a number.")
    # The exponent is looked at first: 1e999999999 would fill the memory.
    if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > 99):
        raise UserError(f"{what} must be an ordinary number, not {value}.")
    scaled = Fraction(value) * unit
    if not 0 <= scaled < 1 << 30:
        raise UserError(
            f"{what} must be 0 or more and below {(1 << 30) // unit}, but is {_short(value)}."
        )
    return int(scaled)


def _ports(document: dict[str, Any]) -> tuple[str, ...]:
    ports = document.get("links", {}).get("serial", [])
    if not isinstance(ports, list) or not all(isinstance(port, str) and port for port in ports):
        raise UserError("[links] serial must be a list of ports.")
    for port in ports:
        if ports.count(port) > 1:
            raise UserError(f"[links] serial names {port} twice.")
    return tuple(ports)


def _short(value: Any) -> str:
    # Not of an integer itself: Python prints none of more than 4,300 digits.
    text = hex(value) if isinstance(value, int) and abs(value) >= 1 << 64 else str(value)
    return text if len(text) <= 24 else text[:24] + "…"
