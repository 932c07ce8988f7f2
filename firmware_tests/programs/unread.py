"""unread.py PORT: writes frames to a line that nobody reads, and prints how many it took.

Waits for a line on standard input, then tells whether a frame is taken by a line
that was unplugged in the meantime.
"""

import sys

from tinyldp_device.boards.terminal import open_serial
from tinyldp_device.links.serial import SerialLink

link = SerialLink(open_serial(sys.argv[1]))
frame = bytearray(27)
taken = 0
while link.write(frame):
    taken += 1
print(taken)
sys.stdin.readline()
print(link.write(frame), link.receive())
