"""The lists of kernels that the HTML report carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from builders import Build, code_object
from kpacktools import commands
from kpacktools.hookspecs import Depth
from kpacktools.kpack.writer import KpackWriter
from kpacktools.pipeline import Settings
from kpacktools.reports.kernellists import KernelLists, kernel_lists

Maker = Callable[..., Build]


def listed(paths: Sequence[Path], settings: Settings, **options: int) -> KernelLists:
    return kernel_lists(commands.inspect([str(path) for path in paths], settings).bundles, **options)


def test_archives_and_loose_files_are_listed_with_their_sizes(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"])
    shard.put("arch_content/aiter/gfx942/f32/loose.co", code_object("gfx942"))
    lists = listed([shard.root], settings)
    assert [item.name for item in lists.containers] == ["loose files", "rocke_client_gfx942.kpack"]
    assert [tuple(row) for row in lists.rows] == [
        (0, "f32/loose.co", "gfx942", 68),
        (1, "rocke/sdpa_fwd/fmha/a", "gfx942", 64 + 50),
    ]


def test_an_archive_of_two_targets_is_listed_once(tmp_path: Path, settings: Settings) -> None:
    archive = tmp_path / "both.kpack"
    with archive.open("wb") as stream, KpackWriter(stream, group_name="g", gfx_arch_family="f") as writer:
        for target in ("gfx942", "gfx950"):
            writer.add("k", target, code_object(target))
    lists = listed([archive], settings)
    (container,) = lists.containers
    assert (container.keys, container.kernels) == (("gfx942", "gfx950"), 2)
    assert [(row.key, row.target) for row in lists.rows] == [("k", "gfx942"), ("k", "gfx950")]


def test_at_depth_layout_archives_are_named_and_not_read(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942")
    lists = listed([shard.root], replace(settings, depth=Depth.LAYOUT))
    assert (len(lists.containers), lists.containers[0].kernels, lists.rows) == (1, None, ())


def test_a_list_that_would_be_too_long_is_left_out_whole_and_counted(
    build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", [f"k{i}" for i in range(5)])
    shard.put("arch_content/aiter/gfx942/loose.co", code_object("gfx942"))
    lists = listed([shard.root], settings, most=4)
    assert (len(lists.containers), len(lists.rows), lists.left_out) == (2, 1, 5)


def test_an_archive_that_went_away_after_the_check_has_no_rows(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    place = shard.rocke("gfx942")
    report = commands.inspect([str(shard.root)], settings)
    (place / "rocke_client_gfx942.kpack").unlink()
    lists = kernel_lists(report.bundles)
    assert (lists.containers[0].kernels, lists.rows) == (2, ())
