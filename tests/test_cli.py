"""Every command, given what it cannot take: one sentence, a non-zero exit, no traceback."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.collecting import hello, make_task, release
from tinyldp import cli, lanes, progress
from tinyldp.collect.deframing import framed
from tinyldp.collect.intake import Intake, Link
from tinyldp.collect.store import Store
from tinyldp.demo.broker import free_port
from tinyldp.flash import build, microbit, provision
from tinyldp.lanes import Cable, port

STUDY = """\
[study]
name = "wear"
[mechanism]
name = "ranswitch"
threshold = 1006633
[privacy]
k = 10
[values]
domain = 16
[links]
{links}
"""

# Those that read a file.
COMMANDS = ["plan", "certify", "collect", "report", "simulate", "audit"]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study with its Task and certificate beside it, and no link that exists."""
    path = tmp_path / "wear.toml"
    path.write_text(STUDY.format(links='serial = ["/dev/no-such-port"]'))
    assert cli.main(["plan", str(path), "--json"]) == 0
    assert cli.main(["certify", str(path.with_suffix(".task")), "--json"]) == 0
    return path


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must refuse its input; its one sentence, with these words in it."""
    capsys.readouterr()
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith(f"tinyldp {arguments[0]}: ")
    assert captured.err.endswith(".\n")
    for word in words:
        assert word in captured.err
    return captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_file(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused([command, str(tmp_path / "nowhere")], capsys, "nowhere")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("content", [os.urandom(3000), b"", b"\x00", b"[study]\nname = 'x'\n"])
def test_wrong_file_type(
    command: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong"
    path.write_bytes(content)
    refused([command, str(path)], capsys, "wrong")
    assert path.read_bytes() == content


@pytest.mark.parametrize("command", COMMANDS)
def test_folder_in_place_of_a_file(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused([command, str(tmp_path)], capsys)


def test_plan_writes_what_collect_reads(
    study: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    task = study.with_suffix(".task").read_bytes()
    capsys.readouterr()
    assert cli.main(["plan", str(study), "-o", str(tmp_path / "other.task"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bytes"] == len(task) == len((tmp_path / "other.task").read_bytes())
    assert bytes.fromhex(result["task_id"]) in task
    refused(["plan", str(study), "-o", str(tmp_path / "no" / "folder")], capsys, "folder")


def test_collect_needs_the_studys_own_task(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study.write_text(study.read_text().replace("k = 10", "k = 9"))
    refused(["collect", str(study)], capsys, "tinyldp plan")
    damaged = bytearray(study.with_suffix(".task").read_bytes())
    damaged[5] ^= 1
    study.with_suffix(".task").write_bytes(damaged)
    refused(["collect", str(study)], capsys, "damaged")
    study.with_suffix(".task").unlink()
    refused(["collect", str(study)], capsys, "wear.task")


def test_collect_without_a_certificate(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused; with --uncertified, every table says so."""
    study.with_suffix(".task.cert.json").unlink()
    refused(["collect", str(study)], capsys, "no certificate", "--uncertified")
    with Cable() as cable:
        study.write_text(STUDY.format(links=f'serial = ["{cable.host_end}"]'))
        arguments = ["collect", str(study), "--seconds", "1", "--uncertified", "--json"]
        assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["uncertified"]


def test_a_damaged_certificate(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = study.with_suffix(".task.cert.json")
    path.write_text(path.read_text().replace("0.4", "0.1", 1))
    refused(["collect", str(study)], capsys, "damaged")


def test_a_task_beyond_its_target(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """certify says it with its exit code, and collect and flash refuse the Task."""
    study.write_text(study.read_text().replace("k = 10", "k = 10\nepsilon = 2\ndelta = 0.1"))
    task = study.with_suffix(".task")
    assert cli.main(["plan", str(study)]) == 0
    capsys.readouterr()
    assert cli.main(["certify", str(task), "--json"]) == 1
    certificate = json.loads(capsys.readouterr().out)
    assert not certificate["within_target"]
    assert certificate["delta"] > 0.1
    refused(["collect", str(study)], capsys, "more than its target")
    refused(["flash", str(task), "--lane", "microbit"], capsys, "more than its target")


def test_simulate(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "fleet.svg"
    arguments = ["simulate", str(study), "--devices", "50", "--steps", "200", "--json"]
    results = []
    for seed in ("1", "1", "2"):
        capsys.readouterr()
        assert cli.main([*arguments, "--seed", seed, "--picture", str(picture)]) == 0
        result = json.loads(capsys.readouterr().out)
        results.append(result["mean_displacement"])
    assert results[0] == results[1] != results[2]
    assert "<svg" in picture.read_text()
    refused(["simulate", str(study), "--devices", "0"], capsys, "devices")
    refused(["simulate", str(study)], capsys, "devices")
    refused(["simulate", str(study), "--picture", str(study)], capsys, "another file")


def test_collect_without_links(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study.write_text(STUDY.format(links=""))
    refused(["collect", str(study)], capsys, "[links]")


def test_missing_port(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And no empty database is left; one that was there stays."""
    refused(["collect", str(study)], capsys, "/dev/no-such-port")
    store = study.with_suffix(".db")
    assert not list(study.parent.glob("*.db*"))
    task = make_task()
    Store.create(store, task).close()
    refused(["collect", str(study)], capsys, "/dev/no-such-port")
    assert store.exists()


def test_boards_that_run_another_task(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are named at the end, with what to do."""
    other = make_task()
    said = b"".join(framed(hello(other, bytes([n]) * 8, bytes([n]) * 8)) for n in (1, 2))
    over = threading.Event()

    def repeat(path: str) -> None:
        device = os.open(path, os.O_RDWR | os.O_NOCTTY)
        while not over.wait(0.1):
            os.write(device, said)
        os.close(device)

    capsys.readouterr()
    with Cable() as cable:
        study.write_text(STUDY.format(links=f'serial = ["{cable.host_end}"]'))
        boards = threading.Thread(target=repeat, args=(cable.device_end,))
        boards.start()
        try:
            assert cli.main(["collect", str(study), "--seconds", "2", "--json"]) == 0
        finally:
            over.set()
            boards.join()
    (told,) = json.loads(capsys.readouterr().out)["warnings"]
    assert told.startswith(f"2 boards at {cable.host_end} ran another Task, {other.id.hex()},")
    assert f"`tinyldp flash {study.with_suffix('.task')} --port PORT`" in told


def test_busy_port(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cable() as cable:
        study.write_text(STUDY.format(links=f'serial = ["{cable.host_end}"]'))
        command = [sys.executable, "-m", "tinyldp", "collect", str(study)]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as other:
            assert other.stderr is not None
            assert other.stderr.readline().startswith(b"Listening on")
            try:
                refused(["collect", str(study)], capsys, cable.host_end)
            finally:
                other.kill()


def test_unreachable_broker(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    study.write_text(STUDY.format(links=f'mqtt = "{address}"'))
    refused(["collect", str(study)], capsys, address)


def test_collect_says_what_it_waits_for(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cable() as cable:
        study.write_text(STUDY.format(links=f'serial = ["{cable.host_end}"]'))
        capsys.readouterr()
        arguments = ["collect", str(study), "--seconds", "1", "--until-ended", "2", "--json"]
        assert cli.main(arguments) == 0
    said = f"Listening on {cable.host_end} for 2 segments to end; Ctrl-C ends it"
    assert capsys.readouterr().err.startswith(said)


def test_collect_for_a_time(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cable() as cable:
        study.write_text(STUDY.format(links=f'serial = ["{cable.host_end}"]'))
        capsys.readouterr()
        assert cli.main(["collect", str(study), "--seconds", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["streams"] == []
    assert cli.main(["report", str(study.with_suffix(".db")), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["streams"] == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ("my.csv",)),
        (b"", ("empty",)),
        (b"1\n2\nx\n", ("line 3", "x")),
        (b"1\n2.5\n", ("line 2",)),
        (b"a,b\n1,2\n", ("value",)),
        (bytes(range(256)), ("text",)),
    ],
)
def test_unreadable_recording(
    content: bytes | None,
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "my.csv"
    if content is not None:
        path.write_bytes(content)
    output = tmp_path / "out"
    refused(["demo", "--recording", str(path), "--output", str(output)], capsys, *words)
    assert not output.exists()


def test_demo_spares_what_is_not_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.csv").write_text("1\n2\n3\n")
    (tmp_path / "thesis.txt").write_text("years of work")
    arguments = ["demo", "--recording", str(tmp_path / "my.csv"), "--output", str(tmp_path)]
    refused(arguments, capsys, "something else")
    assert (tmp_path / "thesis.txt").exists()
    refused([*arguments[:-1], str(tmp_path / "thesis.txt")], capsys, "thesis.txt")


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["demo", "--steps", "0"], ["collect"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("tinyldp")
    assert said.endswith(" --help.\n")
    assert said.count("\n") == 1


def test_report_of_a_database_that_is_not_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table songs (name text)")
    refused(["report", str(path)], capsys, "other.db")


def test_output_that_nobody_reads_is_no_traceback(study: Path) -> None:
    process = subprocess.run(
        f"{sys.executable} -m tinyldp plan {study} --json | true",
        shell=True,
        capture_output=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert process.stderr == b""


def test_a_long_certificate_shows_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    path = tmp_path / "j.toml"
    path.write_text(
        '[study]\nname = "j"\n[mechanism]\nname = "jittersort"\n'
        "[privacy]\nk = 3\nepsilon = 4\ndelta = 0.1\n[values]\ndomain = 4\n"
    )
    assert cli.main(["plan", str(path)]) == 0
    capsys.readouterr()
    assert cli.main(["certify", str(path.with_suffix(".task"))]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [f"{n} of 10 steps of certifying" for n in range(1, 11)]


def test_output_is_never_what_is_read(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = study.read_bytes()
    refused(["plan", str(study), "-o", str(study)], capsys, "another file")
    link = tmp_path / "link.toml"
    link.symlink_to(study)
    refused(["plan", str(link), "-o", str(study)], capsys, "another file")
    task = str(study.with_suffix(".task"))
    refused(["certify", task, "-o", task], capsys, "another file")
    refused(["certify", task, "-o", str(study)], capsys, "holds a study and is kept")
    certificate = str(tmp_path / "s.task.cert.json")
    refused(["plan", str(study), "-o", certificate], capsys, "a certificate's name; name the Task")
    refused(["plan", str(study), "-o", str(tmp_path / "s.db")], capsys, "a store's name")
    other = str(tmp_path / "other.task")
    refused(["certify", task, "-o", other], capsys, "a Task's name; name the certificate")
    assert not {"s.task.cert.json", "s.db", "other.task"} & {p.name for p in tmp_path.iterdir()}
    refused(["plan", str(study), "-o", "/"], capsys, "Is a directory")
    assert study.read_bytes() == before
    with Cable() as cable:
        study.write_text(STUDY.format(links=f'serial = ["{cable.host_end}"]'))
        assert cli.main(["collect", str(study), "--seconds", "1"]) == 0
    database = study.with_suffix(".db")
    before = database.read_bytes()
    refused(["report", str(database), "--html", str(database)], capsys, "another file")
    refused(["report", str(database), "--html", task], capsys, "holds a Task and is kept")
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "threshold = " + "9" * 5000,
        "threshold = 0x" + "f" * 5000,
        "threshold = 1e99999999999999999999999999",
        "threshold = nan",
        "threshold = " + "[" * 3000,
        "threshold = 1\nthreshold = 2",
    ],
)
def test_studies_that_overwhelm(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(STUDY.replace("threshold = 1006633", text).format(links=""))
    assert len(refused(["plan", str(path)], capsys)) < 400


@pytest.mark.parametrize("module", ["tinyldp.cli", "argparse", "importlib.metadata", "json"])
def test_stopped_while_it_loads(module: str) -> None:
    """Ctrl-C before there is a command to stop: no traceback either."""
    program = f"""
import sys, runpy
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
sys.modules.pop({module!r}, None)
sys.argv = ["tinyldp", "--version"]
runpy.run_module("tinyldp", run_name="__main__")
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (130, b"tinyldp: stopped.\n")


def test_the_installed_command_is_the_one_that_can_be_stopped() -> None:
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    assert '[project.scripts]\ntinyldp = "tinyldp.__main__:main"\n' in project


@pytest.mark.parametrize("output", [".", "/", ""])
def test_folders_in_place_of_a_study(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        refused([command, output], capsys)


@pytest.mark.parametrize("command", ["plan", "certify", "simulate"])
def test_a_file_that_never_ends(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused([command, "/dev/zero"], capsys, "larger than any study or Task")


def test_too_little_memory_is_one_sentence(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tinyldp.planning.plan", greedy)
    refused(["plan", str(study)], capsys, "needs more memory than there is")


def test_a_full_disk_is_one_sentence(study: Path) -> None:
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "tinyldp", "plan", str(study)],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert process.returncode == 1
    assert process.stderr == b"tinyldp plan: No space left on device.\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_cannot_show_it_all(study: Path, encoding: str) -> None:
    study.write_text(STUDY.format(links=""))
    named = study.with_name("größe-日本.toml")
    study.rename(named)
    process = subprocess.run(
        [sys.executable, "-m", "tinyldp", "plan", str(named)],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, b"")


def test_a_forged_stream_costs_the_others_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = make_task()
    store = Store.create(tmp_path / "a.db", task)
    intake = Intake(task, store)
    far = release(b"nonce  1", (1 << 30) - 1, b"\0\1")
    intake.feed(Link("usb"), [hello(task, b"forger  ", b"nonce  1"), far], 1)
    good = [release(b"nonce  2", n, b"\0\1") for n in range(200)]
    intake.feed(Link("usb"), [hello(task, b"wearer 2", b"nonce  2"), *good], 1)
    intake.committed(store.commit(intake.batch(1, 1)))
    store.close()
    page, folder = tmp_path / "a.html", tmp_path / "values"
    arguments = ["report", str(tmp_path / "a.db"), "--html", str(page), "--csv", str(folder)]
    assert cli.main(arguments) == 0
    assert "hardly any came" in capsys.readouterr().err
    assert "hardly any came" in page.read_text()
    assert "<svg" in page.read_text()
    name = f"{b'wearer 2'.hex()}-{b'nonce  2'.hex()}.csv"
    assert [path.name for path in folder.iterdir()] == [name]


def test_flash_tells_epsilon_as_everywhere(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in what a device counts."""
    words = ("task_id", "version", "pseudonym", "identity", "verified", "sample")
    done = provision.Flashed(
        port="port",
        board="unix",
        micropython="1.20",
        files=1,
        bytes=1,
        copied=1,
        cap=98304,
        horizon=10,
        allowance=1 << 18,
        notes=("It waits.",),
        **dict.fromkeys(words, ""),
    )
    monkeypatch.setattr(provision, "flash", lambda *_, **__: done)
    capsys.readouterr()
    arguments = ["flash", str(study.with_suffix(".task")), "--port", "port"]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.endswith("\nIt waits.\n")
    assert cli.main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["cap"], result["horizon"], result["allowance"]) == (1.5, 10, 4.0)


def test_an_emulated_board_says_whose_its_randomness_is(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The board itself calls it hardware, as a real one's."""
    silent = SimpleNamespace(read=lambda *_: b"")
    built = build.Build({"main.py": b"1"}), b"somebody", silent
    monkeypatch.setattr(microbit, "flash_microbit", lambda *_, **__: built)
    monkeypatch.setattr(lanes, "open_lane", lambda _: contextlib.nullcontext())
    given = contextlib.nullcontext(SimpleNamespace(path="port"))
    monkeypatch.setattr(port, "Port", lambda *_: given)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    arguments = ["flash", str(study.with_suffix(".task")), "--lane", "microbit"]
    capsys.readouterr()
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    assert cli.main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["entropy"]
    assert "this computer's" in told
    assert f"\nRandomness: {told}.\n" in said


@pytest.mark.parametrize("command", [["certify"], ["audit"], ["flash", "--port", "port"]])
def test_a_study_in_place_of_a_task(
    command: list[str], study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"{study} holds a study, and no Task: `tinyldp plan {study} -o TASK` makes that."
    refused([*command, str(study)], capsys, words)
    other = study.with_name("other")
    other.write_bytes(study.with_suffix(".task.cert.json").read_bytes())
    refused([*command, str(other)], capsys, "other holds a certificate, and no Task.")
    study.write_bytes(b"[study\n" * 9)
    refused([*command, str(study)], capsys, f"{study}: This is no Task file, or it is damaged")


@pytest.mark.parametrize("option", ["--mpy", "--new-identity", "--replace-main"])
def test_what_an_emulated_board_cannot_have(
    option: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["flash", str(study.with_suffix(".task")), "--lane", "microbit", option]
    refused(arguments, capsys, f"{option} is for a board at a port", "new each time")


@pytest.mark.parametrize(
    ("option", "number", "said"),
    [
        ("steps", "-5", "steps must lie in 1..16,777,216, but is -5."),
        ("steps", "0", "steps must lie in 1..16,777,216, but is 0."),
        ("steps", "16777217", "steps must lie in 1..16,777,216, but is 16,777,217."),
        ("devices", "-5", "devices must lie in 1..1,152,921,504,606,846,976, but is -5."),
        ("devices", "0", "devices must lie in 1..1,152,921,504,606,846,976, but is 0."),
    ],
)
@pytest.mark.parametrize("sweep", [[], ["--sweep", "1"]], ids=["one", "sweep"])
def test_a_number_out_of_range_has_one_range(
    option: str,
    number: str,
    said: str,
    sweep: list[str],
    study: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet = [] if option == "devices" else ["--devices", "5"]
    refused(["simulate", str(study), f"--{option}", number, *fleet, *sweep], capsys, said)


@pytest.mark.parametrize("number", ["x", "1.5", "1" * 19, "", "--5", "\u0663"])
@pytest.mark.parametrize("option", ["steps", "devices"])
def test_what_is_no_number_of_steps(
    option: str, number: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["simulate", str(study), f"--{option}={number}"])
    assert stopped.value.code == 2
    said = f"--{option} must be a whole number of 18 digits at the most"
    assert capsys.readouterr().err.endswith(
        f"tinyldp simulate: {said}; see tinyldp simulate --help.\n"
    )


@pytest.mark.parametrize(
    ("command", "option", "named"),
    [
        ("plan", "-o", "-o/--output"),
        ("certify", "--output", "-o/--output"),
        ("report", "--html", "--html"),
        ("report", "--csv", "--csv"),
        ("simulate", "--picture", "--picture"),
        ("audit", "--picture", "--picture"),
    ],
)
def test_an_output_without_a_name(
    command: str, option: str, named: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([command, str(study), option, ""])
    assert stopped.value.code == 2
    said = f"tinyldp {command}: {named} must be a name, but is empty; see tinyldp {command} --help."
    assert capsys.readouterr().err.endswith(f"{said}\n")


@pytest.mark.parametrize("seed", ["-5", "x", "1" * 19])
def test_numbers_of_options(seed: str, study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["simulate", str(study), f"--seed={seed}"])
    said = "--seed must be a whole number from 0 to 999999999999999999"
    assert capsys.readouterr().err.endswith(
        f"tinyldp simulate: {said}; see tinyldp simulate --help.\n"
    )
