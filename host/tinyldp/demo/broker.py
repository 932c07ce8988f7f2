"""An MQTT broker on loopback for as long as a demonstration or a test runs."""

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tinyldp.errors import UserError

_MOSQUITTO = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 10000
log_type error
log_type warning
"""

_AMQTT = """\
listeners:
  default:
    type: tcp
    bind: 127.0.0.1:{port}
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin:
    allow_anonymous: true
"""


def find_mosquitto() -> str | None:
    """Path of the mosquitto broker, which Debian keeps where only root looks."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    """A TCP port on loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """mosquitto if it is installed, else amqtt; start(), kill(), start() again.

    name: which of the two; address: "127.0.0.1:port". Its sessions and queues
    live in memory: kill() loses them.
    """

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        mosquitto = find_mosquitto()
        config = folder / "broker.conf"
        if mosquitto:
            self.name = "mosquitto"
            config.write_text(_MOSQUITTO.format(port=self.port))
            self._command = [mosquitto, "-c", str(config)]
        else:
            self.name = "amqtt"
            config = config.with_suffix(".yaml")
            config.write_text(_AMQTT.format(port=self.port))
            self._command = [
                sys.executable,
                "-c",
                "from amqtt.scripts.broker_script import main; main()",
                "-c",
                str(config),
            ]

    def start(self, timeout: float = 15) -> None:
        """Start and wait until it listens. UserError when it does not."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self._process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), 0.2),
            ):
                return
            time.sleep(0.05)
        self.kill()
        raise UserError(f"The MQTT broker {self.name} did not start; see {self._log}.")

    def kill(self) -> None:
        """Stop at once (SIGKILL), as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def broker(folder: Path | None = None) -> Iterator[Broker]:
    """A started Broker, killed at the end."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        started = Broker(folder)
        stack.callback(started.kill)
        started.start()
        yield started
