"""Hard links in bulk, also by several processes: whatever one of them cannot do is left, and nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kpacktools.errors import CallError
from kpacktools.outputs import linking
from kpacktools.outputs.folders import write_folders
from kpacktools.outputs.linking import Task, link_groups
from kpacktools.planning.plan import PlannedFolder, PlannedGroup
from kpacktools.progress import SILENT
from kpacktools.trees import names_in
from kpacktools.trees.directory import scan_directory

FOLDERS = ("a", "b", "c", "d")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture(autouse=True)
def helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for every four files."""
    monkeypatch.setattr(linking, "_WORTH_FORKING", 4)
    monkeypatch.setattr(linking, "may_fork", lambda: True)


@pytest.fixture
def groups(tmp_path: Path) -> list[PlannedGroup]:
    for folder in FOLDERS:
        (tmp_path / "in" / folder).mkdir(parents=True)
        for number in range(6):
            (tmp_path / "in" / folder / f"{number}").write_text(f"{folder}{number}")
    tree = scan_directory(str(tmp_path / "in"))
    return [PlannedGroup(f, names_in(tree.folders[f]), tree, tree.folders[f]) for f in FOLDERS]


@pytest.fixture
def tasks(groups: list[PlannedGroup], tmp_path: Path) -> list[Task]:
    for folder in FOLDERS:
        (tmp_path / "out" / folder).mkdir(parents=True)
    return [Task(str(tmp_path / "out"), group) for group in groups]


def names_below(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
def test_every_link_is_made_whatever_the_number_of_processes(
    tasks: list[Task], tmp_path: Path, jobs: int
) -> None:
    assert link_groups(tasks, jobs, SILENT) == []
    assert names_below(tmp_path / "out") == names_below(tmp_path / "in")
    for name in names_below(tmp_path / "in"):
        assert (tmp_path / "out" / name).samefile(tmp_path / "in" / name)


@pytest.mark.parametrize("folder", ["b", "d"])
@pytest.mark.parametrize("jobs", [1, 4])
def test_what_is_refused_is_left(tasks: list[Task], tmp_path: Path, jobs: int, folder: str) -> None:
    (tmp_path / "out" / folder / "3").write_text("in the way")
    left = link_groups(tasks, jobs, SILENT)
    assert (left[0].group.folder, left[0].done) == (folder, 3)


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_file_that_changed_since_the_scan_is_left_to_look_at(
    tasks: list[Task], tmp_path: Path, jobs: int
) -> None:
    (tmp_path / "in" / "d" / "0").write_text("longer than before")
    (left,) = link_groups(tasks, jobs, SILENT)
    assert (left.group.folder, left.done) == ("d", 6)


@pytest.mark.parametrize("jobs", [1, 4])
def test_errors_name_the_file_whichever_process_met_it(
    groups: list[PlannedGroup], tmp_path: Path, jobs: int
) -> None:
    (tmp_path / "in" / "c" / "2").unlink()
    folder = PlannedFolder("hip_lib_gfx942", "gfx942", tuple(groups), ("a",))
    with pytest.raises(CallError, match=r"in/c/2 could not be written to c/2: No such file"):
        write_folders(tmp_path / "new", [folder], link="hardlink", jobs=jobs)
    assert not (tmp_path / "new").exists()
    (tmp_path / "in" / "c" / "2").write_text("longer than before")
    with pytest.raises(CallError, match=r"in/c/2 changed while it was read"):
        write_folders(tmp_path / "new", [folder], link="hardlink", jobs=jobs)
    assert not (tmp_path / "new").exists()


def test_a_process_that_is_killed_stops_the_run(
    groups: list[PlannedGroup], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()
    real = linking._link_group

    def killed(group: PlannedGroup, *rest: object) -> int:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(group, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(linking, "_link_group", killed)
    folder = PlannedFolder("hip_lib_gfx942", "gfx942", tuple(groups), ("a",))
    with pytest.raises(CallError, match="ended before it was done"):
        write_folders(tmp_path / "new", [folder], link="hardlink", jobs=2)
    assert not (tmp_path / "new").exists()


def test_no_process_outlives_an_error(
    tasks: list[Task], started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(linking, "_link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        link_groups(tasks, 4, SILENT)
    assert started
    for process in started:
        with pytest.raises(ChildProcessError):
            os.waitpid(process, os.WNOHANG)
