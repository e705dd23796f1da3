"""Archives are written from their plans, all or none, and the same bytes every time."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import Build, contents
from kpacktools.cli import run
from kpacktools.errors import CallError
from kpacktools.outputs import archives
from kpacktools.outputs.archives import WrittenArchive, compare_archive, write_archives
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.trees.archive import open_archive
from kpacktools.trees.decompress import decompressed
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.spool import Spool

MANIFEST = "artifact_manifest.txt"


class Inputs:
    """A folder of input files, made on demand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def put(self, path: str, text: str | None = None) -> Path:
        """A file that holds the text given, or its own path."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path if text is None else text)
        return file

    def plan(
        self, name: str = "hip_lib_gfx942", prefixes: tuple[str, ...] | None = ("stage",)
    ) -> PlannedFolder:
        """A plan for all files that are there."""
        tree = scan_directory(str(self.root))
        entries = sorted((entry for found in tree.folders.values() for entry in found), key=lambda e: e.path)
        files = tuple(PlannedFile(entry.path, tree, entry) for entry in entries)
        return PlannedFolder.of(name, name.rpartition("_")[2], files, prefixes)


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    return Inputs(tmp_path / "in")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "here" / "out"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpacked(path: Path) -> bytes:
    """The tar stream of an archive."""
    with path.open("rb") as stream:
        return b"".join(decompressed(stream, "zst" if path.suffix == ".zst" else "xz"))


def members(path: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(unpacked(path))) as archive:
        return archive.getmembers()


@pytest.mark.parametrize("form", ["zst", "xz"])
def test_an_archive_appears_with_its_checksum(inputs: Inputs, out: Path, form: archives.ArchiveForm) -> None:
    inputs.put("stage/lib/a.so")
    written = write_archives(out, [inputs.plan()], form=form)
    path = out / f"hip_lib_gfx942.tar.{form}"
    assert written == (WrittenArchive(str(path), "gfx942", 1, path.stat().st_size, digest(path), "written"),)
    assert Path(f"{path}.sha256sum").read_text() == f"{digest(path)}\n"
    assert sorted(os.listdir(out)) == [path.name, f"{path.name}.sha256sum"]
    assert os.listdir(out.parent) == ["out"]


def test_the_order_of_results_is_that_of_the_plan(inputs: Inputs, out: Path) -> None:
    inputs.put("stage/a")
    small = PlannedFolder.of("hip_lib_generic", "generic", (), ("stage",))
    written = write_archives(out, [small, inputs.plan()], form="zst", jobs=2)
    assert [item.key for item in written] == ["generic", "gfx942"]
    assert write_archives(out, [], form="zst") == ()


@pytest.mark.parametrize("form", ["zst", "xz"])
def test_what_is_read_back_is_what_was_planned(inputs: Inputs, out: Path, form: archives.ArchiveForm) -> None:
    for path in ("stage/b", "stage/a/deep", "stage/a-b", "stage/" + "long/" * 40 + "name", "stage/é"):
        inputs.put(path)
    inputs.put("stage/big", "0123456789abcdef" * 100_000)
    inputs.put("stage/empty", "")
    (inputs.root / "stage/link").symlink_to("a/deep")
    inputs.put("stage/tool").chmod(0o755)
    for entry in inputs.root.rglob("*"):
        if entry.is_file() and entry.name != "tool":
            entry.chmod(0o644)
    (written,) = write_archives(out, [inputs.plan()], form=form)
    found = open_archive(written.path, Spool())
    expected = scan_directory(str(inputs.root))
    assert (found.findings, found.manifest) == ((), b"stage\n")
    assert {k: list(v) for k, v in found.tree.folders.items() if v} == {
        k: v for k, v in expected.folders.items() if v
    }
    for entries in found.tree.folders.values():
        for item in entries:
            if not item.link:
                with found.tree.open(item.path) as stream:
                    assert stream.read() == (inputs.root / item.path).read_bytes()


def test_members_are_sorted_owned_by_nobody_and_without_folders(inputs: Inputs, out: Path) -> None:
    for path in ("stage/b", "stage/a/x", "stage/a-b"):
        inputs.put(path)
    (inputs.root / "stage/link").symlink_to("b")
    (written,) = write_archives(out, [inputs.plan()], form="zst")
    found = members(Path(written.path))
    assert [item.name for item in found] == [MANIFEST, "stage/a-b", "stage/a/x", "stage/b", "stage/link"]
    assert {(item.uid, item.gid, item.uname, item.gname, item.mtime) for item in found} == {(0, 0, "", "", 0)}
    assert found[-1].issym()
    assert not any(item.isdir() for item in found)


@pytest.mark.parametrize(("mode", "kept"), [(0o600, 0o644), (0o444, 0o644), (0o664, 0o644), (0o710, 0o755)])
def test_of_a_mode_the_exec_bit_is_kept(inputs: Inputs, out: Path, mode: int, kept: int) -> None:
    inputs.put("stage/a").chmod(mode)
    (written,) = write_archives(out, [inputs.plan()], form="zst")
    assert members(Path(written.path))[1].mode == kept


def test_E6_a_manifest_lists_all_prefixes_of_an_empty_part(out: Path) -> None:
    folder = PlannedFolder.of("hip_lib_gfx942", "gfx942", (), ("one/stage", "two/stage"))
    (written,) = write_archives(out, [folder], form="zst")
    assert open_archive(written.path, Spool()).manifest == b"one/stage\ntwo/stage\n"


@pytest.mark.parametrize("form", ["zst", "xz"])
def test_D8_time_umask_order_and_threads_change_no_byte(tmp_path: Path, form: archives.ArchiveForm) -> None:
    digests = set()
    paths = [f"stage/{number % 7}/{number}" for number in range(60)]
    for turn, jobs in enumerate((1, 4, 2)):
        mask = os.umask((0o022, 0o002, 0o077)[turn])
        try:
            inputs = Inputs(tmp_path / f"in{turn}")
            for path in paths if turn else reversed(paths):
                os.utime(inputs.put(path, path * 3000), (turn, turn))
            plans = [inputs.plan(), inputs.plan("hip_lib_gfx950")]
            written = write_archives(tmp_path / f"out{turn}", plans, form=form, jobs=jobs)
        finally:
            os.umask(mask)
        digests.add(tuple(item.sha256 for item in written))
    assert len(digests) == 1


def test_the_tar_stream_is_that_of_every_version(inputs: Inputs, out: Path) -> None:
    for path in ("stage/a", "stage/é", "stage/" + "n" * 120):
        inputs.put(path)
    (inputs.root / "stage/link").symlink_to("t" * 120)
    (written,) = write_archives(out, [inputs.plan()], form="zst")
    assert hashlib.sha256(unpacked(Path(written.path))).hexdigest() == (
        "fd99b83cef393827e2a4b0514b1aa9814129b43b29e8808cee211942ff1c7a1d"
    )


@pytest.mark.parametrize(("epoch", "time"), [("1700000000", 1700000000), ("-5", 0), ("", 0)])
def test_source_date_epoch_is_the_time_of_all_members(
    inputs: Inputs, out: Path, monkeypatch: pytest.MonkeyPatch, epoch: str, time: int
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    inputs.put("stage/a")
    (written,) = write_archives(out, [inputs.plan()], form="zst")
    assert {item.mtime for item in members(Path(written.path))} == {time}


def test_an_equal_archive_is_kept(inputs: Inputs, out: Path) -> None:
    inputs.put("stage/a")
    (first,) = write_archives(out, [inputs.plan()], form="zst")
    before = os.stat(first.path)
    for replace in (False, True):
        (again,) = write_archives(out, [inputs.plan()], form="zst", replace=replace)
        assert again.state == "kept"
    assert os.stat(first.path) == before


def test_a_run_that_died_is_completed(inputs: Inputs, out: Path) -> None:
    inputs.put("stage/a")
    plans = [inputs.plan(), inputs.plan("hip_lib_gfx950")]
    (first, _) = write_archives(out, plans, form="zst")
    os.unlink(f"{first.path}.sha256sum")
    os.unlink(out / "hip_lib_gfx950.tar.zst")
    assert [item.state for item in write_archives(out, plans, form="zst")] == ["kept", "written"]
    assert len(os.listdir(out)) == 4


def test_a_checksum_in_another_format_is_kept(inputs: Inputs, out: Path) -> None:
    inputs.put("stage/a")
    (first,) = write_archives(out, [inputs.plan()], form="zst")
    checksum = Path(f"{first.path}.sha256sum")
    checksum.write_text(f"{first.sha256}  hip_lib_gfx942.tar.zst\n")
    assert write_archives(out, [inputs.plan()], form="zst")[0].state == "kept"
    assert checksum.read_text().endswith("hip_lib_gfx942.tar.zst\n")


def test_a_different_archive_is_replaced_on_request_only(inputs: Inputs, out: Path) -> None:
    inputs.put("stage/a")
    (first,) = write_archives(out, [inputs.plan()], form="zst")
    inputs.put("stage/a", "new")
    with pytest.raises(CallError, match=r"hip_lib_gfx942\.tar\.zst is there with other content; --replace"):
        write_archives(out, [inputs.plan()], form="zst")
    assert digest(Path(first.path)) == first.sha256
    (second,) = write_archives(out, [inputs.plan()], form="zst", replace=True)
    assert second.state == "replaced"
    assert Path(f"{second.path}.sha256sum").read_text() == f"{digest(Path(second.path))}\n"


@pytest.mark.parametrize("text", ["no digest", f"{'0' * 64}\n"])
def test_a_wrong_checksum_is_replaced_on_request_only(inputs: Inputs, out: Path, text: str) -> None:
    inputs.put("stage/a")
    (first,) = write_archives(out, [inputs.plan()], form="zst")
    checksum = Path(f"{first.path}.sha256sum")
    checksum.write_text(text)
    assert compare_archive(out, inputs.plan(), form="zst") == "differs"
    with pytest.raises(CallError, match="sha256sum is there with other content"):
        write_archives(out, [inputs.plan()], form="zst")
    write_archives(out, [inputs.plan()], form="zst", replace=True)
    assert checksum.read_text() == f"{first.sha256}\n"


def test_an_archive_can_be_compared_without_writing(inputs: Inputs, out: Path) -> None:
    inputs.put("stage/a")
    assert compare_archive(out, inputs.plan(), form="zst") == "absent"
    assert not out.exists()
    write_archives(out, [inputs.plan()], form="zst")
    assert compare_archive(out, inputs.plan(), form="zst", jobs=3) == "equal"
    inputs.put("stage/a", "new")
    assert compare_archive(out, inputs.plan(), form="zst") == "differs"
    assert len(os.listdir(out)) == 2


@pytest.mark.parametrize("text", ["shorter", "longer than it was when it was scanned"])
def test_an_input_that_changed_stops_everything(inputs: Inputs, out: Path, text: str) -> None:
    inputs.put("stage/a", "as it was")
    folder = inputs.plan()
    inputs.put("stage/a", text)
    with pytest.raises(CallError, match="stage/a changed"):
        write_archives(out, [folder, inputs.plan("hip_lib_gfx950")], form="zst", jobs=2)
    assert not out.parent.exists()


def test_an_input_that_is_gone_stops_everything(inputs: Inputs, out: Path) -> None:
    file = inputs.put("stage/a")
    folder = inputs.plan()
    file.unlink()
    with pytest.raises(CallError, match=r"cannot read .*stage/a: No such file"):
        write_archives(out, [folder], form="zst")
    assert not out.parent.exists()


@pytest.mark.parametrize("form", ["zst", "xz"])
def test_a_full_disk_is_an_error_in_one_line(
    inputs: Inputs, out: Path, monkeypatch: pytest.MonkeyPatch, form: archives.ArchiveForm
) -> None:
    def full(self: object, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archives._Digest, "write", full)
    inputs.put("stage/a")
    with pytest.raises(CallError, match="out cannot be written: No space left on device"):
        write_archives(out, [inputs.plan()], form=form)
    assert not out.parent.exists()


def test_plans_that_are_no_artifacts_are_refused(inputs: Inputs, out: Path) -> None:
    inputs.put("stage/a")
    (file, *_) = inputs.plan().files
    for folders, message in (
        ([inputs.plan(prefixes=None)], "no artifact"),
        ([inputs.plan("")], "no artifact"),
        ([inputs.plan(), inputs.plan()], "two folders"),
        ([inputs.plan("../hip_lib_gfx942")], "cannot be the name"),
        ([PlannedFolder.of("hip_lib_x", "x", (file._replace(dest="../a"),), ())], "relative POSIX path"),
        ([PlannedFolder.of("hip_lib_x", "x", (file._replace(dest=MANIFEST),), ())], "one name"),
        (
            [PlannedFolder.of("hip_lib_x", "x", (file, file._replace(dest="stage/a/b")), ())],
            "file and a folder",
        ),
        (
            [
                PlannedFolder.of(
                    "hip_lib_x", "x", (file._replace(entry=file.entry._replace(mode=stat.S_IFIFO)),), ()
                )
            ],
            "neither a file nor a link",
        ),
    ):
        with pytest.raises(CallError, match=message):
            write_archives(out, folders, form="zst")
    assert not out.parent.exists()


def kpacktools(*arguments: str | Path) -> int:
    return run([*map(str, arguments), "-q"])


def report(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """The JSON report of a command."""
    capsys.readouterr()
    run([*map(str, arguments), "--format", "json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.fixture
def shards(build: Callable[..., Build], tmp_path: Path) -> Path:
    """Two per-architecture builds."""
    for key in ("gfx942", "gfx950"):
        shard = build(key).host()
        shard.rocke(key)
        (shard.engines / "liblink.so").symlink_to("libhost.so")
    return tmp_path / "in"


def test_merged_archives_hold_what_merged_folders_do(shards: Path, tmp_path: Path) -> None:
    sources = sorted(shards.iterdir())
    assert kpacktools("merge", *sources, "-o", tmp_path / "folders") == 0
    assert kpacktools("merge", *sources, "-o", tmp_path / "archives", "--archive", "zst") == 0
    assert kpacktools("merge", tmp_path / "archives", "-o", tmp_path / "again") == 0
    assert contents(tmp_path / "again") == contents(tmp_path / "folders")
    assert sorted(os.listdir(tmp_path / "archives"))[::2] == [
        f"hipkernelprovider_lib_{key}.tar.zst" for key in ("generic", "gfx942", "gfx950")
    ]


@pytest.mark.parametrize("form", ["zst", "xz"])
def test_archiving_folders_gives_what_merge_writes(shards: Path, tmp_path: Path, form: str) -> None:
    sources = sorted(shards.iterdir())
    assert kpacktools("merge", *sources, "-o", tmp_path / "folders") == 0
    assert kpacktools("merge", *sources, "-o", tmp_path / "merged", "--archive", form) == 0
    assert (
        kpacktools("artifacts", "archive", tmp_path / "folders", "-o", tmp_path / "out", "--form", form) == 0
    )
    assert contents(tmp_path / "out") == contents(tmp_path / "merged")


def test_split_writes_archives_too(shards: Path, tmp_path: Path) -> None:
    assert kpacktools("split", shards / "gfx942", "-o", tmp_path / "out", "--archive", "zst") == 0
    assert len(list((tmp_path / "out").glob("*.tar.zst"))) == 2


def test_the_report_names_archives_and_their_digests(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for state in ("written", "kept"):
        outputs = report(capsys, "merge", shards / "gfx942", "-o", out, "--archive", "zst")["outputs"]
        assert [(item["kind"], item["key"], item["state"]) for item in outputs] == [
            ("archive", "generic", state),
            ("archive", "gfx942", state),
        ]
        assert [item["sha256"] for item in outputs] == [digest(Path(item["path"])) for item in outputs]
        assert [item["bytes"] for item in outputs] == [Path(item["path"]).stat().st_size for item in outputs]


def test_a_dry_run_says_what_would_become_of_archives(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = shards / "gfx942" / "hipkernelprovider_lib_gfx942", tmp_path / "out"
    command = ("artifacts", "archive", source, "-o", out)

    def planned(*options: str) -> list[str]:
        return [item["state"] for item in report(capsys, *command, "--dry-run", *options)["outputs"]]

    assert planned() == ["planned"]
    assert not out.exists()
    assert kpacktools(*command) == 0
    assert planned() == ["kept"]
    (source / "ml-libs/hipkernelprovider/stage/new").write_text("new")
    assert kpacktools(*command, "--dry-run") == 2
    assert planned("--replace") == ["replaced"]


def test_archives_and_an_install_prefix_exclude_each_other(shards: Path, tmp_path: Path) -> None:
    arguments = ("merge", shards / "gfx942", "-o", tmp_path / "out", "--archive", "zst", "--flatten")
    assert kpacktools(*arguments) == 2


def test_archives_may_lie_beside_their_folders(shards: Path, tmp_path: Path) -> None:
    folder = shards / "gfx942"
    before = contents(folder)
    assert kpacktools("artifacts", "archive", folder, "-o", folder) == 0
    assert kpacktools("artifacts", "archive", folder, "-o", folder) == 0
    assert kpacktools("merge", folder, "-o", tmp_path / "out", "--strict") == 0
    assert before.items() <= contents(folder).items()


def test_archives_may_be_archived_anew(shards: Path, tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    assert kpacktools("artifacts", "archive", shards / "gfx942", "-o", one) == 0
    assert (
        kpacktools(
            "artifacts", "archive", one / "hipkernelprovider_lib_gfx942.tar.zst", "-o", two, "--form", "xz"
        )
        == 0
    )
    assert kpacktools("artifacts", "archive", two, "-o", three) == 0
    assert contents(one) == contents(three)


@pytest.mark.parametrize("place", [".", "stage", "../hipkernelprovider_lib_gfx942/new"])
def test_archives_are_not_written_into_their_own_folders(shards: Path, place: str) -> None:
    folder = shards / "gfx942" / "hipkernelprovider_lib_gfx942"
    assert kpacktools("artifacts", "archive", folder, "-o", folder / place) == 2


def test_two_artifacts_of_one_name_are_refused(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other" / "hipkernelprovider_lib_gfx942"
    (other / "stage").mkdir(parents=True)
    (other / MANIFEST).write_text("stage\n")
    assert kpacktools("artifacts", "archive", shards / "gfx942", other, "-o", tmp_path / "out") == 2
    assert "have one name" in capsys.readouterr().err


def test_an_install_prefix_is_no_artifact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prefix/lib").mkdir(parents=True)
    assert kpacktools("artifacts", "archive", tmp_path / "prefix", "-o", tmp_path / "out") == 2
    assert "split --archive" in capsys.readouterr().err


def test_what_no_archive_should_hold_is_refused(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shards / "gfx942" / "hipkernelprovider_lib_gfx942"
    stage = folder / "ml-libs/hipkernelprovider/stage"
    os.mkfifo(stage / "pipe")
    (stage / "escape").symlink_to("../../../../../x")
    (stage / "dangling").symlink_to("elsewhere")
    (folder / "stray").write_text("below no prefix")
    found = report(capsys, "artifacts", "archive", folder, "-o", tmp_path / "out")
    assert {item["name"] for item in found["findings"]} == {
        "special-file",
        "symlink-escape",
        "descriptor-uncaptured",
    }
    assert not found["ok"]
    assert not (tmp_path / "out").exists()


def archived(shards: Path, out: Path) -> Path:
    """The archive of the gfx942 build."""
    assert kpacktools("artifacts", "archive", shards / "gfx942", "-o", out) == 0
    return out / "hipkernelprovider_lib_gfx942.tar.zst"


def test_an_archive_is_inspected_like_its_folder(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archived(shards, tmp_path / "out")
    folder = report(capsys, "inspect", shards / "gfx942/hipkernelprovider_lib_gfx942")
    for source in (path, path.parent, tmp_path / "out"):
        packed = report(capsys, "inspect", source)
        assert packed["ok"]
        assert packed["counts"] == folder["counts"]
        assert [item["kernels"] for item in packed["bundles"]] == [
            item["kernels"] for item in folder["bundles"]
        ]
    assert report(capsys, "inspect", path)["inputs"][0]["shard"] == "gfx942"


def test_a_folder_above_archives_holds_a_shard_each(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for key in ("gfx942", "gfx950"):
        assert kpacktools("artifacts", "archive", shards / key, "-o", tmp_path / "out" / key) == 0
    inputs = report(capsys, "inspect", tmp_path / "out")["inputs"]
    assert [item["shard"] for item in inputs] == ["gfx942", "gfx950"]
    assert kpacktools("merge", tmp_path / "out", "-o", tmp_path / "merged") == 2


def test_an_archive_is_told_from_a_damaged_one(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archived(shards, tmp_path / "out")
    path.write_bytes(path.read_bytes()[:-1])
    assert kpacktools("merge", path, "-o", tmp_path / "merged") == 1
    found = report(capsys, "inspect", path.parent)
    assert [item["name"] for item in found["findings"]] == ["archive-invalid"]
    assert not (tmp_path / "merged").exists()


def test_an_archive_for_an_unknown_target_is_refused(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archived(shards, tmp_path / "out")
    path.rename(path.with_name("hipkernelprovider_lib_gfx17z.tar.zst"))
    found = report(capsys, "merge", tmp_path / "out", "-o", tmp_path / "merged")
    assert [item["name"] for item in found["findings"] if item["severity"] == "error"] == ["unknown-target"]


@pytest.mark.parametrize("name", ["hip.tar.zst", "hip_lib.tar.xz"])
def test_an_archive_with_no_artifacts_name_is_unusable(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"")
    assert kpacktools("inspect", tmp_path / name) == 2
    assert "{name}_{component}_" in capsys.readouterr().err


def test_other_archives_in_a_prefix_are_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "share").mkdir(parents=True)
    (prefix / "share/my_test_data.tar.xz").write_bytes(b"")
    found = report(capsys, "inspect", prefix)
    assert found["counts"]["files_in"] == 1
    assert found["ok"]


def test_other_archives_beside_artifacts_are_strays(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shards / "gfx942/backup.tar.xz").write_bytes(b"")
    found = report(capsys, "inspect", shards / "gfx942")
    assert [os.path.basename(item["path"]) for item in found["findings"]] == ["backup.tar.xz"]


def test_wheels_are_built_from_archives(shards: Path, tmp_path: Path) -> None:
    path = archived(shards, tmp_path / "out")
    arguments = ("--version", "7.15.0", "--platform-tag", "linux_x86_64")
    assert kpacktools("wheel", path, "-o", tmp_path / "one", *arguments) == 0
    assert kpacktools("wheel", shards / "gfx942", "-o", tmp_path / "two", *arguments) == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two") != {}


def test_a_link_survives_both_ways(shards: Path, tmp_path: Path) -> None:
    path = archived(shards, tmp_path / "out")
    assert kpacktools("merge", path, "-o", tmp_path / "merged") == 0
    links = [file for file in (tmp_path / "merged").rglob("*") if file.is_symlink()]
    assert [os.readlink(file) for file in links] == ["libhost.so"]
