"""Certificates as files beside their Tasks, and the checks before one is trusted.

A file is the certificate's JSON with the SHA-256 of the rest, so that damage shows.
"""

from __future__ import annotations

import hashlib
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

from tinyldp.certify.bounds import digits_up
from tinyldp.certify.certificate import Certificate
from tinyldp.errors import UserError
from tinyldp.files import CERTIFICATE, replace_file
from tinyldp_protocol.task import Task

_SEAL = "sha256"
_NEEDED = (
    ("task_id", str),
    ("epsilon", float),
    ("delta", float),
    ("within_target", bool),
)


def certificate_path(task_path: str | Path) -> Path:
    """Where a Task's certificate lies: X.task.cert.json for X.task."""
    path = Path(task_path)
    return path.with_name(path.name + ".cert.json")


def write_certificate(certificate: Certificate, path: str | Path) -> None:
    """Write its JSON, whole or not at all. Raises UserError when that can't be done."""
    content = certificate.to_json()
    content[_SEAL] = _seal(content)
    replace_file(path, (json.dumps(content, indent=2) + "\n").encode(), CERTIFICATE)


def load_certificate(task_path: str | Path, task: Task) -> dict[str, Any]:
    """The JSON of the certificate beside a Task.

    Raises UserError when it is missing, damaged, of another Task, or says that the
    Task exceeds its target.
    """
    path = certificate_path(task_path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{task_path} has no certificate that says what it gives away ({path}):"
            " make one with `tinyldp certify`."
        ) from None
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}.") from None
    content = _parse(data)
    if content is None:
        raise UserError(f"{path} is no certificate, or it is damaged.")
    if content["task_id"] != task.id.hex():
        raise UserError(
            f"{path} is the certificate of Task {content['task_id']}, not of {task_path}"
            f" ({task.id.hex()})."
        )
    if not content["within_target"]:
        raise UserError(
            f"{task_path} gives away more than its target: its certificate has epsilon"
            f" {_bound(content['epsilon'])}, delta {_bound(content['delta'])}."
        )
    return content


def _parse(data: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(
            data.decode("utf-8"), parse_float=_written_float, parse_constant=_written_float
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.pop(_SEAL, None) != _seal(content):
        return None
    return content if all(isinstance(content.get(key), kind) for key, kind in _NEEDED) else None


def _written_float(text: str) -> float:
    """As certificates have it: another spelling of the same number is damage, too."""
    number = float(text)
    if repr(number) != text or not math.isfinite(number):
        raise ValueError("no number of a certificate")
    return number


def _bound(value: float) -> str:
    return digits_up(Fraction(value))


def _seal(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
