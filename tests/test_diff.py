"""Two sets compared: kernels by content, whatever their archives look like."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from builders import Build, code_object, write_kpack
from kpacktools.cli import run
from kpacktools.commands import MergeOptions, inspect, merge
from kpacktools.data import data_path
from kpacktools.diffing.compare import compare
from kpacktools.diffing.html import as_html
from kpacktools.diffing.inventory import Holding, Inventory
from kpacktools.diffing.jsonform import as_json as as_json_pieces
from kpacktools.diffing.markdown import as_markdown
from kpacktools.diffing.model import Cell, Difference
from kpacktools.diffing.records import record
from kpacktools.diffing.run import diff
from kpacktools.diffing.text import as_text
from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.kpack.reader import KpackReader
from kpacktools.kpack.writer import KpackWriter
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.reports.jsonreport import as_json
from kpacktools.targets import default_targets
from kpacktools.wheelbuild import wheel

Maker = Callable[..., Build]
DEEP = Settings(depth=Depth.CONTENT, jobs=2)
SAXPY = "rocke/pointwise/saxpy/saxpy_f32_gfx942_b64"


def repack(
    path: Path,
    change: Callable[[dict[str, bytes]], Mapping[str, bytes]] = dict,
    scheme: Literal["none", "zstd-per-kernel"] = "none",
) -> None:
    """Pack an archive's kernels again, last one first."""
    with path.open("rb") as stream:
        reader = KpackReader(stream, path.stat().st_size)
        (target,) = reader.toc.targets()
        kernels = {entry.key: reader.read(entry.kernel) for entry in reader.toc.entries()}
    path.unlink()
    with (
        path.open("wb") as stream,
        KpackWriter(stream, group_name="g", gfx_arch_family="f", scheme=scheme) as out,
    ):
        for key, data in reversed(change(kernels).items()):
            out.add(key, target, data)


@pytest.fixture
def old() -> Path:
    return data_path("examples", "shards")


@pytest.fixture
def new(tmp_path: Path, old: Path) -> Path:
    """A copy of the example shards."""
    root = tmp_path / "new"
    shutil.copytree(old, root)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return root


def archive(root: Path, target: str) -> Path:
    (path,) = root.rglob(f"rocke_client_{target}.kpack")
    return path


def difference(old: Path, new: Path) -> Difference:
    return diff(str(old), str(new), DEEP)


def cell(found: Difference, engine: str, key: str) -> Cell:
    (one,) = (cell for cell in found.cells if (cell.engine, cell.key) == (engine, key))
    return one


def only_cell(found: Difference) -> Cell:
    (one,) = (cell for cell in found.cells if not cell.is_equal)
    return one


def test_a_copy_is_equal(old: Path, new: Path) -> None:
    found = difference(old, new)
    assert found.is_equal
    assert sum(cell.new.kernels for cell in found.cells if cell.new) == 19


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_the_same_kernels_in_another_order_and_compression_are_equal(
    old: Path, new: Path, scheme: Literal["none", "zstd-per-kernel"]
) -> None:
    for path in new.rglob("*.kpack"):
        before = path.read_bytes()
        repack(path, scheme=scheme)
        assert path.read_bytes() != before
    assert difference(old, new).is_equal


def test_of_one_changed_kernel_the_name_and_both_digests_are_said(old: Path, new: Path) -> None:
    repack(archive(new, "gfx942"), lambda kernels: kernels | {SAXPY: kernels[SAXPY] + b"\0"})
    found = difference(old, new)
    (changed,) = only_cell(found).changed
    assert changed.name == SAXPY
    assert changed.old != changed.new
    assert not found.lost
    assert f"  ~ {SAXPY}  {changed.old[:12]} -> {changed.new[:12]}\n" in as_text(found)


def test_a_dropped_kernel_is_lost_by_name(old: Path, new: Path) -> None:
    repack(archive(new, "gfx942"), lambda kernels: {k: v for k, v in kernels.items() if k != SAXPY})
    found = difference(old, new)
    assert [kernel.name for kernel in only_cell(found).lost] == [SAXPY]
    assert found.lost
    assert f"  - {SAXPY}\n" in as_text(found)


def test_a_kernel_that_only_the_new_side_has_is_gained(old: Path, new: Path) -> None:
    repack(archive(new, "gfx942"), lambda kernels: {k: v for k, v in kernels.items() if k != SAXPY})
    found = difference(new, old)
    assert [kernel.name for kernel in only_cell(found).gained] == [SAXPY]
    assert not found.lost


def test_a_renamed_kernel_is_neither_lost_nor_gained(old: Path, new: Path) -> None:
    repack(archive(new, "gfx942"), lambda kernels: {k.replace("_b64", "_c64"): v for k, v in kernels.items()})
    found = only_cell(difference(old, new))
    assert (SAXPY, SAXPY.replace("_b64", "_c64")) in [(item.old, item.new) for item in found.renamed]
    assert (found.lost, found.gained) == ((), ())


def test_a_name_that_goes_while_its_bytes_stay_under_another_name_is_lost(tmp_path: Path) -> None:
    code = code_object("gfx942")
    two = write_kpack(tmp_path / "two.kpack", {"a": code, "b": code}, "gfx942")
    one = write_kpack(tmp_path / "one.kpack", {"b": code}, "gfx942")
    assert [kernel.name for kernel in only_cell(difference(two, one)).lost] == ["a"]


def test_a_loose_code_object_is_named_by_its_path_below_the_target(old: Path, new: Path) -> None:
    (path,) = (new / "gfx942").rglob("row_sum_f32_b64.co")
    path.unlink()
    assert [kernel.name for kernel in only_cell(difference(old, new)).lost] == ["row_sum/row_sum_f32_b64.co"]


@pytest.mark.parametrize("form", ["zst", None])
def test_a_merged_set_holds_what_its_shards_hold(
    tmp_path: Path, old: Path, form: Literal["zst"] | None
) -> None:
    shards = [str(path) for path in sorted(old.iterdir())]
    assert merge(shards, str(tmp_path / "out"), DEEP, MergeOptions(archive=form)).ok
    assert difference(old, tmp_path / "out").is_equal


def wheels(source: Path, out: Path, version: str) -> Path:
    options = WheelOptions(version=version, platform_tag="linux_x86_64")
    assert wheel([str(path) for path in sorted(source.iterdir())], str(out), DEEP, options).ok
    return out


def test_wheels_hold_what_they_were_made_of(tmp_path: Path, old: Path) -> None:
    assert difference(old, wheels(old, tmp_path / "dist", "1.0")).is_equal


def test_versions_and_requirements_of_wheels_are_compared(tmp_path: Path, old: Path) -> None:
    first, second = wheels(old, tmp_path / "first", "1.0"), wheels(old, tmp_path / "second", "1.1")
    found = difference(first, second)
    changes = {item.name: item for item in found.distributions}
    assert set(changes) == {f"rocm-sdk-device-{key}" for key in ("gfx1201", "gfx942", "gfx950")}
    change = changes["rocm-sdk-device-gfx942"]
    assert (change.old, change.new) == (("1.0",), ("1.1",))
    assert (change.removed, change.added) == (("rocm-sdk-libraries==1.0",), ("rocm-sdk-libraries==1.1",))
    assert not found.lost
    assert "  + requires rocm-sdk-libraries==1.1\n" in as_text(found)


def test_a_distribution_that_is_gone_is_lost(tmp_path: Path, old: Path) -> None:
    first, second = wheels(old, tmp_path / "first", "1.0"), wheels(old, tmp_path / "second", "1.0")
    next(second.glob("*gfx950*")).unlink()
    found = difference(first, second)
    assert [(item.name, item.new) for item in found.distributions] == [("rocm-sdk-device-gfx950", None)]
    assert found.lost


def family(root: Path, kernels: Mapping[str, tuple[str, ...]]) -> Path:
    """A prefix of the engine aiter: target key -> names of kernels, whose names are their content."""
    for key, names in kernels.items():
        for name in names:
            path = root / "arch_content/aiter" / key / f"{name}.co"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
    return root


def moves(old: Path, new: Path) -> list[tuple[str, tuple[str, ...], tuple[str, ...], int]]:
    found = difference(old, new)
    assert not found.lost
    assert all(cell.gained == () for cell in found.cells)
    return [(move.kind, move.old, move.new, move.kernels) for move in found.moves]


def test_a_family_that_is_split_loses_nothing(tmp_path: Path) -> None:
    old = family(tmp_path / "old", {"gfx11": ("a", "b")})
    new = family(tmp_path / "new", {"gfx110x": ("a", "b"), "gfx115x": ("a", "b")})
    assert moves(old, new) == [("split", ("gfx11",), ("gfx110x", "gfx115x"), 2)]


def test_families_that_are_joined_lose_nothing(tmp_path: Path) -> None:
    old = family(tmp_path / "old", {"gfx110x": ("a",), "gfx115x": ("a", "b")})
    new = family(tmp_path / "new", {"gfx11": ("a", "b")})
    assert moves(old, new) == [("joined", ("gfx110x", "gfx115x"), ("gfx11",), 3)]


def test_a_bundle_under_a_wider_key_is_renamed(tmp_path: Path) -> None:
    old = family(tmp_path / "old", {"gfx942:xnack+": ("a",)})
    new = family(tmp_path / "new", {"gfx942": ("a",)})
    assert moves(old, new) == [("renamed", ("gfx942:xnack+",), ("gfx942",), 1)]


@pytest.mark.parametrize(
    ("before", "after"), [("gfx11", "gfx110x"), ("gfx942", "gfx950"), ("gfx942", "gfx942:xnack+")]
)
def test_bytes_that_some_device_of_the_old_key_does_not_find_are_lost(
    tmp_path: Path, before: str, after: str
) -> None:
    found = difference(family(tmp_path / "old", {before: ("a",)}), family(tmp_path / "new", {after: ("a",)}))
    assert [kernel.name for kernel in cell(found, "aiter", before).lost] == ["a.co"]
    assert [kernel.name for kernel in cell(found, "aiter", after).gained] == ["a.co"]
    assert found.moves == ()


def test_a_bundle_without_kernels_can_be_lost(tmp_path: Path) -> None:
    for side in ("old", "new"):
        family(tmp_path / side, {"gfx942": ("a",)})
    (tmp_path / "old/share/miopen/db").mkdir(parents=True)
    (tmp_path / "old/share/miopen/db/gfx942130.db.txt").write_text("x")
    found = difference(tmp_path / "old", tmp_path / "new")
    assert (only_cell(found).engine, only_cell(found).is_lost, found.lost) == ("miopen", True, True)


def test_copies_of_a_kernel_count_once(build: Maker, tmp_path: Path) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942")
    shutil.copytree(shard.root, tmp_path / "both/one")
    shutil.copytree(shard.root, tmp_path / "both/two")
    assert difference(shard.root, tmp_path / "both").is_equal


def test_another_lane_is_said(build: Maker) -> None:
    first, second = build("one", "gfx942"), build("two", "gfx942")
    first.rocke("gfx942")
    second.rocke("gfx942", llvm_flavor="llvm23")
    found = difference(first.root, second.root)
    assert only_cell(found).lanes_differ
    assert "  lane llvm22 -> llvm23\n" in as_text(found)


def test_another_compiler_is_said() -> None:
    sides = [
        Inventory((), (Holding("rocke", "gfx942", "llvm22", 0, 1, 9, {tool: 1}, frozenset()),))
        for tool in ("clang 22.1.8", "clang 22.1.9")
    ]
    found = compare(sides[0], sides[1], default_targets())
    assert "  built by clang 22.1.8 -> clang 22.1.9\n" in as_text(found)


def test_sizes_are_told_by_engine(old: Path, new: Path) -> None:
    repack(archive(new, "gfx942"))
    before, after = difference(old, new).sizes()["rocke"]
    grown = archive(new, "gfx942").stat().st_size - archive(old / "gfx942", "gfx942").stat().st_size
    assert after - before == grown > 0


def report(root: Path, path: Path, depth: Depth = Depth.CONTENT) -> Path:
    path.write_text(as_json(inspect([str(root)], Settings(depth=depth))))
    return path


def test_reports_are_compared_by_counts(tmp_path: Path, old: Path, new: Path) -> None:
    repack(archive(new, "gfx942"), lambda kernels: {SAXPY: kernels[SAXPY]})
    found = difference(report(old, tmp_path / "old.json"), new)
    assert not found.by_content
    assert (only_cell(found).key, only_cell(found).kernels_lost, found.lost) == ("gfx942", 2, True)
    assert difference(tmp_path / "old.json", old).is_equal


@pytest.mark.parametrize(
    "document", ['{"schema": "kpacktools.kpack/v1"}', '{"schema": "kpacktools.report/v1"}']
)
def test_another_json_document_is_refused(tmp_path: Path, old: Path, document: str) -> None:
    (tmp_path / "x.json").write_text(document)
    with pytest.raises(CallError, match=r"kpacktools\.report/v1"):
        difference(tmp_path / "x.json", old)


@pytest.mark.parametrize("swapped", [False, True])
def test_content_that_cannot_be_read_is_an_error_on_either_side(old: Path, new: Path, swapped: bool) -> None:
    archive(new, "gfx942").write_bytes(b"KPAK")
    sides = (new, old) if swapped else (old, new)
    found = difference(*sides)
    assert [item.name for item in found.findings] == ["kpack-corrupt"]
    assert not found.is_equal
    assert run(["diff", *map(str, sides), "-q"]) == 1


@pytest.mark.parametrize(
    ("option", "status"), [((), 0), (("--fail-on", "lost"), 1), (("--fail-on", "any"), 1)]
)
def test_the_exit_status_of_a_loss_depends_on_fail_on(
    old: Path, new: Path, option: tuple[str, ...], status: int
) -> None:
    shutil.rmtree(new / "gfx950")
    assert run(["diff", str(old), str(new), "-q", *option]) == status


def test_a_damaged_kernel_is_lost_and_the_rest_is_compared(old: Path, new: Path) -> None:
    with archive(new, "gfx942").open("rb+") as stream:
        stream.seek(72)  # in the header of the first frame
        stream.write(b"\xff")
    found = difference(old, new)
    assert [item.name for item in found.findings] == ["kpack-corrupt"]
    assert len(only_cell(found).lost) == 1


def test_a_loose_code_object_that_cannot_be_read_is_said(tmp_path: Path, old: Path) -> None:
    dist = wheels(old, tmp_path / "dist", "1.0")
    path = next(dist.glob("*gfx942*"))
    with zipfile.ZipFile(path) as members:
        (member,) = (item for item in members.infolist() if item.filename.endswith("row_sum_f32_b64.co"))
    with path.open("rb+") as stream:
        stream.seek(member.header_offset + 30 + len(member.filename) + member.compress_size // 2)
        stream.write(b"\xff\xff\xff\xff")
    found = difference(old, dist)
    assert [item.name for item in found.findings] == ["codeobject-invalid"]
    assert [kernel.name for kernel in only_cell(found).lost] == ["row_sum/row_sum_f32_b64.co"]


def test_a_path_that_is_not_there_is_a_call_error(old: Path, tmp_path: Path) -> None:
    assert run(["diff", str(old), str(tmp_path / "none")]) == 2


def test_json_is_all_that_stdout_holds_and_follows_its_schema(
    old: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repack(archive(new, "gfx942"), lambda kernels: {SAXPY: b"x", "renamed": kernels[SAXPY]})
    assert run(["diff", str(old), str(new), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads(resources.files("kpacktools.diffing").joinpath("diff.schema.json").read_text())
    Draft202012Validator(schema).validate(document)
    assert document["lost"]


def _many(names: list[str]) -> Difference:
    inventories = [
        Inventory((), (Holding("e|x", "gfx942", None, len(held), 1, 1, {}, held),))
        for held in (frozenset(record(name, bytes(32)) for name in names), frozenset[bytes]())
    ]
    return compare(inventories[0], inventories[1], default_targets())


def test_markdown_stays_below_what_a_comment_may_have() -> None:
    page = as_markdown(_many([f"{i:06}{'k' * 80}" for i in range(5000)]))
    assert 50_000 < len(page) < 65_536
    assert "more\n" in page
    assert page.count("<details>") == page.count("</details>") == 1


def test_markdown_escapes_what_names_hold() -> None:
    page = as_markdown(_many(["a`|<b>\n# c"]))
    assert "| e\\|x | gfx942 |" in page
    assert "- `a'¦<b> # c`\n" in page


def test_a_page_holds_the_same_and_needs_nothing_else(old: Path, new: Path) -> None:
    repack(archive(new, "gfx942"), lambda kernels: {SAXPY: b"x", "<b>": kernels[SAXPY]})
    page = as_html(difference(old, new))
    assert f"<code>{SAXPY}</code>" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "://" not in page
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in page


def test_text_names_some_kernels_and_all_when_asked() -> None:
    found = _many([f"k{i}" for i in range(8)])
    assert "... and 3 more" in as_text(found)
    assert as_text(found, verbose=True).count("\n  - k") == 8


_sets = st.dictionaries(
    st.sampled_from(["gfx11", "gfx110x", "gfx115x", "gfx942"]),
    st.frozensets(st.tuples(st.sampled_from("abc"), st.sampled_from("12")), max_size=6),
)


def _inventory(kernels: Mapping[str, frozenset[tuple[str, str]]]) -> Inventory:
    holdings = []
    for key, held in sorted(kernels.items()):
        records = frozenset(record(name, content.encode() * 32) for name, content in held)
        holdings.append(Holding("e", key, None, len(records), 1, 1, {}, records))
    return Inventory((), tuple(holdings))


@given(_sets, _sets)
def test_every_kernel_of_both_sides_is_accounted_for(old: Any, new: Any) -> None:
    found = compare(_inventory(old), _inventory(new), default_targets())
    for item in found.cells:
        before, after = old.get(item.key, frozenset()), new.get(item.key, frozenset())
        kept = len(before & after)
        both = kept + len(item.changed) + len(item.renamed)
        assert len(before) == both + len(item.moved) + len(item.lost)
        assert len(after) == both + item.arrived + len(item.gained)


@given(_sets)
def test_nothing_differs_from_itself(kernels: Any) -> None:
    found = compare(_inventory(kernels), _inventory(kernels), default_targets())
    assert found.is_equal
    assert json.loads("".join(as_json_pieces(found)))["moves"] == []


@given(_sets, _sets)
def test_json_in_pieces_is_json_as_it_is_made_at_once(old: Any, new: Any) -> None:
    text = "".join(as_json_pieces(compare(_inventory(old), _inventory(new), default_targets())))
    assert text == json.dumps(json.loads(text), indent=1) + "\n"
