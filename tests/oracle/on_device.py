# Runs on MicroPython: what does the device's code accept of a file of inputs?
# Inputs: size (1 byte), length (2 bytes, little-endian), bytes. Prints, in lines, 1 or 0 for each
# message or Task; for each stream "messages,rejected,sum of all messages' bytes".
import sys


def inputs(name):
    with open(name, "rb") as f:
        while True:
            head = f.read(3)
            if not head:
                return
            yield head[0], f.read(head[1] | head[2] << 8)


def accepted_message(size, data):
    try:
        check(data, len(data), size)
    except Malformed:
        return "0"
    return "1"


def accepted_task(size, data):
    try:
        read_file(data)
    except (Malformed, TaskError):
        return "0"
    return "1"


def stream(size, data):
    line = Decoder(249)
    at = good = total = 0
    while at < len(data):
        at = line.feed(data, at, len(data))
        if line.length:
            good += 1
            for i in range(line.length):
                total += line.message[i]
    bad = line.bad_cobs + line.bad_crc + line.too_long + line.too_short
    return ",".join([str(good), str(bad), str(total)]) + "\n"


what = sys.argv[1]
if what == "messages":
    from tinyldp_protocol.cbor import Malformed
    from tinyldp_protocol.messages import check

    judge = accepted_message
elif what == "tasks":
    from tinyldp_protocol.cbor import Malformed
    from tinyldp_protocol.task import TaskError, read_file

    judge = accepted_task
else:
    from tinyldp_protocol.framing import Decoder

    judge = stream

for size, data in inputs(what):
    sys.stdout.write(judge(size, data))
