"""HeavyThresh's hashes of `hashes.py PAIRS` pairs (block, item): a CRC-32 of each thousand."""

import sys

from tinyldp_protocol.framing import Crc32
from tinyldp_protocol.hashing import halfsiphash

out = [0, 0]
buf = bytearray(4)
for start in range(0, int(sys.argv[1]), 1000):
    crc = Crc32()
    for pair in range(start, start + 1000):
        halfsiphash(b"task-id!", pair % 32, pair * 7919 % 100003, out)
        buf[0] = out[0] & 255
        buf[1] = out[0] >> 8
        buf[2] = out[1] & 255
        buf[3] = out[1] >> 8
        crc.feed(buf, 0, 4)
    crc.put(buf, 0)
    print(buf[0] | buf[1] << 8 | buf[2] << 16, buf[3])
