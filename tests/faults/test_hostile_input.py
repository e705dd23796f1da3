"""Whatever an input holds, a command ends with a status, findings or one line, and never with a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from fault_runs import call, one_line
from hostile import damaged_bytes, damaged_content, names
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import STAGE, Build, code_object, host_elf
from kpacktools.cli import run

EXAMPLES = int(os.environ.get("KPACKTOOLS_EXAMPLES", "25"))

hostile = settings(
    max_examples=EXAMPLES,
    deadline=timedelta(seconds=30),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)

on_posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")

forms = st.sampled_from(("text", "text", "json", "html", "sarif"))


@pytest.fixture(scope="module", autouse=True)
def _errors_are_raised() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KPACKTOOLS_DEBUG", "1")
        yield


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Path -> bytes of a shard with content of every format that is read."""
    build = Build(tmp_path_factory.mktemp("release") / "gfx942", "gfx942").host(
        host_elf({".hip_fatbin": b"x" * 99})
    )
    build.rocke("gfx942")
    build.kernel_provider("gfx942")
    build.put("arch_content/aiter/gfx942/k.csv", "knl_name,co_name\nk,k.co\n")
    build.put("arch_content/aiter/gfx942/k.co", code_object("gfx942"))
    kernel = {
        "symbol": "k", "co_file": "k.co", "constraints": {}, "grid": {}, "block": [64, 1, 1],
        "args_signature": [{"name": "a", "type": "ptr"}], "workspace_bytes": 0,
    }  # fmt: skip
    family = {"family": "fmha", "op_kind": "sdpa", "arch": "gfx942", "dtype": "f16", "kernels": [kernel]}
    build.put("arch_content/aot_catalog/gfx942/fmha/family.json", json.dumps(family))
    build.put("arch_content/aot_catalog/gfx942/fmha/k.co", code_object("gfx942"))
    loose = build.rocke("gfx942", folder="gfx942").parent / "gfx942"
    (loose / "notes.bin").write_bytes(b"\x7fELF")
    return {
        path.relative_to(build.root).as_posix(): path.read_bytes()
        for path in sorted(build.root.rglob("*"))
        if path.is_file()
    }


def put(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def survives(*arguments: str | Path) -> int:
    """Run a command in this process and look at how it ends."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([str(argument) for argument in arguments])
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))
    assert status in (0, 1, 2)
    assert stderr.count("\n") == (status == 2), stderr
    assert not set(stdout + stderr) & {chr(code) for code in (*range(10), *range(11, 32), *range(127, 160))}
    if "json" in arguments and status != 2:
        json.loads(stdout)
    return status


Work = Callable[[], contextlib.AbstractContextManager[Path]]


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def test_the_release_is_clean_before_anything_is_done_to_it(
    release: dict[str, bytes], tmp_path: Path
) -> None:
    assert survives("inspect", put(tmp_path, release)) == 0


@hostile
@given(data=st.data(), form=forms, depth=st.sampled_from(("layout", "toc", "content", "content")))
def test_inspect_survives_damaged_files(
    release: dict[str, bytes], data: st.DataObject, form: str, depth: str
) -> None:
    files = dict(release)
    for path in data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=2, unique=True)):
        files[path] = data.draw(damaged_content(path, files[path]))
    with folder() as place:
        survives(
            "inspect", put(place, files), "--format", form, "--depth", depth, "-v" if form == "text" else "-q"
        )


@on_posix
@hostile
@given(
    data=st.data(),
    name=names(),
    form=forms,
    kind=st.sampled_from(("file", "folder", "link", "loop", "fifo", "rename")),
    target=st.sampled_from((b".", b"..", b"/", b"/dev/zero", b"/etc", b"\x1b[2J", b"x" * 300, b"../gfx942")),
)
def test_inspect_survives_names_and_kinds_of_files(
    release: dict[str, bytes], data: st.DataObject, name: bytes, form: str, kind: str, target: bytes
) -> None:
    neighbour = data.draw(st.sampled_from(sorted(release)))
    with folder() as place:
        put(place, release)
        beside = place / neighbour
        path = os.path.join(os.fsencode(beside.parent), name)
        if os.path.lexists(path):
            return
        if kind == "file":
            Path(os.fsdecode(path)).write_bytes(beside.read_bytes())
        elif kind == "folder":
            os.mkdir(path)
            put(Path(os.fsdecode(path)), {"gfx942/k.co": code_object("gfx942"), "x": b""})
        elif kind == "link":
            os.symlink(target, path)
        elif kind == "loop":
            os.symlink(name, path)
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            os.rename(beside, path)
        survives("inspect", place, "--format", form)


@hostile
@given(data=st.data(), command=st.sampled_from(("merge", "split", "wheel")))
def test_what_writes_survives_damaged_files_too(
    release: dict[str, bytes], data: st.DataObject, command: str
) -> None:
    files = dict(release)
    path = data.draw(st.sampled_from(sorted(files)))
    files[path] = data.draw(damaged_content(path, files[path]))
    options = ("--version", "1.0") if command == "wheel" else ()
    with folder() as place:
        shard = put(place / "gfx942", files)
        status = survives(command, shard, "-o", place / "out", *options)
        assert (place / "out").exists() == (status == 0)


POLICY = b"""\
require = ["rocke:gfx942"]
none_expected = ["gfx950"]
[severity]
lane-mixed = "error"
[[foreign]]
engine = "rocke"
keys = ["gfx942"]
reason = "x"
[[neutral]]
artifact = "blas"
component = "lib"
reason = "y"
[engines.hotswap]
opaque = true
reason = "z"
"""
SHARDS = b"""\
[[shard]]
name = "one"
path = "gfx942"
targets = ["gfx942"]
run = "17"
"""


@hostile
@given(text=damaged_bytes(POLICY))
def test_a_damaged_policy_is_one_line_or_none(release: dict[str, bytes], text: bytes) -> None:
    with folder() as place:
        (place / "policy.toml").write_bytes(text)
        survives(
            "inspect", put(place / "in", release), "--depth", "layout", "--policy", place / "policy.toml"
        )


@hostile
@given(text=damaged_bytes(SHARDS))
def test_a_damaged_shards_file_is_one_line_or_none(release: dict[str, bytes], text: bytes) -> None:
    with folder() as place:
        (place / "shards.toml").write_bytes(text)
        put(place / "gfx942", release)
        survives(
            "merge", "--shards", place / "shards.toml", "-o", place / "out", "--dry-run", "--depth", "layout"
        )


@pytest.fixture(scope="module")
def packed(release: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The release as one wheel, archives, a kpack and a manifest: file name -> bytes."""
    place = tmp_path_factory.mktemp("packed")
    shard = put(place / "in", release)
    assert survives("wheel", shard, "-o", place / "dist", "--version", "1.0") == 0
    for form in ("zst", "xz"):
        assert survives("merge", shard, "-o", place / form, "--archive", form) == 0
    found = [
        *(place / "dist").iterdir(),
        *(place / "zst").glob("*942*.zst"),
        *(place / "xz").glob("*942*.xz"),
    ]
    found += shard.rglob("*.kpack")
    found += shard.rglob("rocke_client*.json")
    return {path.name: path.read_bytes() for path in found}


@hostile
@given(data=st.data(), form=forms)
def test_inspect_survives_damaged_containers(
    packed: dict[str, bytes], data: st.DataObject, form: str
) -> None:
    name = data.draw(st.sampled_from(sorted(packed)))
    # Drawn before the disk is used: what goes wrong there must not look like another choice of hypothesis.
    content = data.draw(damaged_content(name, packed[name]))
    with folder() as place:
        path = place / name
        path.write_bytes(content)
        survives("inspect", path, "--format", form)


@on_posix
@pytest.mark.parametrize(
    "place",
    [
        "artifact_manifest.txt",
        f"{STAGE}/lib/hipdnn_plugins/engines/arch_content/rocke/gfx942/rocke_client_gfx942.kpack",
        f"{STAGE}/lib/hipdnn_plugins/engines/arch_content/rocke/gfx942/rocke_client_gfx942.json",
        f"{STAGE}/lib/hipdnn_plugins/engines/libhost.so",
    ],
)
def test_a_fifo_in_the_place_of_a_file_is_never_opened(
    release: dict[str, bytes], tmp_path: Path, place: str
) -> None:
    path = put(tmp_path, release) / "hipkernelprovider_lib_gfx942" / place
    path.unlink()
    os.mkfifo(path)
    done = call("inspect", tmp_path)  # which would wait for a writer
    assert done.returncode in (1, 2)
    assert "internal error" not in done.stderr


@on_posix
def test_a_fifo_that_is_named_as_an_input_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    done = call("inspect", tmp_path / "fifo")
    assert done.returncode == 2
    assert "fifo" in one_line(done.stderr)
