"""``kpack.lock``: written on one build, held against another."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Build
from kpacktools.cli import run
from kpacktools.commands import merge
from kpacktools.data import data_path
from kpacktools.diffing.records import record
from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.lanes import default_lanes
from kpacktools.locking.check import LockCheck
from kpacktools.locking.forms import as_json, as_text
from kpacktools.locking.lockfile import as_toml, check_aliases, read_lock
from kpacktools.locking.model import digest_of_records
from kpacktools.locking.run import check, write
from kpacktools.pipeline import Settings
from test_diff import SAXPY, archive, repack

Maker = Callable[..., Build]
SETTINGS = Settings(depth=Depth.CONTENT, jobs=2)
DROPPED = "  missing rocke/pointwise/saxpy/saxpy_f32_gfx942_b64\n"


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A copy of the example shards."""
    root = tmp_path / "shards"
    shutil.copytree(data_path("examples", "shards"), root)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return root


@pytest.fixture
def lock(tmp_path: Path, shards: Path) -> Path:
    """The lock of the example shards."""
    path = tmp_path / "kpack.lock"
    write([str(shards)], str(path), SETTINGS)
    return path


def checked(root: Path, lock: Path) -> LockCheck:
    return check([str(root)], str(lock), SETTINGS)


def test_a_second_build_passes(tmp_path: Path, shards: Path, lock: Path) -> None:
    sources = [str(path) for path in sorted(shards.iterdir())]
    assert merge(sources, str(tmp_path / "merged"), SETTINGS).ok
    result = checked(tmp_path / "merged", lock)
    assert (result.ok, result.bundles, result.kernels) == (True, 8, 19)


def test_packing_again_does_not_change_the_lock(tmp_path: Path, shards: Path, lock: Path) -> None:
    for path in shards.rglob("*.kpack"):
        repack(path)
    write([str(shards)], str(tmp_path / "again.lock"), SETTINGS)
    assert (tmp_path / "again.lock").read_bytes() == lock.read_bytes()


def test_a_dropped_kernel_fails_with_its_name(shards: Path, lock: Path) -> None:
    repack(archive(shards, "gfx942"), lambda kernels: {k: v for k, v in kernels.items() if k != SAXPY})
    result = checked(shards, lock)
    (deviation,) = result.deviations
    assert (deviation.state, deviation.missing, deviation.new) == ("changed", (SAXPY,), ())
    assert as_text(result).startswith(f"changed rocke gfx942 on llvm22: 3 -> 2 kernels\n{DROPPED}")


def test_a_changed_kernel_and_a_new_one_are_named(shards: Path, lock: Path) -> None:
    repack(archive(shards, "gfx942"), lambda kernels: kernels | {SAXPY: b"x", "more": b"y"})
    (deviation,) = checked(shards, lock).deviations
    assert (deviation.missing, deviation.new, deviation.changed) == ((), ("more",), (SAXPY,))


def test_renaming_a_kernel_changes_the_digest(shards: Path, lock: Path) -> None:
    repack(
        archive(shards, "gfx942"), lambda kernels: {k.replace("_b64", "_c64"): v for k, v in kernels.items()}
    )
    (deviation,) = checked(shards, lock).deviations
    assert (SAXPY in deviation.missing, len(deviation.new)) == (True, 2)


def test_a_bundle_that_is_gone_is_missing_and_one_more_is_new(shards: Path, lock: Path) -> None:
    (folder,) = shards.rglob("aiter/gfx950")
    folder.rename(folder.with_name("gfx90a"))
    states = [(item.state, item.baseline.key) for item in checked(shards, lock).deviations]
    assert ("missing", "gfx950") in states
    assert ("new", "gfx90a") in states


def test_the_digest_is_that_of_sorted_lines() -> None:
    one, two = hashlib.sha256(b"1").digest(), hashlib.sha256(b"2").digest()
    lines = f"a\0{two.hex()}\nab\0{one.hex()}\n".encode().decode()
    records = [record("ab", one), record("a", two)]
    assert digest_of_records(records) == hashlib.sha256(lines.encode()).hexdigest()


def test_a_lock_reads_back_as_it_was_written(lock: Path) -> None:
    text = lock.read_text()
    assert text.startswith("# The kernels of a release")
    assert as_toml(read_lock(str(lock), default_lanes())) == text


def test_without_names_a_check_tells_the_bundle(tmp_path: Path, shards: Path) -> None:
    path = tmp_path / "kpack.lock"
    write([str(shards)], str(path), SETTINGS, with_names=False)
    assert SAXPY not in path.read_text()
    assert checked(shards, path).ok
    repack(archive(shards, "gfx942"), lambda kernels: {SAXPY: kernels[SAXPY]})
    text = as_text(checked(shards, path))
    assert text.startswith("changed rocke gfx942 on llvm22: 3 -> 1 kernels\n  which kernels is not known")


def on_lane(build: Maker, lane: str) -> Path:
    shard = build(lane, "gfx942")
    shard.rocke("gfx942", llvm_flavor=lane)
    return shard.root


def test_content_on_another_lane_is_missing_and_new(build: Maker, tmp_path: Path) -> None:
    path = tmp_path / "kpack.lock"
    write([str(on_lane(build, "llvm23"))], str(path), SETTINGS)
    states = [(item.state, item.baseline.lane) for item in checked(on_lane(build, "llvm24"), path).deviations]
    assert states == [("missing", "llvm23"), ("new", "llvm24")]


def test_a_lane_with_an_alias_is_held_to_the_other_lanes_baseline(build: Maker, tmp_path: Path) -> None:
    path = tmp_path / "kpack.lock"
    write([str(on_lane(build, "llvm23"))], str(path), SETTINGS, {"llvm24": "llvm23"})
    assert checked(on_lane(build, "llvm24"), path).ok


def test_aliases_outlive_the_next_write(build: Maker, tmp_path: Path) -> None:
    path = tmp_path / "kpack.lock"
    root = on_lane(build, "llvm23")
    write([str(root)], str(path), SETTINGS, {"llvm24": "llvm23"})
    write([str(root)], str(path), SETTINGS)
    assert read_lock(str(path), default_lanes()).aliases == {"llvm24": "llvm23"}


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ({"llvm24": "llvm22"}, "share no emission profile"),
        ({"llvm25": "llvm24"}, "no such lane: llvm25; known: llvm20, llvm22, llvm23, llvm24"),
        ({"llvm24": "llvm25"}, "no such lane: llvm25"),
        ({"llvm24": "llvm24"}, "expected another lane"),
        ({"llvm24": "llvm23", "llvm23": "llvm24"}, "no alias itself"),
    ],
)
def test_an_alias_that_the_lane_registry_does_not_support_is_refused(
    aliases: dict[str, str], message: str
) -> None:
    with pytest.raises(CallError, match=message):
        check_aliases(aliases, default_lanes())


def test_a_lock_whose_alias_has_a_baseline_of_its_own_is_refused(build: Maker, tmp_path: Path) -> None:
    path = tmp_path / "kpack.lock"
    root = on_lane(build, "llvm24")
    write([str(root)], str(path), SETTINGS)
    path.write_text(path.read_text() + '[lanes.llvm24]\nalias = "llvm23"\n')
    with pytest.raises(CallError, match="remove the alias"):
        checked(root, path)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("kernels = 3", "kernels = 2", "kernels = 2, and 3 are named"),
        ("kernels = 3", "kernals = 3", "'kernals'"),
        ('key = "gfx942"', 'key = "gfx950"', "is there twice"),
        ("sha256:", "sha1:", "digest"),
        ("lock/v1", "lock/v2", "schema"),
        ("[[bundle]]", "[[bundle]", "not valid TOML"),
        ("# The", "\xff", "not valid TOML"),
    ],
)
def test_a_lock_that_was_edited_wrongly_is_refused(lock: Path, before: str, after: str, message: str) -> None:
    lock.write_bytes(lock.read_text().replace(before, after).encode("latin-1"))
    with pytest.raises(CallError, match=message):
        read_lock(str(lock), default_lanes())


def test_nothing_is_locked_where_content_cannot_be_read(tmp_path: Path, shards: Path) -> None:
    archive(shards, "gfx942").write_bytes(b"KPAK")
    assert run(["lock", "write", str(shards), "-o", str(tmp_path / "kpack.lock")]) == 1
    assert not (tmp_path / "kpack.lock").exists()


def test_content_that_no_handler_claims_does_not_pass(shards: Path, lock: Path) -> None:
    engines = next(shards.glob("gfx942/*/*/*/*/*/*/*/arch_content"))
    shutil.copytree(engines / "aiter", engines / "nobody")
    result = checked(shards, lock)
    assert {item.name for item in result.findings} == {"unclaimed-target-content"}
    assert (result.deviations, result.ok) == ((), False)


def test_a_set_without_engines_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run(["lock", "write", str(tmp_path / "empty"), "-o", str(tmp_path / "kpack.lock")]) == 2


def test_writing_does_not_replace_another_file(tmp_path: Path, shards: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    assert run(["lock", "write", str(shards), "-o", str(other)]) == 2
    assert other.read_text() == "mine"


@pytest.mark.parametrize(("drop", "status"), [(False, 0), (True, 1)])
def test_the_exit_status_says_whether_it_is_as_locked(
    shards: Path, lock: Path, drop: bool, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if drop:
        repack(archive(shards, "gfx942"), lambda kernels: {k: v for k, v in kernels.items() if k != SAXPY})
    assert run(["lock", "check", str(shards), "--lock", str(lock)]) == status
    assert (DROPPED in capsys.readouterr().out) == drop


def test_a_check_as_json_names_the_same(shards: Path, lock: Path) -> None:
    repack(archive(shards, "gfx942"), lambda kernels: {k: v for k, v in kernels.items() if k != SAXPY})
    document = json.loads(as_json(checked(shards, lock)))
    (deviation,) = document["deviations"]
    assert (document["schema"], document["ok"]) == ("kpacktools.lock-check/v1", False)
    assert (deviation["engine"], deviation["key"], deviation["missing"]) == ("rocke", "gfx942", [SAXPY])
    assert (deviation["locked"]["kernels"], deviation["found"]["kernels"]) == (3, 2)
