"""Which component takes which file."""

from __future__ import annotations

import sys

import pytest

from kpacktools.descriptors.capture import capture
from kpacktools.descriptors.model import parse_descriptor

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def taken(text: str, *paths: str) -> dict[str, tuple[str, ...]]:
    """File -> components, for a descriptor whose only stage directory is ``s``."""
    descriptor, findings = parse_descriptor(tomllib.loads(text), "x", "artifact-x.toml")
    assert findings == ()
    return dict(capture(descriptor, {"s": paths}).taken["s"])


ALL = "".join(f"[components.{name}.s]\n" for name in ("lib", "dbg", "dev", "doc"))


@pytest.mark.parametrize(
    ("path", "component"),
    [
        ("lib/a.so", "lib"),
        ("lib/a.so.1.2", "lib"),
        ("bin/a.dll", "lib"),
        ("lib/a.dylib", "lib"),
        (".build-id/ab/cd.debug", "dbg"),
        ("lib/a.a", "dev"),
        ("lib/a.lib", "dev"),
        ("lib/cmake/a/b.cmake", "dev"),
        ("include/a.h", "dev"),
        ("share/modulefiles/a", "dev"),
        ("lib/pkgconfig/a.pc", "dev"),
        ("share/doc/a/b.txt", "doc"),
        ("share/doc/include/b.txt", "dev"),
    ],
)
def test_components_have_patterns_of_their_own(path: str, component: str) -> None:
    assert taken(ALL, path) == {path: (component,)}


def test_files_without_a_pattern_are_left() -> None:
    assert taken(ALL, "bin/a", "share/a", "a.debug") == {}


def test_a_file_belongs_to_the_first_component_of_the_chain() -> None:
    text = '[components.test.s]\ninclude = "bin/**"\n[components.run.s]\ninclude = "bin/**"\n'
    assert taken(text, "bin/a") == {"bin/a": ("run",)}


def test_a_run_without_patterns_takes_all_that_lib_leaves() -> None:
    assert taken(ALL + "[components.run.s]\n", "lib/a.so", "include/a.h") == {
        "lib/a.so": ("lib",),
        "include/a.h": ("run",),
    }


def test_excludes_take_files_out_and_force_include_puts_them_back() -> None:
    text = '[components.lib.s]\nexclude = "lib/**"\nforce_include = "lib/b.so"\n'
    assert taken(text, "lib/a.so", "lib/b.so") == {"lib/b.so": ("lib",)}


def test_own_patterns_can_be_switched_off() -> None:
    text = '[components.lib.s]\ndefault_patterns = false\ninclude = "a"\n'
    assert taken(text, "a", "lib/a.so") == {"a": ("lib",)}


def test_split_archives_go_to_the_component_in_their_names() -> None:
    text = '[components.lib.s]\n[components.run.s]\ninclude = "bin/**"\n'
    paths = (".kpack/x_lib_gfx942.kpack", ".kpack/x_run_gfx942.kpack", ".kpack/y_lib_gfx942.kpack")
    assert taken(text, *paths) == {paths[0]: ("lib",), paths[1]: ("run",)}


def test_extends_replaces_the_chain() -> None:
    text = '[components.lib.s]\n[components.dev]\nextends = []\n[components.dev.s]\ninclude = "**/*.so"\n'
    assert taken(text, "lib/a.so") == {"lib/a.so": ("lib", "dev")}
