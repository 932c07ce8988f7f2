"""Rounds: whom to ask what and when, and what to make of answers; without input or output.

A step t takes one tick of the Task, if all speak in time. The coordinator says what its
one or two phases ask for; here that becomes queries to links, repeated until a device has
answered or refused for good, and answers become the support counts that the coordinator
decides on. A phase is over when all present devices that it means have spoken, or its share
of the tick is over. Present are those that were heard lately, and of these no more than the
intake keeps boots of, so that what is held is bounded; while nobody is, no step begins.
Where answers come when their phase is over, as of devices that look for queries but once a
tick, phases may take longer, and steps then more than one tick: up to MOST_TICKS; shorter
again when that was of no use for a while.

Of a Task with epochs a step is an epoch, and takes `rounds` ticks, in which each device completes
one epoch of its own. One whose own is not complete yet says EARLY, and is asked again until
its phase is over. Where that did not help, its own epochs end late in the host's: it is not asked
for an estimate, unless there is an update, so that it can vote at once in the next one. One
that joins later is asked in the phase that is open. What is asked is told (News.questions)
before it leaves, so that a host that was killed knows of it.

A host that starts again knows what was decided, but not whom it has asked in the last w
steps: the method begins anew, when resting() says that all of that has left the windows.

    poll(now)      opens and closes phases; the queries that are due
    asked(...)     one of them has left
    answer(...), refusal(...)    what came back

Names of answers and refusals that are not counted:

    late answer    its phase is over
    not asked      nothing was asked in its step and phase, or others were meant
    other entry    it is of another entry of the Task than was asked for
    bad report     no device can have sent such a report
    conflict       the device has answered that, and otherwise

An answer that comes again as it was is a duplicate, and no fault.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

import numpy as np
import numpy.typing as npt

from tinyldp.collect.pace import MOST_TICKS, Pace
from tinyldp.collect.phases import News, Peer, Phase, Query, query
from tinyldp.collect.records import DecisionRow, Link, epoch_row
from tinyldp.coordinate import Ask, Circle, EpochDecision, Standing, make_coordinator
from tinyldp.errors import UserError
from tinyldp_protocol.hashing import GROUPS, group
from tinyldp_protocol.messages import EARLY, LATE
from tinyldp_protocol.task import LBU, Task

# Parts of a tick: when the first of two phases ends, when the last one does, and how long
# a device may take before it is asked again; then twice as long each time, as one that looks
# but once a tick takes in four messages then; in epochs up to so many parts of one, or ticks.
_FIRST = 1 / 2
_LAST = 15 / 16
_AGAIN = 1 / 4
_AGAIN_EPOCHS = 1 / 16
_AGAIN_TICKS = 2
# A device that was not heard for so many beacons, and so many ticks, counts as away.
_AWAY_BEACONS = 4
_AWAY_TICKS = 32
# Beyond this jump no device is followed: one that lies must not use up the numbers of steps.
_FARTHEST = 1 << 16
# Closed phases whose answers are remembered, to tell a duplicate from a late one.
_KEPT = 2

COUNTED = "counted"
DUPLICATE = "duplicate"
LATE_ANSWER = "late answer"
NOT_ASKED = "not asked"
OTHER_ENTRY = "other entry"
BAD_REPORT = "bad report"
CONFLICT = "conflict"


def resting(task: Task, since: int | None) -> int:
    """ms until devices can have spent nothing in their last w steps.

    since: ms since they were last heard to spend anything; None: they never were. A step
    that was open then may have lasted for MOST_TICKS. LBU need not rest: w of its steps
    never spend more than epsilon, whoever asks them; nor need epochs: each is asked for once.
    """
    if since is None or task.method == LBU or task.epochs is not None:
        return 0
    assert task.w is not None
    whole = (task.w + MOST_TICKS) * task.tick
    return min(whole, max(0, whole - since))


class Conversation:
    """Rounds of one Task, from step `start` on, once a device is known; None: from the first.

    The first step begins a beacon after the first device was heard: by then all that
    run have said hello; of epochs when these have completed one, by what is known of how long
    they have run if none was asked for before; and not before `ready`. All times are ms of one
    clock that never goes back. updates, standing, cast: of epochs before (EpochCoordinator). t: the
    step that is open, or was last; None before the first. begins: when the next step does, or None.
    over: whether the numbers of steps are used up, so that nothing is asked any more.
    behind: whether devices were ahead of this host.
    Raises UserError when the Task is none of rounds.
    """

    def __init__(
        self,
        task: Task,
        start: int | None = None,
        ready: float = 0.0,
        *,
        updates: int = 0,
        standing: Standing | None = None,
        cast: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._task = task
        self._epochs = task.epochs is not None
        coordinator = make_coordinator(
            task, 0, start, updates=updates, standing=standing, cast=cast
        )
        self._coordinator = coordinator
        self._last = coordinator.last
        self._circle = Circle(w=task.w)
        # ms of a step, if all speak in time, and the most after which a device is asked again.
        self._length = task.tick * (task.rounds or 1)
        self._most = math.inf
        if self._epochs:
            self._most = max(_AGAIN_TICKS * task.tick, _AGAIN_EPOCHS * self._length)
        self._peers: dict[int, Peer] = {}
        self._present: list[Peer] = []
        self._away = max(_AWAY_BEACONS * task.beacon, _AWAY_TICKS) * task.tick
        self._first = True
        self.begins: float | None = None
        self._due = 0.0
        self._phase: Phase | None = None
        self._closed: list[Phase] = []
        # Answers in this run; how far to jump while devices are ahead of this host.
        self._heard = False
        self._jump = 1
        self._pace = Pace()
        first = 1 if self._epochs else 0
        self._start = first if start is None else max(first, start)
        self._ready = ready
        self.t: int | None = None
        self.over = self._start > self._last
        self.behind = False
        self.news = News()

    @property
    def first(self) -> bool:
        """Whether no step was asked for before this run."""
        return self._start == (1 if self._epochs else 0)

    @property
    def users(self) -> int:
        """How many devices were present at the last step."""
        return len(self._present)

    def rests(self, now: float) -> float:
        """ms until `ready`, 0 from the first step on."""
        return max(0.0, self._ready - now) if self.t is None else 0.0

    def join(self, device: int, pseudonym: bytes, link: Link, now: float, ran: float = 0.0) -> None:
        """A device said hello, the first time or again; it is meant from the next phase on,
        in epochs from the one that is open.

        device: the store's number for it. By whichever link it was heard last, it is asked.
        ran: for so many ms, at least, it has been running already.
        """
        peer = self._peers.get(device)
        if peer is not None:
            peer.link = link
            peer.heard = now
            return
        beacon = self._task.beacon * self._task.tick
        if self._first:
            self._first = False
            whole = self._length if self._epochs else 0
            self.begins = max(self._ready, now + beacon + whole)
        if self._epochs and self.first and self.t is None and self.begins is not None:
            # No epoch was asked for, so that one that was completed before this run will do.
            rest = max(0.0, self._length - ran)
            self.begins = min(self.begins, max(self._ready, now + beacon + rest))
        peer = Peer(device, group(self._task.id, pseudonym), link, now)
        self._peers[device] = peer
        phase = self._phase
        if self._epochs and phase is not None and (phase.ask.entry or not phase.ask.phase):
            # An epoch is long.
            self._present.append(peer)
            self._coordinator.users = len(self._present)
            self._mean(phase, peer)

    def heard(self, device: int, pseudonym: bytes, link: Link, now: float) -> None:
        """A device whose hello came before said something, whatever it was."""
        peer = self._peers.get(device)
        if peer is None:
            self.join(device, pseudonym, link, now)
        else:
            peer.heard = now

    def keep(self, devices: Container[int]) -> None:
        """All others are gone, and count as devices no more until they say hello."""
        self._peers = {id: peer for id, peer in self._peers.items() if id in devices}

    def poll(self, now: float) -> list[Query]:
        """turn(), and then queries()."""
        self.turn(now)
        return self.queries(now)

    def turn(self, now: float) -> None:
        """Open and close what is to be by now."""
        while self._turn(now):
            pass

    def queries(self, now: float) -> list[Query]:
        """What is to leave now. Each link that took it is to be told to asked()."""
        if self._phase is None:
            return []
        return list(self._phase.queries(now, self._task.tick * _AGAIN, self._most))

    def wait(self, now: float) -> float:
        """ms until poll() has something to do, if nothing comes before."""
        if self._phase is None:
            return math.inf if self.begins is None else max(0.0, self.begins - now)
        until = self._phase.ends
        if self._phase.waiting:
            until = min(until, now + self._task.tick * _AGAIN / 4)
        return max(0.0, until - now)

    def asked(self, link: Link, now: float) -> None:
        """A query that poll() gave has left on this link."""
        if self._phase is not None:
            times = self._phase.asked.get(link, (0, 0))[1]
            self._phase.asked[link] = (now, times + 1)

    def answer(
        self, device: int, boot: int, t: int, phase: int, entry: int, report: bytes, at: int
    ) -> str:
        """Take in an answer: COUNTED, DUPLICATE, or the name of what is wrong with it.

        device: as in join(); boot: that it came from; at: ms since 1970, for the store.
        """
        peer = self._peers.get(device)
        found = self._find(t, phase)
        if peer is None:
            return NOT_ASKED
        if found is None:
            return LATE_ANSWER if self._over(t, phase) else NOT_ASKED
        if entry != found.ask.entry:
            return OTHER_ENTRY
        before = found.answers.get(device)
        if before is not None:
            return DUPLICATE if before == report else CONFLICT
        if device not in found.meant and not found.means(peer):
            return NOT_ASKED
        if found is not self._phase:
            self._pace.late.add(device)
            return LATE_ANSWER
        try:
            found.counts += self._coordinator.tally(found.ask, _matrix(report))
        except UserError:
            return BAD_REPORT
        found.answers[device] = report
        found.early.discard(device)
        found.waiting.pop(device, None)
        if peer.heard > found.half:
            self._pace.slow.add(device)
        self._heard = True
        self.news.answers.append((device, t, phase, boot, at, report))
        if device not in found.meant:
            # It joined while this was asked, and heard the broadcast.
            self._mean(found, peer)
            found.waiting.pop(device, None)
        return COUNTED

    def refusal(self, device: int, t: int, phase: int, reason: int) -> str:
        """Take in a refusal: COUNTED, or the name of what is wrong with it."""
        if device not in self._peers:
            return NOT_ASKED
        found = self._find(t, phase)
        if found is None:
            if not self._over(t, phase):
                return NOT_ASKED
        elif found is self._phase and device in found.waiting:
            if reason == EARLY:
                # It passes with the device's next step or epoch; nothing else does in this phase.
                found.early.add(device)
            else:
                del found.waiting[device]
                found.late += reason == LATE
        self.news.refusals[device, reason] += 1
        return COUNTED

    def stop(self) -> None:
        """End it: what is open is over, and its step will have no decision.

        But for an epoch whose votes are in: what has come of its estimates decides it.
        """
        phase = self._phase
        self._phase = self.begins = None
        if phase is not None:
            self._record(phase)
            if self._epochs and phase.ask.phase:
                self._go_on(self._coordinator.heard(phase.counts, len(phase.answers)), 0)
        self._first = False

    def drain(self) -> News:
        """What is to be written; the next time only what came since."""
        news, self.news = self.news, News()
        return news

    def _turn(self, now: float) -> bool:
        """Close or open one phase, if it is time to."""
        phase = self._phase
        if phase is not None:
            if phase.waiting and now < phase.ends:
                return False
            self._close(phase, now)
            return True
        if self.begins is None or now < self.begins:
            return False
        self._begin(now)
        return True

    def _begin(self, now: float) -> None:
        assert self.begins is not None
        t = self._start if self.t is None else self.t + 1
        if t > self._last:
            self.begins = None
            self.over = True
            return
        # A host that was held up asks on from now: steps that nobody took are not made up for.
        self._due = self.begins if now - self.begins < self._length else now
        self.begins = self._due + self._length
        # Who is away joins again with the next thing that it says.
        present = [peer for peer in self._peers.values() if now - peer.heard <= self._away]
        self._peers = {peer.id: peer for peer in present}
        if present != self._present:
            self._present = present
            self._circle.update([peer.position for peer in present])
            self._coordinator.users = len(present)
        if not present:
            self.begins = self._due + self._task.tick
            return
        answered = bool(self._closed and self._closed[0].answers)
        self._pace.step(len(present), answered)
        self.t = t
        self._circle.step()
        self._go_on(self._coordinator.begin(), now)

    def _go_on(self, ask: Ask | None, now: float) -> None:
        """Open the phase, or take the decision of the step."""
        if ask is None:
            self._decided()
            return
        ranges = [(0, GROUPS)] if ask.users is None else self._circle.take(ask.users)
        share = _FIRST if self._coordinator.two_phases and ask.phase == 0 else _LAST
        long = self._pace.ticks * self._length
        # In half as many ticks, the phase before would have been over by then.
        waited = max(0.0, now - self._due - (_FIRST * long / 2 if ask.phase else 0))
        phase = Phase(
            ask,
            ranges,
            [query(self._task.id, ask, start, size) for start, size in ranges],
            self._due + share * long,
            self._due + share * long / 2 + waited,
            counts=self._coordinator.tally(ask, np.zeros((0, self._task.width), np.uint8)),
        )
        early = self._closed[0].early if self._epochs and ask.phase and not ask.entry else ()
        phase.apart = bool(early)
        for peer in self._present:
            if phase.means(peer) and peer.id not in early:
                self._mean(phase, peer)
        self._phase = phase
        if self._epochs:
            self.news.questions.append(phase.question())

    def _mean(self, phase: Phase, peer: Peer) -> None:
        phase.meant[peer.id] = peer
        phase.waiting[peer.id] = peer
        self.news.asked[peer.id] += 1

    def _close(self, phase: Phase, now: float) -> None:
        self._phase = None
        self._closed = [phase, *self._closed][:_KEPT]
        self._record(phase)
        self._go_on(self._coordinator.heard(phase.counts, len(phase.answers)), now)
        if 2 * phase.late > len(phase.meant) and not self._heard:
            self._jump_ahead()

    def _record(self, phase: Phase) -> None:
        written = self.news.closed if self._epochs else self.news.questions
        written.append(phase.question())

    def _decided(self) -> None:
        made = self._coordinator.decision
        assert made is not None
        if isinstance(made, EpochDecision):
            self.news.epochs.append(epoch_row(made))
            return
        row = DecisionRow(
            t=made.t,
            at=0,
            published=made.published,
            outcome=made.outcome,
            dis=made.dis,
            err=made.err,
            units=made.units,
            n=made.publication_n,
            users=made.users,
            release=tuple(np.asarray(made.release, float).tolist()),
        )
        self.news.decisions.append(row)

    def _jump_ahead(self) -> None:
        """Devices have answered later steps, to a host whose store this one has not.

        While most say so, steps are left out, twice as many each time, until one answers;
        then never again. How many estimates the devices of epochs have left is not known any
        more: lest what is published is noise, nothing is, until they have another Task.
        """
        assert self.t is not None
        if self._phase is not None or self._jump > _FARTHEST:
            return
        self.behind = True
        self.t = min(self.t + self._jump, self._last)
        self._jump *= 2
        self._coordinator = make_coordinator(
            self._task, len(self._present), self.t + 1, updates=self._task.estimates
        )

    def _find(self, t: int, phase: int) -> Phase | None:
        """The phase that is open, or was a short while ago."""
        for found in (self._phase, *self._closed):
            if found is not None and found.ask[:2] == (t, phase):
                return found
        return None

    def _over(self, t: int, phase: int) -> bool:
        """Whether this may have been asked, before what is open now."""
        if self.t is None:
            return t < self._start
        open_ = self.t + 1 if self._phase is None else self.t
        at = 0 if self._phase is None else self._phase.ask.phase
        return (t, phase) < (open_, at)


def _matrix(report: bytes) -> npt.NDArray[np.uint8]:
    """One report as tally() takes it."""
    return np.frombuffer(report, np.uint8).reshape(1, -1)
