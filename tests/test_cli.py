"""The command line as a user calls it: exit status, streams, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import kpacktools
from builders import Build, code_object, contents
from kpacktools import data
from kpacktools.cli import COMMANDS, run

Maker = Callable[..., Build]
REPORT_SCHEMA = json.loads((Path(kpacktools.__file__).parent / "reports/report.schema.json").read_text())


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs one command line in this process: exit status, stdout, stderr."""

    def run_command(*arguments: object) -> tuple[int, str, str]:
        status = run([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        return status, captured.out, captured.err

    return run_command


@pytest.fixture
def shards(build: Maker) -> list[str]:
    made = []
    for target in ("gfx942", "gfx1201"):
        shard = build(target).host()
        shard.rocke(target)
        made.append(str(shard.root))
    return made


Call = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("command", ["inspect", "merge", "split", "wheel"])
def test_json_is_all_that_stdout_holds_and_follows_the_schema(
    call: Call, shards: list[str], tmp_path: Path, command: str
) -> None:
    arguments = {
        "inspect": shards,
        "merge": [*shards, "-o", tmp_path / "out"],
        "split": [shards[0], "-o", tmp_path / "out"],
        "wheel": [*shards, "-o", tmp_path / "dist", "--version", "1.0"],
    }[command]
    status, out, err = call(command, *arguments, "--format", "json")
    report = json.loads(out)
    Draft202012Validator(REPORT_SCHEMA).validate(report)
    assert (status, report["ok"], report["command"], err) == (0, True, command, "")
    counts = report["counts"]
    if command != "inspect":
        assert counts["files_in"] == sum(
            counts[name] for name in ("files_out", "files_deduplicated", "files_filtered", "files_superseded")
        )
        assert counts["files_out"] == sum(output["files"] for output in report["outputs"])


def test_a_refused_merge_is_status_1_and_writes_nothing(call: Call, build: Maker, tmp_path: Path) -> None:
    one, two = build("gfx942").host("1"), build("gfx950").host("2")
    status, out, _ = call("merge", one.root, two.root, "-o", tmp_path / "out", "--format", "json")
    report = json.loads(out)
    Draft202012Validator(REPORT_SCHEMA).validate(report)
    assert (status, report["ok"], report["outputs"]) == (1, False, [])
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "absent"],
        ["inspect"],
        ["merge", "--no-such"],
        ["merge", ".", "-o", "out", "--link", "magic"],
        ["nonsense"],
        ["split", "absent", "-o", "out"],
        ["wheel", ".", "-o", "out"],
        ["wheel", ".", "-o", "out", "--version", "not a version"],
        ["inspect", ".", "--require", "rocke"],
        ["inspect", ".", "--require", "rocke:gfx17z"],
        ["split", ".", "-o", "../out", "--device", "gfx17z"],
        ["split", ".", "-o", "../out", "--device", "family:gfx11q"],
        ["split", ".", "-o", "inside"],
        ["split", ".", "-o", "../out", "--stage", "."],
        ["split", ".", "-o", "../out", "--artifact", "a_b"],
        ["inspect", ".", "--policy", "absent.toml"],
        ["kpack", "list", "absent.kpack"],
        ["inspect", ".", "--jobs", "0"],
    ],
)
def test_an_unusable_call_is_status_2_and_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    status, out, err = call(*arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("kpacktools: error: ")
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["here"]


def test_no_argument_at_all_shows_the_help(call: Call) -> None:
    status, out, err = call()
    assert status == 2
    assert "Commands:" in out + err


@pytest.mark.parametrize("command", ["", *COMMANDS, "kpack list", "kpack extract", "kpack verify"])
def test_every_command_has_help(call: Call, command: str) -> None:
    status, out, _ = call(*command.split(), "--help")
    assert status == 0
    assert out.startswith(f"Usage: kpacktools {command}".rstrip())


@pytest.mark.parametrize("command", ["inspect", "split", "merge", "wheel"])
def test_help_of_the_main_commands_has_examples(call: Call, command: str) -> None:
    assert f"  kpacktools {command} " in call(command, "--help")[1].partition("Examples:")[2]


def test_strict_turns_warnings_into_errors(call: Call, build: Maker) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"], archive=["a", "b"])
    assert call("inspect", shard.root)[0] == 0
    status, out, _ = call("inspect", shard.root, "--strict", "--format", "json")
    assert status == 1
    assert [(f["name"], f["severity"]) for f in json.loads(out)["findings"]] == [("orphan-kernel", "error")]


def test_a_policy_changes_severities(call: Call, build: Maker, tmp_path: Path) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"], archive=["a", "b"])
    policy = tmp_path / "policy.toml"
    policy.write_text('[severity]\norphan-kernel = "error"\n')
    assert call("inspect", shard.root, "--policy", policy)[0] == 1
    policy.write_text('[severity]\norphan-kernel = "ignore"\n')
    status, out, _ = call("inspect", shard.root, "--policy", policy, "--format", "json")
    assert (status, json.loads(out)["findings"]) == (0, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("severities = 1\n", "found 'severities'"),
        ('[severity]\nno-such-finding = "error"\n', "no-such-finding"),
        ('[severity]\norphan-kernel = "fatal"\n', "$.severity['orphan-kernel']"),
        ("not toml", "not valid TOML"),
    ],
)
def test_a_policy_that_says_nonsense_is_refused(call: Call, tmp_path: Path, text: str, expected: str) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(text)
    status, _, err = call("inspect", tmp_path, "--policy", policy)
    assert status == 2
    assert expected in err


def test_a_policy_adds_processors_and_owners(call: Call, build: Maker, tmp_path: Path) -> None:
    shard = build("gfx17z", "generic")
    shard.put("arch_content/aiter/gfx1790/k.csv", "a")
    assert call("inspect", shard.root)[0] == 1
    policy = tmp_path / "policy.toml"
    policy.write_text('[targets]\nprocessors = ["gfx1790"]\n[owners]\ngfx1790 = "gfx942"\n')
    assert call("inspect", shard.root, "--policy", policy)[0] == 0
    arguments = ("-o", tmp_path / "dist", "--version", "1", "--policy", policy, "--platform-tag", "any")
    assert call("wheel", shard.root, *arguments)[0] == 0
    assert os.listdir(tmp_path / "dist") == ["rocm_sdk_device_gfx942-1-py3-none-any.whl"]


def test_a_dry_run_says_everything_and_writes_nothing(call: Call, shards: list[str], tmp_path: Path) -> None:
    status, out, _ = call("merge", *shards, "-o", tmp_path / "out", "--dry-run")
    assert status == 0
    assert out.count("would be written") == 3
    assert "dry run, nothing was written" in out
    status, out, _ = call("wheel", *shards, "-o", tmp_path / "d", "--version", "1", "--dry-run")
    assert status == 0
    assert out.count("rocm_sdk_device_") == 2
    assert os.listdir(tmp_path) == ["in"]


def test_what_exists_is_kept_when_equal_and_replaced_only_when_asked(
    call: Call, shards: list[str], build: Maker, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert call("merge", *shards, "-o", out)[0] == 0
    status, text, _ = call("merge", *shards, "-o", out, "--format", "json")
    assert status == 0
    assert {output["state"] for output in json.loads(text)["outputs"]} == {"kept"}
    (out / "mine.txt").write_text("stays")
    build("gfx942").host("changed")
    before = contents(out)
    status, _, err = call("merge", shards[0], "-o", out)
    assert (status, err.count("\n")) == (2, 1)
    assert "--replace" in err
    assert contents(out) == before
    assert call("merge", shards[0], "-o", out, "--replace")[0] == 0
    assert next(out.rglob("libhost.so")).read_text() == "changed"
    assert (out / "mine.txt").read_text() == "stays"


def test_flatten_makes_one_prefix(call: Call, shards: list[str], tmp_path: Path) -> None:
    assert call("merge", *shards, "-o", tmp_path / "prefix", "--flatten")[0] == 0
    flat = contents(tmp_path / "prefix")
    assert len(flat) == 5
    assert all(path.startswith("lib/hipdnn_plugins/engines/") for path in flat)


def test_an_install_prefix_becomes_the_artifact_that_is_asked_for(
    call: Call, shards: list[str], tmp_path: Path
) -> None:
    call("merge", *shards, "-o", tmp_path / "prefix", "--flatten")
    status, _, _ = call(
        "split", tmp_path / "prefix", "-o", tmp_path / "out", "--artifact", "hip", "--component", "run",
        "--stage", "ml-libs/hip/stage",
    )  # fmt: skip
    assert status == 0
    assert sorted(os.listdir(tmp_path / "out")) == ["hip_run_generic", "hip_run_gfx1201", "hip_run_gfx942"]
    assert (tmp_path / "out/hip_run_gfx942/artifact_manifest.txt").read_text() == "ml-libs/hip/stage\n"
    assert (
        tmp_path / "out/hip_run_generic/ml-libs/hip/stage/lib/hipdnn_plugins/engines/libhost.so"
    ).is_file()


def test_inspect_takes_folders_above_and_inside(call: Call, shards: list[str], tmp_path: Path) -> None:
    above = json.loads(call("inspect", tmp_path, "--format", "json")[1])
    assert {(b["engine"], b["key"], b["kernels"]) for b in above["bundles"]} == {
        ("rocke", "gfx942", 2),
        ("rocke", "gfx1201", 2),
    }
    inside = next(Path(shards[0]).rglob("gfx942"))
    report = json.loads(call("inspect", inside, "--format", "json")[1])
    assert [(b["engine"], b["key"], b["kernels"]) for b in report["bundles"]] == [("rocke", "gfx942", 2)]
    call("merge", *shards, "-o", tmp_path / "prefix", "--flatten")
    inside = next((tmp_path / "prefix").rglob("gfx1201"))
    report = json.loads(call("inspect", inside, "--format", "json")[1])
    assert [(b["engine"], b["key"]) for b in report["bundles"]] == [("rocke", "gfx1201")]


def test_merge_of_a_folder_of_shards_names_them(call: Call, shards: list[str], tmp_path: Path) -> None:
    status, _, err = call("merge", tmp_path / "in", "-o", tmp_path / "out")
    assert status == 2
    assert "holds 2 shards" in err
    assert all(shard in err for shard in shards)


def test_a_report_can_go_to_a_file(call: Call, shards: list[str], tmp_path: Path) -> None:
    status, out, _ = call("inspect", *shards, "--format", "json", "-o", tmp_path / "report.json")
    assert (status, out) == (0, "")
    assert json.loads((tmp_path / "report.json").read_text())["ok"]


def test_names_from_outside_cannot_control_the_terminal(call: Call, build: Maker) -> None:
    shard = build("gfx942")
    shard.put("evil\x1b[2Jname\n.txt", "x")
    status, out, _ = call("inspect", shard.root)
    assert status == 1
    assert "bad-path" in out
    assert "\x1b" not in out
    assert "\\x1b[2Jname\\x0a" in out


def test_handlers_lists_name_engine_origin_and_claims(call: Call) -> None:
    status, out, _ = call("handlers")
    assert status == 0
    for word in ("rocke", "hip-kernel-provider", "aiter", f"kpacktools {kpacktools.__version__}", "claims"):
        assert word in out
    listed = json.loads(call("handlers", "--format", "json")[1])["handlers"]
    assert [item["name"] for item in listed] == sorted(item["name"] for item in listed)


def test_kpack_list_verify_and_extract(call: Call, shards: list[str], tmp_path: Path) -> None:
    archive = next(Path(shards[0]).rglob("*.kpack"))
    status, out, _ = call("kpack", "list", archive)
    assert status == 0
    assert "rocke/sdpa_fwd/fmha/k1" in out
    listed = json.loads(call("kpack", "list", archive, "--format", "json")[1])["archives"][0]
    assert [(k["key"], k["target"]) for k in listed["kernels"]] == [
        ("rocke/sdpa_fwd/fmha/k0", "gfx942"),
        ("rocke/sdpa_fwd/fmha/k1", "gfx942"),
    ]
    verified = json.loads(call("kpack", "verify", archive, "--format", "json")[1])["archives"][0]
    assert call("kpack", "extract", archive, "-o", tmp_path / "x")[0] == 0
    import hashlib

    for kernel in verified["kernels"]:
        data = (tmp_path / "x/gfx942" / f"{kernel['key']}.hsaco").read_bytes()
        assert hashlib.sha256(data).hexdigest() == kernel["sha256"]
        assert len(data) == kernel["size"]


def test_kpack_verify_of_a_damaged_archive_names_the_kernel(
    call: Call, shards: list[str], tmp_path: Path
) -> None:
    archive = next(Path(shards[0]).rglob("*.kpack"))
    data = bytearray(archive.read_bytes())
    data[80] ^= 0xFF  # inside the first frame
    archive.write_bytes(data)
    status, out, err = call("kpack", "verify", archive)
    assert status == 1
    assert "kpack-corrupt" in err
    assert "rocke/sdpa_fwd/fmha/k0" in err
    assert [line.endswith("  damaged") for line in out.splitlines()[1:]] == [True, False]
    assert call("kpack", "extract", archive, "-o", tmp_path / "x")[0] == 1
    assert not (tmp_path / "x").exists()


def test_the_demo_ends_with_three_wheels(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        status, out, _ = call("demo")
        assert status == 0
        assert "What to look at next" in out
    assert sorted(w.name.partition("-")[0] for w in Path("kpacktools-demo/dist").iterdir()) == [
        "rocm_sdk_device_gfx1201",
        "rocm_sdk_device_gfx942",
        "rocm_sdk_device_gfx950",
    ]


def test_the_demos_shards_have_no_finding_at_any_depth(call: Call) -> None:
    for depth in ("layout", "toc", "content"):
        shards = data.data_path("examples", "shards")
        report = json.loads(call("inspect", shards, "--depth", depth, "--format", "json")[1])
        assert report["findings"] == []
        assert {b["kernels"] for b in report["bundles"]} == {2, 3}


def test_python_dash_m_and_a_closed_pipe(shards: list[str]) -> None:
    command = [sys.executable, "-m", "kpacktools", "inspect", *shards, "-v"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert b"Traceback" not in errors


def test_inspect_takes_one_kpack_and_one_manifest(call: Call, shards: list[str], tmp_path: Path) -> None:
    archive = next(Path(shards[0]).rglob("*.kpack"))
    for depth in ("toc", "content"):
        report = json.loads(call("inspect", archive, "--depth", depth, "--format", "json")[1])
        assert report["findings"] == []
        assert [(b["engine"], b["key"], b["kernels"]) for b in report["bundles"]] == [("kpack", "gfx942", 2)]
        assert report["bundles"][0]["kpacks"][0]["path"] == str(archive)
    manifest = next(Path(shards[0]).rglob("rocke_client_gfx942.json"))
    report = json.loads(call("inspect", manifest, "--depth", "toc", "--format", "json")[1])
    assert [(b["engine"], b["key"], b["kernels"]) for b in report["bundles"]] == [("rocke", "gfx942", 2)]
    (tmp_path / "bad.kpack").write_bytes(b"NOPE")
    status, out, _ = call("inspect", tmp_path / "bad.kpack", "--format", "json")
    assert (status, [f["name"] for f in json.loads(out)["findings"]]) == (1, ["kpack-corrupt"])


def test_inspect_of_a_kpack_for_several_targets_lists_each(call: Call, tmp_path: Path) -> None:
    from kpacktools.kpack.writer import KpackWriter

    path = tmp_path / "many.kpack"
    with path.open("wb") as stream, KpackWriter(stream, group_name="g", gfx_arch_family="x") as writer:
        writer.add("lib/a.so#0", "gfx942", code_object("gfx942"))
        writer.add("lib/a.so#0", "gfx1100", code_object("gfx1100"))
        writer.add("lib/b.so#0", "gfx1100", code_object("gfx1100"))
    report = json.loads(call("inspect", path, "--format", "json")[1])
    assert report["findings"] == []
    assert {(b["key"], b["kernels"]) for b in report["bundles"]} == {("gfx942", 1), ("gfx1100", 2)}
