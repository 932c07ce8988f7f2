"""Deterministic CBOR (RFC 8949, section 4.2.1) in fixed memory.

Only what the protocol speaks: unsigned and negative integers, byte strings,
text, arrays, maps with integer keys, false, true and null. Every integer and
every length lies in [-2^30, 2^30), the small integers of a 31-bit port.

Writing: each put_* function writes at buf[pos] and returns the position after
what it wrote; with buf=None it writes nothing and only measures. None of them
allocates. A buffer that is too short raises IndexError; an integer out of
range raises ValueError.

Reading: Reader pulls one expected item at a time, so no nesting depth, no
length and no type is ever taken from the input on trust. It raises Malformed,
whose one argument names the reason:

    truncated      the input ends inside an item
    trailing       bytes follow the last item
    wrong type     another major type or simple value was expected here
    wrong length   another number of items or bytes was expected here
    not minimal    an argument is longer than it has to be
    too large      an integer or length does not fit in 30 bits
    indefinite     an indefinite length, or a break
    reserved       additional information 28 to 30
    tag            any tag
    float          a float, or a simple value other than false, true, null
    key order      map keys that do not ascend
    duplicate key  a map key that is there twice
    text           text that is not UTF-8
"""


class Malformed(ValueError):
    """Input that is not a canonical encoding of what was expected."""


def put_head(buf, pos, major, n):
    """Write the head of an item: major type (already shifted by 5), argument n."""
    if n < 0 or n >> 30:
        raise ValueError("beyond 30 bits")
    if n < 24:
        if buf is not None:
            buf[pos] = major | n
        return pos + 1
    size = 1
    if n > 255:
        size = 2
    if n > 65535:
        size = 4
    if buf is not None:
        buf[pos] = major | (24 + size // 2)
        for i in range(size):
            buf[pos + size - i] = n & 255
            n >>= 8
    return pos + 1 + size


def put_int(buf, pos, n):
    """Write an integer in [-2^30, 2^30)."""
    if n < 0:
        return put_head(buf, pos, 0x20, -1 - n)
    return put_head(buf, pos, 0, n)


def put_bytes(buf, pos, data):
    """Write a byte string."""
    return _put_string(buf, pos, 0x40, data)


def put_text(buf, pos, data):
    """Write text, given as its UTF-8 bytes."""
    return _put_string(buf, pos, 0x60, data)


def _put_string(buf, pos, major, data):
    n = len(data)
    pos = put_head(buf, pos, major, n)
    if buf is not None:
        for i in range(n):
            buf[pos + i] = data[i]
    return pos + n


def put_array(buf, pos, n):
    """Write the head of an array of n items."""
    return put_head(buf, pos, 0x80, n)


def put_map(buf, pos, n):
    """Write the head of a map of n pairs; the caller keeps its keys ascending."""
    return put_head(buf, pos, 0xA0, n)


def put_simple(buf, pos, value):
    """Write False, True or None."""
    if buf is not None:
        if value is None:
            buf[pos] = 0xF6
        elif value:
            buf[pos] = 0xF5
        else:
            buf[pos] = 0xF4
    return pos + 1


class Reader:
    """Pulls expected items, strictly, from buf[at:end]."""

    def __init__(self, buf, at, end):
        self.buf = buf
        self.at = at
        self.end = end

    def _argument(self, major):
        """Read one head, which must have this (shifted) major type; give its argument."""
        buf = self.buf
        at = self.at
        if at >= self.end:
            raise Malformed("truncated")
        head = buf[at]
        info = head & 31
        head -= info
        if info == 31:
            raise Malformed("indefinite")
        if info > 27:
            raise Malformed("reserved")
        if head == 0xC0:
            raise Malformed("tag")
        if head == 0xE0 and not 20 <= info <= 22:
            raise Malformed("float")
        if head != major:
            raise Malformed("wrong type")
        at += 1
        if info < 24:
            self.at = at
            return info
        size = 1 << (info - 24)
        if at + size > self.end:
            raise Malformed("truncated")
        if size == 8:
            for i in range(4):
                if buf[at + i]:
                    raise Malformed("too large")
            raise Malformed("not minimal")
        if size == 4 and buf[at] > 63:
            raise Malformed("too large")
        n = 0
        for i in range(size):
            n = n << 8 | buf[at + i]
        if n < 24 or (size > 1 and n < 1 << 4 * size):
            raise Malformed("not minimal")
        self.at = at + size
        return n

    def int(self):
        """An integer in [-2^30, 2^30)."""
        if self.at < self.end and self.buf[self.at] >> 5 == 1:
            return -1 - self._argument(0x20)
        return self._argument(0)

    def uint(self, most):
        """An unsigned integer of at most `most`, else Malformed("too large")."""
        n = self._argument(0)
        if n > most:
            raise Malformed("too large")
        return n

    def skip_bytes(self, size):
        """A byte string of exactly this size: its first position in buf."""
        return self._string(0x40, size)

    def bytes(self):
        """A byte string of any size, copied."""
        at = self._string(0x40, -1)
        return bytes(self.buf[at : self.at])

    def text(self):
        """Text, as str."""
        at = self._string(0x60, -1)
        if not _is_utf8(self.buf, at, self.at):
            raise Malformed("text")
        return str(bytes(self.buf[at : self.at]), "utf-8")

    def _string(self, major, size):
        n = self._argument(major)
        if size >= 0 and n != size:
            raise Malformed("wrong length")
        at = self.at
        if n > self.end - at:
            raise Malformed("truncated")
        self.at = at + n
        return at

    def array(self):
        """The head of an array: its number of items, each of which takes a byte or more."""
        n = self._argument(0x80)
        if n > self.end - self.at:
            raise Malformed("truncated")
        return n

    def ints(self):
        """An array of integers, as a list."""
        # Of its length at once: one that grows takes up to three times as much.
        result = [0] * self.array()
        for i in range(len(result)):
            result[i] = self.int()
        return result

    def map(self):
        """The head of a map: its number of pairs; read each key with key()."""
        n = self._argument(0xA0)
        if n > self.end - self.at:
            raise Malformed("truncated")
        return n

    def key(self, last):
        """The next map key, a small unsigned integer above `last` (-1 at first)."""
        n = self._argument(0)
        if n == last:
            raise Malformed("duplicate key")
        if n < last:
            raise Malformed("key order")
        return n

    def simple(self):
        """False, True or None."""
        n = self._argument(0xE0)
        if n == 22:
            return None
        return n == 21

    def finish(self):
        """Nothing may follow."""
        if self.at != self.end:
            raise Malformed("trailing")


def _is_utf8(buf, at, end):
    """RFC 3629, section 4. (MicroPython's own decoder takes surrogates and overlong forms.)"""
    while at < end:
        byte = buf[at]
        low = 0x80
        high = 0xBF
        more = 0
        if 0xC2 <= byte < 0xE0:
            more = 1
        elif 0xE0 <= byte < 0xF0:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif 0xF0 <= byte < 0xF5:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        elif byte > 0x7F:
            return False
        at += 1
        while more:
            if at >= end or not low <= buf[at] <= high:
                return False
            low = 0x80
            high = 0xBF
            at += 1
            more -= 1
    return True
