"""quantize: any reading becomes a symbol."""

from helpers import make_task

from tinyldp_device.quantize import Quantizer

EDGES = [-100, 0, 1, 50]
NO_READINGS = (None, 1.5, float("nan"), float("inf"), "7", b"7", [7], (), {}, ValueError("x"))


def test_edges():
    symbol = Quantizer(make_task(symbols=5, bins=EDGES)).symbol
    for reading, expected in (
        (-101, 0), (-100, 1), (-99, 1), (-1, 1), (0, 2), (1, 3), (2, 3), (49, 3), (50, 4), (51, 4),
    ):  # fmt: skip
        assert symbol(reading) == expected, reading


def test_bins_are_counted_edges():
    for symbols in (2, 3, 4, 8, 33, 100):
        edges = [i * i - 50 for i in range(symbols - 1)]
        symbol = Quantizer(make_task(symbols=symbols, bins=edges)).symbol
        for reading in range(-60, symbols * symbols, 3):
            assert symbol(reading) == len([edge for edge in edges if edge <= reading])


def test_clamping_without_bins():
    for symbols in (2, 7, 256, 65536):
        symbol = Quantizer(make_task(symbols=symbols)).symbol
        top = symbols - 1
        for reading, expected in ((-1, 0), (0, 0), (1, 1), (top, top), (top + 1, top)):
            assert symbol(reading) == expected


def test_huge_readings():
    for n in (1 << 30, 1 << 31, 1 << 64, 1 << 200):
        assert Quantizer(make_task(symbols=7)).symbol(n) == 6
        assert Quantizer(make_task(symbols=7)).symbol(-n) == 0
        assert Quantizer(make_task(symbols=5, bins=EDGES)).symbol(n) == 4
        assert Quantizer(make_task(symbols=5, bins=EDGES)).symbol(-n) == 0


def test_what_is_no_integer_is_missing():
    for reading in NO_READINGS:
        assert Quantizer(make_task(symbols=7)).symbol(reading) == 0
        assert Quantizer(make_task(symbols=7, missing=6)).symbol(reading) == 6
        assert Quantizer(make_task(symbols=5, bins=EDGES, missing=2)).symbol(reading) == 2


def test_truths_are_no_integers():
    """On MicroPython a bool is no int; the host must see it the same way."""
    symbol = Quantizer(make_task(symbols=7, missing=6)).symbol
    assert symbol(True) == symbol(False) == 6


def test_missing_may_have_a_symbol_of_its_own():
    quantizer = Quantizer(make_task(symbols=4, bins=[10, 20], missing=3))
    readings = (-5, 9, 10, 19, 20, 1 << 40, None)
    assert [quantizer.symbol(reading) for reading in readings] == [0, 0, 1, 1, 2, 2, 3]
