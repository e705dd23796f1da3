"""What the first 64 bytes of a file tell about device code, and what whole code objects tell."""

from __future__ import annotations

import contextlib
import mmap
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elfs
from elfs import GFX942, argument, code_object, kernel, metadata, note
from kpacktools.codeobject import (
    HEAD_SIZE,
    CodeObject,
    CodeObjectError,
    CodeObjectHeader,
    KernelArgument,
    kind,
    probe,
    read,
    symbols,
)

EXAMPLES = Path(__file__).parents[1] / "examples"
COMPILED = next((EXAMPLES / "shards").rglob("row_sum_f32_b64.co")).read_bytes()
"""A code object that clang 22 made."""


def elf(
    flags: int = GFX942,
    *,
    abi_version: int = 4,
    os_abi: int = 64,
    machine: int = 224,
    bits: int = 2,
    order: int = 1,
) -> bytes:
    """An ELF header."""
    ident = struct.pack("<4s5B7x", b"\x7fELF", bits, order, 1, os_abi, abi_version)
    return ident + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, flags, 64, 56, 0, 64, 0, 0)


def test_processor_version_and_mach_are_told() -> None:
    assert probe(elf()) == CodeObjectHeader("gfx942", None, None, 6, GFX942)


@pytest.mark.parametrize(
    ("mach", "processor"),
    [(0x2F, "gfx906"), (0x3F, "gfx90a"), (0x4E, "gfx1201"), (0x51, "gfx9-generic"), (0x5F, "gfx9-4-generic")],
)
def test_processors_are_named_as_llvm_names_them(mach: int, processor: str) -> None:
    header = probe(elf(mach))
    assert header is not None
    assert header.processor == processor


def test_an_unknown_processor_is_still_a_code_object() -> None:
    header = probe(elf(0xFE))
    assert header == CodeObjectHeader(None, None, None, 6, 0xFE)
    assert header.target_id is None


@pytest.mark.parametrize(("abi_version", "version"), [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (9, None)])
def test_the_abi_version_gives_the_code_object_version(abi_version: int, version: int | None) -> None:
    header = probe(elf(abi_version=abi_version))
    assert header is not None
    assert header.version == version


@pytest.mark.parametrize("abi_version", [2, 3, 4])
@pytest.mark.parametrize(
    ("flags", "target_id"),
    [
        (0x000, "gfx942"),
        (0x100, "gfx942"),
        (0x200, "gfx942:xnack-"),
        (0x300, "gfx942:xnack+"),
        (0x400, "gfx942"),
        (0x800, "gfx942:sramecc-"),
        (0xC00, "gfx942:sramecc+"),
        (0xE00, "gfx942:sramecc+:xnack-"),
    ],
)
def test_features_since_version_4_are_any_off_or_on(abi_version: int, flags: int, target_id: str) -> None:
    header = probe(elf(GFX942 | flags, abi_version=abi_version))
    assert header is not None
    assert header.target_id == target_id


@pytest.mark.parametrize(
    ("flags", "target_id"),
    [
        (0x000, "gfx942"),
        (0x100, "gfx942:xnack+"),
        (0x200, "gfx942:sramecc+"),
        (0x300, "gfx942:sramecc+:xnack+"),
    ],
)
def test_features_of_version_3_are_a_bit_each(flags: int, target_id: str) -> None:
    header = probe(elf(GFX942 | flags, abi_version=1))
    assert header is not None
    assert header.target_id == target_id


def test_another_os_abi_is_a_code_object_of_no_version() -> None:
    assert probe(elf(os_abi=0)) == CodeObjectHeader("gfx942", None, None, None, GFX942)


@pytest.mark.parametrize(
    "head",
    [b"", elf()[:51], elf(machine=62), elf(bits=1), elf(order=2), b"\x7fELG" + elf()[4:]],
    ids=["empty", "cut", "x86-64", "32-bit", "big-endian", "no ELF"],
)
def test_other_files_are_none(head: bytes) -> None:
    assert probe(head) is None
    assert kind(head) is None


def test_kind_tells_archives_from_code_objects() -> None:
    assert kind(elf()) == "code-object"
    assert kind(b"KPAK" + bytes(60)) == "kpack"
    assert kind(b"KPA") is None


@settings(deadline=None)
@given(st.binary(max_size=HEAD_SIZE))
def test_any_bytes_end_well(head: bytes) -> None:
    assert kind(head) in {None, "kpack", "code-object"}
    probe(elf()[:18] + head)


def only_kernel(data: bytes) -> Any:
    kernels = read(data).kernels
    assert kernels is not None
    assert len(kernels) == 1
    return kernels[0]


def test_a_kernel_has_its_figures_and_arguments() -> None:
    args = [argument(0, 8, "global_buffer"), argument(8, 4, "by_value")]
    figures = {
        "group_segment_fixed_size": 4096, "private_segment_fixed_size": 16, "vgpr_count": 24, "sgpr_count": 12,
        "agpr_count": 8, "wavefront_size": 64, "kernarg_segment_size": 16,
    }  # fmt: skip
    found = only_kernel(code_object(metadata([kernel("saxpy", args, **figures)])).build())
    assert (found.name, found.symbol) == ("saxpy", "saxpy.kd")
    assert found.args == (KernelArgument(0, 8, "global_buffer"), KernelArgument(8, 4, "by_value"))
    assert {name: getattr(found, name) for name in figures} == figures


def test_figures_that_the_note_does_not_give_are_none() -> None:
    found = only_kernel(code_object(metadata([kernel()])).build())
    assert (found.args, found.vgpr_count, found.wavefront_size) == ((), None, None)


def test_explicit_arguments_leave_out_hidden_ones() -> None:
    args = [
        argument(0, 8, "global_buffer"),
        argument(8, 4, "hidden_block_count_x"),
        argument(12, 4, "hidden_none"),
    ]
    found = only_kernel(code_object(metadata([kernel(args=args)])).build())
    assert len(found.args) == 3
    assert found.explicit_args == found.args[:1]


@pytest.mark.parametrize(
    ("target", "target_id"),
    [
        ("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"),
        ("amdgcn-amd-amdhsa--gfx9-4-generic", "gfx9-4-generic"),
        ("amdgcn-amd-amdhsa-unknown-gfx90a", "gfx90a"),
    ],
)
def test_the_target_is_kept_and_its_id_told(target: str, target_id: str) -> None:
    found = read(code_object(metadata(target=target)).build())
    assert (found.target, found.target_id) == (target, target_id)


def test_no_kernels_are_not_the_same_as_unknown_kernels() -> None:
    assert read(code_object(metadata()).build()).kernels == ()
    assert read(code_object(note(b"AMD\0", 10, b"---\nKernels: []\n")).build()).kernels is None
    assert read(code_object().build()) == CodeObject(
        CodeObjectHeader("gfx942", None, None, 5, GFX942), None, None, ()
    )


def test_the_note_is_found_behind_others_and_without_section_headers() -> None:
    notes = note(b"GNU\0", 3, b"build id") + note(b"AMDGPU\0", 31, b"x") + metadata([kernel("k")])
    stripped = code_object(
        notes, "Linker: LLD 22.1.8", header={"shoff": 0, "shnum": 0, "shstrndx": 0}
    ).build()
    assert only_kernel(stripped).name == "k"
    assert read(stripped).comments == ()
    assert read(stripped).tool == "unknown"
    assert symbols(stripped) == frozenset()


def test_the_note_of_an_object_that_is_not_linked_is_found_by_its_section() -> None:
    linked = code_object(metadata([kernel("k")]))
    assert only_kernel(elfs.Elf(linked.sections, machine=elfs.AMDGPU, flags=GFX942).build()).name == "k"


CLANG = (
    "AMD clang version 19.0.0git (https://github.com/RadeonOpenCompute/llvm-project roc-6.4.1 25184 c87081df)"
)


@pytest.mark.parametrize(
    ("comment", "compiler", "linker", "tool", "major"),
    [
        ("Linker: AMD LLD 18.0.0", None, "LLD 18.0.0", "LLD 18.0.0", 18),
        ("Linker: LLD 17.0.0 (https://x/LLD 9.9 0b1c)", None, "LLD 17.0.0", "LLD 17.0.0", 17),
        (f"Linker: AMD LLD 20.0.0\0{CLANG}", "clang 19.0.0", "LLD 20.0.0", "clang 19.0.0", 19),
        ("Debian clang version 22.1.8 (1~deb12u1)", "clang 22.1.8", None, "clang 22.1.8", 22),
        ("clang version 22.1.8\0clang version 21.0.0", "clang 22.1.8", None, "clang 22.1.8", 22),
        ("GCC: (GNU) 13.2.0", None, None, "unknown", None),
        ("", None, None, "unknown", None),
    ],
)
def test_compiler_and_linker_are_named_without_their_vendor(
    comment: str, compiler: str | None, linker: str | None, tool: str, major: int | None
) -> None:
    found = read(code_object(comment=comment).build())
    assert found.comments == tuple(filter(None, comment.split("\0")))
    assert (found.compiler, found.linker, found.tool, found.compiler_major) == (compiler, linker, tool, major)


def test_symbols_are_those_of_every_table() -> None:
    built = code_object(symbols=["k", "k.kd"])
    names = elfs.Section(".dynstr", b"\0dynamic\0", elfs.STRTAB)
    table = elfs.Section(".dynsym", struct.pack("<I20x", 1), elfs.DYNSYM, ".dynstr")
    built.sections = [*built.sections, names, table]
    assert symbols(built.build()) == {"k", "k.kd", "dynamic"}


def test_views_and_memory_maps_are_read_like_bytes(tmp_path: Path) -> None:
    path = tmp_path / "kernel.co"
    path.write_bytes(COMPILED)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert read(mapped) == read(memoryview(COMPILED)) == read(COMPILED)
        assert symbols(mapped) == symbols(memoryview(COMPILED)) == symbols(COMPILED) >= {"row_sum_f32.kd"}


def raw_metadata(data: bytes) -> bytes:
    return code_object(note(b"AMDGPU\0", 32, data)).build()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no AMDGPU ELF header"),
        (elfs.Elf().build(), "no AMDGPU ELF header"),
        (COMPILED[:60], "ends after 60 bytes"),
        (COMPILED[:200], "program headers should be bytes 64..512, outside of its 200 bytes"),
        (COMPILED[:-1], "section headers should be bytes"),
        (code_object(metadata(), header={"phentsize": 57}).build(), "program headers have 57 bytes each"),
        (code_object(metadata(), header={"shentsize": 0}).build(), "section headers have 0 bytes each"),
        (code_object(metadata()[:-40]).build(), "notes are damaged: number 1 ends after"),
        (code_object(note(b"x\0", 1, b"") * 1025).build(), "notes are damaged: number 1025"),
        (raw_metadata(b"\xdf\xff\xff\xff\xff"), "metadata note is not as expected: Input data was truncated"),
        (raw_metadata(b"\x81\xaeamdhsa.kernels\x91\x80"), "Object missing required field `.name`"),
        (raw_metadata(b"\x81\xa1x" + b"\x91" * 100_000), "nested too deeply"),
        (raw_metadata(b"\x81\xa1\xff\x00\x00"), "metadata note is not as expected"),
        (code_object(metadata([kernel(vgpr_count=-1)])).build(), "Expected `int` >= 0"),
        (code_object(comment="x" * 65537).build(), r"\.comment has 65537 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_code_object_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CodeObjectError, match=message):
        read(data)


@pytest.mark.parametrize(
    ("table", "names", "message"),
    [
        (struct.pack("<I20x", 9), b"\0k\0", "name at byte 9 of its string table has no end"),
        (struct.pack("<I20x", 1), b"\0k", "name at byte 1"),
    ],
)
def test_symbols_without_a_name_are_refused(table: bytes, names: bytes, message: str) -> None:
    built = code_object()
    built.sections = [
        elfs.Section(".strtab", names, elfs.STRTAB),
        elfs.Section(".symtab", table, elfs.SYMTAB, ".strtab"),
    ]
    with pytest.raises(CodeObjectError, match=message):
        symbols(built.build())


def test_names_that_overlap_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    built = code_object(symbols=["k" * 900])
    built.sections[1].data = b"".join(struct.pack("<I20x", start) for start in range(1, 900))
    monkeypatch.setattr("kpacktools.codeobject._MAX_NAMES_SIZE", 100_000)
    with pytest.raises(CodeObjectError, match="names of its symbols take more than 100000 bytes"):
        symbols(built.build())


def read_both(data: bytes) -> None:
    for reader in (read, symbols):
        with contextlib.suppress(CodeObjectError):
            reader(data)


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_behind_the_magic_end_in_a_value_or_a_refusal(rest: bytes) -> None:
    read_both(COMPILED[:24] + rest)


@settings(deadline=None)
@given(st.integers(0, len(COMPILED) - 1), st.binary(min_size=1, max_size=8))
def test_any_change_of_a_compiled_object_ends_in_a_value_or_a_refusal(position: int, junk: bytes) -> None:
    read_both(COMPILED[:position] + junk + COMPILED[position + len(junk) :])


def test_any_cut_of_a_compiled_object_is_refused() -> None:
    for end in range(0, len(COMPILED), 7):
        with pytest.raises(CodeObjectError):
            read(COMPILED[:end])


def compile_row_sum(major: int, target: str, version: int, out: Path, *options: str) -> bytes:
    """The example kernel in OpenCL, compiled with one of several clangs."""
    clang, linker = shutil.which(f"clang-{major}"), shutil.which(f"ld.lld-{major}")
    if clang is None or linker is None:
        pytest.skip(f"there is no clang-{major} with its lld here")
    command = [clang, "-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", "-nogpulib", "-O2"]
    command += ["-DBLOCK=64", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}"]
    command += [f"-mcode-object-version={version}", "-o", str(out), *options]
    result = subprocess.run([*command, str(EXAMPLES / "kernels/row_sum.cl")], capture_output=True, text=True)
    if "file not found" in result.stderr:
        pytest.skip(f"clang-{major} is here without its OpenCL header")
    assert result.returncode == 0, result.stderr
    return out.read_bytes()


@pytest.mark.parametrize(
    ("major", "target", "version", "in_flags", "in_note"),
    [
        (16, "gfx900:xnack+", 2, "gfx900:xnack+", None),
        (16, "gfx90a:sramecc+:xnack-", 3, "gfx90a:sramecc+", None),
        (16, "gfx90a:sramecc+:xnack-", 4, "gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
        (16, "gfx1100", 5, "gfx1100", "gfx1100"),
        (19, "gfx942:sramecc+:xnack-", 4, "gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"),
        (19, "gfx942:xnack+", 5, "gfx942:xnack+", "gfx942:xnack+"),
        (19, "gfx9-generic:xnack-", 6, "gfx9-generic:xnack-", "gfx9-generic:xnack-"),
        (22, "gfx1201", 5, "gfx1201", "gfx1201"),
        (22, "gfx950", 6, "gfx950", "gfx950"),
        (22, "gfx9-4-generic", 6, "gfx9-4-generic", "gfx9-4-generic"),
    ],
)
def test_what_clang_compiled_is_read(
    major: int, target: str, version: int, in_flags: str, in_note: str | None, tmp_path: Path
) -> None:
    data = compile_row_sum(major, target, version, tmp_path / "kernel.co")
    code = read(data)
    assert (code.header.version, code.header.target_id, code.target_id) == (version, in_flags, in_note)
    assert code.compiler is not None
    assert code.linker is not None
    assert code.compiler.startswith(f"clang {major}.")
    assert code.linker.startswith(f"LLD {major}.")
    assert (code.tool, code.compiler_major) == (code.compiler, major)
    if version == 2:
        assert code.kernels is None
        assert "row_sum_f32" in symbols(data)
        return
    found = only_kernel(data)
    assert found.symbol in symbols(data)
    assert found.symbol == "row_sum_f32.kd"
    kinds = ("global_buffer", "global_buffer", "by_value", "by_value")
    arguments = [(arg.offset, arg.size, arg.value_kind) for arg in found.explicit_args]
    assert arguments == list(zip((0, 8, 16, 20), (8, 8, 4, 4), kinds, strict=True))
    assert found.wavefront_size == (32 if target.startswith("gfx1") else 64)
    assert found.vgpr_count > 0
    assert (found.group_segment_fixed_size, found.private_segment_fixed_size) == (0, 0)


@pytest.mark.parametrize("major", [16, 19, 22])
def test_hidden_arguments_of_clang_are_left_out(major: int, tmp_path: Path) -> None:
    found = only_kernel(
        compile_row_sum(major, "gfx942" if major > 16 else "gfx90a", 5, tmp_path / "k.co", "-O0")
    )
    assert len(found.args) > len(found.explicit_args) == 4
