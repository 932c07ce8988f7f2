"""Epochs between a conversation, an intake, a store and the device package's epochs."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from tests.collecting import answer, make_task, refusal, rounds_task
from tests.epoch_fleet import EpochDevice, EpochFleet, small_task, spread_devices
from tinyldp.collect.collector import Collector
from tinyldp.collect.conversation import Conversation
from tinyldp.collect.records import Batch, Link, Question
from tinyldp.collect.resuming import resume
from tinyldp.collect.store import Store
from tinyldp.coordinate import EXHAUSTED, HELD, PUBLISHED, UNANSWERED
from tinyldp.errors import UserError
from tinyldp.estimate.mean import mean
from tinyldp_protocol.messages import BUDGET, EARLY, LATE, UNKNOWN
from tinyldp_protocol.task import HEAVYTHRESH, LBU


@pytest.fixture
def fleet(tmp_path):
    made = []

    def make(task, devices):
        made.append(EpochFleet(tmp_path / f"{len(made)}.db", task, devices))
        return made[-1]

    yield make
    for one in made:
        one.store.close()


def changed_at(epoch, before=0.25, after=1.0):
    return (before,) * epoch + (after,)


def test_all_epochs_with_a_change(fleet):
    task = small_task()
    line = fleet(task, spread_devices(task, 12, means=changed_at(9)))
    rows = line.until(16)
    assert [row.t for row in rows] == list(range(1, 17))
    assert all(row.users == 12 for row in rows)
    # Some had not yet completed an own epoch when the first one was asked for.
    assert all(row.votes_n == row.n == 12 for row in rows[2:])
    updates = [row.t for row in rows if row.update]
    assert updates[0] == 1
    # Own epochs are one ahead or two.
    assert updates[1:] in ([8], [9], [10])
    for row in rows:
        assert row.published == row.update == (row.outcome == PUBLISHED)
        assert len(row.release) == row.published
    assert not line.rounds.over
    line.play(2 * task.rounds * task.tick)
    assert line.rounds.over
    assert line.rows() == rows
    assert set(line.rejections()) <= {("mqtt", "late answer")}


def test_what_is_published_is_the_estimate_of_what_is_stored(fleet):
    task = small_task(thresholds=[100_000, 5_000_000, 3_000_000], polls=4)
    line = fleet(task, spread_devices(task, 9))
    rows = line.until(8)
    answers = line.answers()
    published = [row for row in rows if row.published]
    assert published
    for row in published:
        reports = answers[row.t, 1][:, 0]
        found = mean(task.thresholds[1], int(reports.sum()), len(reports))
        assert row.release == (found.mean,)
        assert (row.low, row.high) == (found.low, found.high)
    for row in rows:
        votes = answers[row.t, 0][:, 0]
        assert row.ones == (votes & 1).sum()
        assert (row.poll is None) == (row.t % 4 > 0)
        if row.poll is not None:
            found = mean(task.thresholds[2], int((votes >> 1).sum()), len(votes))
            assert (row.poll, row.poll_low, row.poll_high) == (found.mean, found.low, found.high)


def test_an_epoch_takes_as_long_as_the_devices_own(fleet):
    task = small_task()
    line = fleet(task, spread_devices(task))
    line.until(10)
    first = {}
    for at, _, message in line.sent:
        first.setdefault(message[12], at)
    gaps = np.diff(list(first.values()))
    assert (gaps == task.rounds * task.tick).all()
    # Each t has another of the own epochs, and every device was there in each.
    assert all(q.answered == q.meant == 6 for q in line.questions() if q.t <= 10)


def test_early_is_asked_again_within_the_epochs_share(fleet):
    """Devices whose own epoch ends a while after the host's begins."""
    task = small_task(rounds=32)
    line = fleet(task, [])
    line.devices = [EpochDevice(task, 1, offset=5), EpochDevice(task, 2, offset=600)]
    # The second one joins when the first epoch is about to be asked for.
    rows = line.until(4)
    assert rows[0].n >= 1
    assert all((row.votes_n, row.n) == (2, 2) for row in rows[1:])
    late = line.devices[1]
    peers = {peer.pseudonym: peer for peer in line.store.peers(task.id.hex())}
    refused = peers[late.pseudonym.hex()].refusals
    assert set(refused) == {EARLY}
    # Ever less often, and never more than a few times.
    assert 1 <= refused[EARLY] <= 40


def test_a_device_that_loses_time_misses_an_epoch_and_no_more(fleet):
    """Its clock is slow: own epochs fall behind, until one t finds none."""
    task = small_task()

    class Slow(EpochDevice):
        def tick(self, now):
            # Every ninth tick is left out.
            if (now - self.offset) // self.task.tick % 9 == 8:
                return []
            return super().tick(now)

    devices = [*spread_devices(task, 4), Slow(task, 9, offset=15)]
    line = fleet(task, devices)
    rows = line.until(16)
    answered = [row.votes_n for row in rows]
    assert set(answered) <= {4, 5}
    assert answered.count(5) >= 9
    assert [row.t for row in rows] == list(range(1, 17))


def test_a_late_joiner_is_asked_in_the_epoch_that_is_open(fleet):
    task = small_task(rounds=64)
    line = fleet(task, spread_devices(task, 3))
    line.until(2)
    late = EpochDevice(task, 40, "usb", offset=line.now + 50)
    line.devices.append(late)
    rows = line.until(6)
    users = [row.users for row in rows]
    assert users == sorted(users)
    assert (users[0], users[-1]) == (3, 4)
    joined = users.index(4)
    # Its first own epoch is complete one epoch later at the latest.
    assert all(row.votes_n == 4 for row in rows[joined + 2 :])


def test_a_silent_device_costs_its_share_and_nothing_else(fleet):
    task = small_task()
    devices = spread_devices(task)
    line = fleet(task, devices)
    devices[1].deaf = devices[2].deaf = True
    rows = line.until(8)
    assert [row.t for row in rows] == list(range(1, 9))
    assert all((row.users, row.votes_n, row.n) == (6, 4, 4) for row in rows)


def test_who_went_away_is_not_waited_for_and_comes_back(fleet):
    task = small_task()
    devices = spread_devices(task, 4)
    line = fleet(task, devices)
    line.until(2)
    devices[0].mute = True
    rows = line.until(9)
    assert (rows[-1].users, rows[-1].votes_n) == (3, 3)
    devices[0].mute = False
    rows = line.until(12)
    assert (rows[-1].users, rows[-1].votes_n) == (4, 4)


def test_nobody_there_costs_no_epoch(fleet):
    task = small_task()
    devices = spread_devices(task, 3)
    line = fleet(task, devices)
    line.until(3)
    for device in devices:
        device.mute = True
    line.play(200 * task.tick)
    t = line.rounds.t
    line.play(200 * task.tick)
    assert line.rounds.t == t
    assert t <= 9
    for device in devices:
        device.mute = False
    since = line.now
    while line.rounds.t == t:
        line.play()
    # Within some ticks, and not after a whole epoch.
    assert line.now - since <= 4 * task.tick
    assert line.rounds.t == t + 1


def test_a_device_that_resets_goes_on_when_it_has_an_epoch(fleet):
    task = small_task()
    devices = spread_devices(task, 3)
    line = fleet(task, devices)
    line.until(4)
    used = devices[0].lifetime.data[12:20]
    devices[0].boot()
    rows = line.until(8)
    assert all(row.n >= 2 for row in rows)
    assert [row.votes_n for row in rows[-2:]] == [3, 3]
    assert devices[0].lifetime.data[12:20] >= used
    assert len(line.store.peers(task.id.hex())) == 3


def test_a_host_that_starts_again_takes_the_next_epoch(fleet):
    task = small_task()
    devices = spread_devices(task, 6, means=changed_at(8))
    line = fleet(task, devices)
    before = line.until(4)
    t = line.rounds.t
    line.rounds.stop()
    line.commit()
    for device in devices:
        device.asked.clear()
    line.restart()
    assert line.past.start == t + 1
    assert line.past.standing is not None
    assert (line.past.standing.t, line.past.updates) == (1, 1)
    rows = line.until(16)
    assert rows[: len(before)] == before
    assert min(asked[0] for device in devices for asked in device.asked) == t + 1
    assert next(row.t for row in rows if row.update) == 1
    # No update is forced again: what was published stands.
    assert not rows[len(before)].update
    assert sum(row.update for row in rows) == 2
    late = {reason for peer in line.store.peers(task.id.hex()) for reason in peer.refusals}
    assert late <= {EARLY}


def test_a_host_that_starts_again_before_the_first_question_waits_no_longer(fleet):
    task = small_task()
    beacon, whole = task.beacon * task.tick, task.rounds * task.tick
    line = fleet(task, spread_devices(task, 6))
    line.play(whole)
    begins = line.rounds.begins
    assert begins is not None
    line.rounds.stop()
    line.commit()
    line.restart()
    assert line.rounds.first
    line.play(2 * task.tick)
    # Had it waited anew, it would not begin for an epoch and a beacon.
    assert 0 <= line.rounds.begins - begins <= beacon
    assert line.rounds.begins < line.now + whole
    line.play(2 * whole)
    assert line.rounds.t is not None
    t = line.rounds.t
    line.rounds.stop()
    line.commit()
    line.restart()
    # An epoch that was asked for is the last one that devices have: another one is waited for.
    start = line.now
    while line.rounds.begins is None:
        line.play()
    assert line.past.start == t + 1
    assert line.rounds.begins >= start + beacon + whole


@pytest.mark.parametrize("phase", [0, 1])
def test_an_epoch_that_was_open_when_the_host_was_killed(fleet, phase):
    """It is not asked for again; an update that was asked for is decided with what came."""
    task = small_task()
    devices = spread_devices(task, 5)
    line = fleet(task, devices)
    devices[4].deaf = True
    while not any(q.phase == phase and q.answered == 0 for q in line.questions()) or (
        len(line.answers().get((1, phase), ())) < 4
    ):
        line.play()
    assert line.rows() == []
    for device in devices:
        device.asked.clear()
    line.restart()
    assert line.past.start == 2
    if phase:
        row, ended = line.past.decided
        assert (row.t, row.update, row.published, row.n) == (1, True, True, 4)
        assert line.past.standing.t == 1
        assert line.past.updates == 1
        # The collector wrote it, and once.
        assert [(r.t, r.n) for r in line.rows()] == [(1, 4)]
        assert ended == Question(1, 1, 1, 5, 4) or ended.answered == 4
        again = resume(line.store, task)
        assert again.decided is None
        assert again.standing == line.past.standing
    else:
        assert line.past.decided is None
        assert line.past.standing is None
        assert line.past.updates == 0
    rows = line.until(4)
    assert {q.t for q in line.questions()} >= {1, 2, 3, 4}
    assert all(asked[0] >= 2 for device in devices for asked in device.asked)
    # Forced where nothing stands yet.
    assert [row.t for row in rows if row.update] == ([1] if phase else [2])


def test_what_is_asked_is_stored_before_it_is_asked(fleet):
    task = small_task()
    line = fleet(task, spread_devices(task, 2))
    seen = []
    down = line.down

    def check(link, message):
        if message[1] == 4:
            query = (message[12], message[16])
            seen.append(query)
            assert any((q.t, q.phase) == query for q in line.questions())
        down(link, message)

    line.down = check
    line.until(3)
    assert {(1, 0), (1, 1), (2, 0)} <= set(seen)


def test_a_clean_stop_decides_an_epoch_whose_votes_are_in(fleet):
    task = small_task()
    devices = spread_devices(task, 3)
    devices[2].deaf = True
    line = fleet(task, devices)
    while not any(q.phase == 1 for q in line.questions()):
        line.play()
    line.play(100)
    assert line.rows() == []
    line.rounds.stop()
    line.commit()
    assert [(row.t, row.published, row.n) for row in line.rows()] == [(1, True, 2)]
    assert line.questions()[-1][2:] == (1, 3, 2)


def test_devices_that_are_ahead_of_a_new_database(fleet):
    """They are caught up with, and never asked for an update that may be noise."""
    task = small_task()
    devices = spread_devices(task, 4, means=changed_at(7))
    line = fleet(task, devices)
    line.until(5)
    for device in devices:
        device.asked.clear()
    line.path = line.path.with_name("new.db")
    line.restart()
    rows = line.until(16)
    assert line.rounds.behind
    answered = [row for row in rows if row.n]
    assert answered
    assert answered[0].t >= 5
    assert not any(row.update for row in rows)
    assert {row.outcome for row in answered} == {EXHAUSTED}
    assert not any(entry for device in devices for _, _, entry in device.asked)
    late = sum(peer.refusals.get(LATE, 0) for peer in line.store.peers(task.id.hex()))
    assert late >= 4
    # And again after a restart.
    past = resume(line.store, task)
    assert past.gaps
    assert past.updates == task.estimates


def test_one_that_is_ahead_is_not_followed(fleet):
    task = small_task()
    devices = spread_devices(task, 4)
    line = fleet(task, devices)
    devices[0].lifetime.bind(12)
    rows = line.until(3)
    assert [row.t for row in rows] == [1, 2, 3]
    assert not line.rounds.behind
    assert all(row.votes_n == 3 for row in rows)


def test_estimates_that_are_used_up(fleet):
    """The mean goes to and fro; after the second update the estimate stands, and says so."""
    task = small_task(estimates=2, votes=8)
    means = (0.0,) * 4 + (1.0,) * 4 + (0.0,) * 4 + (1.0,) * 8
    line = fleet(task, spread_devices(task, 12, means=means))
    rows = line.until(16)
    assert sum(row.update for row in rows) == 2
    outcomes = [row.outcome for row in rows]
    last = max(row.t for row in rows if row.update)
    assert EXHAUSTED in outcomes
    assert outcomes.index(EXHAUSTED) >= last
    assert set(outcomes) == {PUBLISHED, HELD, EXHAUSTED}
    # Who has no votes left says no: from then on nothing bounds the mean, also after a restart.
    first = outcomes.index(EXHAUSTED)
    assert {(row.low, row.high) for row in rows[first:]} == {(0.0, 1.0)}
    standing = resume(line.store, task).standing
    assert standing is not None
    assert not standing.bounded


def test_a_closed_device_refuses_by_name(fleet):
    task = small_task()
    devices = spread_devices(task, 3)
    devices[1].slots[0].write(b"")
    devices[1].slots[1].write(b"")
    devices[1].boot()
    line = fleet(task, devices)
    rows = line.until(3)
    assert all(row.votes_n == 2 for row in rows)
    peers = {peer.pseudonym: peer for peer in line.store.peers(task.id.hex())}
    refused = peers[devices[1].pseudonym.hex()].refusals
    assert set(refused) == {BUDGET}
    # Once in each phase: it is not asked again.
    assert refused[BUDGET] <= 8


@pytest.mark.parametrize(
    ("report", "phase", "entry", "name"),
    [
        (b"\x02", 0, 0, "bad report"),
        (b"\x04", 0, 0, "bad report"),
        (b"\xff", 0, 0, "bad report"),
        (b"\x00", 0, 1, "other entry"),
        (b"\x00", 1, 1, "not asked"),
    ],
)
def test_bad_answers_are_named_and_not_counted(fleet, report, phase, entry, name):
    task = small_task()
    devices = spread_devices(task, 2)
    devices[1].deaf = True
    line = fleet(task, devices)
    while not line.questions():
        line.play()
    line.up(devices[1], [answer(devices[1].nonce, 1, phase, entry, report)])
    line.commit()
    assert line.rejections() == {(devices[1].link.name, name): 1}
    line.up(devices[1], [answer(devices[1].nonce, 1, 0, 0, b"\x01")])
    line.up(devices[1], [answer(devices[1].nonce, 1, 0, 0, b"\x01")])
    line.up(devices[1], [answer(devices[1].nonce, 1, 0, 0, b"\x00")])
    line.commit()
    assert line.rejections()[devices[1].link.name, "conflict"] == 1
    assert [alarm["name"] for alarm in line.store.alarms()] == ["conflict"]
    assert len(line.answers()[1, 0]) <= 2


def test_own_epochs_that_are_being_compared_are_asked_for_again(fleet):
    task = small_task(
        HEAVYTHRESH, epochs=6, rounds=64, levels=[1] * 3, coordinates=64, items=4, symbols=1000
    )
    devices = [
        EpochDevice(task, i, "mqtt" if i % 2 else f"/dev/tty{i}", offset=5 + i * 4 * task.tick)
        for i in range(16)
    ]
    line = fleet(task, devices)
    for device in devices:
        device.items = (7, 7, 7, 9)
    rows = line.until(3)
    early = line.refused(EARLY)
    rows = line.until(6)
    # Their own epochs end at each moment of the host's.
    assert line.refused(EARLY) > early
    assert all(row.votes_n == row.n == 16 for row in rows[2:])
    assert [row.update for row in rows[2:]].count(True) == 1


@pytest.mark.parametrize("report", [b"\x01\x40\x00", b"\x01\xff\xff", b"\x02\x00\x00"])
def test_bad_answers_of_heavythresh(fleet, report):
    task = small_task(HEAVYTHRESH, coordinates=64, items=4, symbols=1000, levels=[1] * 5)
    device = EpochDevice(task, 1, "usb", offset=5)
    line = fleet(task, [device])
    device.items = (7,)
    while not any(q.phase for q in line.questions()):
        line.play()
    device.deaf = True
    line.up(device, [answer(device.nonce, 1, 1, 1, report)])
    line.commit()
    assert line.rejections() == {("usb", "bad report"): 1}


def test_unknown_is_counted_and_not_asked_again(fleet):
    task = small_task()
    devices = spread_devices(task, 2)
    line = fleet(task, devices)
    devices[0].settle = lambda message: refusal(devices[0].nonce, message[12], message[16], UNKNOWN)
    rows = line.until(3)
    assert all(row.votes_n == 1 for row in rows)
    peers = {peer.pseudonym: peer for peer in line.store.peers(task.id.hex())}
    assert 3 <= peers[devices[0].pseudonym.hex()].refusals[UNKNOWN] <= 8


def test_an_update_that_nobody_answered_is_known_after_a_restart(fleet):
    task = small_task()
    devices = spread_devices(task, 6, means=changed_at(4))
    line = fleet(task, devices)
    while len(updates := [q for q in line.questions() if q.phase and q.entry]) < 2:
        line.play()
    assert not updates[1].answered
    # The first host is gone before an answer has come.
    line.restart()
    assert not line.past.standing.bounded
    rows = line.until(updates[1].t + 1)
    standing = [row for row in rows if row.t >= updates[1].t]
    assert {(row.published, row.drift, row.low, row.high) for row in standing} == {
        (False, 1.0, 0.0, 1.0)
    }


def test_an_epoch_in_which_nobody_answers(fleet):
    task = small_task()
    devices = spread_devices(task, 2)
    for device in devices:
        device.deaf = True
    line = fleet(task, devices)
    rows = line.until(3)
    assert [row.outcome for row in rows] == [UNANSWERED] * 3
    assert not any(row.update for row in rows)
    assert rows[0].needed is rows[0].low is None
    for device in devices:
        device.deaf = False
    rows = line.until(5)
    assert next(row.t for row in rows if row.update) in (4, 5)


def test_epochs_of_a_database_are_over_at_once(tmp_path):
    task = small_task(epochs=2, levels=[1, 1], votes=1, estimates=1)
    line = EpochFleet(tmp_path / "a.db", task, spread_devices(task, 3))
    line.until(2)
    line.rounds.stop()
    line.commit()
    collector = Collector(task, line.store, [])
    news = []
    collector.run(lambda: False, lambda snapshot: news.extend(snapshot.news))
    assert news == [
        "All 2 epochs are over in this database: devices that took part in them need another"
        " Task, and those that are new to this one another database (--db)."
    ]
    line.store.close()


def test_an_older_database_opens_and_takes_epochs(tmp_path):
    """Neither streams nor rounds have lost anything, and a collector adds what is missing."""
    Store.create(tmp_path / "a.db", rounds_task(LBU)).close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("DROP TABLE epochs")
    store = Store(tmp_path / "a.db")
    assert store.streams() == []
    assert store.decisions(rounds_task(LBU).id.hex()) == []
    store.close()
    task = small_task()
    line = EpochFleet(tmp_path / "a.db", task, spread_devices(task, 2))
    assert len(line.until(2)) == 2
    line.store.close()


def test_a_database_without_its_epochs_is_damaged(tmp_path):
    task = small_task()
    Store.create(tmp_path / "a.db", task).close()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("DROP TABLE epochs")
    for opened in (Store, lambda path: Store.create(path, task)):
        with pytest.raises(UserError, match="lacks the table of epochs"):
            opened(tmp_path / "a.db")


def test_a_damaged_estimate_is_told_before_anything_is_asked(fleet):
    task = small_task()
    line = fleet(task, spread_devices(task, 2))
    line.until(2)
    with sqlite3.connect(line.path) as connection:
        connection.execute("UPDATE epochs SET release = x'00' WHERE published")
    with pytest.raises(UserError, match="Epoch 1 in"):
        Collector(task, line.store, [])


def test_two_hosts_on_one_database_decide_once(fleet):
    task = small_task()
    line = fleet(task, spread_devices(task, 2))
    rows = line.until(2)
    other = rows[0]._replace(outcome=HELD, n=77)
    batch = Batch(1, task=task.id.hex(), epochs=[other])
    line.store.commit(batch)
    assert line.rows() == rows


def test_a_task_of_frames_is_not_asked():
    with pytest.raises(UserError):
        Conversation(make_task())


def test_what_the_conversation_holds_is_bounded(fleet):
    task = small_task()
    line = fleet(task, spread_devices(task, 3))
    line.until(12)
    assert len(line.rounds._closed) <= 2
    assert len(line.rounds._peers) == 3
    assert line.rounds._phase is None or len(line.rounds._phase.asked) <= 4


def test_a_device_that_moves_to_another_link_is_asked_there(fleet):
    task = small_task()
    devices = spread_devices(task, 2)
    line = fleet(task, devices)
    line.until(2)
    devices[0].link = Link("elsewhere")
    devices[0].known = False
    rows = line.until(5)
    assert rows[-1].votes_n == 2
    assert rows[-1].users == 2
