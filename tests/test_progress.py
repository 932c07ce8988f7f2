"""What is said on standard error while collecting."""

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
