"""What a demo device runs, on the unix port of MicroPython: it plays a recording.

    main(TASK, WORDS, READINGS, POOL, PSEUDONYM, serial, PORT)
    main(TASK, WORDS, READINGS, POOL, PSEUDONYM, mqtt, HOST:PORT)

WORDS are random bytes, POOL is how many words to draw at once, READINGS 4-byte
integers (-2^31 for a missing one). A recording can wait where a sensor cannot:
`patient`, the next reading is taken only when the outbox has room, so that a
busy computer loses nothing.
"""

import gc
from array import array
from binascii import hexlify, unhexlify
from time import sleep_ms, ticks_add, ticks_diff, ticks_ms

from tinyldp_device.agent import Agent
from tinyldp_device.entropy import Entropy, Replay
from tinyldp_protocol.task import read_file


def open_link(kind, where, task, pseudonym, nonce):
    if kind == "serial":
        from tinyldp_device.boards.terminal import open_serial
        from tinyldp_device.links.serial import SerialLink

        return SerialLink(open_serial(where))
    from tinyldp_device.links.mqtt import MQTTClient, MqttLink

    host, port = where.split(":")
    client = MQTTClient(hexlify(pseudonym), host, int(port))
    return MqttLink(client, task, pseudonym, nonce)


def main(task_path, words_path, readings_path, pool, pseudonym, kind, where, patient=True):
    # What importing leaves behind would lie in the way of what is to stay.
    gc.collect()
    with open(task_path, "rb") as file:
        task = read_file(file.read())
    pseudonym = unhexlify(pseudonym)
    words = open(words_path, "rb")
    entropy = Entropy(Replay(words), int(pool), allow_test=True)
    link = open_link(kind, where, task, pseudonym, entropy.nonce)
    gc.collect()
    agent = Agent(task, entropy, link, pseudonym)
    readings = open(readings_path, "rb")
    reading = array("i", [0])
    gc.collect()
    due = ticks_ms()
    playing = True
    while not agent.idle():
        full = agent.outbox.next - agent.outbox.lowest >= task.outbox - 1
        if not (patient and playing and full):
            if playing and not readings.readinto(reading):
                playing = False
                agent.stop()
            agent.tick(None if reading[0] == -(1 << 31) else reading[0])
        agent.service()
        due = ticks_add(due, task.tick)
        late = ticks_diff(ticks_ms(), due)
        if late < 0:
            sleep_ms(-late)
        elif late > 100:
            due = ticks_ms()
