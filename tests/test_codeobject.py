"""What the first 64 bytes of a file tell about device code."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpacktools.codeobject import HEAD_SIZE, CodeObjectHeader, kind, probe

GFX942 = 0x4C


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
