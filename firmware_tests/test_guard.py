"""The guarded lane catches every way in which a number can outgrow a small board."""

from __future__ import annotations

import pytest

from tinyldp.lanes import Lane

PLANTED = {
    "a constant": "lambda n: 0x40000000",
    "a product": "lambda n: (n << 10) * 65536",
    "a shift": "lambda n: n << 24",
    "a sum": "lambda n: 0x3FFFFFFF + n",
    "a difference": "lambda n: -0x3FFFFFFF - n - n",
    "an intermediate result": "lambda n: (n << 24) & 255",
    "a negation": "lambda n: -(-0x40000000)",
    "a complement": "lambda n: ~(n ^ -1) << 29",
    "a builtin": "lambda n: sum([0x3FFFFFFF, n])",
    "a conversion": "lambda n: int.from_bytes(bytes([n] * 4), 'little')",
    "a step": "step",
    "a step of an attribute": "Counter().step",
    "a step of an item": "step_item",
    "a division": "lambda n: n / n",
    "a float": "lambda n: n * 0.5",
    "a float unused": "lambda n: 0.5 and n",
}
HARMLESS = {
    "the smallest": "lambda n: -0x40000000",
    "the largest": "lambda n: 0x3FFFFFFF - 0 * n",
    "a floor division": "lambda n: 0x3FFFFFFF // n",
    "a comparison": "lambda n: n == 0x3FFFFFFF or not n",
}
MODULE = """
def step(n):
    n <<= 28
    return n

def step_item(n):
    x = [0x3FFFFFFF]
    x[0] += n
    return 0

class Counter:
    def __init__(self):
        self.n = 0x3FFFFFFF
    def step(self, n):
        self.n += n
        return 0

def planted(n):
    return (%s)(n)
"""


def outcome(lane: Lane, code: str) -> str:
    lane.put(
        {
            "tinyldp_device/__init__.py": b"",
            "tinyldp_device/planted.py": (MODULE % code).encode(),
            "main.py": b"from tinyldp_device.planted import planted\nplanted(100)\n",
        }
    )
    result = lane.run("main.py")
    assert result.exit_code == (1 if result.stderr else 0)
    return result.stderr.decode().strip().rpartition("\n")[2]


@pytest.mark.parametrize("lane", ["guarded"], indirect=True)
@pytest.mark.parametrize("code", PLANTED.values(), ids=PLANTED)
def test_planted_fault(lane: Lane, code: str) -> None:
    assert outcome(lane, code).startswith(("OverflowError: not a small", "TypeError: a float"))


@pytest.mark.parametrize("lane", ["guarded"], indirect=True)
@pytest.mark.parametrize("code", HARMLESS.values(), ids=HARMLESS)
def test_harmless(lane: Lane, code: str) -> None:
    assert outcome(lane, code) == ""
