"""Host binaries that AMD's tools made, and AMD's loader on what they ask for."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

import msgspec
import pytest
from amd_runtime import WHEEL as ROCFFT
from amd_runtime import RuntimeRefusal, load
from real_wheels import fetch, once

from kpacktools.hostfile import HostBinary, Marker, build_id_of, expand, loader_targets, read_host
from kpacktools.kpack.writer import KpackWriter
from kpacktools.trees.directory import DirectoryTree, scan_directory

pytestmark = pytest.mark.real

JAX = "jax-rocm7-plugin==0.10.2"
MARKER = Marker("math-libs/rocFFT/stage/lib/librocfft.so.0.1", ("../.kpack/fft_lib_@GFXARCH@.kpack",))
NO_ARCHIVE = 13


def libraries(requirement: str, word: str) -> DirectoryTree:
    """The shared libraries of a wheel with a word in their names, in one folder."""

    def extract(folder: Path) -> None:
        with zipfile.ZipFile(fetch(requirement)) as wheel:
            for name in wheel.namelist():
                file = PurePosixPath(name).name
                if ".so" in file and word in file:
                    (folder / file).write_bytes(wheel.read(name))

    return scan_directory(str(once(f"{requirement}-{word}", extract)))


def read_all(tree: DirectoryTree) -> dict[str, HostBinary]:
    read = {entry.path: read_host(tree, entry.path) for entry in tree.folders[""]}
    return {path: binary for path, binary in read.items() if binary is not None}


def test_a_library_that_was_split_names_its_archives() -> None:
    (rocfft,) = read_all(libraries(ROCFFT, "librocfft")).values()
    assert rocfft.markers == (MARKER,)
    assert rocfft.code_objects == (0,)
    assert rocfft.fat == ()  # the section is there, without bits
    assert (rocfft.runpath, rocfft.soname) == (("$ORIGIN",), "librocfft-5e17f420.so.0.1")
    assert len(rocfft.needed) == 9
    assert rocfft.problems == ()


def test_fat_libraries_list_the_27_targets_they_carry() -> None:
    read = read_all(libraries(JAX, ".so"))
    assert all(binary.problems == () for binary in read.values())
    fat = {path: binary.fat for path, binary in read.items() if binary.fat}
    assert {path: [section.bundles for section in sections] for path, sections in fat.items()} == {
        "_linalg.so": [1],
        "_prng.so": [1],
        "_solver.so": [2],
    }
    assert {(len(section.targets), section.compressed) for (section,) in fat.values()} == {(27, True)}
    assert {"gfx90a", "gfx942", "gfx950", "gfx1201"} < set(fat["_solver.so"][0].targets)


@pytest.mark.parametrize(("requirement", "word"), [(ROCFFT, ".so"), (JAX, ".so")])
def test_a_general_reader_of_elf_agrees(requirement: str, word: str) -> None:
    elffile = pytest.importorskip("elftools.elf.elffile")
    tree = libraries(requirement, word)
    for path, binary in read_all(tree).items():
        with tree.open(path) as stream:
            file = elffile.ELFFile(stream)
            tags = list(file.get_section_by_name(".dynamic").iter_tags())
            needed = [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
            soname = [tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"]
            build_id = file.get_section_by_name(".note.gnu.build-id")
            build_ids = [note["n_desc"] for note in build_id.iter_notes()] if build_id else []
        assert list(binary.needed) == needed
        assert [name for name in [binary.soname] if name] == soname
        assert [text for text in [binary.build_id] if text] == build_ids
        assert build_id_of(tree, path) == binary.build_id


DEVICE = "gfx942:sramecc+:xnack-"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prefix with the folders ``lib`` and ``.kpack``, and a loader that is told of no other."""
    for name in ("ROCM_KPACK_PATH", "ROCM_KPACK_PATH_PREFIX", "ROCM_KPACK_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "lib").mkdir()
    (tmp_path / ".kpack").mkdir()
    return tmp_path


def archive(path: Path, target: str) -> Path:
    """An archive with the marker's code object for one target, which is its content too."""
    with path.open("wb") as stream, KpackWriter(stream, group_name="fft", gfx_arch_family="gfx942") as out:
        out.add(f"{MARKER.kernel_name}#0", target, target.encode())
    return path


def loaded(prefix: Path, search_path: str) -> str:
    document = {"kernel_name": MARKER.kernel_name, "kpack_search_paths": [search_path]}
    return load(prefix / "lib/librocfft.so.0", msgspec.msgpack.encode(document), 0, [DEVICE]).decode()


def test_amds_loader_tries_archives_in_our_order(install: Path) -> None:
    (search_path,) = MARKER.search_paths
    targets = loader_targets(DEVICE)
    paths = [install / "lib" / path for path in expand(search_path, DEVICE)]
    archives = [archive(path, target) for path, target in zip(paths, targets, strict=True)]
    picked = []
    for path in archives:
        picked.append(loaded(install, search_path))
        path.unlink()
    assert tuple(picked) == targets
    with pytest.raises(RuntimeRefusal) as refusal:
        loaded(install, search_path)
    assert refusal.value.code == NO_ARCHIVE


def test_amds_loader_fills_the_first_placeholder_only(install: Path) -> None:
    search_path = "../.kpack/@GFXARCH@_@GFXARCH@.kpack"
    last = expand(search_path, DEVICE)[-1]
    assert last == "../.kpack/gfx942_@GFXARCH@.kpack"
    archive(install / "lib" / last, "gfx942")
    assert loaded(install, search_path) == "gfx942"
