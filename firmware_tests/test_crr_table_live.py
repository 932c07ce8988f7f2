"""CRR in blocks by a table, live: MicroPython devices on serial lines and MQTT, and a host."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from firmware_tests.test_crr_live import STEPS, Live
from tinyldp.estimate.crr import decode
from tinyldp.lanes import Lane
from tinyldp.lanes.unix import Unix
from tinyldp.replay import replay
from tinyldp.report import render_report, report_data, text_report
from tinyldp_device.crrtables import CrrTable

BLOCK = 2
RELEASED = STEPS // BLOCK * BLOCK


@pytest.mark.waits
@pytest.mark.parametrize("lane", ["unix"], indirect=True)
def test_a_table_live(lane: Lane, tmp_path: Path) -> None:
    """All but the incomplete last block arrives, and is smoothed."""
    assert isinstance(lane, Unix)
    assert RELEASED < STEPS
    with contextlib.ExitStack() as stack:
        live = Live(tmp_path, lane, stack, {"crr-batch": f'block = {BLOCK}\nrule = "table"'})
        live.collect()
        for device in live.devices:
            live.check_released(device)
        data = report_data(live.store)
        assert data["alarms"] == []
        for row in data["streams"]:
            assert (row["values"], row["lost"], row["health"]) == (RELEASED, 0, "ended")
        (table,) = data["crr"]
        assert (table["problem"], table["cut"], table["steps_in_all"]) == (None, 0, RELEASED)
        task = live.devices[0].task
        released = [replay(task, device.words, device.symbols()) for device in live.devices]
        decoded = decode(task, released, ended=True)
        last = table["steps"][-1]
        smoothed = decoded.posterior[:, -1].mean(axis=0)
        assert np.allclose(last["smoothed"], smoothed[table["followed"]])
        assert last["total"] == pytest.approx(decoded.leakage.sum(axis=1).mean())
        assert 0 < last["most"] <= last["allowed"]
        assert "is known of the chain" in " ".join(text_report(data, 160).split())
        page = tmp_path / "live.html"
        originals = {device.pseudonym.hex(): device.symbols() for device in live.devices}
        render_report(live.store, page, originals, data=data)
        assert page.read_text().count("Released and smoothed series of") == len(live.devices)
        with pytest.MonkeyPatch.context() as patch:
            flush = CrrTable.flush
            patch.setattr(CrrTable, "flush", lambda self: None if self._left < 2 else flush(self))
            with pytest.raises(AssertionError):
                live.check_released(live.devices[0])
