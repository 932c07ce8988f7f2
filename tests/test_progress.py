"""What is said on standard error while collecting."""

from dataclasses import replace

import pytest

from tinyldp import progress
from tinyldp.collect.collector import DeviceProgress, Snapshot

DEVICE = DeviceProgress("00" * 8, "mqtt", 12, 0, False)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (None, "1 device heard, 12 frames received\n"),
        (6, "Step 6: 1 device heard, 12 answers received\n"),
    ],
)
def test_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: int | None, said: str
) -> None:
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    with progress.Progress() as shown:
        shown.update(Snapshot([DEVICE], 0, [], step))
        assert shown.received() == 12
    assert capsys.readouterr().err == said


def test_what_earlier_boots_sent_stays_counted_and_what_earlier_runs_received_is_not() -> None:
    first = DeviceProgress("00" * 8, "mqtt", 450, 0, False, "11" * 8, before=100)
    second = DeviceProgress("00" * 8, "mqtt", 1, 0, False, "22" * 8)
    with progress.Progress() as shown:
        for devices, received in (
            ([first], 350),
            ([first, second], 351),
            # The collector has forgotten the boot that is over, or was started again.
            ([second], 351),
            ([replace(first, before=450)], 351),
        ):
            shown.update(Snapshot(devices, 0, [], 6))
            assert shown.received() == received
