"""The audit of a Task with a method: what hostile servers guess, and what that proves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.epochs_tasks import epoch_task
from tests.test_hostile_server import FULL, RECOVERED, WINDOW, make_task
from tinyldp import cli
from tinyldp.audit import audit_rounds
from tinyldp_device.ledger import Ledger
from tinyldp_protocol.task import LPA, Task, write_file

TASK = RECOVERED["GRR, all at once"][0]


def saved(task: Task, folder: Path) -> str:
    path = folder / "rounds.task"
    path.write_bytes(write_file(task))
    return str(path)


def test_an_audit_of_rounds_bounds_epsilon_from_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = saved(TASK, tmp_path), tmp_path / "growth.png"
    # All bounds together are wrong with a probability of 10^-6, and only then may this fail.
    assert cli.main(["audit", path, "--devices", "400", "--json", "--picture", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["held"] is True
    assert (found["mechanism"], found["lane"], found["devices"]) == ("lpa", "cpython", 400)
    assert found["epsilon"] == pytest.approx(1, abs=1e-4)
    # One answer with all of epsilon: the guesses come close to the bound, .40.
    assert 0.2 < found["epsilon_lower"] <= found["epsilon"]
    growth = found["sieges"][0]["growth"]
    assert growth[3] > growth[0]
    assert picture.stat().st_size > 2000


@pytest.mark.parametrize("fault", ["no budget", "twice the loss"])
def test_a_device_that_gives_away_more_is_found(
    fault: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = TASK
    if fault == "no budget":
        monkeypatch.setattr(Ledger, "_room", lambda self, size: 1 << 29)
    else:
        # What the device executes has lost its noise; the certificate is the old Task's.
        task = make_task([FULL], w=WINDOW, epsilon=FULL, method=LPA)
        from tinyldp_device import oracles

        step = oracles.Grr.step

        def louder(self: oracles.Grr, value: int) -> int:
            self.threshold = self.threshold // 3
            return step(self, value)

        monkeypatch.setattr(oracles.Grr, "step", louder)
    assert cli.main(["audit", saved(task, tmp_path), "--devices", "300"]) == 1
    assert "BREAKS ITS CERTIFICATE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--lane", "unix"], "audited on the lane cpython, not on unix"),
        (["--devices", "7"], "takes 100 to 100,000 devices, not 7"),
        (["--segments", "1000"], "--segments is for a Task without a method"),
        (["--picture", "growth.txt"], "has no ending of a picture"),
        (["--confidence", "1"], "must lie between 0 and 1"),
    ],
)
def test_bad_options_are_one_sentence(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["audit", saved(TASK, tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_what_an_audit_takes_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", saved(epoch_task(), tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "An audit takes Tasks whose devices release at every step (RanSwitch, " in said
    assert said.endswith(
        " and Tasks with a method (LBU, LSP, LBD, LBA, LPU, LPD and LPA), not Thresh.\n"
    )


def test_the_library_refuses_a_task_without_a_method(tmp_path: Path) -> None:
    from tests.test_hostile_server import PLAIN
    from tinyldp.errors import UserError

    with pytest.raises(UserError, match="Only a Task with a method"):
        audit_rounds(Task({**PLAIN}), 100)
