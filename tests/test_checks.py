"""Checks of one shard: an input, and the findings it must give."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from builders import STAGE, Build, code_object, names, only, rocke_manifest, write_kpack
from kpacktools.commands import inspect, merge, split
from kpacktools.findings import Severity
from kpacktools.hookspecs import Depth
from kpacktools.pipeline import Settings

Maker = Callable[..., Build]
Put = Callable[[Build], object]


def _rocke_without_kpack(shard: Build) -> None:
    (shard.rocke("gfx942") / "rocke_client_gfx942.kpack").unlink()


def _rocke_without_manifest(shard: Build) -> None:
    (shard.rocke("gfx942") / "rocke_client_gfx942.json").unlink()


def _provider_without_kpack(shard: Build) -> None:
    (shard.kernel_provider("gfx942") / "kpack/hip_kernel_provider_gfx942.kpack").unlink()


def _provider_without_descriptor(shard: Build) -> None:
    for file in (shard.kernel_provider("gfx942") / "relu").iterdir():
        file.unlink()


def _second_archive(shard: Build) -> None:
    place = shard.rocke("gfx942")
    manifest = rocke_manifest("gfx942", ["k0"]) | {"kpack": "rocke_other_gfx942.kpack"}
    (place / "second.json").write_text(json.dumps(manifest))


def _nested(shard: Build) -> None:
    shard.put("arch_content/aiter/gfx942/deep/gfx950/k.csv", "a,b\n")


def _empty(shard: Build) -> None:
    (shard.engines / "arch_content/aiter/gfx950/deep").mkdir(parents=True)


def _outside_prefix(shard: Build) -> None:
    (shard.artifact / "stray.txt").write_text("x")


def _beside_artifacts(shard: Build) -> None:
    (shard.root / "build.log").write_text("x")


def _no_manifest(shard: Build) -> None:
    (shard.root / "blas_lib_gfx942/stage").mkdir(parents=True)
    (shard.root / "blas_lib_gfx942/stage/x").write_text("x")


def _fifo(shard: Build) -> None:
    shard.put("dummy", "x")
    os.mkfifo(shard.engines / "pipe")


def _link(target: str) -> Put:
    def make(shard: Build) -> None:
        shard.put("real", "x")
        (shard.engines / "link").symlink_to(target)

    return make


def _csv(text: str) -> Put:
    def make(shard: Build) -> None:
        shard.put("arch_content/aiter/gfx942/gemm/a.co", code_object("gfx942"))
        shard.put("arch_content/aiter/gfx942/gemm/table.csv", text)

    return make


def _bad_prefix(shard: Build) -> None:
    (shard.artifact / "artifact_manifest.txt").write_text(f"{STAGE}\n../elsewhere\n")


CASES: list[tuple[str, Put, set[str]]] = [
    ("a whole rocke bundle", lambda s: s.rocke("gfx942"), set()),
    ("a whole hip-kernel-provider bundle", lambda s: s.kernel_provider("gfx942"), set()),
    ("rocke manifest alone", _rocke_without_kpack, {"missing-kpack", "partial-bundle"}),
    ("rocke archive alone", _rocke_without_manifest, {"partial-bundle"}),
    ("descriptors alone", _provider_without_kpack, {"missing-kpack", "partial-bundle"}),
    ("descriptors' archive alone", _provider_without_descriptor, {"partial-bundle"}),
    ("a manifest that names an absent second archive", _second_archive, {"missing-kpack"}),
    ("a build id nobody set", lambda s: s.rocke("gfx942", engine_build_id="unknown"), {"provenance-unknown"}),
    ("llvm_flavor as a number", lambda s: s.rocke("gfx942", llvm_flavor=22), {"manifest-invalid"}),
    ("a table that names an absent object", _csv("co_name,x\nb.co,1\n"), {"missing-kernel"}),
    ("a table of present objects", _csv("x, knl_file \n1, a.co \n"), set()),
    ("a table that is not text", _csv("co_name\n\udcff\n".encode("utf-8", "surrogateescape").decode("latin-1")),
     {"missing-kernel"}),
    ("a target's folder in another's", _nested, {"nested-target"}),
    ("an empty target folder", _empty, {"empty-bundle"}),
    ("a file outside every stage prefix", _outside_prefix, {"descriptor-uncaptured"}),
    ("a file beside the artifact directories", _beside_artifacts, {"descriptor-uncaptured"}),
    ("an artifact directory without its manifest", _no_manifest, {"archive-invalid"}),
    ("a FIFO", _fifo, {"special-file"}),
    ("a stage prefix that climbs", _bad_prefix, {"bad-path"}),
    ("a name with a newline", lambda s: s.put("a\nb", "x"), {"bad-path"}),
    ("a name with a backslash", lambda s: s.put("a\\b", "x"), {"bad-path"}),
    ("a name that is not UTF-8", lambda s: s.put("a\udcffb", "x"), {"bad-path"}),
    ("a name with a colon", lambda s: s.put("a:b", "x"), {"unportable-name"}),
    ("a name with a final dot", lambda s: s.put("a./b", "x"), {"unportable-name"}),
    ("a reserved name", lambda s: s.put("aux.txt", "x"), {"unportable-name"}),
    ("a long path", lambda s: s.put("d" * 100 + "/" + "f" * 130, "x"), {"path-too-long"}),
    ("names that differ in case", lambda s: (s.put("a/File", "x"), s.put("a/file", "y")), set()),
    ("a folder of configuration", lambda s: s.put("conf/gfx942/a.json", "{}"), {"target-named-folder"}),
    ("device code in such a folder", lambda s: s.put("conf/gfx942/a.bin", code_object("gfx942")),
     {"target-named-folder", "unclaimed-target-content"}),
    ("a name that only begins like a target", lambda s: s.put("gfx942_tiled_attention/a.json", "{}"), set()),
    ("hip-kernel-provider's other spelling", lambda s: s.put("arch_content/hip_kernel_provider/gfx942/x", "x"), set()),
]  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_shard_and_its_findings(build: Maker, settings: Settings, make: Put, expected: set[str]) -> None:
    shard = build("gfx942")
    make(shard)
    assert names(inspect([str(shard.root)], settings)) == expected


def test_a_suffix_that_nobody_knows(build: Maker, settings: Settings) -> None:
    shard = build("gfx94Q-all").host()
    assert "unknown-target" in names(inspect([str(shard.root)], settings))


def test_a_bundle_key_with_an_underscore_is_accepted_and_said(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    shard = build("gfx12_0").host()
    shard.put("arch_content/aiter/gfx12_0/k.co", code_object("gfx1201"))
    report = split(str(shard.root), str(tmp_path / "out"), settings)
    assert report.ok
    assert only(report, "artifact-name-unreadable").severity is Severity.WARNING
    assert (tmp_path / "out/hipkernelprovider_lib_gfx12_0").is_dir()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("real", set()),
        ("../engines/real", set()),
        (".", set()),
        ("nowhere", {"symlink-dangling"}),
        ("/etc/passwd", {"symlink-escape"}),
        ("../../../../../../../x", {"symlink-escape"}),
    ],
)
def test_links_are_followed_on_paper_only(
    build: Maker, tmp_path: Path, settings: Settings, target: str, expected: set[str]
) -> None:
    shard = build("gfx942")
    _link(target)(shard)
    report = split(str(shard.root), str(tmp_path / "out"), settings)
    assert names(report) == expected
    if report.ok:
        (link,) = [path for path in (tmp_path / "out").rglob("*") if path.name == "link"]
        assert os.readlink(link) == target


def test_a_link_may_lead_into_another_part(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shard = build("gfx942").host()
    link = shard.put("arch_content/aiter/gfx942/k.co", code_object("gfx942")).with_name("host")
    link.symlink_to("../../../libhost.so")
    assert split(str(shard.root), str(tmp_path / "out"), settings).findings == ()


def test_a_file_in_one_shard_and_a_folder_in_another(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    one, two = build("gfx942"), build("gfx950")
    one.put("thing", "file")
    two.put("thing/inner", "file in folder")
    report = merge([str(one.root), str(two.root)], str(tmp_path / "out"), settings)
    found = only(report, "path-type-conflict")
    assert found.path.endswith("engines/thing")
    assert len(found.sources) == 2


def test_a_generic_file_where_a_target_has_a_folder(build: Maker, tmp_path: Path, settings: Settings) -> None:
    one, two = build("gfx942"), build("gfx950")
    one.put("arch_content/aiter", "a file")
    two.put("arch_content/aiter/gfx950/k.csv", "x")
    report = merge([str(one.root), str(two.root)], str(tmp_path / "out"), settings)
    assert "path-type-conflict" in names(report)


@pytest.mark.parametrize("pair", [("a/File", "a/file"), ("Dir/x", "dir/y"), ("ß/x", "SS/y")])
def test_paths_that_differ_only_in_case(
    build: Maker, tmp_path: Path, settings: Settings, pair: tuple[str, str]
) -> None:
    one, two = build("gfx942"), build("gfx950")
    one.put(pair[0], "1")
    two.put(pair[1], "2")
    report = merge([str(one.root), str(two.root)], str(tmp_path / "out"), settings)
    assert "case-collision" in names(report)
    assert not report.ok


def test_layout_reads_no_archive_and_counts_by_manifest(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    place = shard.rocke("gfx942")
    (place / "rocke_client_gfx942.kpack").write_bytes(b"garbage")
    shard.kernel_provider("gfx942")
    report = inspect([str(shard.root)], replace(settings, depth=Depth.LAYOUT))
    assert report.findings == ()
    assert [bundle.kernels for bundle in report.bundles] == [1, 2]
    assert report.kernels_checked == 0


def test_content_reads_every_kernel(build: Maker, settings: Settings) -> None:
    deep = replace(settings, depth=Depth.CONTENT)
    shard = build("gfx942")
    place = shard.rocke("gfx942", [f"k{i}" for i in range(20)])
    shard.kernel_provider("gfx942")
    shard.put("arch_content/aiter/gfx942/a.co", code_object("gfx942"))
    report = inspect([str(shard.root)], deep)
    assert report.findings == ()
    assert report.kernels_checked == 22
    archive = place / "rocke_client_gfx942.kpack"
    data = bytearray(archive.read_bytes())
    data[80] ^= 0xFF
    archive.write_bytes(data)
    assert names(inspect([str(shard.root)], deep)) == {"kpack-corrupt"}
    assert inspect([str(shard.root)], settings).findings == ()


def test_content_compares_digests_with_descriptors(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.kernel_provider("gfx942", sha256="0" * 64)
    report = inspect([str(shard.root)], replace(settings, depth=Depth.CONTENT))
    assert "0" * 64 in only(report, "digest-mismatch").message


def test_content_compares_code_objects_with_their_place(build: Maker, settings: Settings) -> None:
    deep = replace(settings, depth=Depth.CONTENT)
    shard = build("gfx942")
    shard.put("arch_content/aiter/gfx942/a.co", code_object("gfx950"))
    assert "gfx950" in only(inspect([str(shard.root)], deep), "codeobject-target-mismatch").message
    packed = build("gfx1100")
    place = packed.engines / "arch_content/rocke/gfx1100"
    write_kpack(
        place / "rocke_client_gfx1100.kpack", {"rocke/sdpa_fwd/fmha/a": code_object("gfx1101")}, "gfx1100"
    )
    (place / "rocke_client_gfx1100.json").write_text(json.dumps(rocke_manifest("gfx1100", ["a"])))
    found = only(inspect([str(packed.root)], deep), "codeobject-target-mismatch")
    assert "built for gfx1101" in found.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "invalid JSON"),
        ("[" * 100_000, "nested too deep"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "invalid JSON"),
        ('{"schema": "rocke.aot.bundle/v1", "entries": 3}', "$.entries: expected array, found 3"),
        ("[]", "names no schema"),
    ],
)
def test_a_manifest_that_cannot_be_used(build: Maker, settings: Settings, text: str, expected: str) -> None:
    shard = build("gfx942")
    place = shard.rocke("gfx942")
    (place / "rocke_client_gfx942.json").write_text(text, encoding="latin-1")
    report = inspect([str(shard.root)], settings)
    assert any(expected in found.message for found in report.findings), report.findings


def test_at_most_ten_problems_of_one_manifest_are_named(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    place = shard.rocke("gfx942", [f"k{i}" for i in range(30)])
    path = place / "rocke_client_gfx942.json"
    document = json.loads(path.read_text())
    for entry in document["entries"]:
        del entry["symbol"]
    path.write_text(json.dumps(document))
    found = [f for f in inspect([str(shard.root)], settings).findings if f.name == "manifest-invalid"]
    assert len(found) == 11
    assert any("20 more" in f.message for f in found)
    assert any(f.message == "$.entries[0]: expected the property 'symbol', found none" for f in found)


def test_a_package_that_refers_to_an_id_nobody_defines(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    (shard.kernel_provider("gfx942") / "relu/relu.udd.json").unlink()
    message = only(inspect([str(shard.root)], settings), "manifest-invalid").message
    assert message == "$.dispatch: expected the id of a .udd.json of this target, found 'relu.dispatch'"


def test_an_authored_descriptor_does_not_belong_in_an_installed_tree(
    build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    shard.kernel_provider("gfx942")
    kernel = {
        "version": "1.0", "id": "x", "name": "x", "kernel_source": {"kind": "hip", "file": "x.hip"},
        "metadata": {}, "priority": 0,
    }  # fmt: skip
    shard.put("arch_content/hip-kernel-provider/gfx942/x.ukd.json", json.dumps(kernel))
    messages = [f.message for f in inspect([str(shard.root)], settings).findings]
    assert any("says how to make the kernel" in message for message in messages)


def test_a_descriptor_for_other_architectures_disagrees_with_its_folder(
    build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    path = shard.kernel_provider("gfx942") / "relu/relu.kdp.json"
    document = json.loads(path.read_text())
    for arch, expected in (([], set()), (["gfx950", "gfx942"], set()), (["gfx950"], {"target-mismatch"})):
        path.write_text(json.dumps(document | {"arch": arch}))
        assert names(inspect([str(shard.root)], settings)) == expected


def test_an_unreadable_file_ends_in_one_line(build: Maker, settings: Settings) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    shard = build("gfx942")
    shard.put("some.bin", b"x" * 100).chmod(0)
    from kpacktools.errors import CallError

    with pytest.raises(CallError, match=r"some\.bin"):
        inspect([str(shard.root)], settings)


def test_the_order_of_arguments_changes_nothing(build: Maker, tmp_path: Path, settings: Settings) -> None:
    from builders import contents

    shards = []
    for target in ("gfx942", "gfx950", "gfx1100", "gfx1201"):
        shard = build(target).host()
        shard.rocke(target)
        shards.append(str(shard.root))
    first = merge(shards, str(tmp_path / "one"), settings)
    second = merge(shards[::-1], str(tmp_path / "two"), settings)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert [b.bundle.path for b in first.bundles] == [b.bundle.path for b in second.bundles]
    assert first.counts == second.counts


def test_outputs_are_independent_files_unless_hard_links_are_asked_for(
    build: Maker, tmp_path: Path, settings: Settings
) -> None:
    from kpacktools.commands import MergeOptions

    shard = build("gfx942").host()
    source = (shard.engines / "libhost.so").stat()
    split(str(shard.root), str(tmp_path / "auto"), settings)
    split(str(shard.root), str(tmp_path / "hard"), settings, MergeOptions(link="hardlink"))
    assert next((tmp_path / "auto").rglob("libhost.so")).stat().st_ino != source.st_ino
    hard = next((tmp_path / "hard").rglob("libhost.so")).stat()
    assert (hard.st_ino, stat.S_IMODE(hard.st_mode)) == (source.st_ino, stat.S_IMODE(source.st_mode))
