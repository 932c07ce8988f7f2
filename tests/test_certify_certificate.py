"""Whole certificates: what they state, as JSON, as text and as files beside their Tasks."""

from __future__ import annotations

import errno
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.certifying import oracle
from tests.collecting import make_task
from tinyldp.certify import (
    certificate_path,
    certify,
    load_certificate,
    text_certificate,
    write_certificate,
)
from tinyldp.certify.bounds import digits_up, exp_bounds
from tinyldp.errors import UserError
from tinyldp_protocol.task import GRR, JITTERSORT, OLH, OUE, RANSWITCH, SCALE, STASWITCH, Task

F = Fraction
UNIT = 1 << 16
WEIGHTS = [SCALE - 2 * 6_000_000, 4_000_000, 2_000_000]
KEYS = {
    "task_id",
    "mechanism",
    "relation",
    "definition",
    "epsilon",
    "delta",
    "curve",
    "method",
    "paper",
    "lifetime",
    "target",
    "within_target",
    "assumptions",
    "warnings",
}


def switch(mechanism: int = RANSWITCH, k: int = 3, threshold: int = SCALE // 10, **more) -> Task:
    return make_task(mechanism=mechanism, window=k, k=k, thresholds=[threshold], **more)


def jittersort(**more: int) -> Task:
    return make_task(mechanism=JITTERSORT, window=5, k=3, thresholds=WEIGHTS, **more)


TASKS = {
    "ranswitch": switch(),
    "staswitch": switch(STASWITCH, 4),
    "jittersort": jittersort(epsilon=2 * UNIT),
    "grr": oracle(GRR),
    "oue": oracle(OUE, w=20),
    "olh": oracle(OLH, buckets=4),
}


@pytest.mark.parametrize("name", TASKS)
def test_json_has_all_that_is_promised(name: str) -> None:
    task = TASKS[name]
    certificate = certify(task)
    found = json.loads(json.dumps(certificate.to_json(), allow_nan=False))
    assert found.keys() == KEYS
    assert found["task_id"] == task.id.hex()
    assert found["mechanism"] == name
    assert found["target"] is None
    assert found["within_target"] is True
    # Floats are rounded up, never down.
    assert F(found["epsilon"]) >= certificate.epsilon
    assert F(found["delta"]) >= certificate.delta
    curve = found["curve"]
    assert len(curve) == 9
    assert [0.0, found["epsilon"]] == [curve[0][0], curve[4][0]]
    assert curve[4][1] == found["delta"]
    assert curve == sorted(curve)
    assert [delta for _, delta in curve] == sorted((delta for _, delta in curve), reverse=True)
    assert (found["paper"] is not None) == (name == "ranswitch")
    for text in (found["relation"], found["definition"], found["method"]):
        assert text.endswith(".")


def test_a_stream_states_where_its_guarantee_ends() -> None:
    found = certify(TASKS["staswitch"]).to_json()
    assert "less than 4 apart" in found["relation"]
    assert "one segment" in found["relation"]
    assert "every set O" in found["definition"]
    lifetime = found["lifetime"]["statement"]
    for text in ("released once", "one segment, or it is not covered", "do not compose"):
        assert text in lifetime
    assumptions = " ".join(found["assumptions"])
    for text in ("the order, not the values", "weak entropy", "server", "segment's end"):
        assert text in assumptions


def test_an_oracle_states_its_loss_per_window_and_lifetime() -> None:
    certificate = certify(TASKS["oue"])
    found = certificate.to_json()
    assert found["lifetime"]["w"] == 20
    assert F(found["lifetime"]["per_window"]) >= 20 * certificate.epsilon
    assert found["lifetime"]["per_window"] == pytest.approx(20 * found["epsilon"])
    assert "20 times epsilon" in found["lifetime"]["statement"]
    assert "no bound" in found["lifetime"]["statement"]
    assert certify(TASKS["grr"]).to_json()["lifetime"]["per_window"] is None
    assert "hash key" in certify(TASKS["olh"]).definition


def test_the_point_is_the_tasks_or_else_the_natural_one() -> None:
    assert certify(switch(epsilon=3 * UNIT)).epsilon == 3
    natural = certify(switch(threshold=SCALE // 10))
    assert natural.epsilon >= F(math.log(8))
    assert float(natural.epsilon) == pytest.approx(math.log(8), abs=2e-5)
    assert float(natural.delta) == pytest.approx(0.19, abs=1e-6)
    with pytest.raises(UserError, match="name the point"):
        certify(jittersort())


def test_the_papers_figure_stands_beside() -> None:
    """k = 3, q = 1/10 at the paper's epsilon = 3.887."""
    found = certify(switch(epsilon=int(3.887 * UNIT))).to_json()
    assert found["delta"] == pytest.approx(0.19, abs=1e-6)
    assert found["paper"]["epsilon"] == pytest.approx(3.887, abs=5e-4)
    assert found["paper"]["delta"] == pytest.approx(0.1, abs=1e-6)
    assert found["paper"]["holds"] is False
    assert found["paper"]["counterexample"]["event"] == "3 is among the first 2 released"
    assert found["paper"]["counterexample"]["probability"] == pytest.approx(0.19, abs=1e-6)
    assert found["paper"]["counterexample"]["neighbour_probability"] == 0
    assert any("not a guarantee" in warning for warning in found["warnings"])


def least_delta(task: Task) -> int:
    """The certified delta over 2^30, rounded down."""
    return int(certify(task).delta * (1 << 30))


@pytest.mark.parametrize(
    "make",
    [
        lambda **more: switch(epsilon=UNIT, **more),
        lambda **more: switch(**more),
        lambda **more: switch(STASWITCH, 4, epsilon=UNIT, **more),
        lambda **more: jittersort(epsilon=UNIT, **more),
    ],
)
def test_a_delta_just_below_what_is_certified_is_exceeded(make) -> None:
    least = least_delta(make())
    met, exceeded = certify(make(delta=least + 1)), certify(make(delta=least))
    assert met.within_target
    assert met.to_json()["target"]["delta"] == (least + 1) / (1 << 30)
    assert not exceeded.within_target
    assert exceeded.to_json()["within_target"] is False
    assert any("exceeds" in warning for warning in exceeded.warnings)


def test_the_target_is_not_met_at_another_point() -> None:
    task = jittersort(epsilon=UNIT, delta=least_delta(jittersort(epsilon=UNIT)))
    elsewhere = certify(task, F(20))
    assert elsewhere.delta < certify(task).delta
    assert not elsewhere.within_target


@pytest.mark.parametrize("mechanism", [GRR, OUE, OLH])
def test_an_oracles_target_is_exact(mechanism: int) -> None:
    more: dict[str, Any] = {"buckets": 8} if mechanism == OLH else {}
    epsilon = UNIT
    bound = exp_bounds(F(1))[0]
    slots = 1 if mechanism == OUE else 7
    threshold = math.ceil(SCALE / (bound + slots))
    assert certify(oracle(mechanism, epsilon=epsilon, thresholds=[threshold], **more)).within_target
    less_noise = oracle(mechanism, epsilon=epsilon, thresholds=[threshold - 1], **more)
    assert not certify(less_noise).within_target


def test_staswitch_names_its_standing() -> None:
    assert "comparing all of them." in certify(switch(STASWITCH, 6, 10**6)).method
    beyond = certify(switch(STASWITCH, 7, 10**6))
    assert "not proved" in beyond.method
    assert any("k = 7" in warning for warning in beyond.warnings)
    with pytest.raises(UserError, match="RanSwitch or JitterSort"):
        certify(switch(STASWITCH, 10, 10**6))


@pytest.mark.parametrize("name", TASKS)
def test_text_has_the_figures_and_fits_a_terminal(name: str) -> None:
    certificate = certify(TASKS[name])
    text = text_certificate(certificate)
    assert f"Task {TASKS[name].id.hex()}, {name}" in text
    assert max(map(len, text.splitlines())) <= 88
    shown = next(line for line in text.splitlines() if line.startswith("epsilon "))
    assert certificate.epsilon <= F(shown.split()[1]) <= certificate.epsilon * F(100002, 100000)
    if name == "ranswitch":
        assert "does not hold" in text
        assert "0.19 against 0" in text


def test_text_says_whether_the_target_is_met() -> None:
    assert "delta 0.5: met" in text_certificate(certify(switch(delta=1 << 29)))
    assert "delta 0.125: EXCEEDED" in text_certificate(certify(switch(delta=1 << 27)))
    # As the study stated it, before it was rounded down.
    assert "delta 0.001: EXCEEDED" in text_certificate(certify(switch(delta=(1 << 30) // 1000)))


# Files -------------------------------------------------------------------------------------------


def write(folder: Path, task: Task) -> tuple[Path, Path]:
    path = folder / "STUDY.task"
    write_certificate(certify(task), certificate_path(path))
    return path, certificate_path(path)


def test_a_certificate_lies_beside_its_task(tmp_path: Path) -> None:
    task, path = write(tmp_path, switch())
    assert path == tmp_path / "STUDY.task.cert.json"
    loaded = load_certificate(task, switch())
    assert loaded == json.loads(json.dumps(certify(switch()).to_json()))


def test_a_certificate_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, path = write(tmp_path, switch())

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="can't be written: No space left"):
        write(tmp_path, switch(threshold=10**6))
    assert load_certificate(task, switch())
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_certificate(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no certificate.*tinyldp certify"):
        load_certificate(tmp_path / "STUDY.task", switch())


def test_the_certificate_of_another_task(tmp_path: Path) -> None:
    task, _ = write(tmp_path, switch())
    with pytest.raises(UserError, match=switch().id.hex()):
        load_certificate(task, switch(threshold=SCALE // 10 + 1))


def test_a_task_beyond_its_target_is_not_let_through(tmp_path: Path) -> None:
    beyond = switch(delta=1000)
    task, _ = write(tmp_path, beyond)
    with pytest.raises(UserError, match="gives away more than its target"):
        load_certificate(task, beyond)


def test_every_flipped_bit_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the last digit of a number, where it makes another spelling of the same float."""
    of = switch()
    task, path = write(tmp_path, of)
    sound = path.read_bytes()
    damaged = bytearray(sound)
    # So many files would take longer to write than to check.
    monkeypatch.setattr(Path, "read_bytes", lambda path: bytes(damaged))
    assert load_certificate(task, of)
    for at in range(len(sound)):
        for bit in range(8):
            damaged[at] = sound[at] ^ 1 << bit
            with pytest.raises(UserError, match="damaged"):
                load_certificate(task, of)
        damaged[at] = sound[at]


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"sha256": "x"}', b"NaN"]
)
def test_what_is_no_certificate(tmp_path: Path, data: bytes) -> None:
    task, path = write(tmp_path, switch())
    path.write_bytes(data)
    with pytest.raises(UserError, match="no certificate, or it is damaged"):
        load_certificate(task, switch())


def test_sealed_but_empty_is_no_certificate(tmp_path: Path) -> None:
    from tinyldp.certify import files

    task, path = write(tmp_path, switch())
    path.write_text(json.dumps({"sha256": files._seal({})}))
    with pytest.raises(UserError, match="damaged"):
        load_certificate(task, switch())


def test_a_place_that_can_t_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be written"):
        write_certificate(certify(switch()), tmp_path / "nowhere" / "X.task.cert.json")
    (tmp_path / "X.task.cert.json").mkdir()
    with pytest.raises(UserError, match="can't be read"):
        load_certificate(tmp_path / "X.task", switch())


@pytest.mark.parametrize(
    "change",
    [{"epsilon": None}, {"delta": "x"}, {"epsilon": math.nan}, {"within_target": 0}],
    ids=str,
)
def test_sealed_but_of_the_wrong_kind_is_no_certificate(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    from tinyldp.certify import files

    task, path = write(tmp_path, switch())
    content = load_certificate(task, switch()) | change
    path.write_text(json.dumps(content | {"sha256": files._seal(content)}))
    with pytest.raises(UserError, match="no certificate"):
        load_certificate(task, switch())


def test_figures_of_ten_and_more_are_written_out() -> None:
    assert [digits_up(F(n)) for n in (0, 1, 10, 16000)] == ["0", "1", "10", "16000"]
    assert digits_up(F(1, 10**7)) == "1.00001e-7"
