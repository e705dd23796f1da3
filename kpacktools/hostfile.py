"""Host binaries: the little that merging must know of them."""

from __future__ import annotations

from typing import Final

from kpacktools.trees import Tree

__all__ = ["build_id_of"]

_ELF: Final = b"\x7fELF"


def build_id_of(tree: Tree, path: str) -> str | None:
    """The GNU build id of an ELF file in hexadecimal; None for any other file, and for one without or damaged."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import NoteSection

    try:
        with tree.open(path) as stream:
            if stream.read(len(_ELF)) != _ELF:
                return None
            stream.seek(0)
            for section in ELFFile(stream).iter_sections():
                if not isinstance(section, NoteSection):
                    continue
                for note in section.iter_notes():
                    if note["n_type"] == "NT_GNU_BUILD_ID":
                        return str(note["n_desc"])
    except (ELFError, OSError, ValueError, UnicodeDecodeError, KeyError):
        return None
    return None
