"""An AMDGPU ELF file: its header, its notes, its comment, its symbols, and all that is derived from them."""

from __future__ import annotations

from collections.abc import Iterator

from targets import say_one_line

import elfs
from kpacktools import codeobject
from kpacktools.codeobject import CodeObjectError


def run(data: bytes) -> None:
    head = codeobject.probe(data[: codeobject.HEAD_SIZE])
    codeobject.kind(data)
    try:
        code = codeobject.read(data)
    except CodeObjectError as error:
        say_one_line(error)
    else:
        assert code.header == head
        assert isinstance(code.tool, str)
        assert code.compiler_major is None or code.compiler_major >= 0
        assert code.target_id is None or isinstance(code.target_id, str)
        for kernel in code.kernels or ():
            assert len(kernel.explicit_args) <= len(kernel.args)
    try:
        codeobject.symbols(memoryview(data))
    except CodeObjectError as error:
        say_one_line(error)


def seeds() -> Iterator[bytes]:
    arguments = [elfs.argument(0, 8, "global_buffer"), elfs.argument(8, 4, "hidden_none")]
    notes = elfs.metadata(
        [elfs.kernel("k", arguments, vgpr_count=8)], target="amdgcn-amd-amdhsa--gfx942:xnack+"
    )
    comment = "AMD clang version 22.1.8 (x)\0Linker: AMD LLD 22.1.8\0"
    whole = elfs.code_object(notes, comment, ("k", "k.kd"))
    yield whole.build()
    yield elfs.code_object(notes, os_abi=64, abi_version=0).build()
    yield elfs.code_object(elfs.note(b"GNU\0", 3, b"id") + notes, header={"shnum": 0, "shstrndx": 0}).build()
    yield elfs.Elf([elfs.Section(".note", notes, elfs.NOTE)], machine=elfs.AMDGPU, os_abi=64).build()
    yield elfs.code_object().build()
