"""What the tests of devices that are asked share: queries, and what comes back."""

from helpers import Words

from tinyldp_protocol import messages as m
from tinyldp_protocol.hashing import GROUPS

NONCE = Words.nonce[:4]


def query(t, phase=0, entry=0, task=b"task-id!", start=0, size=GROUPS):
    buf = bytearray(m.put_query(None, 0, task, t, phase, entry, start, size))
    m.put_query(buf, 0, task, t, phase, entry, start, size)
    return buf


def said(link, width=1):
    """Answers (t, phase, entry, report) and refusals (t, phase, reason), in order."""
    found = []
    for message in link.take():
        kind = m.check(message, len(message), width)
        if kind not in (m.ANSWER, m.REFUSAL):
            continue
        assert message[m.NONCE_AT : m.NONCE_AT + 4] == NONCE
        t = m.get_word(message, m.SEQUENCE_AT)
        phase = message[m.PHASE_AT]
        if kind == m.REFUSAL:
            found.append((t, phase, message[m.REASON_AT]))
        else:
            entry = message[m.ENTRY_AT] | message[m.ENTRY_AT + 1] << 8
            found.append((t, phase, entry, bytes(message[-width:])))
    return found


def ask(agent, link, *queries, **given):
    """What comes back in the next step; width: of a report, 1 by default."""
    for one in queries:
        link.incoming.append(one)
    agent.service()
    return said(link, given.get("width", 1))
