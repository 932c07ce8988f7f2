"""The literal vectors beside the norm."""

import json
from pathlib import Path
from typing import Any

PROTOCOL = Path(__file__).resolve().parents[2] / "protocol"
CDDL = (PROTOCOL / "tinyldp.cddl").read_text()


def load(name: str) -> dict[str, list[dict[str, Any]]]:
    """Read vectors/<name>.json: lists of vectors, each with a name of its own."""
    vectors = json.loads((PROTOCOL / "vectors" / f"{name}.json").read_text())
    for key, group in vectors.items():
        names = [vector["name"] for vector in group] if key != "about" else []
        assert len(set(names)) == len(names), "two vectors with one name"
    return vectors


def unhex(value: Any) -> Any:
    """Give a field of a message as decoders do: byte strings stand as hex in the vectors."""
    return bytes.fromhex(value) if isinstance(value, str) else value


MESSAGES = load("messages")
TASK = load("task")
GROUPS = load("groups")
SIGNS = load("signs")


def name(vector: Any) -> str:
    """Give a vector's name, for pytest."""
    return vector["name"]
