"""Workers on this machine: the same report and the same bytes as without them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from builders import Build, code_object, contents, write_kpack
from kpacktools.archiving import archive
from kpacktools.commands import MergeOptions, inspect, merge, split
from kpacktools.diffing.inventory import take_inventory
from kpacktools.errors import CallError
from kpacktools.hookspecs import Depth
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.reports.jsonreport import as_json
from kpacktools.reports.model import Report
from kpacktools.tasks.log import open_log
from kpacktools.tasks.model import Workers
from kpacktools.trees.names import is_staging_name
from kpacktools.wheelbuild import WheelRun, wheel
from kpacktools.wheelsplit import split_wheel

pytest.importorskip("distributed", reason="needs the extra kpacktools[dask]")

Maker = Callable[..., Build]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    from kpacktools.tasks.cluster import workers_at

    with workers_at("local:2") as started:
        yield started


@pytest.fixture
def here(settings: Settings) -> Settings:
    return replace(settings, depth=Depth.CONTENT)


@pytest.fixture
def away(here: Settings, workers: Workers) -> Settings:
    return replace(here, workers=workers)


@pytest.fixture
def shards(build: Maker) -> list[str]:
    """Three builds with host files that are the same, one of them twice under other names, and some findings."""
    made = []
    for target in ("gfx942", "gfx950", "gfx1201"):
        shard = build(target).host()
        shard.rocke(target)
        shard.kernel_provider(target)
        shard.put("README.txt", "the same everywhere\n")
        shard.put(f"arch_content/aiter/{target}/x.co", code_object(target))
        made.append(str(shard.root))
    build("gfx942").rocke("gfx942", ["k0", "k1", "k2"], archive=["k0", "k1", "k9"])
    return made


def same(one: Report, other: Report, *names: str) -> None:
    """Both reports say the same, outputs' folders apart."""
    texts = [as_json(report) for report in (one, other)]
    for name in names:
        texts = [
            text.replace(f"/{name}-here", f"/{name}").replace(f"/{name}-away", f"/{name}") for text in texts
        ]
    assert json.loads(texts[0]) == json.loads(texts[1])


def modes(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.lstat().st_mode for path in root.rglob("*")}


@pytest.fixture
def both(tmp_path: Path, here: Settings, away: Settings) -> Callable[..., Path]:
    """Runs a command here and with workers, compares all that comes out, and returns the output."""

    def run(command: Callable[[str, Settings], Report]) -> Path:
        reports = [
            command(str(tmp_path / f"out-{name}"), settings)
            for name, settings in (("here", here), ("away", away))
        ]
        same(*reports, "out")
        assert reports[0].ok
        one, other = tmp_path / "out-here", tmp_path / "out-away"
        assert contents(one) == contents(other)
        assert modes(one) == modes(other)
        assert not [path for path in tmp_path.rglob("*") if is_staging_name(path.name)]
        shutil.rmtree(other)
        return one.rename(tmp_path / "out")

    return run


def test_inspect_finds_the_same(shards: list[str], here: Settings, away: Settings) -> None:
    for depth in Depth:
        one, other = (inspect(shards, replace(settings, depth=depth)) for settings in (here, away))
        same(one, other)
    assert {"missing-kernel", "orphan-kernel"} <= {finding.name for finding in other.findings}
    assert other.kernels_checked > 0


def test_a_large_bundle_is_read_in_parts(
    build: Maker, here: Settings, away: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shard = build("gfx942")
    kernels = {f"k{n:04}": code_object("gfx942", str(n % 1000).encode() * 40) for n in range(2000)}
    write_kpack(shard.engines / "arch_content/acme/gfx942/acme_gfx942.kpack", kernels, "gfx942")
    kernels["k0000"] = code_object("gfx950")  # one of the wrong target
    write_kpack(shard.engines / "arch_content/asm_kernels/kpack/asm_gfx942.kpack", kernels, "gfx942")
    monkeypatch.setattr("kpacktools.tasks.checking._SLICE", 1 << 15)
    monkeypatch.setattr("kpacktools.tasks.checking._TOGETHER", 1 << 15)
    log_path = tmp_path / "log"
    with open_log(str(log_path)) as log:
        one, other = inspect([str(shard.root)], here), inspect([str(shard.root)], replace(away, log=log))
    same(one, other)
    lines = [json.loads(line) for line in log_path.read_text().splitlines()]
    assert len(lines) > len(one.bundles)
    assert sum(line["bytes"] for line in lines) == sum(item.size for item in one.bundles)
    assert sum(line["files"] for line in lines) == sum(len(item.bundle.entries) for item in one.bundles)


def test_inventories_are_the_same(shards: list[str], here: Settings, away: Settings) -> None:
    one, other = (take_inventory("diff", shards[1:], settings)[0] for settings in (here, away))
    assert one.holdings == other.holdings
    assert any(holding.records for holding in other.holdings)


def test_merge(shards: list[str], both: Callable[..., Path]) -> None:
    out = both(lambda out, settings: merge(shards[1:], out, settings))
    assert (out / "hipkernelprovider_lib_gfx950").is_dir()


def test_merge_into_one_prefix(shards: list[str], both: Callable[..., Path]) -> None:
    both(lambda out, settings: merge(shards[1:], out, settings, MergeOptions(flatten=True, link="hardlink")))


@pytest.mark.parametrize("form", ["zst", "xz"])
def test_archives_of_it_and_what_becomes_of_them(
    form: str, shards: list[str], both: Callable[..., Path], tmp_path: Path
) -> None:
    options = MergeOptions(archive=form)  # type: ignore[arg-type]
    archives = both(lambda out, settings: merge(shards[1:], out, settings, options))
    assert len(list(archives.iterdir())) == 6
    archives.rename(tmp_path / "archives")
    both(lambda out, settings: merge([str(tmp_path / "archives")], out, settings))


def test_split_and_archive(shards: list[str], both: Callable[..., Path], tmp_path: Path) -> None:
    parts = both(lambda out, settings: split(shards[1], out, settings)).rename(tmp_path / "parts")
    both(lambda out, settings: archive([str(parts)], out, settings))


def test_wheels_and_a_wheel_split_by_device(
    shards: list[str], both: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the coordinator, and not of the workers, which were started before.
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    options = WheelOptions(version="1.0", host="rocm-host")
    dist = both(lambda out, settings: wheel(shards[1:], out, settings, options, WheelRun(meta="rocm-meta")))
    assert len(list(dist.iterdir())) == 4
    (host,) = dist.rename(tmp_path / "dist").glob("rocm_host*.whl")
    both(lambda out, settings: split_wheel(str(host), out, settings, WheelRun()))


def test_what_is_there_already_is_kept_or_replaced(shards: list[str], away: Settings, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert [item.state for item in merge(shards[1:], str(out), away).outputs] == ["written"] * 3
    (out / "hipkernelprovider_lib_gfx950/artifact_manifest.txt").write_text("other\n")
    again = merge(shards[1:], str(out), away, MergeOptions(replace=True))
    assert sorted(item.state for item in again.outputs) == ["kept", "kept", "replaced"]


def test_nobody_without_the_runs_key_can_use_its_workers(workers: Workers) -> None:
    from kpacktools.tasks import cluster

    address = workers.executor._client.scheduler.address  # type: ignore[attr-defined]
    assert address.startswith("tls://127.0.0.1:")
    for kind in ("tcp", "tls"):
        with pytest.raises(CallError, match="no Dask scheduler answers"):
            cluster._ask_who_is_there(cluster.Address(address.replace("tls", kind)))


def test_every_task_is_logged_with_its_worker(shards: list[str], away: Settings, tmp_path: Path) -> None:
    with open_log(str(tmp_path / "log")) as log:
        merge(shards[1:], str(tmp_path / "out"), replace(away, log=log))
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"check", "digest", "folder"}
    assert all(line["seconds"] > 0 and ":" in line["worker"] and line["error"] is None for line in lines)
    folders = {line["key"]: line for line in lines if line["kind"] == "folder"}
    assert folders.keys() == {"generic", "gfx950", "gfx1201"}
    assert folders["gfx950"]["bytes"] == sum(
        len(data)
        for name, data in contents(tmp_path / "out/hipkernelprovider_lib_gfx950").items()
        if name != "artifact_manifest.txt"
    )
    checks = {(line["shard"], line["key"]) for line in lines if line["kind"] == "check"}
    assert checks == {("gfx950", "gfx950"), ("gfx1201", "gfx1201")}
