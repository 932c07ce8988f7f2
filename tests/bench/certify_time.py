"""How long StaSwitch's exact certificate takes, and how much memory, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.simulating import make_task
from tinyldp_protocol.task import SCALE, STASWITCH, write_file

_PROGRAM = """
import json, resource, sys, time
from tinyldp.certify import certify
from tinyldp_protocol.task import read_file
task = read_file(bytes.fromhex(sys.argv[1]))
start = time.process_time()
certify(task)
seconds = time.process_time() - start
size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
# Of macOS in bytes, elsewhere in kilobytes.
print(json.dumps([seconds, size / (1 << 30 if sys.platform == "darwin" else 1 << 20)]))
"""


def measure(k: int) -> tuple[float, float]:
    """Seconds and GiB for a StaSwitch of this k."""
    task = make_task(
        STASWITCH, window=k, k=k, symbols=16, epsilon=4 << 16, thresholds=[SCALE // (4 * k)]
    )
    command = [sys.executable, "-c", _PROGRAM, write_file(task).hex()]
    out = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    seconds, size = json.loads(out)
    return seconds, size
