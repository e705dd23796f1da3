"""Outputs appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kpacktools.errors import CallError
from kpacktools.outputs import staging
from kpacktools.outputs.staging import Staging, is_staging_name, stage

Make = Callable[..., str]

HOLD = """
import sys, time
from kpacktools.outputs.staging import stage
with stage(sys.argv[1]) as held:
    open(held.path("half"), "w").close()
    print("held", flush=True)
    time.sleep(60)
"""


def leftovers(*places: Path) -> list[str]:
    return [name for place in places if place.is_dir() for name in os.listdir(place) if is_staging_name(name)]


def put(open_staging: Staging, name: str, text: str) -> None:
    Path(open_staging.path(name)).write_text(text)


def write(out: Path, name: str, text: str, *, replace: bool = False) -> str:
    return write_all(out, {name: text}, replace=replace)[name]


def write_all(out: Path, files: Mapping[str, str], *, replace: bool = False) -> Mapping[str, str]:
    with stage(out) as held:
        for name, text in files.items():
            put(held, name, text)
        return held.publish(replace=replace)


def write_folder(out: Path, name: str, text: str, *, replace: bool = False) -> str:
    with stage(out) as held:
        os.mkdir(held.path(name))
        put(held, f"{name}/file", text)
        return held.publish(replace=replace)[name]


def hold(out: Path) -> subprocess.Popen[str]:
    run = subprocess.Popen([sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "held\n"
    return run


def end(run: subprocess.Popen[str]) -> None:
    run.kill()
    run.communicate()


def test_a_new_out_appears_with_all_its_entries(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "out"
    with stage(out) as held:
        put(held, "one.whl", "1")
        put(held, "two.whl", "2")
        assert not out.exists()
        assert held.publish() == {"one.whl": "written", "two.whl": "written"}
    assert sorted(os.listdir(out)) == ["one.whl", "two.whl"]
    assert leftovers(out, out.parent) == []


def test_a_new_out_has_the_mode_that_the_umask_gives(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    write(tmp_path / "out", "a", "a")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_existing_out_keeps_its_other_entries(tmp_path: Path) -> None:
    write(tmp_path, "a", "a")
    assert write(tmp_path, "b", "b") == "written"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_out_may_be_a_link_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    with stage(tmp_path / "out", whole=True) as held:
        put(held, "a", "a")
        held.publish()
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk" / "a").read_text() == "a"


def test_out_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(CallError, match="out is not a folder"), stage(tmp_path / "out"):
        pass


def test_nothing_stays_after_an_exception_not_even_new_parents(tmp_path: Path) -> None:
    def interrupted() -> None:
        with stage(tmp_path / "a" / "b" / "out") as held:
            put(held, "half", "")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_nothing_appears_without_publish(tmp_path: Path) -> None:
    with stage(tmp_path / "out") as held:
        put(held, "a", "a")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("make", [write, write_folder])
def test_another_entry_of_that_name_is_left_alone(tmp_path: Path, make: Make) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine").write_text("mine")
    with pytest.raises(CallError, match="a is there already with other content"):
        make(tmp_path, "a", "new")
    assert (tmp_path / "a" / "mine").read_text() == "mine"
    assert os.listdir(tmp_path) == ["a"]


def test_an_equal_file_is_kept(tmp_path: Path) -> None:
    write(tmp_path, "a", "a")
    before = (tmp_path / "a").stat()
    assert write(tmp_path, "a", "a") == "kept"
    assert os.path.samestat((tmp_path / "a").stat(), before)


def test_a_conflict_is_found_before_anything_is_published(tmp_path: Path) -> None:
    write(tmp_path, "b", "theirs")
    with pytest.raises(CallError, match="b is there already"):
        write_all(tmp_path, {"a": "a", "b": "ours"})
    assert os.listdir(tmp_path) == ["b"]


def test_an_empty_folder_gives_its_place_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert write_folder(tmp_path, "a", "new") == "written"


@pytest.mark.parametrize("exchange", ["as the system has it", "none"])
@pytest.mark.parametrize(
    ("old", "new"), [(write, write), (write_folder, write_folder), (write, write_folder)]
)
def test_replace_leaves_only_the_new_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: str, old: Make, new: Make
) -> None:
    if exchange == "none":
        monkeypatch.setattr(staging, "_exchange", lambda staged, final: False)
    old(tmp_path, "a", "old")
    assert new(tmp_path, "a", "new", replace=True) == "replaced"
    path = tmp_path / "a" / "file" if new is write_folder else tmp_path / "a"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_replace_exchanges_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path, "a", "old")
    with stage(tmp_path) as held:
        os.mkdir(held.path("a"))
        real = os.rename

        def only_new(source: str, target: str) -> None:
            assert not os.path.lexists(target), "the old folder was moved away before the new one came"
            real(source, target)

        monkeypatch.setattr(staging, "move_new", _occupied)
        monkeypatch.setattr(os, "rename", only_new)
        assert held.publish(replace=True) == {"a": "replaced"}
        assert Path(held.path("a"), "file").read_text() == "old"


def _occupied(staged: str, final: str) -> None:
    raise FileExistsError(errno.EEXIST, "", final)


def test_what_is_moved_aside_comes_back_when_the_new_folder_cannot_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path, "a", "old")
    real, calls = os.rename, []

    def second_fails(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
        real(source, target)

    monkeypatch.setattr(staging, "_exchange", lambda staged, final: False)
    monkeypatch.setattr(staging, "move_new", _occupied)
    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(CallError, match="cannot be written: Permission denied"):
        write_folder(tmp_path, "a", "new", replace=True)
    assert (tmp_path / "a" / "file").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_replaced_folder_with_read_only_folders_in_it_is_removed(tmp_path: Path) -> None:
    write_folder(tmp_path, "a", "old")
    (tmp_path / "a" / "sub").mkdir()
    (tmp_path / "a" / "sub" / "file").write_text("")
    (tmp_path / "a" / "sub").chmod(0o555)
    assert write_folder(tmp_path, "a", "new", replace=True) == "replaced"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_system_without_hard_links_still_gets_its_files_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    assert write(tmp_path, "a", "a") == "written"
    with pytest.raises(CallError, match="other content"):
        write(tmp_path, "a", "b")
    assert (tmp_path / "a").read_text() == "a"


def test_another_run_may_create_out_first(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with stage(out) as slow:
        put(slow, "slow", "slow")
        put(slow, "same", "same")
        write(out, "same", "same")
        assert slow.publish() == {"slow": "written", "same": "kept"}
    assert sorted(os.listdir(out)) == ["same", "slow"]


def test_the_second_of_two_runs_with_other_content_is_refused(tmp_path: Path) -> None:
    with stage(tmp_path) as slow:
        put(slow, "a", "slow")
        write(tmp_path, "a", "quick")
        with pytest.raises(CallError, match="other content"):
            slow.publish()
    assert (tmp_path / "a").read_text() == "quick"


def test_many_runs_fill_one_out_at_the_same_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    states: list[str] = []
    start = threading.Barrier(8)

    def run(number: int) -> None:
        start.wait()
        states.append(write_folder(out, f"own{number}", "own"))
        states.append(write(out, "shared", "same bytes"))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(states) == ["kept"] * 7 + ["written"] * 9
    assert sorted(os.listdir(out)) == [*(f"own{number}" for number in range(8)), "shared"]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("new", [True, False])
def test_a_killed_run_leaves_one_staging_folder_and_the_next_removes_it(tmp_path: Path, new: bool) -> None:
    out = tmp_path / "out"
    if not new:
        out.mkdir()
    end(hold(out))
    assert len(leftovers(tmp_path, out)) == 1
    write(out, "a", "a")
    assert leftovers(tmp_path, out) == []


def test_a_live_run_is_spared(tmp_path: Path) -> None:
    run = hold(tmp_path)
    try:
        write(tmp_path, "a", "a")
        (name,) = leftovers(tmp_path)
        assert (tmp_path / name / "content" / "half").exists()
    finally:
        end(run)


def test_an_empty_staging_folder_is_a_stale_one(tmp_path: Path) -> None:
    (tmp_path / ".kpacktools-00.tmp").mkdir()
    write(tmp_path, "a", "a")
    assert os.listdir(tmp_path) == ["a"]


def test_a_run_whose_folder_is_taken_for_stale_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = staging._take_lock
    waits: list[int] = []

    def cleaned_before_locked(fd: int, *, wait: bool) -> bool:
        if wait:
            waits.append(fd)
            if len(waits) == 1:
                staging.clean_stale(str(tmp_path))
        return real(fd, wait=wait)

    monkeypatch.setattr(staging, "_take_lock", cleaned_before_locked)
    assert write(tmp_path, "a", "a") == "written"
    assert len(waits) == 2
    assert os.listdir(tmp_path) == ["a"]


def test_a_run_that_ends_while_it_is_judged_is_left_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / ".kpacktools-00.tmp"
    folder.mkdir()
    (folder / "lock").touch()

    def ended_before_locked(fd: int, *, wait: bool) -> bool:
        shutil.rmtree(folder)
        return True

    monkeypatch.setattr(staging, "_take_lock", ended_before_locked)
    staging.clean_stale(str(tmp_path))
    assert caplog.text == ""


def test_where_locks_do_not_work_nothing_is_cleaned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end(hold(tmp_path))
    monkeypatch.setattr(staging, "_take_lock", lambda fd, *, wait: False)
    write(tmp_path, "a", "a")
    assert len(leftovers(tmp_path)) == 1


def test_a_link_named_like_a_staging_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious" / "content").mkdir(parents=True)
    (tmp_path / "precious" / "lock").write_text("")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".kpacktools-00.tmp").symlink_to(tmp_path / "precious")
    write(tmp_path / "out", "a", "a")
    assert (tmp_path / "precious" / "content").is_dir()


def test_a_refusal_of_the_system_is_one_line_that_names_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, mode: int = 0o777) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(CallError, match=r"out cannot be written: No space left on device$"):
        write(tmp_path / "out", "a", "a")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []


def test_a_whole_out_is_replaced_in_one_piece(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, "old", "old")
    with stage(out, whole=True) as held:
        put(held, "new", "new")
        assert held.publish(replace=True, same=lambda staged, final: False) == {"": "replaced"}
    assert os.listdir(out) == ["new"]
    assert leftovers(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_of_another_user_is_left_to_that_user(tmp_path: Path) -> None:
    stale = tmp_path / ".kpacktools-0123456789abcdef.tmp"
    stale.mkdir()
    (stale / "lock").touch()
    os.chown(stale, 65534, 65534)
    staging.clean_stale(os.fspath(tmp_path))
    assert stale.exists()
    os.chown(stale, 0, 0)
    staging.clean_stale(os.fspath(tmp_path))
    assert not stale.exists()
