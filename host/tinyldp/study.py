"""The study file: what people decide, in TOML, and the Task that it amounts to.

    [study]      name
    [mechanism]  name  "ranswitch", "staswitch", "jittersort" (streams),
                       "crr" or "crr-batch" (conditional randomized response: noise
                       where a model leaves a doubt): what these state besides
                       stands in tinyldp.crr_study
                       "grr", "oue" or "olh" (oracles: each value by itself),
                       "lbu", "lsp", "lbd", "lba", "lpu", "lpd" or "lpa" (rounds:
                       the host asks, and the device answers while any w steps
                       together cost no more than epsilon),
                       "thresh" or "heavythresh" (epochs: devices vote on whether
                       their own data changed, and are asked again only then):
                       what these state besides stands in tinyldp.epoch_study
                 window     RanSwitch: slots, k if absent; JitterSort: 2L+1
                 threshold  over 2^24, all but JitterSort: of each switch
                            distance, of each lie, of each zero sent as one
                 weights    over 2^24, JitterSort: [c_0, ..., c_L]
                 buckets    OLH: what the values are hashed to
                 oracle     rounds: "grr", "oue", "olh", or "auto" (if absent),
                            which has the least variance at the method's least
                            spend that every step or sample has: LBU epsilon/w,
                            LBD and LBA epsilon/(2w), the others epsilon
                 grid       LBD: a unit has 2^grid parts
    [privacy]    epsilon, delta  exact decimals; only streams have a delta
                 k     streams: exchanging two values less than k steps apart
                       is hidden
                 w     oracles: steps over which the certificate states the
                       loss, too; rounds: the steps of a window
    [values]     domain (symbols), bins (ascending edges; then domain may be
                 absent), missing (a symbol; the first one above the bins' own
                 makes a symbol for missing readings alone)
    [timing]     tick (ms), batch, resend, beacon (ticks), outbox (frames);
                 rounds: tick and beacon alone
    [stream]     rounds and CRR: source  "lns", "sin", "log", "recordings" or a
                                 CSV file: what a simulation plays (CRR: if
                                 absent, its own chain)
                         seed
    [fleet]      devices
    [links]      serial (list of ports), mqtt ("host:port")

A study states a target, for which tinyldp.planning chooses the integers, or the
integers themselves (threshold or weights; OLH also buckets; rounds state a
target): then epsilon names
the point of the privacy curve that the certificate reports, and delta what must
hold there. epsilon and delta are rounded down: the stricter target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tinyldp.crr_study import MOST_SYMBOLS, OF_CRR, CrrSettings, crr_settings
from tinyldp.epoch_study import (
    OF_EPOCHS,
    OF_THEIR_STREAM,
    EpochSettings,
    EpochStream,
    epoch_settings,
    epoch_stream,
)
from tinyldp.errors import UserError
from tinyldp.figures import counted, stated
from tinyldp.files import STUDY, kind_of
from tinyldp.sections import Sections, nearest, read_bytes, short
from tinyldp.spends import method_spends
from tinyldp_protocol.cbor import Malformed
from tinyldp_protocol.hashing import PRIME
from tinyldp_protocol.task import (
    CRR,
    CRR_BATCH,
    FIELDS,
    GRR,
    HEAVYTHRESH,
    JITTERSORT,
    LBA,
    LBD,
    LBU,
    LPA,
    LPD,
    LPU,
    LSP,
    MAX_REPORT,
    MAX_VALUES,
    OLH,
    OUE,
    RANSWITCH,
    SCALE,
    STASWITCH,
    THRESH,
    Task,
    TaskError,
    read_file,
    write_file,
)

MECHANISMS = {
    "ranswitch": RANSWITCH,
    "staswitch": STASWITCH,
    "jittersort": JITTERSORT,
    "grr": GRR,
    "oue": OUE,
    "olh": OLH,
    "thresh": THRESH,
    "heavythresh": HEAVYTHRESH,
    "crr": CRR,
    "crr-batch": CRR_BATCH,
}
METHODS = {"lbu": LBU, "lsp": LSP, "lbd": LBD, "lba": LBA, "lpu": LPU, "lpd": LPD, "lpa": LPA}
METHOD_TITLES = {number: name.upper() for name, number in METHODS.items()}
# Of a simulation, besides files.
SOURCES = ("lns", "sin", "log", "recordings")
# As people write them.
TITLES = {
    RANSWITCH: "RanSwitch",
    STASWITCH: "StaSwitch",
    JITTERSORT: "JitterSort",
    GRR: "GRR",
    OUE: "OUE",
    OLH: "OLH",
    THRESH: "Thresh",
    HEAVYTHRESH: "HeavyThresh",
    CRR: "CRR",
    CRR_BATCH: "CRR in blocks",
}
STREAMS = (RANSWITCH, STASWITCH, JITTERSORT)
ORACLES = (GRR, OUE, OLH)
EPOCHS = (THRESH, HEAVYTHRESH)
# Conditional randomized response.
CRRS = (CRR, CRR_BATCH)
KEYS = {
    "study": ("name",),
    "mechanism": (
        "name",
        "window",
        "threshold",
        "weights",
        "buckets",
        "oracle",
        "grid",
        *OF_EPOCHS,
        *OF_CRR,
    ),
    "privacy": ("epsilon", "delta", "k", "w"),
    "values": ("domain", "bins", "missing"),
    "timing": ("tick", "batch", "resend", "beacon", "outbox"),
    "stream": ("source", "seed", *OF_THEIR_STREAM),
    "fleet": ("devices", "board_memory"),
    "links": ("serial", "mqtt"),
}
# Read exactly and rounded down, in units of one over this.
EPSILON_UNIT = 1 << 16
DELTA_UNIT = 1 << 30

# Keys that not every mechanism has.
_OPTIONS = {
    ("mechanism", "window"): (RANSWITCH, JITTERSORT),
    ("mechanism", "threshold"): (RANSWITCH, STASWITCH, GRR, OUE, OLH, *CRRS),
    ("mechanism", "weights"): (JITTERSORT,),
    ("mechanism", "buckets"): (OLH,),
    ("mechanism", "block"): (CRR_BATCH,),
    ("mechanism", "memory"): (CRR_BATCH,),
    ("privacy", "delta"): (*STREAMS, *CRRS),
    ("privacy", "k"): STREAMS,
    ("privacy", "w"): (GRR, OUE, OLH, *CRRS),
}
# What only rounds have, and what they can't have, with the reason.
_OF_ROUNDS = (
    ("mechanism", "oracle"),
    ("mechanism", "grid"),
    ("stream", "source"),
    ("stream", "seed"),
)
_STATED = "rounds state a target, for which tinyldp plan chooses the integers"
_NOT_OF_ROUNDS = {
    ("mechanism", "window"): "the steps of a window are [privacy] w",
    ("mechanism", "threshold"): _STATED,
    ("mechanism", "weights"): _STATED,
    ("privacy", "delta"): "its guarantee holds without exception: state epsilon alone",
    ("privacy", "k"): "the steps of a window are [privacy] w",
    ("timing", "batch"): "each answer is sent by itself",
    ("timing", "resend"): "an answer is sent again when it is asked for again",
    ("timing", "outbox"): "each phase holds one answer",
}
# What neither streams nor oracles nor rounds have.
_ONLY_OF_EPOCHS = (
    *(("mechanism", key) for key in OF_EPOCHS),
    *(("stream", key) for key in OF_THEIR_STREAM),
)
_ONLY_OF_CRR = (*(("mechanism", key) for key in OF_CRR), ("fleet", "board_memory"))
_CHOSEN = "it follows from epsilon, votes and estimates"
_NOT_OF_EPOCHS = {
    ("mechanism", "window"): "it has epochs",
    ("mechanism", "threshold"): _CHOSEN,
    ("mechanism", "weights"): _CHOSEN,
    ("mechanism", "buckets"): "it asks no oracle",
    ("mechanism", "oracle"): "it asks no oracle",
    ("mechanism", "grid"): "it is for LBD alone",
    ("privacy", "delta"): "its guarantee holds without exception: state epsilon alone",
    ("privacy", "k"): "epsilon is for a device's whole life",
    ("privacy", "w"): "epsilon is for a device's whole life",
    ("timing", "batch"): "each answer is sent by itself",
    ("timing", "resend"): "an answer is sent again when it is asked for again",
    ("timing", "outbox"): "each phase holds one answer",
}
_LARGEST_DOMAIN = {OUE: 8 * MAX_VALUES, OLH: PRIME}
_PLANNED = ("mechanism", "window", "thresholds", "buckets")
# Milliseconds aimed at where the study is silent.
_RESEND = 5_000
_BEACON = 10_000


@dataclass(frozen=True, slots=True)
class Study:
    """A study as its file states it, defaults filled in; what is absent is None.

    mechanism: of rounds the oracle, None where the planner chooses it; method: that of
    rounds, which are the only ones with a grid. Rounds and CRR may have a source, and they and
    epochs a seed; rounds and epochs have no batch, resend and outbox. settings, stream: of
    epochs. crr: of CRR.
    epsilon in 2^-16 and delta over 2^30, both rounded down. thresholds: the
    integers over 2^24 that the study states, or None where it states a target;
    with it, JitterSort's window and OLH's buckets may be None, too. serial:
    ports; mqtt: "host:port"; devices: how many are expected.
    """

    name: str
    mechanism: int | None
    window: int | None
    thresholds: tuple[int, ...] | None
    buckets: int | None
    k: int | None
    w: int | None
    epsilon: int | None
    delta: int | None
    domain: int
    bins: tuple[int, ...] | None
    missing: int | None
    tick: int
    batch: int | None
    resend: int | None
    beacon: int
    outbox: int | None
    devices: int | None
    serial: tuple[str, ...]
    mqtt: str | None
    method: int | None = None
    grid: int | None = None
    source: str | None = None
    seed: int | None = None
    settings: EpochSettings | None = None
    stream: EpochStream | None = None
    crr: CrrSettings | None = None

    @property
    def title(self) -> str:
        """Its mechanism or method, as people write it."""
        if self.method is not None:
            return METHOD_TITLES[self.method]
        assert self.mechanism is not None
        return TITLES[self.mechanism]

    @property
    def spends(self) -> tuple[int, ...] | None:
        """Of rounds: what an answer may cost, ascending, in 2^-16 of one epsilon."""
        if self.method is None:
            return None
        assert self.epsilon is not None
        assert self.w is not None
        return tuple(method_spends(self.method, self.epsilon, self.w, self.grid))

    def epoch_task(self, **chosen: int | list[int]) -> Task:
        """The Task, with its id, of epochs with what the planner chose: epsilon, thresholds, ...

        Raises UserError when a bound does not hold.
        """
        return _made({**self._numbers(), **chosen})

    def task(
        self,
        thresholds: Sequence[int] | None = None,
        window: int | None = None,
        buckets: int | None = None,
        mechanism: int | None = None,
    ) -> Task:
        """The Task, with its id, of the integers that the study states or of these.

        mechanism: the oracle, where the study leaves it to the planner.

        Raises UserError when a bound does not hold, or when there are no integers.
        """
        numbers = self._numbers()
        if thresholds is not None:
            numbers["thresholds"] = list(thresholds)
        if window is not None:
            numbers["window"] = window
        if buckets is not None:
            numbers["buckets"] = buckets
        if mechanism is not None:
            numbers["mechanism"] = mechanism
        if numbers["thresholds"] is None:
            raise UserError(
                f'"{self.name}" states a target and no integers; '
                "they are chosen by: tinyldp plan STUDY.toml."
            )
        return _made(numbers)

    def check(self, task: Task) -> None:
        """Raise UserError naming the first thing in which the Task is not as the study states.

        Integers that the study leaves to the planner may have any value.
        """
        stated = self._numbers()
        planned = self.thresholds is None
        for name in ("method", *FIELDS):
            mine, its = stated.get(name), getattr(task, name)
            if self.settings is not None and self._planned(name, its):
                continue
            if mine is None and planned and name in _PLANNED:
                continue
            if self.crr is not None and self.crr.train and name in ("prior", "transitions"):
                continue
            # The planner's in any case; what it gives away is certified.
            if name == "table" and mine is not None and its is not None:
                continue
            if isinstance(its, list | tuple):
                its = list(its)
            if mine != its:
                raise UserError(
                    f"The Task is not of this study, for {_difference(name, its, mine)}; "
                    "make it anew with: tinyldp plan."
                )

    def _planned(self, name: str, its: Any) -> bool:
        """Whether the planner chose this field of a Task of epochs: epsilon is its exact cost."""
        if name in ("votes", "estimates"):
            return self.settings is not None and self.settings.votes is None
        if name == "epsilon":
            return its is not None and self.epsilon is not None and its <= self.epsilon
        return name in ("thresholds", "levels")

    def _numbers(self) -> dict[str, Any]:
        """What the study states, under the names of a Task's fields."""
        return {
            "mechanism": self.mechanism,
            "window": self.window,
            "k": self.k,
            "w": self.w,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "symbols": self.domain,
            "bins": None if self.bins is None else list(self.bins),
            "missing": self.missing,
            "thresholds": None if self.thresholds is None else list(self.thresholds),
            "tick": self.tick,
            "batch": self.batch,
            "resend": self.resend,
            "beacon": self.beacon,
            "outbox": self.outbox,
            "buckets": self.buckets,
            "spends": None if self.spends is None else list(self.spends),
            "method": self.method,
            **self._of_epochs(),
            **({} if self.crr is None else self.crr.numbers(self.domain)),
        }

    def _of_epochs(self) -> dict[str, Any]:
        settings = self.settings
        if settings is None:
            return {}
        return {
            "epochs": settings.epochs,
            "rounds": settings.rounds,
            "votes": settings.votes,
            "estimates": settings.estimates,
            "failure": settings.failure_units,
            "polls": settings.polls,
            "coordinates": settings.coordinates,
            "items": settings.items,
        }


def load_study(path: str | Path) -> Study:
    """Read and check a study file; UserError says in one sentence what is wrong."""
    data = read_bytes(path)
    try:
        study = _study(Sections(data, KEYS), Path(path).parent)
        if study.thresholds is not None:
            study.task()
        elif study.method is not None:
            _check_rounds(study)
        elif study.settings is not None:
            _check_epochs(study, study.settings)
        else:
            # All but the integers is checked with some that always do.
            window = study.window or 3
            rest = [SCALE - (window - 1)] + [1] * (window // 2)
            study.task(
                rest if study.mechanism == JITTERSORT else [1 << 10 if study.crr else 1],
                window if study.mechanism in STREAMS else None,
                (study.buckets or 2) if study.mechanism == OLH else None,
            )
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return study


def load_task(path: str | Path) -> Task:
    """Read a Task file; UserError says in one sentence what is wrong."""
    data = read_bytes(path)
    try:
        return read_file(data)
    except Malformed as error:
        raise UserError(f"{path} is no Task file: its CBOR is not canonical ({error}).") from None
    except TaskError as error:
        kind = kind_of(data)
        if kind == STUDY:
            raise UserError(
                f"{path} holds a study, and no Task: `tinyldp plan {path} -o TASK` makes that."
            ) from None
        if kind:
            raise UserError(f"{path} holds a {kind}, and no Task.") from None
        raise UserError(f"{path}: {error}") from None


def refuse_rounds(task: Task, what: str) -> None:
    """Raise UserError for a Task of rounds or epochs; `what` begins a sentence: who refuses."""
    if task.method is not None or task.epochs is not None:
        title = TITLES[task.mechanism] if task.method is None else METHOD_TITLES[task.method]
        raise UserError(
            f"{what} takes Tasks whose devices release at every step, "
            f"not {title}, whose devices answer when they are asked."
        )


def broker_address(text: str) -> tuple[str, int]:
    """(host, port) of "host:port", or UserError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit():
        raise UserError(f'The MQTT broker must be given as "host:port", not "{text}".')
    if not 1 <= int(port[:6]) <= 65535:
        raise UserError(f"The MQTT broker's port must lie in 1..65535, but is {port}.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _study(sections: Sections, folder: Path) -> Study:
    mechanism, method = _mechanism(sections)
    if method is not None:
        return _rounds(sections, mechanism, method)
    assert mechanism is not None
    if mechanism in EPOCHS:
        return _epochs(sections, mechanism)
    if mechanism in CRRS:
        return _crr(sections, mechanism, folder)
    k = sections.integer("privacy", "k")
    if mechanism in STREAMS:
        k = _present(k, "[privacy] k")
        if k < 2:
            raise UserError(
                f"[privacy] k must be 2 or more, but is {k}: "
                "two values exchange places only if they are a step apart."
            )
    window = sections.integer("mechanism", "window")
    if mechanism == STASWITCH or (mechanism == RANSWITCH and window is None):
        window = k
    thresholds = _thresholds(sections, mechanism)
    if mechanism == JITTERSORT:
        window = _jitter_window(window, thresholds)
    epsilon, delta = _target(sections, mechanism, thresholds)
    shared = _shared(sections, mechanism, _LARGEST_DOMAIN.get(mechanism, 65536), TITLES[mechanism])
    tick = shared["tick"]
    return Study(
        **shared,
        mechanism=mechanism,
        window=window,
        thresholds=thresholds,
        buckets=sections.integer("mechanism", "buckets"),
        k=k,
        w=sections.integer("privacy", "w"),
        epsilon=epsilon,
        delta=delta,
        batch=_default(sections, "timing", "batch", 1),
        resend=_default(sections, "timing", "resend", max(2, -(-_RESEND // tick))),
        outbox=_default(sections, "timing", "outbox", 16),
    )


def _crr(sections: Sections, mechanism: int, folder: Path) -> Study:
    threshold = _thresholds(sections, mechanism)
    if threshold is not None and (threshold[0] & 1023 or threshold[0] < 1024):
        raise UserError(
            f"[mechanism] threshold must be a multiple of 1024 for CRR, but is {threshold[0]}."
        )
    epsilon, delta = _target(sections, mechanism, threshold)
    w = sections.integer("privacy", "w")
    if delta is not None and (w is None or not delta):
        raise UserError(
            "[privacy] delta is for w steps together, of which it is the probability that they "
            f"tell more: {'w is missing' if w is None else 'it must be above 0'}."
        )
    shared = _shared(sections, mechanism, MOST_SYMBOLS, TITLES[mechanism])
    tick = shared["tick"]
    return Study(
        **shared,
        mechanism=mechanism,
        window=None,
        thresholds=threshold,
        buckets=None,
        k=None,
        w=w,
        epsilon=epsilon,
        delta=delta,
        batch=_default(sections, "timing", "batch", 1),
        resend=_default(sections, "timing", "resend", max(2, -(-_RESEND // tick))),
        outbox=_default(sections, "timing", "outbox", 16),
        source=_source(sections),
        seed=_seed(sections),
        crr=crr_settings(sections, mechanism == CRR_BATCH, shared["domain"], folder),
    )


def _shared(
    sections: Sections,
    mechanism: int | None,
    largest: int,
    title: str,
    dictionary: int | None = None,
) -> dict[str, Any]:
    """What every study has.

    largest: domain, of the mechanism or method with this title. dictionary: its size, where
    that is the domain.
    """
    bins, missing = sections.integers("values", "bins"), sections.integer("values", "missing")
    tick = _default(sections, "timing", "tick", 1000)
    if tick < 1:
        raise UserError(f"[timing] tick must be a millisecond or more, but is {tick}.")
    devices = sections.integer("fleet", "devices")
    if devices is not None and devices < 1:
        raise UserError(f"[fleet] devices must be 1 or more, but is {devices}.")
    mqtt = sections.text("links", "mqtt")
    if mqtt is not None:
        broker_address(mqtt)
    domain = dictionary
    if domain is None:
        domain = _domain(sections.integer("values", "domain"), bins, missing)
    if domain > largest:
        why = " (a report has a bit for each symbol)" if mechanism == OUE else ""
        key = "[values] domain" if dictionary is None else "[mechanism] dictionary"
        raise UserError(f"{key} must be {largest} or less for {title}{why}, but is {domain}.")
    return {
        "name": _present(sections.text("study", "name"), "[study] name"),
        "domain": domain,
        "bins": bins,
        "missing": missing,
        "tick": tick,
        "beacon": _default(sections, "timing", "beacon", max(1, -(-_BEACON // tick))),
        "devices": devices,
        "serial": sections.texts("links", "serial", "ports"),
        "mqtt": mqtt,
    }


def _rounds(sections: Sections, mechanism: int | None, method: int) -> Study:
    title = METHOD_TITLES[method]
    for (section, key), why in _NOT_OF_ROUNDS.items():
        if sections.given(section, key) is not None:
            raise UserError(f"[{section}] {key} is not for {title}: {why}.")
    if mechanism != OLH and sections.given("mechanism", "buckets") is not None:
        raise UserError('[mechanism] buckets is for oracle = "olh" alone.')
    grid = sections.integer("mechanism", "grid")
    if grid is not None:
        if method != LBD:
            raise UserError(f"[mechanism] grid is for LBD alone, not for {title}.")
        if not 0 <= grid <= 9:
            raise UserError(f"[mechanism] grid must lie in 0..9, but is {grid}.")
    largest = {OUE: 8 * MAX_REPORT, OLH: PRIME}.get(mechanism or GRR, 65536)
    shown = title if mechanism is None else f"{title} over {TITLES[mechanism]}"
    return Study(
        **_shared(sections, mechanism, largest, shown),
        mechanism=mechanism,
        window=None,
        thresholds=None,
        buckets=sections.integer("mechanism", "buckets"),
        k=None,
        w=_present(sections.integer("privacy", "w"), "[privacy] w"),
        epsilon=_present(_epsilon(sections), "[privacy] epsilon"),
        delta=None,
        batch=None,
        resend=None,
        outbox=None,
        method=method,
        grid=grid,
        source=_source(sections),
        seed=_seed(sections),
    )


def _epochs(sections: Sections, mechanism: int) -> Study:
    title = TITLES[mechanism]
    for (section, key), why in _NOT_OF_EPOCHS.items():
        if sections.given(section, key) is not None:
            raise UserError(f"[{section}] {key} is not for {title}: {why}.")
    heavy = mechanism == HEAVYTHRESH
    if heavy:
        for key in ("domain", "bins"):
            if sections.given("values", key) is not None:
                raise UserError(
                    f"[values] {key} is not for {title}, whose values are the items of its "
                    "[mechanism] dictionary."
                )
        dictionary = _present(sections.integer("mechanism", "dictionary"), "[mechanism] dictionary")
        if dictionary < 2:
            raise UserError(f"[mechanism] dictionary must be 2 or more, but is {dictionary}.")
        shared = _shared(sections, mechanism, 1 << 20, title, dictionary)
    else:
        shared = _shared(sections, mechanism, 65536, title)
    devices = _present(
        shared["devices"], f"[fleet] devices, on which the thresholds of {title} depend,"
    )
    domain = shared["domain"]
    settings = epoch_settings(sections, heavy, devices, 2 if heavy else domain - 1)
    return Study(
        **shared,
        mechanism=mechanism,
        window=None,
        thresholds=None,
        buckets=None,
        k=None,
        w=None,
        epsilon=_present(_epsilon(sections), "[privacy] epsilon"),
        delta=None,
        batch=None,
        resend=None,
        outbox=None,
        seed=_seed(sections),
        settings=settings,
        stream=epoch_stream(sections, settings, domain),
    )


def _check_epochs(study: Study, settings: EpochSettings) -> None:
    """Raise UserError unless what the planner chooses is all that is wanting."""
    study.epoch_task(
        thresholds=[1] * (2 if settings.polls is None else 3),
        votes=settings.votes or 1,
        estimates=settings.estimates or 1,
        levels=[0] * settings.epochs.bit_length(),
    )


def _seed(sections: Sections) -> int | None:
    seed = sections.integer("stream", "seed")
    if seed is not None and seed < 0:
        raise UserError(f"[stream] seed must be 0 or more, but is {seed}.")
    return seed


def _made(numbers: dict[str, Any]) -> Task:
    try:
        task = Task(numbers)
    except TaskError as error:
        raise UserError(_in_section(str(error))) from None
    write_file(task)
    return task


def _in_section(sentence: str) -> str:
    """What a Task says of a field of its own, of the study's section and key."""
    name, _, rest = sentence.partition(" ")
    key = "domain" if name == "symbols" else name
    for section, keys in KEYS.items():
        if section not in ("study", "stream") and key in keys:
            return f"[{section}] {key} {rest}"
    return sentence


def _source(sections: Sections) -> str | None:
    source = sections.text("stream", "source")
    if source is not None and source not in SOURCES and not source.lower().endswith(".csv"):
        raise UserError(
            f'[stream] source must be "lns", "sin", "log", "recordings" or a CSV file, '
            f'not "{short(source)}"{nearest(source, SOURCES)}.'
        )
    return source


def _check_rounds(study: Study) -> None:
    """Raise UserError unless thresholds alone are wanting."""
    assert study.w is not None
    if not 1 <= study.w <= 1024:
        raise UserError(f"[privacy] w must lie in 1..1024, but is {study.w}.")
    assert study.spends is not None
    mechanism = study.mechanism or GRR
    buckets = (study.buckets or 2) if mechanism == OLH else None
    study.task([1] * len(study.spends), buckets=buckets, mechanism=mechanism)


def _mechanism(sections: Sections) -> tuple[int | None, int | None]:
    """(mechanism, method), when the study states no option of another one.

    The method is None for all but rounds, whose mechanism may be left to the planner.
    """
    name = _present(sections.text("mechanism", "name"), "[mechanism] name")
    if MECHANISMS.get(name) not in CRRS:
        for section, key in _ONLY_OF_CRR:
            if sections.given(section, key) is not None:
                raise UserError(f"[{section}] {key} is for CRR alone, not for {short(name)}.")
    if MECHANISMS.get(name) in EPOCHS:
        return MECHANISMS[name], None
    for section, key in _ONLY_OF_EPOCHS:
        if sections.given(section, key) is not None:
            raise UserError(
                f"[{section}] {key} is for Thresh and HeavyThresh alone, not for {short(name)}."
            )
    if name in METHODS:
        return _oracle(sections), METHODS[name]
    if name not in MECHANISMS:
        known = (*MECHANISMS, *METHODS)
        names = ", ".join(f'"{each}"' for each in known)
        raise UserError(
            f'[mechanism] name must be one of {names}, not "{short(name)}"{nearest(name, known)}.'
        )
    mechanism = MECHANISMS[name]
    for section, key in _OF_ROUNDS:
        if mechanism in CRRS and section == "stream":
            continue
        if sections.given(section, key) is not None:
            raise UserError(
                f"[{section}] {key} is for rounds alone (LBU, LSP, LBD, LBA, LPU, LPD and LPA), "
                f"not for {TITLES[mechanism]}."
            )
    for (section, key), owners in _OPTIONS.items():
        if mechanism not in owners and sections.given(section, key) is not None:
            raise UserError(f"[{section}] {key} {_foreign(key, owners, mechanism)}.")
    return mechanism, None


def _oracle(sections: Sections) -> int | None:
    """The oracle of rounds, None where the planner chooses it."""
    name = sections.text("mechanism", "oracle") or "auto"
    known = {"auto": None, "grr": GRR, "oue": OUE, "olh": OLH}
    if name not in known:
        raise UserError(
            '[mechanism] oracle must be one of "grr", "oue", "olh", "auto", '
            f'not "{short(name)}"{nearest(name, known)}.'
        )
    return known[name]


def _foreign(key: str, owners: Sequence[int], mechanism: int) -> str:
    title = TITLES[mechanism]
    if key == "window" and mechanism == STASWITCH:
        return "is not StaSwitch's to choose: its buffer has k slots"
    if key == "delta":
        return f"is not for {title}, whose guarantee holds without exception: state epsilon alone"
    if key == "threshold":
        return f"is not for {title}, which has a list of weights"
    # With and without blocks is one where both have it.
    names = [TITLES[owner] for owner in owners if owner != CRR_BATCH or CRR not in owners]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"is for {listed} alone, not for {title}"


def _thresholds(sections: Sections, mechanism: int) -> tuple[int, ...] | None:
    """The integers that the study states, or None."""
    if mechanism == JITTERSORT:
        weights = sections.integers("mechanism", "weights")
        if weights is not None:
            if not 2 <= len(weights) <= 512:
                raise UserError(
                    "[mechanism] weights must be 2..512 integers, c_0 to c_L, "
                    f"but there are {len(weights)}."
                )
            if any(weight < 1 for weight in weights):
                raise UserError(f"[mechanism] weights must all be 1 or more, not {min(weights)}.")
            total = 2 * sum(weights) - weights[0]
            if total != SCALE:
                raise UserError(
                    "[mechanism] weights must make up c_0 + 2 (c_1 + ... + c_L) = 2^24, "
                    f"but make up {short(total)}."
                )
        return weights
    threshold = sections.integer("mechanism", "threshold")
    if threshold is None:
        return None
    if threshold < 1:
        raise UserError(f"[mechanism] threshold must be 1 or more, but is {threshold}.")
    if threshold >= SCALE:
        raise UserError(
            f"[mechanism] threshold must be below its scale, 2^24, but is {short(threshold)}."
        )
    if mechanism == OLH and sections.given("mechanism", "buckets") is None:
        raise UserError("[mechanism] buckets is missing: OLH's threshold is for a number of them.")
    return (threshold,)


def _jitter_window(window: int | None, weights: tuple[int, ...] | None) -> int | None:
    if window is not None:
        if not 3 <= window <= 1023 or window % 2 == 0:
            raise UserError(
                "[mechanism] window must be odd and in 3..1023 for JitterSort (2L+1), "
                f"but is {window}."
            )
        if weights is not None and window != 2 * len(weights) - 1:
            raise UserError(
                f"[mechanism] {len(weights)} weights make a window of {2 * len(weights) - 1}, "
                f"not {window}."
            )
    return window if weights is None else 2 * len(weights) - 1


def _target(
    sections: Sections, mechanism: int, thresholds: tuple[int, ...] | None
) -> tuple[int | None, int | None]:
    """epsilon in 2^-16 and delta over 2^30."""
    epsilon = _epsilon(sections)
    exact = sections.decimal("privacy", "delta")
    shown = sections.shown("privacy", "delta")
    if exact is not None and not 0 <= exact < 1:
        raise UserError(f"[privacy] delta must be 0 or more and below 1, but is {shown}.")
    delta = _units(exact, DELTA_UNIT, "[privacy] delta", shown)
    if exact and delta == 0:
        raise UserError(f"[privacy] delta must be 0, or 2^-30 or more, but is {shown}.")
    title = TITLES[mechanism]
    if epsilon is None:
        if delta is not None:
            raise UserError("[privacy] epsilon is missing: a delta alone is no target.")
        if thresholds is None:
            target = "epsilon and delta" if mechanism in STREAMS else "epsilon"
            integers = {JITTERSORT: "weights", OLH: "threshold and buckets"}
            raise UserError(
                f"Nothing says how much {title} must hide: give the target, [privacy] {target}, "
                f"or the integers, [mechanism] {integers.get(mechanism, 'threshold')}."
            )
    elif delta is None and thresholds is None and mechanism in STREAMS:
        raise UserError(f"[privacy] delta is missing: {title} needs an epsilon and a delta.")
    return epsilon, delta


def _epsilon(sections: Sections) -> int | None:
    exact = sections.decimal("privacy", "epsilon")
    shown = sections.shown("privacy", "epsilon")
    if exact is not None and exact <= 0:
        raise UserError(f"[privacy] epsilon must be above 0, but is {shown}.")
    epsilon = _units(exact, EPSILON_UNIT, "[privacy] epsilon", shown)
    if epsilon == 0:
        raise UserError(f"[privacy] epsilon must be 2^-16 or more, but is {shown}.")
    return epsilon


def _units(value: Fraction | None, unit: int, what: str, shown: str) -> int | None:
    """A value of 0 or more in units of 1/unit, rounded down."""
    if value is None:
        return None
    if value * unit >= 1 << 30:
        raise UserError(f"{what} must be below {(1 << 30) // unit}, but is {shown}.")
    return int(value * unit)


def _domain(domain: int | None, bins: tuple[int, ...] | None, missing: int | None) -> int:
    if bins is not None:
        # The first symbol above the bins' own may be that of missing readings.
        own = len(bins) + 1
        found = own + 1 if missing == own else own
        if domain not in (None, found):
            raise UserError(
                f"[values] bins of {counted(len(bins), 'edge')} make a domain of {found}, "
                f"not {domain}."
            )
        domain = found
    if domain is None:
        raise UserError("[values] domain is missing: say how many symbols there are, or the bins.")
    if domain < 2:
        raise UserError(
            f"[values] domain must be 2 or more, but is {domain}: "
            "there is nothing to hide among fewer symbols."
        )
    return domain


def _difference(name: str, its: Any, mine: Any) -> str:
    """What a sentence says about one field that differs."""
    if name == "mechanism":
        return f"its mechanism is {TITLES[its]}, and the study's {TITLES[mine]}"
    if name == "method" and None in (its, mine):
        if its is None:
            return f"it has no rounds, and the study's method is {METHOD_TITLES[mine]}"
        return f"its method is {METHOD_TITLES[its]}, and the study has no rounds"
    if isinstance(its, list) and isinstance(mine, list) and len(its) + len(mine) > 2:
        return f"its {name} are not the study's"
    units = {"epsilon": EPSILON_UNIT, "delta": DELTA_UNIT, "spends": EPSILON_UNIT}
    word = {"symbols": "domain", "thresholds": "threshold", "spends": "spend"}.get(name, name)

    def shown(value: Any) -> str:
        if value is None:
            return "none"
        if isinstance(value, list):
            value = value[0]
        if name == "method":
            return METHOD_TITLES[value]
        return stated(Fraction(value, units[name]), units[name]) if name in units else str(value)

    return f"its {word} is {shown(its)}, and the study's {shown(mine)}"


def _present(value: Any, what: str) -> Any:
    if value is None:
        raise UserError(f"{what} is missing.")
    return value


def _default(sections: Sections, section: str, key: str, default: int) -> int:
    value = sections.integer(section, key)
    return default if value is None else value
