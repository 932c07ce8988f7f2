"""Rounds between a conversation, an intake, a store and modelled devices."""

import math
import re
import sqlite3
import time
from collections import Counter

import numpy as np
import pytest

from tests.collecting import ack, answer, hello, make_task, refusal, release, rounds_task, status
from tests.modelled import STEP, Fleet, Modelled, mixed, read
from tinyldp.collect.collector import Collector
from tinyldp.collect.conversation import Conversation, resting
from tinyldp.collect.intake import MOST_BOOTS, Intake
from tinyldp.collect.records import Batch, Link
from tinyldp.collect.store import Store
from tinyldp.coordinate import Coordinator, entry_task
from tinyldp.errors import UserError
from tinyldp.estimate import frequencies, supports
from tinyldp_protocol.hashing import GROUPS
from tinyldp_protocol.messages import (
    BUDGET,
    COUNTER_MAX,
    EARLY,
    LATE,
    OS,
    WAITING,
)
from tinyldp_protocol.task import LBA, LBD, LBU, LPA, LPD, LPU, LSP, OLH, OUE


@pytest.fixture
def fleet(tmp_path):
    made = []

    def make(task, devices):
        made.append(Fleet(tmp_path / f"{len(made)}.db", task, devices))
        return made[-1]

    yield make
    for one in made:
        one.store.close()


def check_estimates(fleet, decisions):
    """Each publication is the estimate of just what is stored, by the entry's own integers."""
    answers = fleet.answers()
    questions = {
        (question.t, question.phase): question
        for question in fleet.store.questions(fleet.task.id.hex())
    }
    published = 0
    for row in decisions:
        if not row.published:
            continue
        published += 1
        phase = max(p for t, p in questions if t == row.t)
        question = questions[row.t, phase]
        oracle = entry_task(fleet.task, question.entry)
        reports = answers[row.t, phase]
        assert len(reports) == row.n == question.answered
        counts = supports(oracle, reports.reshape(-1))
        expected = frequencies(oracle, counts, row.n).frequencies
        assert np.allclose(row.release, expected, rtol=0, atol=1e-12)
    return published


def test_everyone_answers_each_step(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    decisions = line.run(12)
    assert [row.t for row in decisions] == list(range(12))
    assert all(row.n == row.users == 6 and row.published for row in decisions)
    assert check_estimates(line, decisions) == 12
    assert line.rejections() == {}
    for device in line.devices:
        assert device.most() == task.epsilon
    for peer in line.store.peers(task.id.hex()):
        assert (peer.asked, peer.answers) in ((12, 12), (13, 12), (13, 13))


def test_one_message_asks_all_on_mqtt_and_one_each_port(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    line.run(10)
    asked = Counter((link, message) for link, message in line.sent if read(message).t == 7)
    mqtt = Link("mqtt", task.id)
    ports = [device.link for device in line.devices if device.link.task is None]
    message = next(message for link, message in asked if link == mqtt)
    assert asked == {(link, message): 1 for link in [mqtt, *ports]}
    assert read(message)._replace(t=0) == (task.id, 0, 0, 0, 0, GROUPS)
    # 7 bytes of a frame besides: within what a port may hold.
    assert len(message) + 7 <= 48


def test_only_hello_is_acknowledged(fleet):
    task = rounds_task(LBU)
    line = fleet(task, [])
    device = Modelled(task, 1, "usb")
    line.intake.feed(device.link, [device.hello(), status(device.nonce)], 1, 1)
    batch = line.intake.batch(1, 1)
    acks = line.intake.committed(line.store.commit(batch))
    assert acks == [(device.link, ack(device.nonce, 0))]
    line.intake.feed(device.link, [status(device.nonce)], 2, 2)
    assert line.intake.committed(line.store.commit(line.intake.batch(2, 2))) == []
    stranger = status(b"unknown!")
    line.intake.feed(device.link, [stranger], 3, 3)
    acks = line.intake.committed(line.store.commit(line.intake.batch(3, 3)))
    assert acks == [(device.link, ack(b"unknown!", 0, True))]


def test_a_lost_query_is_repeated_within_the_tick(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    lost = set()

    def lose(device, message):
        """The first query of each step, to one device on MQTT and one on a port."""
        if message[1] != 4 or device not in line.devices[2:4]:
            return False
        key = (device.pseudonym, message)
        return key not in lost and not lost.add(key)

    line.lose = lose
    decisions = line.run(10)
    assert len(lost) >= 20
    assert [row.n for row in decisions] == [6] * 10
    # Asked alone: the others were not asked again.
    again = Counter(link for link, message in line.sent if read(message).t == 5)
    assert again[line.devices[3].link] == 1
    assert again[Link("mqtt", task.id)] == 1


def test_who_never_answers_costs_its_share_of_the_tick_and_nothing_else(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    line.devices[1].deaf = True
    line.devices[2].deaf = True
    decisions = line.run(10)
    assert [row.t for row in decisions] == list(range(10))
    assert [row.n for row in decisions] == [4] * 10
    assert [row.users for row in decisions] == [6] * 10
    peers = {peer.pseudonym: peer for peer in line.store.peers(task.id.hex())}
    silent = peers[line.devices[1].pseudonym.hex()]
    assert silent.asked >= 10
    assert silent.answers == 0


def test_who_went_away_is_not_waited_for_and_is_back_when_heard(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    line.run(4)
    line.devices[0].mute = True
    gone = line.run(50)[-1]
    assert (gone.users, gone.n) == (5, 5)
    line.devices[0].mute = False
    back = line.run(54)[-1]
    assert (back.users, back.n) == (6, 6)


def test_nothing_is_asked_while_nobody_is_there(fleet):
    task = rounds_task(LBU)
    line = fleet(task, [])
    line.play(1000)
    assert line.rounds.t is None
    line.devices = mixed(task, 2)
    line.run(3)
    for device in line.devices:
        device.mute = True
    line.play(5000)
    there = line.rounds.t
    line.play(2000)
    assert line.rounds.t == there
    assert there is not None
    assert there < 60


def test_a_late_joiner_counts_from_the_next_step(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    late = Modelled(task, 40, "usb", offset=700)
    line.devices.append(late)
    decisions = line.run(14)
    users = [row.users for row in decisions]
    assert users == sorted(users)
    assert set(users) == {6, 7}
    assert [row.n for row in decisions] == users


def test_one_that_boots_again_is_the_same_device(fleet):
    """Its new boot repeats the stored answer: a duplicate, whatever its nonce."""
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    line.run(5)
    device = line.devices[1]
    device.boot()
    line.up(device, [device.hello()])
    t = device.t
    line.up(device, [answer(device.nonce, t, 0, *device.stored[0])])
    decisions = line.run(9)
    assert [row.users for row in decisions] == [6] * 9
    assert line.rejections() == {}
    boots = [s for s in line.store.streams() if s.pseudonym == device.pseudonym.hex()]
    assert len(boots) == 2
    assert boots[1].duplicates >= 1
    peers = line.store.peers(task.id.hex())
    assert len(peers) == 6
    mine = next(peer for peer in peers if peer.pseudonym == device.pseudonym.hex())
    assert mine.answers == sum(boot.received for boot in boots)


@pytest.fixture
def asked(fleet):
    """Two devices of LBA that have just been asked about t, and have not answered."""
    task = rounds_task(LBA)
    line = fleet(task, [Modelled(task, 1, "usb"), Modelled(task, 2)])
    for device in line.devices:
        line.up(device, [device.hello()])
    line.commit()
    line.rounds.poll(task.tick)
    line.now = task.tick
    assert line.rounds.t == 0
    return line


def say(line, message, device=0):
    line.up(line.devices[device], [message])
    line.commit()
    return line.rejections()


@pytest.mark.parametrize(
    ("t", "phase", "entry", "report", "name"),
    [
        (0, 0, 1, b"\0", "other entry"),
        (0, 1, 0, b"\0", "not asked"),
        (1, 0, 0, b"\0", "not asked"),
        (0, 0, 0, b"\4", "bad report"),
        (0, 0, 0, b"\xff", "bad report"),
    ],
)
def test_what_does_not_answer_is_named_and_not_counted(asked, t, phase, entry, report, name):
    nonce = asked.devices[0].nonce
    found = say(asked, answer(nonce, t, phase, entry, report))
    assert found == {("usb", name): 1}
    assert asked.answers() == {}
    # The device is still waited for, and its proper answer counts.
    assert say(asked, answer(nonce, 0, 0, 0, b"\3")) == found
    assert len(asked.answers()[0, 0]) == 1


def test_an_answer_counts_once(asked):
    first = asked.devices[0]
    assert say(asked, answer(first.nonce, 0, 0, 0, b"\1")) == {}
    assert say(asked, answer(first.nonce, 0, 0, 0, b"\1")) == {}
    assert asked.store.streams()[0].duplicates == 1
    assert say(asked, answer(first.nonce, 0, 0, 0, b"\2")) == {("usb", "conflict"): 1}
    assert [alarm["name"] for alarm in asked.store.alarms()] == ["conflict"]
    assert asked.answers()[0, 0].tolist() == [[1]]
    # The phase ends without the other; what comes then is late, what came is a duplicate.
    asked.rounds.poll(asked.now + 60)
    assert say(asked, answer(first.nonce, 0, 0, 0, b"\1")) == {("usb", "conflict"): 1}
    found = say(asked, answer(asked.devices[1].nonce, 0, 0, 0, b"\1"), 1)
    assert found["mqtt", "late answer"] == 1
    assert len(asked.answers()[0, 0]) == 1


def test_who_is_not_in_the_group_is_not_counted(fleet):
    task = rounds_task(LPU, w=2)
    line = fleet(task, [Modelled(task, 1, "usb"), Modelled(task, 2, "tty")])
    for device in line.devices:
        line.up(device, [device.hello()])
    line.commit()
    line.rounds.poll(task.tick)
    queries = line.rounds.poll(2 * task.tick)
    assert len(queries) == 1
    meant = next(device for device in line.devices if device.link == queries[0].link)
    other = next(device for device in line.devices if device is not meant)
    t = read(queries[0].message).t
    for device in (other, meant):
        line.up(device, [answer(device.nonce, t, 0, 0, b"\0")])
    line.commit()
    assert line.rejections() == {(other.link.name, "not asked"): 1}
    assert len(line.answers()[t, 0]) == 1


def test_messages_of_the_other_kind_of_task(fleet, tmp_path):
    task = rounds_task(LBU)
    line = fleet(task, [Modelled(task, 1, "usb")])
    device = line.devices[0]
    found = say(line, device.hello()) or say(line, release(device.nonce, 0, b"\1"))
    assert found == {("usb", "other kind"): 1}
    stream = make_task(batch=1)
    store = Store.create(tmp_path / "stream.db", stream)
    intake = Intake(stream, store)
    intake.feed(Link("usb"), [answer(device.nonce, 0, 0, 0, b"\1")], 1)
    intake.feed(Link("usb"), [refusal(device.nonce, 0, 0, LATE)], 1)
    store.commit(intake.batch(1, 1))
    assert store.rejections() == {("usb", "other kind"): 2}
    store.close()


def test_two_phases_decide_as_the_coordinator_does(fleet):
    """What is stored, handed to a coordinator of its own, gives the very decisions."""
    task = rounds_task(LBA, epsilon=8.0)
    line = fleet(task, mixed(task, 8))
    decisions = line.run(40)
    assert len(decisions) == 40
    assert {row.outcome for row in decisions} >= {"published", "nullified"}
    answers = line.answers()
    other = Coordinator(task, 8)
    for row in decisions:
        query = other.begin()
        while query:
            reports = answers[query.t, query.phase]
            query = other.heard(
                supports(entry_task(task, query.entry), reports[:, 0]), len(reports)
            )
        made = other.decision
        assert made is not None
        assert (row.outcome, row.dis, row.err, row.units) == (
            made.outcome, made.dis, made.err, made.units,
        )  # fmt: skip
        assert row.release == tuple(made.release.tolist())
    assert check_estimates(line, decisions) >= 5
    assert all(device.most() <= task.epsilon for device in line.devices)
    assert 2 * max(device.most() for device in line.devices) > (task.epsilon or 0)


@pytest.mark.parametrize("method", [LPU, LPA])
def test_groups_take_turns(fleet, method):
    """Nobody is asked twice in w steps: no refusal, and no window above epsilon."""
    task = rounds_task(method, w=4)
    line = fleet(task, mixed(task, 16))
    decisions = line.run(33)
    assert len(decisions) == 33
    refused = [peer.refusals for peer in line.store.peers(task.id.hex())]
    assert not any(BUDGET in reasons for reasons in refused)
    assert {device.most() for device in line.devices} == {task.epsilon}
    if method == LPU:
        assert [row.n for row in decisions] == [4] * 33
        assert {q.meant for q in line.store.questions(task.id.hex())} == {4}


def test_steps_without_a_question(fleet):
    task = rounds_task(LSP, w=4)
    line = fleet(task, mixed(task))
    decisions = line.run(12)
    assert [row.outcome for row in decisions] == (["published"] + ["skipped"] * 3) * 3
    assert [row.n for row in decisions] == [6, 0, 0, 0] * 3
    # A skipped step keeps what was published last.
    assert decisions[1].release == decisions[0].release


def test_early_passes_within_the_tick_and_is_counted(fleet):
    """A device with a slow clock: when its step begins after the host's, it refuses first."""
    task = rounds_task(LBU)
    line = fleet(task, [Modelled(task, 1, "usb", offset=STEP)])
    for t in range(1, 14):
        line.run(t)
        line.devices[0].offset += STEP
    decisions = line.run(13)
    assert [row.n for row in decisions] == [1] * 13
    early = line.store.peers(task.id.hex())[0].refusals
    assert set(early) == {EARLY}


def test_a_refusal_for_good_is_not_asked_again(asked):
    """WAITING: what is refused is not going to be answered within this tick."""
    first, second = asked.devices
    say(asked, refusal(first.nonce, 0, 0, WAITING))
    later = asked.now + 20
    links = [link for link, _ in asked.rounds.poll(later)]
    assert first.link not in links
    assert say(asked, answer(second.nonce, 0, 0, 0, b"\1"), 1) == {}
    asked.rounds.poll(later)
    asked.commit()
    # Both have spoken: the phase is over before its time.
    assert asked.store.questions(asked.task.id.hex()) == [(0, 0, 0, 2, 1)]
    peers = asked.store.peers(asked.task.id.hex())
    assert [peer.refusals for peer in peers] == [{WAITING: 1}, {}]


def test_refusals_of_what_was_never_asked_are_not_counted(asked):
    found = say(asked, refusal(asked.devices[0].nonce, 9, 0, BUDGET))
    assert found == {("usb", "not asked"): 1}
    assert asked.store.peers(asked.task.id.hex())[0].refusals == {}


def test_devices_that_are_ahead_of_a_new_store(fleet):
    """A store that was lost: the devices have bound later steps, which are caught up with."""
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    for device in line.devices:
        device.t = 5000
    line.run(5001)
    assert 5000 < line.rounds.t < 20000
    there = line.rounds.t
    decisions = line.run(there + 5)
    # The last one in vain, then all of them without another jump.
    assert [row.n for row in decisions[-5:]] == [0, 6, 6, 6, 6]
    assert [row.t for row in decisions[-4:]] == list(range(there + 1, there + 5))


def test_a_new_store_beside_devices_that_have_spent(fleet):
    """A known limit: they refuse what would exceed their budget, until w steps have passed."""
    task = rounds_task(LSP, w=20, epsilon=8.0)
    line = fleet(task, mixed(task, 16))
    line.run(25)
    line.rounds.stop()
    line.commit()
    line.path = line.path.with_name("new.db")
    line.restart()
    decisions = line.run(60)
    refused = [peer.refusals.get(BUDGET, 0) for peer in line.store.peers(task.id.hex())]
    assert refused == [1] * 16
    assert all(device.most() <= task.epsilon for device in line.devices)
    published = [row for row in decisions if row.published]
    assert [row.n for row in published] == [16]
    assert task.w is not None
    assert published[0].t >= 25 + task.w


def test_one_that_is_ahead_takes_the_host_no_further_than_it_follows(fleet):
    """Alone it is followed, up to a bound: the numbers of steps are for those who come later."""
    task = rounds_task(LBU)
    line = fleet(task, mixed(task, 1))
    line.devices[0].t = COUNTER_MAX - 1
    line.run(60)
    assert line.rounds.t < 1 << 18


def test_a_jump_ends_at_the_last_number(fleet):
    """Steps that are left out are used up, too; then nothing is asked, and nothing fails."""
    task = rounds_task(LBU)
    line = fleet(task, mixed(task, 1))
    line.rounds = Conversation(task, COUNTER_MAX - 40)
    line.intake = Intake(task, line.store, line.rounds)
    line.devices[0].t = COUNTER_MAX + 1
    for _ in range(50):
        line.play(task.tick)
    assert (line.rounds.t, line.rounds.over) == (COUNTER_MAX, True)
    assert max(read(message).t for _, message in line.sent) < COUNTER_MAX


def test_one_of_many_that_is_ahead_is_not_followed(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task, 6))
    line.devices[0].t = 5000
    for device in line.devices[1:]:
        device.deaf = True
    line.run(20)
    assert 0 < line.rounds.t < 25


def test_one_device_cannot_slow_the_others(fleet):
    task = rounds_task(LBU, epsilon=8.0)
    line = fleet(task, mixed(task, 8))
    line.devices[0].slow = True
    decisions = line.run(40)[10:]
    # Each step takes one tick, without the answer of that one.
    assert {row.n for row in decisions} == {7}
    assert line.now < 45 * task.tick


def test_a_host_that_starts_again_goes_on(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    before = line.run(6)
    line.restart()
    decisions = line.run(12)
    assert len(before) >= 6
    assert [row.t for row in decisions] == sorted({row.t for row in decisions})
    assert decisions[-1].n == 6
    refused = [peer.refusals.get(LATE, 0) for peer in line.store.peers(task.id.hex())]
    assert refused == [0] * 6


@pytest.mark.parametrize("method", [LBU, LSP, LBD, LBA, LPU, LPD, LPA])
@pytest.mark.parametrize("away", [0, 3, 50])
def test_a_host_that_starts_again_asks_for_nothing_that_is_refused(fleet, method, away):
    """Whatever devices have spent is out of their windows, and no longer is waited for."""
    task = rounds_task(method, w=6, epsilon=8.0)
    line = fleet(task, mixed(task, 16))
    line.run(11)
    stopped = line.now
    line.rounds.stop()
    line.commit()
    line.play(away * task.tick)
    started = line.now
    line.restart()
    t = line.store.next_step(task.id.hex())
    while line.rounds.t is None:
        line.play()
    first = line.now
    decisions = line.run(t + 20)
    refused = [peer.refusals.get(BUDGET, 0) for peer in line.store.peers(task.id.hex())]
    assert refused == [0] * 16
    assert all(device.most() <= task.epsilon for device in line.devices)
    assert any(row.published and row.n for row in decisions if row.t >= t)
    if method == LBU or away == 50:
        assert first - started <= 2 * task.tick
    else:
        assert 6 <= (first - stopped) / task.tick <= 11


@pytest.mark.parametrize("last", [None, "answers", "decisions"])
def test_that_rounds_begin_anew_is_said(tmp_path, last):
    """And it is waited for, whatever came last; here by a clock that was set back since."""
    task = rounds_task(LBA, w=6, tick=60_000)
    name = str(tmp_path / "a.db")
    line = Fleet(name, task, mixed(task, 2))
    line.run(3)
    with sqlite3.connect(name) as connection:
        for table in ("answers", "decisions"):
            at = time.time_ns() // 1_000_000 + 10**6 if table == last else 0
            connection.execute(f"UPDATE {table} SET at = {at}")
    begun = time.monotonic() * 1000
    snapshots = []
    collector = Collector(task, line.store)
    collector.run(lambda: True, snapshots.append)
    news = [sentence for snapshot in snapshots for sentence in snapshot.news]
    steps = math.ceil(resting(task, 0) / task.tick)
    assert len(news) == (last is not None)
    said = f"Rounds go on with step 3 in {60 * steps} s ({steps} steps): the method begins anew"
    assert all(sentence.startswith(said) for sentence in news)
    # The report that collect ends with says it, too, as long as nothing was asked.
    (rest,) = collector.waits() or [""]
    left = re.match(r"Nothing was asked yet: rounds rest for another \S+ s \((\d+) steps\)", rest)
    assert (left is not None) == (last is not None)
    if left is not None:
        assert int(left[1]) == steps
        assert f"left each window of {task.w} steps" in rest
    other = Collector(task, line.store)
    rounds = other._rounds
    assert rounds is not None
    rounds.join(1, line.devices[0].pseudonym, line.devices[0].link, 0.0)
    assert rounds.begins is not None
    if last is not None:
        assert rounds.begins >= begun + resting(task, 0)
    rounds.heard(1, line.devices[0].pseudonym, line.devices[0].link, rounds.begins)
    rounds.turn(rounds.begins)
    assert rounds.t is not None
    assert other.waits() == []
    line.store.close()


def test_what_another_task_has_asked_for_is_none_of_this_ones(tmp_path):
    line = Fleet(str(tmp_path / "a.db"), rounds_task(LBA), mixed(rounds_task(LBA), 2))
    line.run(3)
    other = rounds_task(LBA, w=6).id.hex()
    assert line.store.next_step(other) == 0
    assert line.store.last_heard(other) is None
    line.store.close()


def test_a_clock_that_was_set_back_makes_no_host_wait_longer():
    task = rounds_task(LBA, w=6)
    whole = resting(task, 0)
    assert whole > 6 * task.tick
    assert resting(task, None) == resting(task, 10**9) == 0
    assert resting(task, whole // 2) == whole - whole // 2
    assert resting(task, -(10**9)) == whole


def test_what_is_open_when_the_host_stops_is_not_asked_again(asked):
    device = asked.devices[0]
    say(asked, answer(device.nonce, 0, 0, 0, b"\1"))
    asked.rounds.stop()
    asked.commit()
    assert asked.store.questions(asked.task.id.hex()) == [(0, 0, 0, 2, 1)]
    assert asked.store.decisions(asked.task.id.hex()) == []
    assert asked.rounds.poll(asked.now + 1000) == []
    asked.restart()
    asked.run(3)
    assert [row.t for row in asked.store.decisions(asked.task.id.hex())] == [1, 2]


def test_a_step_that_was_open_when_the_host_was_killed_is_not_asked_again(fleet):
    """Its answers are in the store: asked again, they would come as if they were new."""
    task = rounds_task(LBU)
    line = fleet(task, mixed(task))
    line.devices[0].deaf = True
    line.run(4)
    line.play(40)
    t = line.rounds.t
    held = line.answers()[t, 0]
    assert len(held) == 5
    line.restart()
    sent = len(line.sent)
    decisions = line.run(t + 3)
    assert [row.t for row in decisions] == [*range(t), *range(t + 1, t + 3)]
    assert min(read(message).t for _, message in line.sent[sent:]) == t + 1
    assert line.answers()[t, 0].tolist() == held.tolist()
    assert decisions[-1].n == 5


def test_that_no_number_is_left_is_said_once(tmp_path):
    """A step near the last number is in the store; a beacon later there is none to ask."""
    task = rounds_task(LBU, tick=20, beacon=1)
    line = Fleet(tmp_path / "a.db", task, mixed(task, 1))
    device = line.devices[0]
    decided = line.run(2)[-1]._replace(t=COUNTER_MAX - 1)
    line.store.commit(Batch(0, task=task.id.hex(), decisions=[decided]))
    snapshots = []
    collector = Collector(task, line.store)
    assert collector._rounds is not None
    collector._rounds.join(1, device.pseudonym, device.link, time.monotonic() * 1000)
    collector._lines[device.link.name] = Mute()
    end = time.monotonic() + 20

    def said():
        return any(snapshot.news for snapshot in snapshots)

    collector.run(lambda: said() or time.monotonic() >= end, snapshots.append)
    news = [sentence for snapshot in snapshots for sentence in snapshot.news]
    assert news == [
        "Step 1,073,741,823 was the last one that has a number: nothing is asked any more, and"
        " devices need another Task."
    ]
    assert line.store.questions(task.id.hex())[-1].t == COUNTER_MAX
    line.store.close()


class Mute:
    """A line on which nothing comes and everything leaves."""

    name = "mute"

    def open(self):
        pass

    def take(self, item):
        raise AssertionError("nothing came")

    def send(self, link, message):
        pass

    def ask(self, link, message):
        return True

    def committed(self):
        pass

    def close(self):
        pass


def test_a_host_that_was_held_up_makes_up_for_nothing(fleet):
    task = rounds_task(LBU)
    line = fleet(task, mixed(task, 1))
    line.run(3)
    there = line.rounds.t
    line.rounds.poll(line.now + 50 * task.tick)
    line.rounds.poll(line.now + 50 * task.tick)
    assert line.rounds.t <= there + 1


@pytest.mark.parametrize("mechanism", [OUE, OLH])
def test_reports_of_bytes(fleet, mechanism):
    own = {"mechanism": mechanism, "symbols": 10, "thresholds": [2_000_000]}
    if mechanism == OLH:
        own["buckets"] = 4
    task = rounds_task(LBU, **own)
    line = fleet(task, mixed(task, 3))
    decisions = line.run(4)
    assert [row.n for row in decisions] == [3] * 4
    assert line.answers()[0, 0].shape == (3, task.width)
    device = line.devices[0]
    t = line.rounds.t
    bad = b"\xff" * task.width
    line.play(task.tick)
    found = say(line, answer(device.nonce, line.rounds.t, 0, 0, bad))
    assert t < line.rounds.t
    assert sum(found.values()) == 1


def test_a_step_is_decided_with_what_came(fleet):
    """Nobody hears anything: every step is decided all the same, without a release."""
    task = rounds_task(LBA)
    line = fleet(task, mixed(task, 3))
    for device in line.devices:
        device.deaf = True
    decisions = line.run(8)
    assert [row.t for row in decisions] == list(range(8))
    assert {row.n for row in decisions} == {0}
    assert {row.dis for row in decisions} == {None}
    assert not any(row.published for row in decisions)


@pytest.mark.parametrize("method", [LBU, LBA])
def test_devices_that_look_for_queries_once_a_tick(fleet, method):
    """The host gives them time, after a few steps: then all answer everything."""
    task = rounds_task(method, epsilon=8.0)
    line = fleet(task, mixed(task, 8))
    for device in line.devices:
        device.slow = True
    decisions = line.run(30)[10:]
    assert line.now < 30 * 4 * task.tick
    late = [q for q in line.store.questions(task.id.hex()) if q.t >= 10 and q.answered < q.meant]
    assert late == []
    assert {row.users for row in decisions} == {8}
    assert all(device.most() <= task.epsilon for device in line.devices)


def test_an_old_database_still_opens(tmp_path):
    """As it was before there were rounds; collecting into it adds what it lacks."""
    path = tmp_path / "old.db"
    task = rounds_task(LBU)
    Store.create(path, make_task()).close()
    with sqlite3.connect(path) as connection:
        for table in ("questions", "answers", "decisions", "refusals", "asked"):
            connection.execute(f"DROP TABLE {table}")
    store = Store(path)
    assert store.streams() == []
    assert store.decisions(task.id.hex()) == store.peers(task.id.hex()) == []
    assert list(store.answers(task.id.hex())) == store.questions(task.id.hex()) == []
    assert store.next_step(task.id.hex()) == 0
    store.close()
    line = Fleet(path, task, mixed(task, 2))
    assert len(line.run(3)) == 3
    line.store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE frames")
    with pytest.raises(UserError, match="no tinyldp store"):
        Store(path)


def test_two_hosts_on_one_database_count_an_answer_once(asked):
    """The second one's rows are refused by the store, and nothing else is lost."""
    task = asked.task
    other = Store(asked.path)
    rounds = Conversation(task)
    intake = Intake(task, other, rounds)
    for device in asked.devices:
        intake.feed(device.link, [device.hello()], 1, 0)
    rounds.poll(task.tick)
    for device in asked.devices:
        message = answer(device.nonce, 0, 0, 0, b"\1")
        asked.up(device, [message])
        intake.feed(device.link, [message], 1, 1)
    asked.rounds.poll(task.tick)
    rounds.poll(task.tick)
    asked.commit()
    other.commit(intake.batch(2, 2))
    assert len(asked.answers()[0, 0]) == 2
    assert len(other.questions(task.id.hex())) == 1
    other.close()


def test_a_damaged_answer_is_told(asked):
    device = asked.devices[0]
    say(asked, answer(device.nonce, 0, 0, 0, b"\1"))
    with sqlite3.connect(asked.path) as connection:
        connection.execute("UPDATE answers SET report = x'0102'")
    with pytest.raises(UserError, match="step 0"):
        asked.answers()


def test_endless_pseudonyms_on_one_port_are_no_devices(fleet):
    """Those count whose boots the intake remembers: an honest one elsewhere is not outvoted."""
    task = rounds_task(LBU)
    line = fleet(task, [Modelled(task, 1, "usb")])
    line.run(2)
    liar = Link("tty")
    for number in range(200):
        pseudonym = b"sybil%3d" % number
        # Some of one nonce, as far as messages say it.
        nonce = pseudonym if number % 2 else pseudonym[::-1]
        line.intake.feed(liar, [hello(task, pseudonym, nonce)], line.now, line.now)
        if number % 10 == 0:
            line.commit()
    line.commit()
    assert len(line.rounds._peers) == 1 + MOST_BOOTS
    t = line.rounds.t
    decisions = line.run(t + 3)
    assert [row.users for row in decisions[t:] if row.t > t] == [1 + MOST_BOOTS] * 2
    # The first of them speaks again: its hello is asked for, and it is none of the devices.
    line.intake.feed(liar, [status(b"0  libys")], line.now, line.now)
    line.commit()
    assert line.rejections()["tty", "no hello"] == 1
    assert len(line.rounds._peers) == 1 + MOST_BOOTS
    # Nothing is kept of those who stay away, either.
    line.run(t + 60)
    assert len(line.rounds._peers) == 1


def test_a_device_that_is_forgotten_while_it_is_asked(asked):
    """Its phase goes on as it was."""
    asked.rounds.keep(())
    later = asked.now + 60
    assert {query.link for query in asked.rounds.poll(asked.now + 1)}
    asked.rounds.poll(later)
    asked.commit()
    assert asked.store.questions(asked.task.id.hex()) == [(0, 0, 0, 2, 0)]
    # One that still speaks is there again, without a hello.
    device = asked.devices[0]
    asked.now = later
    say(asked, status(device.nonce))
    assert len(asked.rounds._peers) == 1


def test_steps_are_short_again_when_devices_are_quick_again(fleet):
    """Else one that never answers would hold up each step for as long as it may take."""
    task = rounds_task(LBA, epsilon=8.0)
    line = fleet(task, mixed(task, 8))
    for device in line.devices:
        device.slow = True
    line.run(12)
    line.devices[0].deaf = True
    slow = line.now
    line.run(18)
    slow = line.now - slow
    assert slow > 6 * 1.4 * task.tick
    for device in line.devices:
        device.slow = False
    there = line.rounds.t
    line.run(there + 80)
    quick = line.now
    line.run(there + 90)
    assert line.now - quick < 11 * task.tick


def test_devices_that_stay_slow_are_hurried_ever_less_often(fleet):
    """Whether shorter steps would do is tried again, and costs answers only then."""
    task = rounds_task(LBU, epsilon=8.0)
    line = fleet(task, mixed(task, 8))
    for device in line.devices:
        device.slow = True
    line.run(400)
    questions = line.store.questions(task.id.hex())
    lacking = [q.t for q in questions if q.t >= 10 and q.answered < q.meant]
    assert len(lacking) <= 8
    assert len([t for t in lacking if t >= 200]) <= 4


def test_what_the_conversation_holds_is_bounded(fleet):
    """Refusals and answers of thousands of steps leave nothing behind but counts."""
    task = rounds_task(LBU)
    line = fleet(task, [Modelled(task, 1, "usb")])
    line.run(3)
    device = line.devices[0]
    for t in range(2_000):
        line.up(device, [answer(device.nonce, t, 0, 0, b"\1"), refusal(device.nonce, t, 1, LATE)])
        line.commit()
    assert len(line.rounds._closed) <= 2
    assert len(line.rounds.news) == 0
    assert line.store.streams()[0].quality == OS
    assert math.isfinite(line.rounds.wait(line.now))


def test_that_devices_are_ahead_is_told_once(tmp_path):
    task = rounds_task(LBU)
    store = Store.create(tmp_path / "a.db", task)
    collector = Collector(task, store)
    line = collector._rounds
    assert line is not None
    told = []
    for behind in (False, True, True):
        line.behind = behind
        collector._tell(line)
        told.append([said for said in collector._snapshot().news if "Devices are ahead" in said])
    assert [len(said) for said in told] == [0, 1, 0]
    store.close()
