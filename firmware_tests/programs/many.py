"""many.py PORT N: publishes N messages with QoS 1 to itself.

Prints how many were acknowledged, the last packet identifier, and how many came back.
"""

import sys

from tinyldp_device.links.mqtt import MQTTClient

arrived = 0


def count(topic, message):
    global arrived
    arrived += 1


client = MQTTClient(b"many", "127.0.0.1", int(sys.argv[1]))
client.set_callback(count)
client.connect(True)
client.subscribe(b"many", 1)
first = client._packet_id
sent = 0
while sent < int(sys.argv[2]):
    client.publish(b"many", b"%d" % sent, False, 1)
    sent += 1
for _ in range(1000):
    if arrived == sent:
        break
    client._packet(10)
print(sent, client._packet_id - first, arrived)
