"""What a machine may do to a run, through the command line: one line that says what and where, and state as before."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fault_runs import call, command_line, digest, entries, leftovers, one_line

from builders import Build
from kpacktools.cli import run
from kpacktools.outputs import transfer

COMMANDS = ("merge", "split", "wheel", "archive")

needs_plain_user = pytest.mark.skipif(
    sys.platform == "win32" or (os.geteuid() == 0 and shutil.which("setpriv") is None),
    reason="whoever runs this may do everything",
)


@pytest.fixture
def shard(build: Callable[..., Build]) -> Path:
    made = build("gfx942").host()
    made.rocke("gfx942")
    made.put("arch_content/aiter/gfx942/large.bin", os.urandom(1 << 20))
    return made.root


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    place = tmp_path / "full"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def words(command: str, shard: Path, out: Path) -> list[str | Path]:
    if command == "archive":
        return ["artifacts", "archive", shard, "-o", out]
    return [command, shard, "-o", out, *(("--version", "1.0") if command == "wheel" else ())]


def as_plain_user() -> tuple[str, ...]:
    """What runs a command without the right to pass over permissions."""
    return () if os.geteuid() else ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("present", [False, True], ids=["new", "existing"])
def test_a_full_disk_leaves_the_output_as_it_was(
    command: str, present: bool, shard: Path, full: Path
) -> None:
    out = full / "out"
    if present:
        out.mkdir()
        (out / "other").write_bytes(b"other")
    before = digest(full)
    done = call(*words(command, shard, out))
    assert done.returncode == 2
    assert os.strerror(errno.ENOSPC) in one_line(done.stderr)
    assert str(out) in done.stderr
    assert digest(full) == before


def test_a_full_disk_leaves_a_report_as_it_was(shard: Path, full: Path) -> None:
    report = full / "report.html"
    report.write_bytes(b"old")
    with contextlib.suppress(OSError), (full / "rest").open("wb", buffering=0) as rest:
        while True:
            rest.write(bytes(4096))
    before = digest(full)
    done = call("inspect", shard, "--format", "html", "-o", report)
    assert done.returncode == 2
    assert str(report) in one_line(done.stderr)
    assert digest(full) == before


def test_a_report_that_cannot_take_its_place_leaves_nothing_behind(shard: Path, tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    done = call("inspect", shard, "-o", tmp_path / "report")
    assert done.returncode == 2
    assert str(tmp_path / "report") in one_line(done.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "report"]


@needs_plain_user
@pytest.mark.parametrize("command", COMMANDS)
def test_a_parent_that_nobody_may_write_to_is_named(command: str, shard: Path, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir(mode=0o555)
    done = call(*words(command, shard, parent / "out"), before=as_plain_user())
    assert done.returncode == 2
    assert str(parent / "out") in one_line(done.stderr)
    assert os.listdir(parent) == []


@needs_plain_user
@pytest.mark.parametrize("command", [*COMMANDS, "inspect"])
def test_a_file_that_nobody_may_read_is_named(command: str, shard: Path, tmp_path: Path) -> None:
    file = next(shard.rglob("*.kpack"))
    file.chmod(0)
    arguments = ["inspect", shard] if command == "inspect" else words(command, shard, tmp_path / "out")
    done = call(*arguments, before=as_plain_user())
    assert done.returncode in (1, 2)
    assert file.name in done.stdout + done.stderr
    assert "internal error" not in done.stderr
    assert not (tmp_path / "out").exists()


@needs_plain_user
@pytest.mark.parametrize("command", [*COMMANDS, "inspect"])
def test_a_folder_that_nobody_may_list_is_named(command: str, shard: Path, tmp_path: Path) -> None:
    place = next(shard.rglob("*.kpack")).parent
    place.chmod(0)
    try:
        arguments = ["inspect", shard] if command == "inspect" else words(command, shard, tmp_path / "out")
        done = call(*arguments, before=as_plain_user())
        assert done.returncode == 2
        assert str(place) in one_line(done.stderr)
        assert not (tmp_path / "out").exists()
    finally:
        place.chmod(0o755)


@needs_plain_user
def test_inputs_may_be_read_only(shard: Path, tmp_path: Path) -> None:
    for path in (shard, *shard.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = call(*words("merge", shard, tmp_path / "out"), before=as_plain_user())
    assert done.returncode == 0
    assert all(os.stat(path).st_mode & 0o200 for path in (tmp_path / "out").rglob("*"))


@pytest.mark.parametrize("size", [None, 0, 2 << 20], ids=["vanishes", "shrinks", "grows"])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_input_that_changes_after_the_scan_stops_the_run(
    command: str, size: int | None, shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = next(shard.rglob("large.bin"))

    def change(*_: object, **__: object) -> None:
        if size is None:
            file.unlink(missing_ok=True)
        else:
            os.truncate(file, size)

    # Outputs are staged when everything was scanned and checked.
    for module in ("outputs.folders", "outputs.archives", "wheelbuild"):
        _before(monkeypatch, f"kpacktools.{module}.stage", change)
    status = run([str(word) for word in words(command, shard, tmp_path / "out")])
    assert status == 2
    assert file.name in one_line(capsys.readouterr().err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def _before(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[..., None]) -> None:
    module, _, attribute = name.rpartition(".")
    original = getattr(importlib.import_module(module), attribute)

    def changed(*arguments: object, **options: object) -> object:
        change()
        return original(*arguments, **options)

    monkeypatch.setattr(name, changed)


def test_a_disk_that_fails_once_while_files_are_copied_is_told(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(transfer, "copy_file", refuse)
    assert run(["merge", str(shard), "-o", str(tmp_path / "out")]) == 2
    assert os.strerror(errno.EIO) in one_line(capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_two_equal_runs_into_one_output_both_succeed(command: str, shard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    runs = [
        subprocess.Popen(
            command_line(*words(command, shard, out)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in runs]
    assert ends == [("", 0)] * 3
    alone = tmp_path / "alone"
    assert call(*words(command, shard, alone)).returncode == 0
    assert entries(out) == entries(alone)
    assert leftovers(tmp_path, out) == []


def test_of_two_different_runs_into_one_output_one_wins_whole(
    shard: Path, tmp_path: Path, build: Callable[..., Build]
) -> None:
    other = build("other", "gfx942").host(b"another host\n")
    other.rocke("gfx942", ("k7",))
    sources = (shard, other.root)
    out = tmp_path / "out"
    runs = [
        subprocess.Popen(
            command_line(*words("merge", source, out)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for source in sources
    ]
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in runs]
    assert sorted(status for _, status in ends) == [0, 2]
    for (stderr, status), source in zip(ends, sources, strict=True):
        if status:
            one_line(stderr)
        else:
            alone = tmp_path / "alone"
            assert call(*words("merge", source, alone)).returncode == 0
    assert entries(out) == entries(alone)
    assert leftovers(tmp_path, out) == []


def test_a_complete_output_is_cleaned_of_what_a_killed_run_left(shard: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call(*words("merge", shard, out)).returncode == 0
    for place in (tmp_path, out):
        (place / ".kpacktools-0123456789abcdef.tmp").mkdir()
    assert call(*words("merge", shard, out)).returncode == 0
    assert leftovers(tmp_path, out) == []
