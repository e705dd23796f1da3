"""What ``--scheduler`` and ``--task-log`` take, and what they say of what they cannot use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import Build
from kpacktools.cli import run
from kpacktools.errors import CallError
from kpacktools.tasks import cluster
from kpacktools.tasks.model import Software
from kpacktools.tasks.running import software

distributed = pytest.importorskip("distributed", reason="needs the extra kpacktools[dask]")

Maker = Callable[..., Build]


@pytest.fixture
def shard(build: Maker) -> str:
    made = build("gfx942").host()
    made.rocke("gfx942")
    return str(made.root)


@pytest.fixture
def refused(shard: str, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line that a run ends with which cannot begin."""

    def call(*options: str) -> str:
        assert run(["inspect", shard, *options]) == 2
        out, err = capfd.readouterr()
        assert out == ""
        (line,) = err.splitlines()
        return line.removeprefix("kpacktools: error: ")

    return call


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TIMEOUT", 1)
    monkeypatch.setattr(cluster, "_WORKERS_TIMEOUT", 1)


@pytest.fixture
def scheduler() -> Iterator[Any]:
    """A scheduler of its own, without workers."""
    with (
        cluster._quiet(),
        distributed.LocalCluster(
            n_workers=0, host="127.0.0.1", dashboard_address=None, silence_logs=50, processes=True
        ) as started,
    ):
        yield started


@pytest.mark.parametrize(
    "text", ["", "x", "tcp://", "tcp://host", "tcp://host:x", "http://host:1", "local", "local:", "local:-1"]
)
def test_an_address_that_is_none(text: str, refused: Callable[..., str]) -> None:
    expected = f"--scheduler {text}: expected tcp://HOST:PORT, tls://HOST:PORT or local:N"
    assert refused("--scheduler", text) == " ".join(expected.split())


@pytest.mark.parametrize("text", ["local:0", "local:9999", "tcp://host:0", "tcp://host:65536"])
def test_a_number_that_is_out_of_range(text: str, refused: Callable[..., str]) -> None:
    assert refused("--scheduler", text).startswith(f"--scheduler {text}: ")


@pytest.mark.parametrize(
    "text", ["tcp://host:8786", "tls://10.0.0.1:1", "tcp://[::1]:8786", "tcp://host:8786/"]
)
def test_addresses_of_schedulers(text: str) -> None:
    assert cluster.parse_scheduler(text) == cluster.Address(text)


@pytest.mark.usefixtures("impatient")
def test_nobody_listens(refused: Callable[..., str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        line = refused("--scheduler", address)
    assert line.startswith(f"--scheduler {address}: no Dask scheduler answers there within 1 seconds (")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9])
def test_somebody_else_listens(greeting: bytes, refused: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.listen()
        if greeting:
            import threading

            def greet() -> None:
                with server.accept()[0] as there:
                    there.sendall(greeting)

            threading.Thread(target=greet, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        line = refused("--scheduler", address)
    assert line.startswith(f"--scheduler {address}: no Dask scheduler answers there within 1 seconds (")


@pytest.mark.usefixtures("impatient")
def test_no_worker_is_there(scheduler: Any, refused: Callable[..., str]) -> None:
    address = scheduler.scheduler_address
    assert refused("--scheduler", address) == f"--scheduler {address}: no worker is there after 1 seconds"


def test_a_cluster_that_runs_already(
    scheduler: Any, shard: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    scheduler.scale(1)
    (worker,) = _addresses(scheduler)
    line = _refused_by_worker(shard, worker, capfd)
    assert line == f"kpacktools: error: --scheduler {worker}: a Dask Worker answers there, and no scheduler"
    log = tmp_path / "log.jsonl"
    assert run(["inspect", shard, "--scheduler", scheduler.scheduler_address, "--task-log", str(log)]) == 0
    with_workers = capfd.readouterr()
    assert run(["inspect", shard]) == 0
    assert capfd.readouterr() == with_workers
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["worker"].rpartition(":")[2] != str(os.getpid())


def _addresses(scheduler: Any) -> list[str]:
    with distributed.Client(scheduler, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        return list(client.nthreads())


def _refused_by_worker(shard: str, address: str, capfd: pytest.CaptureFixture[str]) -> str:
    assert run(["inspect", shard, "--scheduler", address]) == 2
    return capfd.readouterr().err.strip()


def test_a_worker_with_another_kpacktools(
    scheduler: Any, shard: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    old = tmp_path / "old/kpacktools"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text('__version__ = "0.0.1"\n')
    address = scheduler.scheduler_address
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard"]
    worker = subprocess.Popen(
        [*command, "--nthreads", "1", "--local-directory", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(old.parent)},
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    try:
        line = refused("--scheduler", address)
    finally:
        worker.terminate()
        worker.wait(30)
    assert line.startswith(f"--scheduler {address}: the worker tcp://127.0.0.1:")
    assert " cannot run kpacktools (" in line
    assert "ModuleNotFoundError" in line
    assert line.endswith(f"install {' '.join(software().versions[0])} there")


def test_a_worker_with_another_version_is_named_with_both() -> None:
    mine = Software((("kpacktools", "2.0"),), ())
    answers = {"tcp://b:2": mine, "tcp://a:1": Software((("kpacktools", "1.0"),), ())}
    with pytest.raises(CallError) as raised:
        cluster._check_software(answers, mine, cluster.Address("tcp://s:1"))
    assert str(raised.value) == (
        "--scheduler tcp://s:1: the worker tcp://a:1 runs kpacktools 1.0, and here is kpacktools 2.0; "
        "install the same on all machines"
    )


def test_without_the_extra(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = refused("--scheduler", "local:2")
    assert line == "--scheduler needs Dask: pip install kpacktools[dask]"


def test_a_log_of_a_run_without_workers(
    shard: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    assert run(["split", shard, "-o", str(out), "--task-log", str(log)]) == 0
    capsys.readouterr()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["kind"], line["shard"], line["key"], line["files"]) for line in lines] == [
        ("check", "gfx942", "gfx942", 2),
        ("folder", None, None, 3),
    ]
    assert {line["schema"] for line in lines} == {"kpacktools.task/v1"}
    assert all(line["worker"].endswith(f":{os.getpid()}") for line in lines)


def test_diff_and_lock_take_workers_too(
    shard: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock, log = tmp_path / "kpack.lock", tmp_path / "log.jsonl"
    assert run(["lock", "write", shard, "-o", str(lock)]) == 0
    there = ["--scheduler", "local:1", "--task-log", str(log)]
    assert run(["lock", "check", shard, "--lock", str(lock), *there]) == 0
    assert len(log.read_text().splitlines()) == 1
    assert run(["diff", shard, shard, "--fail-on", "any", *there]) == 0
    assert len(log.read_text().splitlines()) == 2
    assert "equal" in capsys.readouterr().out


def test_a_log_that_cannot_be_written(refused: Callable[..., str], tmp_path: Path) -> None:
    assert refused("--task-log", str(tmp_path)) == f"--task-log {tmp_path}: Is a directory"
