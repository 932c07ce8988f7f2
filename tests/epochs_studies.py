"""Studies of Thresh and HeavyThresh, as files."""

from __future__ import annotations

from pathlib import Path

from tinyldp.study import Study, load_study

THRESH = """
[study]
name = "activity"
[mechanism]
name = "thresh"
epochs = 16
rounds = 8192
votes = 2
estimates = 2
[privacy]
epsilon = 4
[values]
domain = 2
[timing]
tick = 100
[stream]
source = "means"
means = [0.2, 0.7]
at = [1, 9]
seed = 7
[fleet]
devices = 1000
[links]
mqtt = "localhost:1883"
"""

HEAVY = """
[study]
name = "apps"
[mechanism]
name = "heavythresh"
epochs = 8
rounds = 4096
votes = 2
estimates = 2
dictionary = 100000
[privacy]
epsilon = 4
[stream]
source = "heavy"
heavy = 5
weight = 0.15
support = 64
at = [1, 5]
[fleet]
devices = 100000
"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with each of these exchanged; each must be there once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def paper(text: str, *changes: tuple[str, str]) -> str:
    """With the paper's profile."""
    return changed(text, ("votes = 2\nestimates = 2", 'profile = "paper"'), *changes)


def load(folder: Path, text: str) -> Study:
    path = folder / "s.toml"
    path.write_text(text)
    return load_study(path)
