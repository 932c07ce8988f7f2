"""The cable: everything through, both ways, nobody waits, and faults where they are asked for."""

from __future__ import annotations

import os
import select
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import serial

from tinyldp.lanes import Cable

ALL_BYTES = bytes(range(256)) * 4


@contextmanager
def terminal(path: str) -> Iterator[int]:
    """Open a terminal as a program would that leaves its settings alone."""
    end = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        yield end
    finally:
        os.close(end)


def read(end: int, n: int, timeout: float = 10.0) -> bytes:
    """Up to n bytes, fewer when `timeout` seconds have passed."""
    data = b""
    deadline = time.monotonic() + timeout
    while len(data) < n and select.select([end], [], [], max(0, deadline - time.monotonic()))[0]:
        data += os.read(end, n - len(data))
    return data


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_all_bytes_pass_both_ways_and_are_tapped() -> None:
    with (
        Cable() as cable,
        terminal(cable.device_end) as device,
        terminal(cable.host_end) as host,
    ):
        os.write(device, ALL_BYTES)
        assert read(host, len(ALL_BYTES)) == ALL_BYTES
        os.write(host, ALL_BYTES[::-1])
        assert read(device, len(ALL_BYTES)) == ALL_BYTES[::-1]
        # Nothing is echoed, and nothing more comes.
        assert read(host, 1, 0.05) == read(device, 1, 0.05) == b""
        assert (cable.from_device, cable.from_host) == (ALL_BYTES, ALL_BYTES[::-1])
        assert cable.overruns == 0


def test_a_stream_longer_than_every_buffer() -> None:
    data = os.urandom(500_000)
    with (
        Cable() as cable,
        terminal(cable.device_end) as device,
        terminal(cable.host_end) as host,
    ):

        def send() -> None:
            # As much at a time as the terminal at the other end holds in any case.
            for at in range(0, len(data), 2000):
                os.write(device, data[at : at + 2000])
                while len(received) < at:
                    time.sleep(0.0005)

        received = bytearray()
        sender = threading.Thread(target=send)
        sender.start()
        while len(received) < len(data) and (chunk := read(host, 2000)):
            received += chunk
        sender.join()
        assert received == data
        assert cable.overruns == 0


def test_a_device_never_waits_for_a_host() -> None:
    with Cable() as cable, terminal(cable.device_end) as device:
        for _ in range(300):
            assert os.write(device, ALL_BYTES) == len(ALL_BYTES)
        until(lambda: len(cable.from_device) == 300 * len(ALL_BYTES))
        assert cable.overruns > 0
        # What the host's terminal still held is there, and then the line works again.
        with terminal(cable.host_end) as host:
            held = 300 * len(ALL_BYTES) - cable.overruns
            assert read(host, held) == (ALL_BYTES * 300)[:held]
            os.write(device, b"again")
            assert read(host, 5) == b"again"


def test_ends_may_be_closed_and_opened_again() -> None:
    with Cable() as cable:
        for _ in range(3):
            with terminal(cable.device_end) as device, terminal(cable.host_end) as host:
                os.write(device, b"up")
                assert read(host, 2) == b"up"
                os.write(host, b"down")
                assert read(device, 4) == b"down"
        # What is sent while the other end is closed waits for it, within the buffer.
        with terminal(cable.device_end) as device:
            os.write(device, b"early\r\n\x03\x04")
            until(lambda: len(cable.from_device) > 6)
        with terminal(cable.host_end) as host:
            assert read(host, 9) == b"early\r\n\x03\x04"


def test_pyserial_reads_it_as_a_port() -> None:
    with (
        Cable() as cable,
        terminal(cable.device_end) as device,
        serial.Serial(cable.host_end, timeout=10) as port,
    ):
        os.write(device, ALL_BYTES)
        assert port.read(len(ALL_BYTES)) == ALL_BYTES
        port.write(ALL_BYTES)
        assert read(device, len(ALL_BYTES)) == ALL_BYTES


def test_faults() -> None:
    with (
        Cable(up=lambda chunk: chunk.replace(b"b", b"")) as cable,
        terminal(cable.device_end) as device,
        terminal(cable.host_end) as host,
    ):
        os.write(device, b"abcba")
        assert read(host, 3) == b"aca"
        os.write(host, b"abc")
        assert read(device, 3) == b"abc"
        cable.up = None
        cable.down = lambda chunk: chunk + b"!"
        os.write(device, b"b")
        assert read(host, 1) == b"b"
        os.write(host, b"x")
        assert read(device, 2) == b"x!"
        # The taps hold what went in.
        assert (cable.from_device, cable.from_host) == (b"abcbab", b"abcx")


def test_both_terminals_are_raw() -> None:
    with Cable() as cable:
        for path in (cable.device_end, cable.host_end):
            with terminal(path) as end:
                _, output, _, local, *_ = termios.tcgetattr(end)
                assert not output & termios.OPOST
                assert not local & (termios.ECHO | termios.ICANON | termios.ISIG)


def test_stopping_hangs_up_and_leaves_nothing_open() -> None:
    before = len(os.listdir("/dev/fd"))
    threads = threading.active_count()
    cable = Cable()
    with terminal(cable.host_end) as host:
        cable.stop()
        cable.stop()
        assert os.read(host, 1) == b""
    assert len(os.listdir("/dev/fd")) == before
    assert threading.active_count() == threads
