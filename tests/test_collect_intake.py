"""The state machine between messages and store, on a store in memory."""

import random
import tracemalloc

import pytest

from tests.collecting import ack, hello, make_task, release, status
from tinyldp.collect.intake import MOST_BOOTS, Intake, Link
from tinyldp.collect.records import Outcome
from tinyldp.collect.store import Store
from tinyldp_protocol.messages import COUNTER_MAX, ENDED

TASK = make_task(outbox=8)
OTHER = make_task(outbox=9)
ANNA = b"wearer 1"
BEN = b"wearer 2"
FIRST = b"nonce  1"
SECOND = b"NONCE  2"
USB = Link("usb")
WIFI = Link("mqtt", TASK.id, ANNA)


class Host:
    """An intake and its store, without lines."""

    def __init__(self, path, task=TASK):
        self.store = Store.create(path, task)
        self.intake = Intake(task, self.store)
        self.now = 1_000

    def take(self, *messages, link=USB):
        """Feed one batch and commit it: the acks that leave."""
        self.intake.feed(link, messages, self.now)
        acks = self.intake.committed(self.store.commit(self.intake.batch(self.now, self.now)))
        assert len(acks) <= len(messages)
        self.now += 10
        return acks

    def restart(self):
        self.intake = Intake(TASK, self.store)

    def alarms(self):
        return {alarm["name"] for alarm in self.store.alarms()}

    def counts(self, boot=0):
        stream = self.store.streams()[boot]
        live = next((b for b in self.intake.boots() if b.id == stream.boot), None)
        if live is not None:
            ours = (live.received, live.lost, live.duplicates, live.missing(TASK.batch))
            assert ours == (stream.received, stream.lost, stream.duplicates, stream.missing)
        return stream.received, stream.lost, stream.duplicates, stream.missing


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path / "a.db")
    yield host
    host.store.close()


def frame(sequence, nonce=FIRST, values=None):
    return release(nonce, sequence, values or bytes([sequence % 8, 7]))


def test_frames_are_acknowledged_together(host):
    acks = host.take(hello(TASK, ANNA, FIRST), frame(0), frame(1), frame(2))
    assert acks == [(USB, ack(FIRST, 3))]
    assert host.counts() == (3, 0, 0, 0)


def test_no_hello_is_asked_for_and_not_counted(host):
    assert host.take(frame(0), frame(1)) == [(USB, ack(FIRST, 0, True))]
    assert host.store.rejections() == {("usb", "no hello"): 2}
    assert host.store.streams() == []
    assert host.take(status(FIRST)) == [(USB, ack(FIRST, 0, True))]
    assert host.take(hello(TASK, ANNA, FIRST), frame(0)) == [(USB, ack(FIRST, 1))]


def test_nothing_is_acknowledged_before_the_commit(host):
    host.intake.feed(USB, [hello(TASK, ANNA, FIRST), frame(0)], 1)
    batch = host.intake.batch(1, 1)
    assert host.store.streams()[0].received == 0
    assert host.intake.committed(host.store.commit(batch)) == [(USB, ack(FIRST, 1))]
    assert host.store.streams()[0].received == 1


def test_duplicates_are_counted_once(host):
    host.take(hello(TASK, ANNA, FIRST), frame(0), frame(1), frame(0))
    assert host.counts() == (2, 0, 1, 0)
    assert host.take(frame(0), frame(1)) == [(USB, ack(FIRST, 2))]
    host.take(hello(TASK, ANNA, FIRST))
    assert host.counts() == (2, 0, 3, 0)
    assert host.alarms() == set()
    assert host.store.values(1)[0].tolist() == [0, 7, 1, 7]


def test_a_gap_is_missing_until_the_device_gave_it_up(host):
    host.take(hello(TASK, ANNA, FIRST), frame(0))
    assert host.take(frame(3), frame(4)) == [(USB, ack(FIRST, 1))]
    assert host.counts() == (3, 0, 0, 2)
    assert host.take(status(FIRST, lowest=2)) == [(USB, ack(FIRST, 2))]
    assert host.counts() == (3, 1, 0, 1)
    assert host.take(frame(2)) == [(USB, ack(FIRST, 5))]
    assert host.counts() == (4, 1, 0, 0)
    host.take(hello(TASK, ANNA, FIRST, 6))
    assert host.counts() == (4, 2, 0, 0)
    host.take(frame(5), frame(5))
    assert host.counts() == (5, 1, 1, 0)


def test_a_frame_says_what_its_outbox_can_not_hold(host):
    host.take(hello(TASK, ANNA, FIRST))
    assert host.take(frame(100)) == [(USB, ack(FIRST, 93))]
    assert host.counts() == (1, 93, 0, 7)


def test_conflicts_are_named_and_the_first_content_stays(host):
    host.take(hello(TASK, ANNA, FIRST), frame(0, values=b"\1\1"))
    assert host.take(frame(0, values=b"\2\2")) == [(USB, ack(FIRST, 1))]
    assert host.alarms() == {"conflict"}
    assert host.store.rejections() == {("usb", "conflict"): 1}
    assert host.store.values(1)[0].tolist() == [1, 1]
    assert host.counts() == (1, 0, 0, 0)


def test_conflict_within_one_batch(host):
    host.take(hello(TASK, ANNA, FIRST), frame(0, values=b"\1\1"), frame(0, values=b"\2\2"))
    assert host.alarms() == {"conflict"}
    assert host.counts() == (1, 0, 0, 0)


def test_equal_nonces_are_named(host):
    host.take(hello(TASK, ANNA, FIRST))
    host.take(hello(TASK, BEN, FIRST), link=Link("usb2"))
    assert host.alarms() == {"equal nonces"}
    detail = host.store.alarms()[0]["detail"]
    assert FIRST.hex() in detail
    assert ANNA.hex() in detail
    assert BEN.hex() in detail
    assert len(host.store.streams()) == 2


def test_a_reboot_is_no_alarm(host):
    host.take(hello(TASK, ANNA, FIRST), frame(0))
    host.take(hello(TASK, ANNA, SECOND), frame(0, SECOND))
    host.take(hello(TASK, ANNA, SECOND), frame(1, SECOND), frame(0))
    assert host.alarms() == set()
    assert [stream.received for stream in host.store.streams()] == [1, 2]


@pytest.mark.parametrize("restarted", [False, True])
def test_an_older_boot_that_goes_on_is_another_device(host, restarted):
    host.take(hello(TASK, ANNA, FIRST), frame(0))
    host.take(hello(TASK, ANNA, SECOND), frame(0, SECOND, b"\5\5"))
    if restarted:
        host.restart()
        host.take(hello(TASK, ANNA, FIRST))
    assert host.alarms() == set()
    host.take(frame(1))
    assert host.alarms() == {"two devices with one pseudonym"}
    assert host.store.values(1)[0].tolist() == [0, 7, 1, 7]
    assert host.store.values(2)[0].tolist() == [5, 5]


def test_alive_on_two_links_is_two_devices(host):
    host.take(hello(TASK, ANNA, FIRST))
    host.take(hello(TASK, ANNA, FIRST), link=WIFI)
    host.take(status(FIRST), link=WIFI)
    assert host.alarms() == set()
    host.take(status(FIRST))
    assert host.alarms() == {"two devices with one pseudonym"}


def test_a_device_that_moves_and_comes_back_later_is_one(host):
    host.take(hello(TASK, ANNA, FIRST))
    host.take(hello(TASK, ANNA, FIRST), link=WIFI)
    host.now += 2 * TASK.beacon * TASK.tick + 1
    host.take(status(FIRST))
    assert host.alarms() == set()


def test_refused_hellos(host):
    host.take(hello(OTHER, ANNA, FIRST), frame(0), frame(1))
    assert host.intake.strangers == {ANNA: (OTHER.id, "usb")}
    assert host.store.rejections() == {("usb", "unknown task"): 3}
    assert host.take(frame(2)) == []
    host.take(hello(TASK, BEN, SECOND), link=WIFI)
    assert host.store.rejections()["mqtt", "topic"] == 1
    host.take(hello(TASK, ANNA, SECOND).replace(b"\x88\0\1", b"\x88\0\2"), ack(FIRST, 1))
    assert host.store.rejections()["usb", "version"] == 1
    assert host.store.rejections()["usb", "not for a host"] == 1
    assert host.store.streams() == []


def test_one_boot_under_two_tasks_is_named(host):
    """The frames of the second one would be taken for the first one's."""
    host.take(hello(TASK, ANNA, FIRST), frame(0))
    store = Store.create(host.store.name, OTHER)
    intake = Intake(OTHER, store)
    said = [hello(OTHER, ANNA, FIRST), frame(1, values=b"\1\2")]
    intake.feed(Link("tty"), said, 5)
    acks = intake.committed(store.commit(intake.batch(5, 5)))
    assert acks == []
    (alarm,) = store.alarms()
    assert alarm["name"] == "one boot under two Tasks"
    for word in (ANNA.hex(), FIRST.hex(), TASK.id.hex(), OTHER.id.hex()):
        assert word in alarm["detail"]
    assert store.rejections() == {("tty", "other boot"): 1, ("tty", "unknown task"): 1}
    assert host.counts() == (1, 0, 0, 0)
    # Another boot of that device is one of its own.
    intake.feed(Link("tty"), [hello(OTHER, ANNA, SECOND), frame(0, SECOND)], 6)
    assert intake.committed(store.commit(intake.batch(6, 6))) == [(Link("tty"), ack(SECOND, 1))]
    assert [stream.task_id for stream in store.streams()] == [TASK.id.hex(), OTHER.id.hex()]
    store.close()


def test_a_restart_goes_on_where_it_was(host):
    host.take(hello(TASK, ANNA, FIRST), frame(0), frame(1), frame(3))
    host.restart()
    assert host.take(frame(4)) == [(USB, ack(FIRST, 0, True))]
    assert host.take(hello(TASK, ANNA, FIRST), frame(3)) == [(USB, ack(FIRST, 2))]
    assert host.take(frame(2), frame(4)) == [(USB, ack(FIRST, 5))]
    assert host.counts() == (5, 0, 1, 0)


def test_the_end_is_known_by_count(host):
    host.take(hello(TASK, ANNA, FIRST), frame(0), status(FIRST, count=5))
    assert host.counts() == (1, 0, 0, 1)
    host.take(frame(1), frame(2), status(FIRST, count=5, health=ENDED))
    assert host.counts() == (3, 0, 0, 0)
    # An old status that comes again changes nothing.
    host.take(status(FIRST, count=2))
    stream = host.store.streams()[0]
    assert (stream.health, stream.count) == (ENDED, 5)
    symbols, present = host.store.values(1)
    assert (symbols.tolist(), present.all()) == ([0, 7, 1, 7, 2], True)


def test_the_last_sequence_number(host):
    host.take(hello(TASK, ANNA, FIRST, COUNTER_MAX))
    assert host.take(frame(COUNTER_MAX)) == [(USB, ack(FIRST, COUNTER_MAX))]
    assert host.counts() == (1, COUNTER_MAX, 0, 0)


def test_hostile_sequences_take_no_memory(tmp_path):
    rng = random.Random(1)
    host = Host(tmp_path / "a.db")
    host.take(hello(TASK, ANNA, FIRST))

    def flood(rounds: int) -> int:
        for _ in range(rounds):
            messages = [frame(rng.randrange(1 << 30)) for _ in range(400)]
            messages += [frame(0, rng.randbytes(8)) for _ in range(20)]
            host.intake.feed(USB, messages, 1)
            host.intake.batch(1, 0)
            host.intake.committed(Outcome())
            messages.clear()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = flood(10)
        assert flood(40) - before < 20_000
    finally:
        tracemalloc.stop()
    assert len(host.intake.boots()[0].above) <= TASK.outbox
    host.store.close()


def test_endless_boots_take_no_memory(host):
    for i in range(5 * MOST_BOOTS):
        host.take(hello(TASK, ANNA, bytes([i]) * 8))
    assert len(host.intake.boots()) <= MOST_BOOTS
    assert host.take(frame(0, bytes(8))) == [(USB, ack(bytes(4), 0, True))]


def test_random_order_is_counted_exactly(host):
    """Any order and any repetition that an outbox allows: each frame is held once."""
    rng = random.Random(6)
    host.take(hello(TASK, ANNA, FIRST))
    sent = set()
    copies = 0
    lowest = 0
    for made in range(1, 200):
        lowest = max(lowest, made - TASK.outbox)
        for sequence in range(lowest, made):
            if rng.random() < 0.25:
                copies += sequence in sent
                sent.add(sequence)
                host.intake.feed(USB, [frame(sequence)], 1)
        if rng.random() < 0.3:
            host.take(status(FIRST, lowest, 2 * made))
            received, lost, duplicates, missing = host.counts()
            assert (received, duplicates) == (len(sent), copies)
            assert received + lost + missing == made


def test_a_boot_that_its_link_has_forgotten_within_the_batch(host):
    """More boots on one link than it remembers, one of which goes on: nothing breaks or is lost."""
    others = [hello(TASK, bytes([n]) * 8, bytes([n]) * 8) for n in range(20, 28)]
    acks = host.take(hello(TASK, ANNA, FIRST), frame(0), frame(0), *others, frame(1))
    assert (USB, ack(FIRST, 0, True)) in acks
    assert host.counts() == (1, 0, 1, 0)
    assert host.take(hello(TASK, ANNA, FIRST), frame(1)) == [(USB, ack(FIRST, 2))]
    assert host.counts() == (2, 0, 1, 0)


def test_a_restarted_host_takes_what_a_broker_has_kept(host):
    """Frames that waited in a broker come before any hello, and come only once."""
    host.take(hello(TASK, ANNA, FIRST), frame(0), link=WIFI)
    host.restart()
    assert host.take(frame(1), frame(2), link=WIFI) == [(WIFI, ack(FIRST, 3))]
    assert host.counts() == (3, 0, 0, 0)
    # On a serial line nothing says whose they are.
    host.restart()
    assert host.take(frame(3)) == [(USB, ack(FIRST, 0, True))]
