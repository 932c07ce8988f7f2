"""framing: CRC vectors, sizes, difficult payloads, and being in step again after damage."""

from helpers import decode, raised, unhex

from tinyldp_protocol.framing import HEAD, MAX_MESSAGE, TAIL, Crc32, Decoder, Encoder

BYTES = bytes([i * 7 & 255 for i in range(MAX_MESSAGE)])


def crc(data):
    """The CRC's bytes as they are sent."""
    state = Crc32()
    state.feed(data, 0, len(data))
    out = bytearray(4)
    state.put(out, 0)
    assert state.matches(out, 0)
    for i in range(4):
        out[i] ^= 0x10
        assert not state.matches(out, 0)
        out[i] ^= 0x10
    return bytes(out)


def cobs(data):
    """COBS as in the paper, for less than 255 bytes without a full run."""
    out = b""
    for run in data.split(b"\x00"):
        out += bytes([len(run) + 1]) + run
    return out


def encode(payload, same=0):
    message = bytearray(HEAD) + bytearray(payload) + bytearray(TAIL)
    encoder = Encoder(message, HEAD + same)
    frame = encoder.slot()
    encoder.frame(frame)
    return bytes(frame)


def test_crc_vectors():
    # Check values of CRC-32/ISO-HDLC and of zlib, little-endian.
    for data, text in (
        (b"123456789", "2639f4cb"),
        (b"", "00000000"),
        (b"\x00", "8def02d2"),
        (b"\xff\xff\xff\xff", "ffffffff"),
        (b"a", "43beb7e8"),
        (bytes(32), "ad550a19"),
        (b"\xff" * 32, "0bab6cff"),
        (b"The quick brown fox jumps over the lazy dog", "39a34f41"),
    ):
        assert crc(data) == unhex(text), data


def test_a_crc_may_be_fed_in_parts():
    state = Crc32()
    for i in range(9):
        state.feed(b"123456789", i, i + 1)
    assert state.matches(unhex("2639f4cb"), 0)
    state.reset()
    assert state.matches(bytes(4), 0)


def test_frames_of_every_size():
    for n in range(1, MAX_MESSAGE + 1):
        payload = BYTES[:n]
        frame = encode(payload, n // 2)
        assert frame == b"\x00" + cobs(payload + crc(payload)) + b"\x00", n
        assert len(frame) == n + 7
        messages, decoder = decode(frame)
        assert messages == [payload]
        assert rejected(decoder) == 0
    raised(ValueError, encode, bytes(MAX_MESSAGE + 1))


def test_difficult_payloads():
    for byte in (0, 1, 3, 4, 10, 13, 17, 19, 255):
        for n in (1, 2, 20, 248, MAX_MESSAGE):
            payload = bytes([byte]) * n
            for same in (0, 1, n):
                frame = encode(payload, same)
                assert 0 not in frame[1:-1]
                assert decode(frame)[0] == [payload], (byte, n, same)


def test_a_slot_is_used_again():
    message = bytearray(HEAD) + bytearray(b"\x05\x00\x07\x00\x00\x09") + bytearray(TAIL)
    encoder = Encoder(message, HEAD + 2)
    slots = [encoder.slot(), encoder.slot()]
    for i in range(40):
        for j in range(4):
            message[HEAD + 2 + j] = (i >> j & 1) * (i + j)
        out = slots[i & 1]
        encoder.frame(out)
        assert bytes(out) == encode(message[HEAD : HEAD + 6]), i


def test_a_counted_number():
    """However the numbers follow one another, a frame is what it would be without counting."""
    message = bytearray(HEAD) + bytearray(b"\x00\x07\xff\xff\xff\xff\x41\x00\x09") + bytearray(TAIL)
    encoder = Encoder(message, HEAD + 2, 5)
    frame = encoder.slot()
    top = 0x3FFFFFFF
    runs = (range(700), range(65300, 65800), (5, 4, 4, 6, 7, 1000, 255, 256, 257, 511, 512))
    runs += (range(0xFFFF00, 0x1000102), range(top - 300, top + 1), (0, top, 1, 2))
    for run in runs:
        for n in run:
            message[HEAD + 7] = n & 3
            encoder.frame(frame, n)
            word = bytes([n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24])
            payload = b"\x00\x07" + word + bytes([0x41, n & 3, 9])
            assert bytes(frame) == b"\x00" + cobs(payload + crc(payload)) + b"\x00", n


def test_any_number_of_bytes_at_a_time():
    payloads = [BYTES[i : i + 20] for i in range(20)]
    stream = b"".join([encode(payload) for payload in payloads])
    for step in (1, 2, 3, 7, 27, 28, 1000):
        messages, decoder = decode(stream, step)
        assert messages == payloads
        assert rejected(decoder) == 0


def test_one_delimiter_between_frames_is_enough():
    stream = encode(b"one") + encode(b"two")[1:] + encode(b"three")[1:]
    assert decode(stream)[0] == [b"one", b"two", b"three"]


def test_joining_in_the_middle():
    stream = encode(b"first message") + encode(b"second")
    for start in range(2, len(stream) - len(encode(b"second")) + 1):
        assert decode(stream[start:])[0] == [b"second"], start


def test_each_rejection_is_counted_under_its_name():
    good = encode(b"good")
    decoder = Decoder(8)
    for bad, name in (
        (b"\x00\x05\x01\x02\x00", "bad_cobs"),
        (b"\x00\x05\x01\x02\x03\x04\x00", "too_short"),
        (b"\x00\x06\x01\x02\x03\x04\x05\x00", "bad_crc"),
        (b"\x00\x0e" + b"\x01" * 13 + b"\x00", "too_long"),
        (encode(b"nine byte"), "too_long"),
        (b"\x00\x01\x01\x01\x01\x01\x01\x00", "bad_crc"),
    ):
        for _ in range(2):
            before = getattr(decoder, name)
            total = rejected(decoder)
            assert feed(decoder, bad + good) == [b"good"]
            assert getattr(decoder, name) == before + 1
            assert rejected(decoder) == total + 1
    assert feed(decoder, encode(b"8 bytes!")) == [b"8 bytes!"]


def test_counters_stop_at_their_end():
    decoder = Decoder(8)
    decoder.too_short = 0x3FFFFFFE
    for _ in range(3):
        feed(decoder, b"\x00\x01\x00")
    assert decoder.too_short == 0x3FFFFFFF


def test_delimiters_alone_are_nothing():
    decoder = Decoder(8)
    assert feed(decoder, bytes(100)) == []
    assert rejected(decoder) == 0


def feed(decoder, data):
    messages = []
    at = 0
    while at < len(data):
        at = decoder.feed(data, at, len(data))
        if decoder.length:
            messages.append(bytes(decoder.message[: decoder.length]))
    return messages


def rejected(decoder):
    return decoder.bad_cobs + decoder.bad_crc + decoder.too_long + decoder.too_short


PAYLOADS = [bytes([i, 0, 3, 10, 255, i * 11 & 255, 0, i]) for i in range(20)]
FRAME = 8 + 7


def damaged(change, size):
    """Change `size` bytes at every offset of 20 frames: only touched frames may be lost.

    A damage reaches no further than the frames around it, so only these are decoded.
    """
    frames = [encode(payload) for payload in PAYLOADS]
    stream = b"".join(frames)
    for offset in range(len(stream) - size + 1):
        first = offset // FRAME
        last = max(first, (offset + size - 1) // FRAME)
        start = max(0, first - 1)
        end = min(20, last + 3)
        part = stream[start * FRAME : end * FRAME]
        at = offset - start * FRAME
        messages, decoder = decode(
            part[:at] + change(part[at : at + size]) + part[at + size :] + b"\x00"
        )
        assert messages[: first - start] == PAYLOADS[start:first], offset
        assert messages[len(messages) - (end - last - 1) :] == PAYLOADS[last + 1 : end], offset
        for message in messages:
            assert message in PAYLOADS, offset
        lost = end - start - len(messages)
        assert 0 <= lost <= last - first + 1
        # What is left of a frame is counted; so is a byte too many between two good frames.
        assert rejected(decoder) > 0 or lost == 0, offset
        assert rejected(decoder) <= lost + 1, offset


def test_a_byte_dropped_anywhere():
    damaged(lambda piece: b"", 1)


def test_a_byte_flipped_anywhere():
    damaged(lambda piece: bytes([piece[0] ^ 0xFF]), 1)
    damaged(lambda piece: bytes([piece[0] ^ 0x01]), 1)
    damaged(lambda piece: b"\x00", 1)


def test_a_byte_inserted_anywhere():
    damaged(lambda piece: b"\x00" + piece, 1)
    damaged(lambda piece: b"\x55" + piece, 1)


def test_a_run_lost_anywhere():
    for size in range(2, 13):
        damaged(lambda piece: b"", size)
