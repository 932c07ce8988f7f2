"""What device/package.json must say; `python -m tests.packaging` writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE_JSON = ROOT / "device" / "package.json"
# Folders of the packages, as seen from device/.
PLACES = {"tinyldp_device": "", "tinyldp_protocol": "../protocol/"}


def modules() -> list[str]:
    """Every module of the two packages, by its path on a board."""
    return [
        path.relative_to(ROOT / "device" / place).as_posix()
        for package, place in PLACES.items()
        for path in sorted((ROOT / "device" / place / package).rglob("*.py"))
    ]


def package_json() -> str:
    """The list that mip installs from."""
    found = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    urls = [[path, PLACES[path.partition("/")[0]] + path] for path in modules()]
    rows = ",\n".join(f"    {json.dumps(row)}" for row in urls)
    return f'{{\n  "version": "{found[1]}",\n  "deps": [],\n  "urls": [\n{rows}\n  ]\n}}\n'


if __name__ == "__main__":
    PACKAGE_JSON.write_text(package_json())
