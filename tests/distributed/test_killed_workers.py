"""Workers that are killed while they work, and runs that are interrupted while workers do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import Build

pytest.importorskip("distributed", reason="needs the extra kpacktools[dask]")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills with signals")

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
Maker = Callable[..., Build]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A folder with the plugin ``killer``, installed as far as importlib.metadata can tell."""
    folder = tmp_path / "plugins"
    about = folder / "killer-1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copy(HERE / "killer.py", folder)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: killer\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[kpacktools]\nkiller = killer\n")
    return folder


@pytest.fixture
def environment(plugins: Path, tmp_path: Path) -> dict[str, str]:
    """With an own place for temporary files, so that what a run leaves there is seen."""
    (tmp_path / "tmp").mkdir()
    paths = os.pathsep.join(map(str, (plugins, REPOSITORY)))
    return {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path / "tmp")}


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    def call(*arguments: str | Path, kill: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kpacktools", *map(str, arguments)],
            env=environment if kill is None else {**environment, "KPACKTOOLS_TEST_KILL": str(kill)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return call


@pytest.fixture
def shards(build: Maker) -> list[Path]:
    made = []
    for target in ("gfx942", "gfx950", "gfx1201"):
        shard = build(target).host()
        shard.rocke(target)
        for number in range(20):
            shard.put(f"arch_content/killer/{target}/{number}.bin", os.urandom(2000))
        made.append(shard.root)
    return made


def seen(root: Path) -> dict[str, tuple[int, bytes]]:
    """Relative path -> mode and bytes of everything at and below a folder."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, b"" if path.is_dir() else path.read_bytes())
        for path in (root, *root.rglob("*"))
    }


@pytest.mark.parametrize(
    ("where", "command"),
    [("check", ("merge",)), ("folder", ("merge",)), ("wheel", ("wheel", "--version", "1.0"))],
)
def test_a_worker_that_is_killed_in_the_midst_of_a_task_changes_nothing(
    where: str, command: tuple[str, ...], run: Run, shards: list[Path], tmp_path: Path
) -> None:
    here = run(*command, *shards, "-o", tmp_path / "here")
    assert (here.returncode, here.stderr) == (0, "")
    mark, log = tmp_path / f"{where}-killed", tmp_path / "log"
    cluster = ("--scheduler", "local:3", "--task-log", log)
    away = run(*command, *shards, "-o", tmp_path / "away", *cluster, kill=mark)
    assert (away.returncode, away.stderr) == (0, "")
    assert mark.exists()  # the worker that made this died there and then
    assert seen(tmp_path / "here") == seen(tmp_path / "away")
    assert away.stdout.replace("/away", "/here") == here.stdout
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    died = [line for line in lines if line["error"] == "its worker died; it is begun again"]
    assert where in {line["kind"] for line in died}
    for line in died:
        again = [other for other in lines if other["name"] == line["name"] and other["error"] is None]
        assert [other["attempt"] > line["attempt"] for other in again] == [True]
    assert os.listdir(tmp_path / "tmp") == []


def descendants(session: int) -> list[str]:
    """The command lines of a session's processes that live."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it ended meanwhile
        if int(status[3]) == session and status[0] != "Z":
            found.append(words)
    return found


def opened_for_reading(pipe: Path, process: subprocess.Popen[str]) -> int:
    """The other end of a pipe, once a worker in its task has opened it."""
    until = time.monotonic() + 120
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # there is no reader yet
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.fixture
def waiting(
    environment: dict[str, str], shards: list[Path], tmp_path: Path
) -> Iterator[subprocess.Popen[str]]:
    """A run with two workers, one of which waits in a task for the writer of a pipe."""
    (tmp_path / "plugins" / "killer.py").write_text(
        (HERE / "killer.py")
        .read_text()
        .replace('_die("check")', "open(os.environ['KPACKTOOLS_TEST_PIPE']).read()")
    )
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kpacktools",
            "merge",
            "--scheduler",
            "local:2",
            *shards,
            "-o",
            tmp_path / "out",
        ],
        env={**environment, "KPACKTOOLS_TEST_PIPE": str(tmp_path / "pipe")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    writer = opened_for_reading(tmp_path / "pipe", process)
    yield process
    os.close(writer)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_no_worker_outlives_the_run(
    number: signal.Signals, status: int, waiting: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert len(descendants(waiting.pid)) >= 3
    if number is signal.SIGINT:
        os.killpg(waiting.pid, number)  # as a terminal does, to all of them
    else:
        os.kill(waiting.pid, number)
    _, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == status
    if number is signal.SIGINT:
        assert (
            errors.strip() == "kpacktools: error: interrupted; every output is as it was before or complete"
        )
        assert os.listdir(tmp_path / "tmp") == []
    until = time.monotonic() + 30
    while (left := descendants(waiting.pid)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    assert not (tmp_path / "out").exists()
