"""Artifact directories and prefixes are written from their plans, all of them or none."""

from __future__ import annotations

import errno
import os
import signal
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pytest

from kpacktools.errors import CallError
from kpacktools.outputs import folders as writing
from kpacktools.outputs import transfer
from kpacktools.outputs.folders import WrittenFolder, compare_folder, write_folders
from kpacktools.outputs.transfer import LinkMode, OpenFolder
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.progress import SILENT
from kpacktools.trees import Entry

MANIFEST = "artifact_manifest.txt"


class FolderTree:
    """A tree over a real folder."""

    label = "shard"
    folders: Mapping[str, Sequence[Entry]] = {}

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, path: str) -> BinaryIO:
        return (self.root / path).open("rb")

    def local_path(self, path: str) -> str | None:
        return str(self.root / path)

    def entry(self, path: str) -> Entry:
        status = (self.root / path).lstat()
        linked = stat.S_ISLNK(status.st_mode)
        link = os.readlink(self.root / path) if linked else ""
        return Entry(path, 0 if linked else status.st_size, status.st_mode, link)


class Inputs:
    """A folder of input files, made on demand."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.tree = FolderTree(root)

    def folder(
        self,
        name: str,
        files: Mapping[str, str] | Sequence[str],
        *,
        prefixes: tuple[str, ...] | None = ("stage",),
    ) -> PlannedFolder:
        """A plan for a folder; each file holds the text given, or its own path."""
        texts = files if isinstance(files, Mapping) else {path: path for path in files}
        planned = []
        for path, text in sorted(texts.items()):
            source = self.tree.root / path
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(text)
            planned.append(PlannedFile(path, self.tree, self.tree.entry(path)))
        return PlannedFolder.of(name, name.rpartition("_")[2], tuple(planned), prefixes)


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    return Inputs(tmp_path / "in")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "here" / "out"


@pytest.fixture(params=["threads", "processes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who copies where there are several jobs: two files are worth a process."""
    if request.param == "processes":
        if not hasattr(os, "fork"):
            pytest.skip("no fork here")
        monkeypatch.setattr(writing, "_WORTH_FORKING", 1)
        monkeypatch.setattr(writing, "may_fork", lambda: True)
        monkeypatch.setattr(writing, "all_in_folders", lambda trees: True)
    return str(request.param)


def states(written: Sequence[WrittenFolder]) -> list[str]:
    return [folder.state for folder in written]


def content(root: Path) -> dict[str, str]:
    """Everything below a folder that is no folder, staging folders included."""
    return {
        path.relative_to(root).as_posix(): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in root.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def test_folders_appear_with_their_manifests(inputs: Inputs, out: Path) -> None:
    folders = [
        inputs.folder("hip_lib_generic", ["stage/lib/a.so", "stage/lib/b.so"], prefixes=("stage", "other")),
        inputs.folder("hip_lib_gfx942", ["stage/lib/k.kpack"]),
    ]
    assert write_folders(out, folders) == (
        WrittenFolder("hip_lib_generic", str(out / "hip_lib_generic"), "generic", "written", 2, 28),
        WrittenFolder("hip_lib_gfx942", str(out / "hip_lib_gfx942"), "gfx942", "written", 1, 17),
    )
    assert content(out) == {
        "hip_lib_generic/artifact_manifest.txt": "stage\nother\n",
        "hip_lib_generic/stage/lib/a.so": "stage/lib/a.so",
        "hip_lib_generic/stage/lib/b.so": "stage/lib/b.so",
        "hip_lib_gfx942/artifact_manifest.txt": "stage\n",
        "hip_lib_gfx942/stage/lib/k.kpack": "stage/lib/k.kpack",
    }
    assert os.listdir(out.parent) == ["out"]


def test_no_folders_are_no_output(out: Path) -> None:
    assert write_folders(out, []) == ()
    assert not out.parent.exists()


def test_an_empty_part_is_its_manifest_alone(inputs: Inputs, out: Path) -> None:
    write_folders(out, [inputs.folder("hip_lib_gfx942", [])])
    assert os.listdir(out / "hip_lib_gfx942") == [MANIFEST]


def test_a_flattened_prefix_is_out_itself(inputs: Inputs, out: Path) -> None:
    assert states(write_folders(out, [inputs.folder("", ["lib/a"], prefixes=None)])) == ["written"]
    assert content(out) == {"lib/a": "lib/a"}


def test_a_flattened_prefix_may_be_written_to_an_empty_folder(inputs: Inputs, out: Path) -> None:
    out.mkdir(parents=True)
    assert states(write_folders(out, [inputs.folder("", ["lib/a"], prefixes=None)])) == ["written"]
    assert os.listdir(out.parent) == ["out"]


def test_a_flattened_prefix_is_replaced_whole(inputs: Inputs, out: Path) -> None:
    write_folders(out, [inputs.folder("", ["lib/old"], prefixes=None)])
    new = inputs.folder("", ["lib/new"], prefixes=None)
    with pytest.raises(CallError, match="lib/old is not in the plan"):
        write_folders(out, [new])
    assert states(write_folders(out, [new], replace=True)) == ["replaced"]
    assert content(out.parent) == {"out/lib/new": "lib/new"}


def test_other_entries_of_out_stay(inputs: Inputs, out: Path) -> None:
    write_folders(out, [inputs.folder("hip_lib_gfx942", ["a"])])
    (out / "notes").write_text("mine")
    write_folders(out, [inputs.folder("hip_lib_gfx950", ["b"])], replace=True)
    assert sorted(os.listdir(out)) == ["hip_lib_gfx942", "hip_lib_gfx950", "notes"]


@pytest.mark.parametrize("link", ["auto", "copy", "hardlink"])
def test_an_equal_folder_is_kept_untouched(inputs: Inputs, out: Path, link: LinkMode) -> None:
    inputs.tree.root.joinpath("link").symlink_to("a")
    files = inputs.folder("hip_lib_gfx942", ["a", "b/c"]).files
    linked = PlannedFile("link", inputs.tree, inputs.tree.entry("link"))
    folder = PlannedFolder.of("hip_lib_gfx942", "gfx942", (*files, linked), ("stage",))
    write_folders(out, [folder], link=link)
    (out / "hip_lib_gfx942" / "empty").mkdir()
    before = (out / "hip_lib_gfx942").stat()
    assert compare_folder(out, folder) == "equal"
    assert states(write_folders(out, [folder], link=link)) == ["kept"]
    assert os.path.samestat((out / "hip_lib_gfx942").stat(), before)


def test_a_run_that_died_is_completed_by_the_next(inputs: Inputs, out: Path) -> None:
    first, second = inputs.folder("hip_lib_gfx942", ["a"]), inputs.folder("hip_lib_gfx950", ["b"])
    write_folders(out, [first])
    assert states(write_folders(out, [first, second])) == ["kept", "written"]


def _extra(path: Path) -> None:
    (path / "b" / "more").write_text("")


def _missing(path: Path) -> None:
    (path / "a").unlink()


def _size(path: Path) -> None:
    (path / "a").write_text("longer")


def _bytes(path: Path) -> None:
    (path / "a").write_text("A")


def _exec(path: Path) -> None:
    (path / "a").chmod(0o755)


def _kind(path: Path) -> None:
    (path / "a").unlink()
    (path / "a").symlink_to("b/c")


def _folder(path: Path) -> None:
    (path / "a").unlink()
    (path / "a").mkdir()


def _link(path: Path) -> None:
    (path / "link").unlink()
    (path / "link").symlink_to("b/c")


def _manifest(path: Path) -> None:
    (path / MANIFEST).write_text("stage\nmore\n")


def _no_manifest(path: Path) -> None:
    (path / MANIFEST).unlink()


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (_extra, "b/more is not in the plan"),
        (_missing, "a is missing"),
        (_size, "a has 6 bytes and not 1"),
        (_bytes, "a has other bytes"),
        pytest.param(
            _exec, "a differs in its exec bit", marks=pytest.mark.skipif(os.name == "nt", reason="none")
        ),
        (_kind, "a is of another kind"),
        (_folder, "a is missing"),
        (_link, "link points elsewhere"),
        (_manifest, "artifact_manifest.txt lists other stage prefixes"),
        (_no_manifest, "artifact_manifest.txt is missing"),
    ],
)
def test_a_different_folder_is_named_with_its_first_difference(
    inputs: Inputs, out: Path, change: Callable[[Path], None], difference: str
) -> None:
    inputs.tree.root.joinpath("link").symlink_to("a")
    files = inputs.folder("hip_lib_gfx942", ["a", "b/c"]).files
    linked = PlannedFile("link", inputs.tree, inputs.tree.entry("link"))
    folder = PlannedFolder.of("hip_lib_gfx942", "gfx942", (*files, linked), ("stage",))
    write_folders(out, [folder])
    change(out / "hip_lib_gfx942")
    assert compare_folder(out, folder) == "differs"
    before = content(out.parent)
    with pytest.raises(CallError, match=f"hip_lib_gfx942 is there .*: {difference}; --replace replaces it"):
        write_folders(out, [inputs.folder("hip_lib_gfx950", ["new"]), folder])
    assert content(out.parent) == before
    assert states(write_folders(out, [folder], replace=True)) == ["replaced"]
    assert compare_folder(out, folder) == "equal"
    assert os.listdir(out) == ["hip_lib_gfx942"]


def test_what_is_not_there_is_absent_and_so_is_an_empty_folder(inputs: Inputs, out: Path) -> None:
    folder = inputs.folder("hip_lib_gfx942", ["a"])
    assert compare_folder(out, folder) == "absent"
    (out / "hip_lib_gfx942").mkdir(parents=True)
    assert compare_folder(out, folder) == "absent"
    assert states(write_folders(out, [folder])) == ["written"]


@pytest.mark.parametrize("name", ["", "hip_lib_gfx942"])
def test_out_that_is_a_file_is_refused(inputs: Inputs, out: Path, name: str) -> None:
    out.parent.mkdir()
    out.write_text("mine")
    with pytest.raises(CallError, match="out is not a folder"):
        write_folders(out, [inputs.folder(name, ["a"])], replace=True)
    assert out.read_text() == "mine"


def test_out_may_be_a_link_to_a_folder(inputs: Inputs, out: Path) -> None:
    (out.parent / "disk").mkdir(parents=True)
    out.symlink_to("disk")
    folder = inputs.folder("", ["a"], prefixes=None)
    assert states(write_folders(out, [folder])) == ["written"]
    assert states(write_folders(out, [folder])) == ["kept"]
    assert out.is_symlink()


@pytest.mark.parametrize("link", ["copy", "hardlink"])
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("jobs", [1, 2, 8])
def test_any_number_of_jobs_gives_the_same_folder(
    inputs: Inputs, out: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, link: LinkMode
) -> None:
    monkeypatch.setattr(writing, "_BATCH_FILES", 7)
    names = [f"{folder}/{number}" for folder in ("a", "a/b", "a/b/c", "d") for number in range(20)]
    folder = inputs.folder("hip_lib_gfx942", [*names, "a.txt", "top", "a/only/one"])
    (written,) = write_folders(out, [folder], link=link, jobs=jobs)
    assert written.files == 83
    assert content(out / "hip_lib_gfx942") == {file.dest: file.dest for file in folder.files} | {
        MANIFEST: "stage\n"
    }


def test_A11_many_workers_have_one_writer_a_destination(
    inputs: Inputs, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_BATCH_FILES", 1)
    writers: list[str] = []
    real = transfer.put_file

    def noted(file: PlannedFile, folder: OpenFolder, name: str, link: LinkMode) -> None:
        writers.append(file.dest)
        real(file, folder, name, link)

    monkeypatch.setattr(transfer, "put_file", noted)
    names = [f"lib/{number:03}" for number in range(100)]
    write_folders(out, [inputs.folder("hip_lib_gfx942", names)], jobs=8)
    assert sorted(writers) == names


def test_A11_a_destination_that_is_offered_twice_is_refused(inputs: Inputs, out: Path) -> None:
    (file,) = inputs.folder("", ["lib/a"]).files
    with pytest.raises(CallError, match="the plan offers lib/a twice in hip_lib_gfx942"):
        write_folders(out, [PlannedFolder.of("hip_lib_gfx942", "gfx942", (file, file), ("stage",))])
    assert not out.parent.exists()


def test_A11_a_folder_that_is_planned_twice_is_refused(inputs: Inputs, out: Path) -> None:
    folder = inputs.folder("hip_lib_gfx942", ["a"])
    with pytest.raises(CallError, match="two folders for hip_lib_gfx942"):
        write_folders(out, [folder, folder])
    assert not out.parent.exists()


def test_a_file_where_the_plan_has_a_folder_too_is_refused(inputs: Inputs, out: Path) -> None:
    (inner,) = inputs.folder("", ["lib/a"]).files
    clash = PlannedFile("lib", inputs.tree, inner.entry)
    with pytest.raises(CallError, match="could not be written to lib: File exists"):
        write_folders(out, [PlannedFolder.of("hip_lib_gfx942", "gfx942", (clash, inner), ("stage",))])
    assert not out.parent.exists()


@pytest.mark.parametrize("dest", ["../a", "a/../../b", "/a", "/a/b", "a//b", "a/.", "./a", ""])
def test_a_destination_outside_its_folder_is_refused(inputs: Inputs, out: Path, dest: str) -> None:
    (file,) = inputs.folder("", ["a"]).files
    with pytest.raises(CallError, match="does not lie inside hip_lib_gfx942"):
        write_folders(
            out, [PlannedFolder.of("hip_lib_gfx942", "gfx942", (file._replace(dest=dest),), ("stage",))]
        )
    assert not out.parent.exists()


@pytest.mark.parametrize("name", ["..", ".", "a/b", ".kpacktools-00.tmp"])
def test_a_name_that_is_no_entry_of_out_is_refused(inputs: Inputs, out: Path, name: str) -> None:
    with pytest.raises(CallError, match="cannot be the name of an output folder"):
        write_folders(out, [inputs.folder(name, ["a"])])


def _full(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing_copies(monkeypatch, errno.ENOSPC)


def _forbidden(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing_copies(monkeypatch, errno.EACCES)


def _failing_copies(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    real = transfer.copy_file

    def copy(file: PlannedFile, source: str, folder: OpenFolder, name: str, *, share: bool) -> None:
        if file.dest == "lib/bad":
            raise OSError(code, os.strerror(code))
        real(file, source, folder, name, share=share)

    monkeypatch.setattr(transfer, "copy_file", copy)


def _vanished(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    (inputs.tree.root / "lib" / "bad").unlink()


def _grown(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    (inputs.tree.root / "lib" / "bad").write_text("still being written")


def _forgotten(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    real = transfer.put_file

    def put(file: PlannedFile, folder: OpenFolder, name: str, link: LinkMode) -> None:
        if file.dest != "lib/bad":
            real(file, folder, name, link)

    monkeypatch.setattr(transfer, "put_file", put)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (_full, "shard/lib/bad could not be written to lib/bad: No space left on device"),
        (_forbidden, "shard/lib/bad could not be written to lib/bad: Permission denied"),
        (_vanished, "shard/lib/bad could not be written to lib/bad: No such file or directory"),
        (_grown, "shard/lib/bad changed while it was read"),
        (_forgotten, "hip_lib_gfx950/lib/bad was not written; nothing was moved into place"),
    ],
)
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("jobs", [1, 4])
def test_a_fault_leaves_everything_as_it_was(
    inputs: Inputs,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[Inputs, pytest.MonkeyPatch], None],
    message: str,
    existing: bool,
    jobs: int,
) -> None:
    if existing:
        write_folders(out, [inputs.folder("hip_lib_generic", ["g"])])
    before = content(out.parent) if existing else {}
    folders = [
        inputs.folder("hip_lib_gfx942", ["lib/x"]),
        inputs.folder("hip_lib_gfx950", ["lib/bad", "lib/y"]),
    ]
    fault(inputs, monkeypatch)
    with pytest.raises(CallError, match=f"^{message}"):
        write_folders(out, folders, jobs=jobs)
    assert out.parent.exists() is existing
    assert content(out.parent) == before


@pytest.mark.parametrize("link", ["auto", "copy", "hardlink"])
def test_a_file_that_grew_since_the_scan_stops_links_as_well_as_copies(
    inputs: Inputs, out: Path, link: LinkMode
) -> None:
    folder = inputs.folder("hip_lib_gfx942", ["a", "b"])
    (inputs.tree.root / "b").write_text("longer")
    with pytest.raises(CallError, match=r"^shard/b changed while it was read: .* 1 bytes"):
        write_folders(out, [folder], link=link)
    assert not out.parent.exists()


@pytest.mark.usefixtures("way")
def test_the_first_fault_in_the_plan_is_the_one_told(
    inputs: Inputs, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_BATCH_FILES", 1)
    folder = inputs.folder("hip_lib_gfx942", ["a", "b", "c", "d"])
    for name in ("b", "c", "d"):
        (inputs.tree.root / name).unlink()
    with pytest.raises(CallError, match=r"^shard/b "):
        write_folders(out, [folder], jobs=4)


@pytest.mark.parametrize("way", ["processes"], indirect=True)
@pytest.mark.usefixtures("way")
def test_a_process_that_is_killed_stops_the_run(
    inputs: Inputs, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_BATCH_FILES", 1)
    folder = inputs.folder("hip_lib_gfx942", [f"{number}" for number in range(40)])
    parent, real = os.getpid(), transfer.put_file

    def put(*arguments: object) -> None:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.005)  # the other process gets its turn
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(transfer, "put_file", put)
    with pytest.raises(CallError, match="ended before it was done"):
        write_folders(out, [folder], jobs=2)
    assert not out.parent.exists()


def test_an_equal_folder_that_another_run_wrote_meanwhile_is_kept(
    inputs: Inputs, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = inputs.folder("hip_lib_gfx942", ["a"])
    _race(monkeypatch, lambda: write_folders(out, [folder]))
    assert states(write_folders(out, [folder, inputs.folder("hip_lib_gfx950", ["b"])])) == ["kept", "written"]
    assert sorted(os.listdir(out)) == ["hip_lib_gfx942", "hip_lib_gfx950"]


def test_a_different_folder_that_another_run_wrote_meanwhile_is_left_alone(
    inputs: Inputs, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, folder = inputs.folder("hip_lib_gfx942", ["other"]), inputs.folder("hip_lib_gfx942", ["a"])
    _race(monkeypatch, lambda: write_folders(out, [other]))
    with pytest.raises(CallError, match="hip_lib_gfx942 is there already with other content"):
        write_folders(out, [folder])
    assert content(out) == {"hip_lib_gfx942/other": "other", f"hip_lib_gfx942/{MANIFEST}": "stage\n"}


def _race(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Let another run do its work when this one has looked at OUT and written nothing yet."""
    real, runs = writing._run, [other]

    def run(*arguments: object) -> None:
        if runs:
            runs.pop()()
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(writing, "_run", run)


def test_progress_hears_of_every_file_also_of_kept_ones(inputs: Inputs, out: Path) -> None:
    class Heard:
        files = size = 0

        def start(self, what: str, *, files: int = 0, size: int = 0) -> None:
            raise AssertionError("the caller knows the whole stage and starts it")

        def stop(self) -> None:
            raise AssertionError("the caller ends what it started")

        alone = SILENT.alone

        def advance(self, *, files: int = 0, size: int = 0) -> None:
            self.files += files
            self.size += size

    first, second = inputs.folder("hip_lib_gfx942", ["a"]), inputs.folder("hip_lib_gfx950", ["bb", "ccc"])
    write_folders(out, [first])
    heard = Heard()
    write_folders(out, [first, second], progress=heard)
    assert (heard.files, heard.size) == (3, 6)
