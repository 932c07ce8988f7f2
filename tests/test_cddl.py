"""The norm's CDDL, by an independent CDDL tool, against the literal vectors and the oracle.

The tool checks shapes only. It takes what is not deterministic (trailing bytes, indefinite lengths,
duplicate keys, long heads); the vectors say of each refused input whether its shape still fits.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from random import Random

import pytest
from pycddl import Schema, ValidationError

from tests.oracle import decoder, mutate, vectors
from tests.oracle.vectors import CDDL, MESSAGES, TASK

# Reasons that CDDL can not see: the encoding, the range of a counter, lengths set by the Task, and
# bounds between fields.
UNSEEN_IN_MESSAGES = {
    *("not minimal", "indefinite", "trailing", "too large", "wrong length"),
    "zero",
}
UNSEEN_IN_TASKS = {
    *("not minimal", "indefinite", "trailing", "duplicate key", "key order"),
    *("window", "bins", "missing", "thresholds", "spends", "batch"),
    *("rounds", "votes", "estimates", "levels", "polls", "items"),
    *("prior", "transitions", "costs", "block", "memory", "table"),
}


KINDS = ("hello", "release", "ack", "status", "query", "answer", "refusal")
Rules = tuple[Schema, Schema]


@lru_cache(64)
def schema(root: str, cddl: str = CDDL) -> Rules:
    """Make the rules for one root: as they stand, and with types alone.

    The tool errs on groups in maps, which are written out for it. It takes text or an
    integer for `bstr .size 4`, a byte string for an integer range, and an array for a choice
    of numbers; it is strict about bare types, so it is asked for these too.
    """
    cddl = reachable(root, cddl)
    types = cddl
    types = re.sub(r"bstr \.size (\d+|\(.*?\))", "bstr", types)
    types = re.sub(r"\b\d+\.\.\d+|(?<== )\d+(\s+/ \d+)+", "uint", types)
    # CDDL's first rule is what is checked.
    return checker(f"start = {root}\n{cddl}"), checker(f"start = {root}\n{types}")


def reachable(root: str, cddl: str) -> str:
    """Give the rules that this one is made of, without comments: a fault elsewhere is not its."""
    rules = written_out(cddl)
    wanted = [root]
    for name in wanted:
        inner = re.findall(r"(?<![\w-])[a-z][\w-]*", rules[name])
        wanted += [each for each in dict.fromkeys(inner) if each in rules and each not in wanted]
    return "".join(f"{name} = {rules[name]}\n" for name in wanted)


@lru_cache(2)
def written_out(cddl: str) -> dict[str, str]:
    """Give each rule by its name, without comments, and with groups in their places."""
    cddl = re.sub(r";.*", "", cddl)
    groups = dict(re.findall(r"^(\w+) = \((.*?)^\)\n", cddl, re.MULTILINE | re.DOTALL))
    cddl = re.sub(r"^\w+ = \(.*?^\)\n", "", cddl, flags=re.MULTILINE | re.DOTALL)
    cddl = re.sub(r"^  (\w+), *\n", lambda name: groups[name[1]], cddl, flags=re.MULTILINE)
    return dict(re.findall(r"^([\w-]+) = (.*?)(?=^[\w-]+ = |\Z)", cddl, re.MULTILINE | re.DOTALL))


# The rules as they stand are asked for all the time, and stay; those of a fault take a third of a
# megabyte each, and go.
checker = lru_cache(128)(Schema)


@lru_cache(1 << 13)
def fits(rules: Rules, data: bytes) -> bool:
    for each in rules:
        try:
            each.validate_cbor(data)
        except ValidationError:
            return False
    return True


def messages(cddl: str = CDDL) -> list[Rules]:
    """Make the rules of each message: the tool errs on arrays inside a choice of arrays."""
    return [schema(f"{kind}-message", cddl) for kind in KINDS]


def tasks(cddl: str = CDDL) -> list[Rules]:
    """Make the rules of each kind of Task, for the same reason."""
    choice = re.search(r"^task = (.*(?:\n +/.*)*)", cddl, re.MULTILINE)
    assert choice
    kinds = re.findall(r"[\w-]+", choice[1])
    return [schema(kind, cddl) for kind in kinds]


def misjudged(cddl: str) -> Iterator[str]:
    """Name the vectors whose shape this CDDL sees differently than it should."""
    kinds, task = messages(cddl), tasks(cddl)
    for vector in TASK["valid"]:
        data = bytes.fromhex(vector["hex"])
        if sum(fits(rules, data) for rules in task) != 1:
            yield vector["name"]
    for vector in MESSAGES["valid"]:
        if not fits(schema(vector["kind"] + "-message", cddl), bytes.fromhex(vector["hex"])):
            yield vector["name"]
    for choice, group in ((kinds, MESSAGES["invalid"]), (task, TASK["invalid"])):
        for vector in group:
            data = bytes.fromhex(vector["hex"])
            if any(fits(rules, data) for rules in choice) != vector["shape"]:
                yield vector["name"]
    # Last, as these hold all messages: a fault of one is found before, with its own rule.
    whole, up, down = (schema(root, cddl) for root in ("message", "up", "down"))
    for vector in MESSAGES["valid"]:
        data = bytes.fromhex(vector["hex"])
        is_down = vector["kind"] in ("ack", "query")
        sides = fits(whole, data), fits(up, data), fits(down, data)
        if sides != (True, not is_down, is_down):
            yield vector["name"]


def test_vectors_fit():
    assert list(misjudged(CDDL)) == []


def shape(field: str) -> str:
    """Give what stands for one field, names of byte strings resolved."""
    value = field.split(";")[0].split(": ")[1].strip(" ,")
    eight, four, two = "bstr .size 8", "bstr .size 4", "bstr .size 2"
    named = {"task-id": eight, "nonce": four, "counter": four, "entry": two}
    return named.get(value, value)


def changes() -> list[tuple[str, str]]:
    """List small faults of the CDDL: a number off by one, a line lost, neighbours exchanged."""
    faults = []
    lines = CDDL.splitlines()
    for at, line in enumerate(lines):
        code = line.split(";")[0]
        for number in re.finditer(r"(?<![\w-])\d+", code):
            for other in (int(number[0]) + 1, int(number[0]) - 1):
                # A lower bound of -1 would be another rule, and some tools refuse it.
                if other < 0:
                    continue
                changed = line[: number.start()] + str(other) + line[number.end() :]
                faults.append(
                    (f"line {at + 1}: {code.strip()}: {number[0]} -> {other}", changed, at)
                )
    texts = [
        (name, "\n".join([*lines[:at], changed, *lines[at + 1 :]]) + "\n")
        for name, changed, at in faults
    ]
    for at, line in enumerate(lines):
        field = re.match(r"  (?:\? )?(?:\w+: |\d+ => |\w+,$)", line)
        if not field:
            continue
        texts.append((f"without line {at + 1}: {line}", "\n".join(lines[:at] + lines[at + 1 :])))
        after = lines[at + 1]
        both = re.match(r"  \w+: ", line) and re.match(r"  \w+: ", after)
        if both and shape(line) != shape(after):
            swapped = [*lines[:at], after, line, *lines[at + 2 :]]
            texts.append((f"line {at + 1} after the next", "\n".join(swapped)))
    return texts


FAULTS = changes()


def test_there_are_faults_to_plant():
    assert len(FAULTS) > 120


@pytest.mark.parametrize(("name", "cddl"), FAULTS, ids=[name for name, _ in FAULTS])
def test_a_fault_in_the_cddl_is_caught(name, cddl):
    assert any(misjudged(cddl))


def compare(
    choice: list[Rules],
    mutants: Iterable[bytes],
    oracle: Callable[[bytes], object],
    unseen: set[str],
) -> None:
    """Show that the tool refuses all that the oracle does, but for what CDDL can not see."""
    seen: Counter = Counter()
    for data in mutants:
        fit = any(fits(rules, data) for rules in choice)
        try:
            oracle(data)
        except decoder.Refused as error:
            reason = str(error)
        else:
            assert fit, data.hex()
            reason = "good"
        # The tool takes any value under tag 4 for any type; the vectors hold other tags.
        if fit and reason != "tag":
            assert reason in unseen | {"good"}, data.hex()
            seen[reason] += 1
    assert seen["good"] >= 400
    assert set(seen) == unseen | {"good"}


def test_oracle_and_cddl_agree_on_mutated_messages():
    mutants = [data for size, data in mutate.messages(10, 30_000) if size == 3]
    compare(messages(), mutants, lambda data: decoder.message(data, 3), UNSEEN_IN_MESSAGES)


def test_oracle_and_cddl_agree_on_mutated_tasks():
    random = Random(13)
    mutants = [mutate.task_mutant(random) for _ in range(8_000)]
    compare(tasks(), mutants, decoder.task, UNSEEN_IN_TASKS)


@pytest.mark.parametrize("vector", MESSAGES["valid"][:1], ids=vectors.name)
def test_the_tool_can_refuse(vector):
    assert not fits(schema("ack-message"), bytes.fromhex(vector["hex"]))
