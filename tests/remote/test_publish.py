"""Sets that are published under a URL: what is there, what is kept, replaced or refused, and when it is a set."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from reading import REPORT, Bucket, FileBucket, S3Bucket, files_below, read_set
from servers import S3Server, WebServer

from builders import Build
from kpacktools import cli
from kpacktools.remote import destinations, localdestination, s3destination, staged

SHARDS = [str(Path(__file__).parents[2] / "examples" / "shards" / name) for name in ("gfx942", "gfx950")]


@pytest.fixture(params=["s3", "file"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bucket]:
    """A place to publish in, with nothing in it."""
    if request.param == "s3":
        yield S3Bucket(request.getfixturevalue("s3"))
    else:
        yield FileBucket(tmp_path / "store" / "set")


class Outcome:
    """What a command said."""

    def __init__(self, status: int, stdout: str, stderr: str) -> None:
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    def states(self) -> list[str]:
        """What became of each output."""
        return [item["state"] for item in json.loads(self.stdout)["outputs"]]


Call = Callable[..., Outcome]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command."""

    def run(*words: str | Path) -> Outcome:
        capsys.readouterr()
        status = cli.run([*map(str, words)])
        said = capsys.readouterr()
        return Outcome(status, said.out, said.err)

    return run


def refusal(outcome: Outcome) -> str:
    """The one line of a call that cannot be carried out."""
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.count("\n") == 1
    assert outcome.stderr.startswith("kpacktools: error: ")
    assert "internal error" not in outcome.stderr
    return outcome.stderr


COMMANDS: dict[str, list[str]] = {
    "merge": ["merge", *SHARDS],
    "merge --archive": ["merge", *SHARDS, "--archive", "zst"],
    "merge --flatten": ["merge", *SHARDS, "--flatten"],
    "split": ["split", SHARDS[0]],
    "wheel": ["wheel", *SHARDS, "--version", "7.15.0", "--platform-tag", "linux_x86_64"],
    "artifacts archive": ["artifacts", "archive", SHARDS[0]],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_published_set_is_the_local_output_byte_for_byte(
    bucket: Bucket, call: Call, tmp_path: Path, command: str
) -> None:
    assert call(*COMMANDS[command], "-o", tmp_path / "local").status == 0
    done = call(*COMMANDS[command], "-o", bucket.url, "--format", "json")
    assert done.status == 0, done.stderr
    assert read_set(bucket) == files_below(tmp_path / "local")
    assert set(bucket.names()) == {*files_below(tmp_path / "local"), REPORT}
    assert set(done.states()) == {"written"}

    again = call(*COMMANDS[command], "-o", bucket.url, "--format", "json")
    assert (again.status, set(again.states())) == (0, {"kept"})
    assert read_set(bucket) == files_below(tmp_path / "local")


def test_the_report_of_a_set_follows_the_schema_and_names_no_temporary_place(
    bucket: Bucket, call: Call
) -> None:
    assert call(*COMMANDS["wheel"], "-o", bucket.url).status == 0
    data = bucket.get(REPORT)
    assert data is not None
    report = json.loads(data)
    schema = json.loads(load_schema_text())
    assert list(Draft202012Validator(schema).iter_errors(report)) == []
    assert report["schema"] == "kpacktools.report/v1"
    assert b".kpacktools-" not in data
    assert [item["path"] for item in report["outputs"]] == [
        f"{bucket.url}/{file['path']}" for file in report["published"]["files"]
    ]
    assert [item["sha256"] for item in report["outputs"]] == [
        file["sha256"] for file in report["published"]["files"]
    ]


def load_schema_text() -> str:
    """The schema of reports, as it is shipped."""
    from importlib import resources

    return (resources.files("kpacktools.reports") / "report.schema.json").read_text("utf-8")


def test_what_a_run_that_died_left_is_completed(bucket: Bucket, call: Call, tmp_path: Path) -> None:
    call(*COMMANDS["merge"], "-o", bucket.url)
    whole = read_set(bucket)
    assert whole is not None
    bucket.remove(REPORT)
    for name in sorted(whole)[::3]:
        bucket.remove(name)
    done = call(*COMMANDS["merge"], "-o", bucket.url, "--format", "json")
    assert done.status == 0, done.stderr
    assert "written" in done.states()
    assert read_set(bucket) == whole


def test_a_set_whose_report_is_all_that_is_missing_gets_it(bucket: Bucket, call: Call) -> None:
    call(*COMMANDS["merge"], "-o", bucket.url)
    whole = read_set(bucket)
    bucket.remove(REPORT)
    assert set(call(*COMMANDS["merge"], "-o", bucket.url, "--format", "json").states()) == {"kept"}
    assert read_set(bucket) == whole is not None


def test_other_content_is_refused_before_anything_is_changed(bucket: Bucket, call: Call) -> None:
    name = "hipkernelprovider_lib_gfx950/artifact_manifest.txt"
    bucket.put(name, b"another\n")
    said = refusal(call(*COMMANDS["merge"], "-o", bucket.url))
    assert f"{name} is there with other content; --replace replaces it" in said
    assert bucket.names() == [name]


def test_a_stray_file_in_an_artifact_directory_is_refused(bucket: Bucket, call: Call) -> None:
    bucket.put("hipkernelprovider_lib_gfx950/stray", b"1")
    bucket.put("beside/other", b"1")
    assert "stray is there and not in the plan" in refusal(call(*COMMANDS["merge"], "-o", bucket.url))
    assert call(*COMMANDS["merge"], "-o", bucket.url, "--replace").status == 0
    assert "hipkernelprovider_lib_gfx950/stray" not in bucket.names()
    assert "beside/other" in bucket.names()


def test_nothing_is_written_through_a_link(call: Call, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    for folder in (out, elsewhere):
        folder.mkdir()
    (out / "hipkernelprovider_lib_gfx950").symlink_to(elsewhere)
    assert "is there and not in the plan" in refusal(call(*COMMANDS["merge"], "-o", out.as_uri()))
    assert call(*COMMANDS["merge"], "-o", out.as_uri(), "--replace").status == 0
    assert list(elsewhere.iterdir()) == []
    assert read_set(FileBucket(out)) is not None


def test_replace_puts_the_new_set_in_place_of_the_old_one(bucket: Bucket, call: Call, tmp_path: Path) -> None:
    call("merge", SHARDS[0], "-o", bucket.url)
    assert read_set(bucket) is not None
    assert "of a set with other files" in refusal(call(*COMMANDS["merge"], "-o", bucket.url))
    bucket.put("hipkernelprovider_lib_gfx942/artifact_manifest.txt", b"another\n")
    done = call(*COMMANDS["merge"], "-o", bucket.url, "--replace", "--format", "json")
    assert done.status == 0, done.stderr
    assert set(done.states()) == {"kept", "replaced", "written"}
    call(*COMMANDS["merge"], "-o", tmp_path / "local")
    assert read_set(bucket) == files_below(tmp_path / "local")


def test_the_report_goes_before_a_file_that_it_lists_is_changed(
    bucket: Bucket, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(*COMMANDS["wheel"], "-o", bucket.url)
    order: list[str] = []
    for kind in (s3destination.S3Destination, localdestination.LocalDestination):
        for method in ("delete", "upload", "put_bytes"):
            _note(monkeypatch, kind, method, order)
    words = ["wheel", SHARDS[0], "--version", "7.15.0", "--build-tag", "2"]
    assert call(*words, "-o", bucket.url, "--replace").status == 0
    assert order[0] == f"delete {REPORT}"
    assert order[-1] == f"put_bytes {REPORT}"
    assert all(step.startswith("upload") for step in order[1:-1])


def _note(monkeypatch: pytest.MonkeyPatch, kind: type, method: str, order: list[str]) -> None:
    true = getattr(kind, method)

    def noted(self: Any, what: Any, *arguments: Any, **options: Any) -> Any:
        order.append(f"{method} {getattr(what, 'name', what)}")
        return true(self, what, *arguments, **options)

    monkeypatch.setattr(kind, method, noted)


def test_a_dry_run_says_what_would_be_uploaded_and_uploads_nothing(bucket: Bucket, call: Call) -> None:
    planned = call(*COMMANDS["merge"], "-o", bucket.url, "--dry-run", "--format", "json")
    assert planned.status == 0, planned.stderr
    assert set(planned.states()) == {"planned"}
    assert bucket.names() == []
    paths = [item["path"] for item in json.loads(planned.stdout)["outputs"]]
    assert all(path.startswith(f"{bucket.url}/hipkernelprovider_lib_") for path in paths)

    name = "hipkernelprovider_lib_gfx950/artifact_manifest.txt"
    call("merge", SHARDS[0], "-o", bucket.url)
    bucket.put(name, b"another\n")
    before = {name: bucket.get(name) for name in bucket.names()}
    assert f"{name} is there" in refusal(call(*COMMANDS["merge"], "-o", bucket.url, "--dry-run"))
    replaced = call(*COMMANDS["merge"], "-o", bucket.url, "--dry-run", "--replace", "--format", "json")
    assert replaced.states() == ["kept", "kept", "replaced"]
    assert {name: bucket.get(name) for name in bucket.names()} == before


def test_a_refused_run_publishes_nothing(bucket: Bucket, call: Call, build: Callable[..., Build]) -> None:
    one = build("gfx942").host(b"1").root
    two = build("gfx950").host(b"2").root
    done = call("merge", one, two, "-o", bucket.url)
    assert (done.status, "content-conflict" in done.stdout) == (1, True)
    assert bucket.names() == []


@pytest.mark.parametrize("kind", ["link", "exec"])
def test_what_a_store_would_lose_is_refused_with_a_way_out(
    bucket: Bucket, call: Call, tmp_path: Path, kind: str
) -> None:
    shutil.copytree(SHARDS[0], tmp_path / "in")
    lib = tmp_path / "in" / "hipkernelprovider_lib_gfx942" / "ml-libs/hipkernelprovider/stage/lib"
    (lib / "libx.so.1").write_bytes(b"\x7fELF")
    if kind == "link":
        (lib / "libx.so").symlink_to("libx.so.1")
    else:
        (lib / "libx.so.1").chmod(0o755)
    said = refusal(call("split", tmp_path / "in", "-o", bucket.url))
    assert ("is a symbolic link" if kind == "link" else "is executable") in said
    assert "--archive" in said
    assert bucket.names() == []
    assert call("split", tmp_path / "in", "-o", bucket.url, "--archive", "zst").status == 0
    assert read_set(bucket) is not None


def test_an_output_in_an_input_is_refused(bucket: Bucket, call: Call, tmp_path: Path) -> None:
    shutil.copytree(SHARDS[0], tmp_path / "in")
    place = (tmp_path / "in" / "out").as_uri()
    assert "lies in the input" in refusal(call("merge", tmp_path / "in", "-o", place))
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == sorted(
        path.name for path in Path(SHARDS[0]).iterdir()
    )


def test_a_web_server_is_no_place_to_publish_in(web: WebServer, call: Call) -> None:
    assert "a web server is read from only" in refusal(
        call(*COMMANDS["merge"], "-o", f"{web.url}/x?t=secret")
    )
    said = refusal(call("inspect", SHARDS[0], "-o", f"{web.url}/report.json?t=secret"))
    assert "a web server is read from only" in said
    assert "secret" not in said


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_report_may_be_written_to_a_url(bucket: Bucket, call: Call, form: str) -> None:
    for _ in range(2):
        words = ("inspect", SHARDS[0], "--format", form, "-o", f"{bucket.url}/report.{form}")
        assert call(*words).status == 0
    assert bucket.names() == [f"report.{form}"]
    data = bucket.get(f"report.{form}")
    assert data is not None
    assert data.decode() == call("inspect", SHARDS[0], "--format", form).stdout


def test_a_lock_may_be_written_to_a_url(bucket: Bucket, call: Call, tmp_path: Path) -> None:
    assert call("lock", "write", SHARDS[0], "-o", f"{bucket.url}/kpack.lock").status == 0
    call("lock", "write", SHARDS[0], "-o", tmp_path / "kpack.lock")
    assert bucket.get("kpack.lock") == (tmp_path / "kpack.lock").read_bytes()


def test_the_aliases_of_a_lock_under_a_url_are_kept(bucket: Bucket, call: Call) -> None:
    words = ["lock", "write", SHARDS[0], "-o", f"{bucket.url}/kpack.lock"]
    assert call(*words, "--alias", "llvm24=llvm23").status == 0
    with_alias = bucket.get("kpack.lock")
    assert with_alias is not None
    assert b'alias = "llvm23"' in with_alias
    assert call(*words).status == 0
    assert bucket.get("kpack.lock") == with_alias


def test_descriptors_may_be_published(bucket: Bucket, call: Call, tmp_path: Path) -> None:
    words = ["artifacts", "emit", SHARDS[0], "-o"]
    assert call(*words, tmp_path / "local").status == 0
    assert call(*words, bucket.url).status == 0
    assert read_set(bucket) == files_below(tmp_path / "local")
    assert "name the folder" in refusal(call(*words, f"{bucket.url}/artifact-x.toml"))


def test_commands_that_write_folders_only_say_so(bucket: Bucket, call: Call) -> None:
    kpack = next(Path(SHARDS[0]).rglob("*.kpack"))
    assert "expected a local folder" in refusal(call("kpack", "extract", kpack, "-o", bucket.url))
    assert "expected a local folder" in refusal(call("demo", "-o", bucket.url))


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 4 KiB, so that small wheels are uploaded in several."""
    monkeypatch.setattr(staged, "_PART", 4 << 10)
    monkeypatch.setattr(staged, "_MIB", 4 << 10)
    monkeypatch.setattr("moto.settings.S3_UPLOAD_PART_MIN_SIZE", 1 << 10)
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1 << 10, raising=False)


@pytest.mark.parametrize("in_parts", [False, True])
def test_what_was_written_to_a_store_is_counted(
    s3: S3Server, call: Call, request: pytest.FixtureRequest, in_parts: bool
) -> None:
    if in_parts:
        request.getfixturevalue("small_parts")
    done = call(*COMMANDS["wheel"], "-o", s3.url, "-v")
    assert done.status == 0, done.stderr
    size = sum(item["Size"] for item in s3.client().list_objects_v2(Bucket=s3.bucket)["Contents"])
    assert f"{size:,} written" in done.stderr


@pytest.mark.usefixtures("small_parts")
def test_large_files_go_in_parts_and_are_known_again_by_their_etag(
    s3: S3Server, call: Call, tmp_path: Path
) -> None:
    bucket = S3Bucket(s3)
    assert call(*COMMANDS["wheel"], "-o", bucket.url).status == 0
    call(*COMMANDS["wheel"], "-o", tmp_path / "local")
    assert read_set(bucket) == files_below(tmp_path / "local")
    assert any("partNumber=5" in path for _, path in s3.requests)
    bucket.remove(REPORT)
    s3.requests.clear()
    done = call(*COMMANDS["wheel"], "-o", bucket.url, "--format", "json")
    assert set(done.states()) == {"kept"}
    assert s3.reads() == []


@pytest.mark.usefixtures("small_parts")
def test_an_object_that_came_another_way_is_read_to_be_known_again(
    s3: S3Server, call: Call, tmp_path: Path
) -> None:
    call(*COMMANDS["wheel"], "-o", tmp_path / "local")
    bucket = S3Bucket(s3)
    for name, data in files_below(tmp_path / "local").items():
        bucket.put(name, data)
    done = call(*COMMANDS["wheel"], "-o", bucket.url, "--format", "json")
    assert set(done.states()) == {"kept"}
    assert len(s3.reads()) == 2


@pytest.mark.usefixtures("small_parts")
def test_busy_stores_are_asked_again(s3: S3Server, call: Call, pauses: list[float]) -> None:
    bucket = S3Bucket(s3)
    s3.fault_for = lambda method, path: 503 if method == "PUT" and len(s3.requests) % 3 == 0 else None
    assert call(*COMMANDS["wheel"], "-o", bucket.url).status == 0
    assert len(pauses) > 2
    assert read_set(bucket) is not None


@pytest.mark.usefixtures("small_parts")
def test_a_store_that_stays_busy_ends_in_one_line_and_no_set(s3: S3Server, call: Call) -> None:
    bucket = S3Bucket(s3)
    s3.fault_for = lambda method, path: 503 if "partNumber=3" in path else None
    assert "SlowDown" in refusal(call(*COMMANDS["wheel"], "-o", bucket.url))
    assert REPORT not in bucket.names()
    assert s3.unfinished() == []
    s3.fault_for = lambda method, path: None
    assert call(*COMMANDS["wheel"], "-o", bucket.url).status == 0
    assert read_set(bucket) is not None


@pytest.mark.parametrize("when", ["first", "part", "report"])
@pytest.mark.usefixtures("small_parts")
def test_a_store_that_does_not_permit_it_ends_in_one_line_and_no_set(
    s3: S3Server, call: Call, pauses: list[float], when: str
) -> None:
    bucket = S3Bucket(s3)

    def fault(method: str, path: str) -> int | None:
        part = {"first": "list-type", "part": "partNumber=2", "report": REPORT}[when]
        return 403 if part in path and method in ("PUT", "GET") else None

    s3.fault_for = fault
    assert "not permitted (AccessDenied" in refusal(call(*COMMANDS["wheel"], "-o", bucket.url))
    s3.fault_for = lambda method, path: None
    assert read_set(bucket) is None
    assert not pauses


def test_no_bucket_is_one_line(s3: S3Server, call: Call) -> None:
    assert "no such bucket" in refusal(call(*COMMANDS["merge"], "-o", "s3://absent/set"))
    assert "names no bucket" in refusal(call(*COMMANDS["merge"], "-o", "s3://"))


@pytest.mark.usefixtures("small_parts")
def test_uploads_of_killed_runs_are_aborted_and_those_of_live_ones_are_not(
    s3: S3Server, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = S3Bucket(s3)
    client = s3.client()
    for key in (f"{bucket.folder}/old.whl", "elsewhere/old.whl"):
        client.create_multipart_upload(Bucket=s3.bucket, Key=key)
    # moto says of every upload that it was begun in 2010.
    monkeypatch.setattr(s3destination, "STALE_AFTER", s3destination.STALE_AFTER * 365 * 100)
    assert call(*COMMANDS["wheel"], "-o", bucket.url).status == 0
    assert len(s3.unfinished()) == 2
    monkeypatch.setattr(s3destination, "STALE_AFTER", timedelta(hours=24))
    assert call(*COMMANDS["wheel"], "-o", bucket.url).status == 0
    assert s3.unfinished() == ["elsewhere/old.whl"]


def test_another_run_that_was_faster_is_taken_for_granted_where_it_wrote_the_same(
    bucket: Bucket, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    call(*COMMANDS["wheel"], "-o", tmp_path / "local")
    _meanwhile(monkeypatch, lambda: [bucket.put(*item) for item in files_below(tmp_path / "local").items()])
    assert call(*COMMANDS["wheel"], "-o", bucket.url).status == 0
    assert read_set(bucket) == files_below(tmp_path / "local")


def test_another_run_that_was_faster_wins_where_it_wrote_something_else(
    bucket: Bucket, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    call(*COMMANDS["wheel"], "-o", tmp_path / "local")
    name = sorted(files_below(tmp_path / "local"))[0]
    _meanwhile(monkeypatch, lambda: bucket.put(name, b"other"))
    assert "by another run meanwhile, with other content" in refusal(
        call(*COMMANDS["wheel"], "-o", bucket.url)
    )
    assert bucket.get(name) == b"other"
    assert REPORT not in bucket.names()


def _meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen between the look at a place and the first upload."""
    from kpacktools.remote import publish

    true = publish._sent

    def sent(*arguments: Any) -> Any:
        act()
        return true(*arguments)

    monkeypatch.setattr(publish, "_sent", sent)


@pytest.mark.usefixtures("small_parts")
def test_a_write_whose_answer_is_lost_is_no_conflict_when_it_is_tried_again(s3: S3Server, call: Call) -> None:
    bucket = S3Bucket(s3)
    lost: set[str] = set()

    def loses(method: str, path: str) -> bool:
        is_write = method == "PUT" or (method == "POST" and "uploadId" in path)
        is_first = is_write and path not in lost
        lost.update([path] if is_first else [])
        return is_first

    s3.loses = loses
    done = call(*COMMANDS["merge"], "-o", bucket.url)
    assert done.status == 0, done.stderr
    assert any(REPORT in path for path in lost)
    assert any("uploadId" in path and "partNumber" not in path for path in lost)
    assert read_set(bucket) is not None


def test_a_store_without_conditional_writes_is_published_in_all_the_same(s3: S3Server, call: Call) -> None:
    bucket = S3Bucket(s3)
    s3.refuses_conditions = True
    assert call(*COMMANDS["wheel"], "-o", bucket.url).status == 0
    assert read_set(bucket) is not None


@pytest.mark.parametrize("is_atomic", [True, False])
def test_any_store_of_fsspec_may_be_published_in(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_atomic: bool
) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    monkeypatch.setattr(destinations, "_WHOLE_AT_ONCE", frozenset({"memory"} if is_atomic else ()))
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    call(*COMMANDS["wheel"], "-o", tmp_path / "local")
    for state in ("written", "kept"):
        done = call(*COMMANDS["wheel"], "-o", "memory://releases/set", "--format", "json")
        assert done.status == 0, done.stderr
        assert set(done.states()) == {state}
    there = {
        path.removeprefix("/releases/set/"): file.getvalue() for path, file in MemoryFileSystem.store.items()
    }
    assert there.pop(REPORT)
    assert there == files_below(tmp_path / "local")
    there_first = f"/releases/set/{sorted(there)[0]}"
    MemoryFileSystem.store[there_first].write(b"other")
    assert "is there with other content" in refusal(call(*COMMANDS["wheel"], "-o", "memory://releases/set"))
    assert call(*COMMANDS["wheel"], "-o", "memory://releases/set", "--replace").status == 0
    assert MemoryFileSystem.store[there_first].getvalue() == there[sorted(there)[0]]


@pytest.mark.skipif(os.name != "posix", reason="processes are started by fork or spawn")
def test_equal_runs_at_the_same_time_all_succeed(bucket: Bucket) -> None:
    command = [sys.executable, "-m", "kpacktools", *COMMANDS["wheel"], "-o", bucket.url]
    runs = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(3)]
    for run in runs:
        _, stderr = run.communicate(timeout=120)
        assert run.returncode == 0, stderr
    assert read_set(bucket) is not None


def test_a_set_that_another_run_changes_while_it_is_completed_is_no_set(
    bucket: Bucket, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(*COMMANDS["wheel"], "-o", bucket.url)
    name = sorted(set(bucket.names()) - {REPORT})[0]
    from kpacktools.remote import publish

    true = publish._document

    def document(*arguments: Any) -> bytes:
        bucket.put(name, b"other")
        return true(*arguments)

    monkeypatch.setattr(publish, "_document", document)
    words = ["wheel", SHARDS[0], "--version", "7.15.0", "--build-tag", "2"]
    bucket.put(name.replace("7.15.0", "7.15.0-2"), b"other")
    name = name.replace("7.15.0", "7.15.0-2")
    said = refusal(call(*words, "-o", bucket.url, "--replace"))
    assert f"{name} was changed while the set was uploaded" in said
    assert REPORT not in bucket.names()


@pytest.mark.parametrize("damage", ["missing", "short", "changed", "report"])
def test_inspect_says_what_is_wrong_with_a_published_set(bucket: Bucket, call: Call, damage: str) -> None:
    assert call(*COMMANDS["merge"], "-o", bucket.url).status == 0
    done = call("inspect", bucket.url, "--strict")
    assert done.status == 0, done.stdout + done.stderr
    name = next(name for name in bucket.names() if name.endswith("README.txt"))
    data = bucket.get(name)
    assert data is not None
    if damage == "missing":
        bucket.remove(name)
    elif damage == "short":
        bucket.put(name, data[:-1])
    elif damage == "changed":
        bucket.put(name, b"\0" + data[1:])
    else:
        name = REPORT
        bucket.put(name, b"{}")
    found = json.loads(call("inspect", bucket.url, "--format", "json").stdout)["findings"]
    what = {
        "missing": "partial-bundle",
        "short": "size-mismatch",
        "changed": "digest-mismatch",
        "report": "manifest-invalid",
    }[damage]
    place = bucket.url.removeprefix("file://")
    assert [(item["name"], item["path"]) for item in found] == [(what, f"{place}/{name}")]


def test_a_published_set_is_an_input_like_any_other(bucket: Bucket, call: Call, tmp_path: Path) -> None:
    """Wheels of what was merged into a store are those of what was merged into a folder."""
    call(*COMMANDS["merge"], "-o", bucket.url)
    call(*COMMANDS["merge"], "-o", tmp_path / "merged")
    words = ["--version", "7.15.0", "--platform-tag", "linux_x86_64", "-o"]
    done = call("wheel", bucket.url, *words, bucket.url.replace("/set", "/dist"))
    assert done.status == 0, done.stderr
    call("wheel", tmp_path / "merged", *words, tmp_path / "dist")
    other = S3Bucket(bucket.server, "7.15/dist") if isinstance(bucket, S3Bucket) else None
    there = FileBucket(tmp_path / "store" / "dist") if other is None else other
    assert read_set(there) == files_below(tmp_path / "dist")


def test_what_is_published_may_not_lie_in_what_it_is_made_of(bucket: Bucket, call: Call) -> None:
    call(*COMMANDS["merge"], "-o", bucket.url)
    before = bucket.names()
    assert "lies in the input" in refusal(call("merge", bucket.url, "-o", f"{bucket.url}/again"))
    assert bucket.names() == before
