"""Inputs at URLs: the same report as for the same files here, and no more bytes than are needed."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from servers import S3Server, WebServer

from builders import ENGINES, STAGE, Build, code_object, host_elf, write_kpack
from kpacktools.cli import run

Made = Callable[..., Build]


@pytest.fixture
def release(build: Made) -> Path:
    """Two shards of one release, with generic files, a host library and loose code objects."""
    for key in ("gfx942", "gfx950"):
        made = build(key)
        made.host()
        made.rocke(key)
        made.put("libother.so", host_elf({".data": b"x" * 200}))
        made.put("config/settings.json", "{}")
        made.put(f"arch_content/aiter/{key}/a.co", code_object(key, key.encode() * 99))
        made.put(f"arch_content/aiter/{key}/a b#%20.co", code_object(key, b"y" * 99))
    return made.root.parent


def report(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    """The JSON report of a command."""
    assert run([*arguments, "--format", "json"]) == status, capsys.readouterr()
    out = capsys.readouterr().out
    found: dict[str, Any] = json.loads(out)
    return found


def same(one: dict[str, Any], other: dict[str, Any], place: str, url: str) -> bool:
    """True for reports that differ in nothing but where the inputs are."""
    return json.dumps(one).replace(place, "@") == json.dumps(other).replace(url, "@")


def sparse_kpack(path: Path, size: int, kernels: int = 2000) -> int:
    """A kpack of scheme none with a hole of so many bytes; the size of its TOC."""
    toc: dict[str, Any] = {
        "format_version": 1,
        "group_name": "test",
        "gfx_arch_family": "gfx942",
        "gfx_arches": ["gfx942"],
        "compression_scheme": "none",
        "toc": {
            f"rocke/op/family/{number:05}": {
                "gfx942": {"type": "hsaco", "ordinal": number, "original_size": 64}
            }
            for number in range(kernels)
        },
        "blobs": [{"offset": 64 + 64 * number, "size": 64} for number in range(kernels)],
    }
    data = msgspec.msgpack.encode(toc)
    with path.open("wb") as stream:
        stream.write(struct.pack("<4sIQ", b"KPAK", 1, size).ljust(64, b"\0"))
        stream.truncate(size)
        stream.seek(size)
        stream.write(data)
    return len(data)


@pytest.mark.parametrize("depth", ["layout", "toc", "content"])
def test_a_report_of_a_web_folder_is_that_of_the_folder(
    release: Path, web: WebServer, capsys: pytest.CaptureFixture[str], depth: str
) -> None:
    shutil.copytree(release, web.root / "r")
    here = report(capsys, "inspect", str(release), "--depth", depth)
    there = report(capsys, "inspect", f"{web.url}/r", "--depth", depth)
    assert same(here, there, str(release), f"{web.url}/r")
    assert there["bundles"]


@pytest.mark.parametrize("depth", ["layout", "toc", "content"])
def test_a_report_of_objects_in_s3_is_that_of_the_files(
    release: Path, s3: S3Server, capsys: pytest.CaptureFixture[str], depth: str
) -> None:
    url = s3.upload(release, "builds/7.15")
    here = report(capsys, "inspect", str(release), "--depth", depth)
    there = report(capsys, "inspect", url, "--depth", depth)
    assert same(here, there, str(release), url)


def test_a_file_url_is_a_path(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = report(capsys, "inspect", str(release))
    assert report(capsys, "inspect", f"file://{release}") == here


@pytest.mark.parametrize(
    "inner",
    [
        "gfx942",
        "gfx942/hipkernelprovider_lib_gfx942",
        f"gfx942/hipkernelprovider_lib_gfx942/{STAGE}/{ENGINES}/arch_content/rocke",
        f"gfx942/hipkernelprovider_lib_gfx942/{STAGE}/{ENGINES}/arch_content/rocke/gfx942/rocke_client_gfx942.json",
        f"gfx942/hipkernelprovider_lib_gfx942/{STAGE}/{ENGINES}/arch_content/rocke/gfx942/rocke_client_gfx942.kpack",
    ],
)
def test_urls_inside_a_shard_are_seen_in_their_place(
    release: Path, s3: S3Server, capsys: pytest.CaptureFixture[str], inner: str
) -> None:
    url = s3.upload(release, "r")
    here = report(capsys, "inspect", str(release / inner))
    there = report(capsys, "inspect", f"{url}/{inner}")
    assert same(here, there, str(release), url)
    assert there["bundles"]


def test_a_prefix_inside_a_container_is_seen_in_its_place(
    release: Path, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = f"{STAGE}/{ENGINES}/arch_content/rocke"
    shutil.copytree(
        release / "gfx942" / "hipkernelprovider_lib_gfx942" / inner, web.root / "x" / "arch_content" / "rocke"
    )
    here = report(capsys, "inspect", str(web.root / "x/arch_content/rocke"))
    there = report(capsys, "inspect", f"{web.url}/x/arch_content/rocke")
    assert same(here, there, str(web.root), web.url)
    assert [bundle["engine"] for bundle in there["bundles"]] == ["rocke"]


def test_a_large_kpack_costs_its_toc(web: WebServer, capsys: pytest.CaptureFixture[str]) -> None:
    toc = sparse_kpack(web.root / "a_gfx942.kpack", 2 << 30)
    found = report(capsys, "inspect", f"{web.url}/a_gfx942.kpack", "--depth", "toc")
    assert found["bundles"][0]["kernels"] == 2000
    assert web.sent["a_gfx942.kpack"] <= toc + (128 << 10)
    assert len(web.gets) <= 3
    web.forget()
    assert run(["kpack", "list", f"{web.url}/a_gfx942.kpack"]) == 0
    assert web.sent["a_gfx942.kpack"] <= toc + (128 << 10)


def test_a_wheel_costs_its_central_directory(
    release: Path, web: WebServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = (
        release
        / "gfx942"
        / "hipkernelprovider_lib_gfx942"
        / STAGE
        / ENGINES
        / "arch_content/aiter/gfx942/big.co"
    )
    noise.write_bytes(code_object("gfx942", os.urandom(5_000_000)))
    assert run(["wheel", str(release / "gfx942"), "-o", str(web.root), "--version", "7.15.0"]) == 0
    capsys.readouterr()
    (wheel,) = web.root.iterdir()
    for depth in ("layout", "toc"):
        web.forget()
        here = report(capsys, "inspect", str(wheel), "--depth", depth)
        there = report(capsys, "inspect", f"{web.url}/{wheel.name}", "--depth", depth)
        assert same(here, there, str(web.root), web.url)
        assert web.sent[wheel.name] < 600_000 < wheel.stat().st_size
    web.forget()
    there = report(capsys, "inspect", f"{web.url}/{wheel.name}", "--depth", "content")
    assert same(report(capsys, "inspect", str(wheel)), there, str(web.root), web.url)
    assert web.sent[wheel.name] == wheel.stat().st_size
    assert [asked for _, asked in web.gets] == [""]


@pytest.mark.parametrize("form", ["zst", "xz"])
@pytest.mark.parametrize("depth", ["layout", "toc", "content"])
def test_an_archive_is_streamed_once(
    release: Path,
    web: WebServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: str,
    depth: str,
) -> None:
    out = web.root / "r"
    assert run(["artifacts", "archive", str(release / "gfx942"), "-o", str(out), "--form", form]) == 0
    capsys.readouterr()
    here = report(capsys, "inspect", str(out), "--depth", depth)
    there = report(capsys, "inspect", f"{web.url}/r", "--depth", depth)
    assert same(here, there, str(web.root), web.url)
    name = f"r/hipkernelprovider_lib_gfx942.tar.{form}"
    assert [asked for path, asked in web.gets if path == name] == [""]
    assert web.sent[name] == (web.root / name).stat().st_size


def test_an_archive_that_is_not_what_its_checksum_says_is_found(
    release: Path, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["artifacts", "archive", str(release / "gfx942"), "-o", str(web.root)]) == 0
    (checksum,) = web.root.glob("*.sha256sum")
    checksum.write_text("0" * 64 + "\n")
    capsys.readouterr()
    found = report(capsys, "inspect", web.url, status=1)
    assert [item["name"] for item in found["findings"]] == ["digest-mismatch"]


@pytest.mark.parametrize("how", [{"ranges": False}, {"etags": False}, {"head": False}])
def test_a_poor_web_server_serves(
    release: Path, web: WebServer, capsys: pytest.CaptureFixture[str], how: dict[str, bool]
) -> None:
    shutil.copytree(release, web.root / "r")
    for name, value in how.items():
        setattr(web, name, value)
    here = report(capsys, "inspect", str(release))
    there = report(capsys, "inspect", f"{web.url}/r")
    assert same(here, there, str(release), f"{web.url}/r")


def test_a_server_without_ranges_sends_a_kpack_once(
    web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    web.ranges = False
    toc = sparse_kpack(web.root / "a_gfx942.kpack", 30 << 20)
    report(capsys, "inspect", f"{web.url}/a_gfx942.kpack", "--depth", "toc")
    assert toc + (30 << 20) <= web.sent["a_gfx942.kpack"] < 2 * (30 << 20)


def test_merge_takes_urls(
    release: Path, web: WebServer, s3: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(release / "gfx942", web.root / "gfx942")
    url = s3.upload(release / "gfx950", "gfx950")
    assert run(["merge", f"{web.url}/gfx942", url, "-o", str(tmp_path / "there")]) == 0
    assert run(["merge", str(release / "gfx942"), str(release / "gfx950"), "-o", str(tmp_path / "here")]) == 0

    def files(root: Path) -> dict[str, bytes]:
        return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}

    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_wheels_are_built_from_a_shards_file_of_urls(
    release: Path, web: WebServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(release, web.root / "r")
    (web.root / "r" / "shards.toml").write_text(
        f'[[shard]]\nname = "a"\npath = "gfx942"\n[[shard]]\nname = "b"\npath = "{web.url}/r/gfx950"\n'
    )
    (tmp_path / "shards.toml").write_text(
        f'[[shard]]\nname = "a"\npath = "{release}/gfx942"\n[[shard]]\nname = "b"\npath = "{release}/gfx950"\n'
    )
    for shards, out in ((f"{web.url}/r/shards.toml", "there"), (str(tmp_path / "shards.toml"), "here")):
        arguments = ["--shards", shards, "-o", str(tmp_path / out), "--version", "7.15.0"]
        assert run(["wheel", *arguments, "--platform-tag", "linux_x86_64"]) == 0
    here, there = (
        {file.name: file.read_bytes() for file in (tmp_path / name).glob("*.whl")}
        for name in ("here", "there")
    )
    assert here == there
    assert len(here) == 2


def test_a_wheel_at_a_url_is_split(
    release: Path, web: WebServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "whole"
    arguments = ["--version", "7.15.0", "--dist-prefix", "whole", "--platform-tag", "linux_x86_64"]
    assert run(["wheel", str(release / "gfx942"), "-o", str(source), *arguments]) == 0
    (wheel,) = source.iterdir()
    shutil.copy(wheel, web.root)
    assert run(["wheel", f"{web.url}/{wheel.name}", "-o", str(tmp_path / "there")]) == 0
    assert run(["wheel", str(wheel), "-o", str(tmp_path / "here")]) == 0
    here, there = (
        {file.name: file.read_bytes() for file in (tmp_path / name).glob("*.whl")}
        for name in ("here", "there")
    )
    assert here == there


def test_kpack_commands_take_urls(
    web: WebServer, s3: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_kpack(web.root / "a.kpack", {"x/y": code_object("gfx942", b"z" * 500)}, "gfx942")
    s3.upload(file, "a.kpack")
    for command in ("list", "verify"):
        assert run(["kpack", command, str(file), "--format", "json"]) == 0
        here = json.loads(capsys.readouterr().out)
        for url in (f"{web.url}/a.kpack", f"{s3.url}/a.kpack"):
            assert run(["kpack", command, url, "--format", "json"]) == 0
            there = json.loads(capsys.readouterr().out)
            assert same(here, there, str(file), url)
    assert run(["kpack", "extract", f"{web.url}/a.kpack", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out/gfx942/x/y.hsaco").read_bytes() == code_object("gfx942", b"z" * 500)


def test_diff_lock_topology_and_policy_take_urls(
    release: Path, web: WebServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(release, web.root / "r")
    assert run(["diff", str(release), f"{web.url}/r", "--fail-on", "any"]) == 0
    assert run(["lock", "write", f"{web.url}/r", "-o", str(web.root / "kpack.lock")]) == 0
    assert run(["lock", "check", str(release), "--lock", f"{web.url}/kpack.lock"]) == 0
    (web.root / "policy.toml").write_text('[severity]\nfat-binary = "warning"\n')
    assert run(["inspect", f"{web.url}/r", "--policy", f"{web.url}/policy.toml"]) == 0
    shutil.copy("topology/BUILD_TOPOLOGY.toml", web.root)
    here = run(["topology", "check", "topology/BUILD_TOPOLOGY.toml"])
    assert run(["topology", "check", f"{web.url}/BUILD_TOPOLOGY.toml"]) == here


def test_artifacts_and_topology_are_checked_against_trees_at_urls(
    release: Path, web: WebServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(release, web.root / "r")
    (web.root / "artifact-hipkernelprovider.toml").write_text(
        f'[components.lib."{STAGE}"]\ninclude = ["**"]\ndefault_patterns = false\n'
    )
    here, there = (
        report(capsys, "artifacts", "check", f"{place}/artifact-hipkernelprovider.toml", tree)
        for place, tree in (
            (str(web.root), str(release / "gfx942")),
            (web.url, f"{web.url}/r/gfx942"),
        )
    )
    assert here["counts"] == there["counts"]
    assert here["counts"]["files_out"] == 7
    assert run(["topology", "check", "topology/BUILD_TOPOLOGY.toml", "--tree", f"{web.url}/r/gfx942"]) == run(
        ["topology", "check", "topology/BUILD_TOPOLOGY.toml", "--tree", str(release / "gfx942")]
    )
    assert run(["artifacts", "check", f"{web.url}/r", str(release)]) == 2
    assert "folders of this machine" in capsys.readouterr().err


def test_archives_are_made_of_artifacts_at_urls(release: Path, s3: S3Server, tmp_path: Path) -> None:
    url = s3.upload(release / "gfx942", "r/gfx942")
    assert run(["artifacts", "archive", url, "-o", str(tmp_path / "there")]) == 0
    assert run(["artifacts", "archive", str(release / "gfx942"), "-o", str(tmp_path / "here")]) == 0
    name = "hipkernelprovider_lib_gfx942.tar.zst"
    assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_sarif_names_urls(release: Path, web: WebServer, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(release, web.root / "r")
    (web.root / "r/gfx942/hipkernelprovider_lib_gfx942/stray.co").write_bytes(code_object("gfx942"))
    assert run(["inspect", f"{web.url}/r", "--format", "sarif"]) == 1
    result = json.loads(capsys.readouterr().out)["runs"][0]["results"][0]
    address = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert address == {"uri": f"{web.url}/r/gfx942/hipkernelprovider_lib_gfx942/stray.co"}


def test_resolve_and_reports_take_urls(
    release: Path, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(release, web.root / "r")
    found = []
    for place in (str(release), f"{web.url}/r"):
        assert (
            run(["resolve", f"{place}/gfx942", "--engine", "rocke", "--target", "gfx942", "--format", "json"])
            == 0
        )
        found.append(capsys.readouterr().out.replace(place, "@"))
    assert found[0] == found[1]
    assert run(["inspect", str(release), "--format", "json", "-o", str(web.root / "report.json")]) == 0
    assert run(["diff", f"{web.url}/report.json", f"{web.url}/r", "--depth", "toc", "--fail-on", "any"]) == 0


def test_verbose_runs_say_what_was_transferred(
    release: Path, s3: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    url = s3.upload(release, "r")
    assert run(["inspect", url, "-v"]) == 0
    assert "bytes read in" in capsys.readouterr().err


def test_requests_that_fail_once_are_not_seen(
    release: Path, web: WebServer, capsys: pytest.CaptureFixture[str], pauses: list[float]
) -> None:
    shutil.copytree(release, web.root / "r")
    kpack = next(path for path in (web.root / "r").rglob("*.kpack")).relative_to(web.root).as_posix()
    web.statuses = {kpack: [503, 500, 429], "r": [502]}
    here = report(capsys, "inspect", str(release))
    there = report(capsys, "inspect", f"{web.url}/r")
    assert same(here, there, str(release), f"{web.url}/r")
    assert len(pauses) == 4


@pytest.mark.parametrize(
    ("status", "said"), [(404, "no such file"), (403, "not permitted"), (503, "tried 6 times")]
)
def test_a_file_that_cannot_be_read_ends_the_run_with_one_line(
    release: Path, web: WebServer, capsys: pytest.CaptureFixture[str], status: int, said: str
) -> None:
    shutil.copytree(release, web.root / "r")
    for kpack in (web.root / "r").rglob("*.kpack"):
        name = kpack.relative_to(web.root).as_posix()
        web.refused_after_head[name] = status
    assert run(["inspect", f"{web.url}/r?token=secret"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert "secret" not in error


@pytest.mark.parametrize(
    "url", ["s3://releases/none", "s3://nowhere/x", "nosuch://x/y", "http://127.0.0.1:9/x"]
)
def test_an_input_that_is_not_there_is_one_line(
    s3: S3Server, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    for command in (["inspect", url], ["merge", url, "-o", "never"], ["kpack", "list", f"{url}.kpack"]):
        assert run(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert url.rpartition("/")[0] in error or "protocol" in error


def test_a_url_that_is_named_twice_is_refused(
    release: Path, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(release, web.root / "r")
    assert run(["merge", f"{web.url}/r/gfx942", f"{web.url}/r/gfx942/", "-o", "never"]) == 2
    assert "named twice" in capsys.readouterr().err


def test_reports_show_no_secrets(release: Path, web: WebServer, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(release, web.root / "r")
    url = f"{web.url}/r?token=secret".replace("http://", "http://me:word@")
    text = json.dumps(report(capsys, "inspect", url, "-v"))
    assert "secret" not in text
    assert "word@" not in text
    assert web.url in text


def test_the_same_name_as_file_and_folder_is_refused(
    s3: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    client = s3.client()
    for key in ("r/x_lib_gfx942/artifact_manifest.txt", "r/x_lib_gfx942/a", "r/x_lib_gfx942/a/b"):
        client.put_object(Bucket=s3.bucket, Key=key, Body=b"")
    assert run(["inspect", f"{s3.url}/r"]) == 2
    assert "both as a file and as a folder" in capsys.readouterr().err


def test_a_missing_extra_is_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import builtins

    genuine = builtins.__import__

    def refusing(name: str, *rest: Any, **options: Any) -> Any:
        if name.partition(".")[0] in ("fsspec", "s3fs", "aiohttp"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return genuine(name, *rest, **options)

    for name in ("web", "s3", "anystore", "loop"):
        monkeypatch.delitem(__import__("sys").modules, f"kpacktools.remote.{name}", raising=False)
    monkeypatch.setattr(builtins, "__import__", refusing)
    for url in ("s3://a/b", "https://a/b", "gs://a/b"):
        assert run(["inspect", url]) == 2
        assert "needs kpacktools[remote]" in capsys.readouterr().err
