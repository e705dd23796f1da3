"""Which artifact a descriptor describes: the user says, CMake says, or its name does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kpacktools.descriptors.discovery import Found, find_descriptors, parse_map, provided_artifacts
from kpacktools.errors import CallError


def found(tmp_path: Path, files: dict[str, str], *mapped: str) -> Found:
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return find_descriptors(str(tmp_path), parse_map(m.replace("ROOT", str(tmp_path)) for m in mapped))


def described(result: Found, tmp_path: Path) -> dict[str, tuple[str, ...]]:
    return {str(Path(path).relative_to(tmp_path)): names for path, names in result.artifacts.items()}


def test_names_of_files_say_it(tmp_path: Path) -> None:
    result = found(
        tmp_path, {"a/artifact-x.toml": "", "artifact.toml": "", "a/other.toml": "", ".git/artifact.toml": ""}
    )
    assert described(result, tmp_path) == {"a/artifact-x.toml": ("x",), "artifact.toml": ()}


def test_cmake_goes_before_the_name_and_the_user_before_cmake(tmp_path: Path) -> None:
    calls = (
        f"therock_provide_artifact({n} DESCRIPTOR artifact-{f}.toml)" for n, f in (("one", "a"), ("two", "b"))
    )
    cmake = "\n".join(calls)
    files = {"CMakeLists.txt": cmake, "artifact-a.toml": "", "artifact-b.toml": ""}
    result = found(tmp_path, files, "three=ROOT/artifact-b.toml")
    assert described(result, tmp_path) == {"artifact-a.toml": ("one",), "artifact-b.toml": ("three",)}


def test_a_call_is_read_as_cmake_does(tmp_path: Path) -> None:
    path = tmp_path / "CMakeLists.txt"
    path.write_text(
        """
        function(therock_provide_artifact slice_name)  # the definition is no call
        endfunction()
        # therock_provide_artifact(commented)
        if(THEROCK_ENABLE_X)
          therock_provide_artifact(x
            TARGET_NEUTRAL  # host only
            DESCRIPTOR "${CMAKE_CURRENT_SOURCE_DIR}/sub/artifact.toml"
            COMPONENTS dbg dev
              lib
            SUBPROJECT_DEPS ${_names}
          )
        endif()
        therock_provide_artifact(y COMPONENTS lib)
        therock_provide_artifact(${name} COMPONENTS lib)
        """
    )
    x, y = provided_artifacts(str(path))
    assert (x.artifact, x.descriptor) == ("x", str(tmp_path / "sub/artifact.toml"))
    assert (x.components, x.target_neutral) == (("dbg", "dev", "lib"), True)
    assert (y.artifact, y.descriptor, y.target_neutral) == ("y", str(tmp_path / "artifact.toml"), False)


@pytest.mark.parametrize("pair", ["x", "=a.toml", "x=", "a_b=artifact.toml", "x=none.toml"])
def test_a_map_must_be_one(tmp_path: Path, pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "artifact.toml").write_text("")
    with pytest.raises(CallError, match="--map"):
        parse_map([pair])


def test_a_descriptor_cannot_be_mapped_twice(tmp_path: Path) -> None:
    file = tmp_path / "artifact.toml"
    file.write_text("")
    with pytest.raises(CallError, match="is already that of x"):
        parse_map([f"x={file}", f"y={file}"])


def test_a_folder_is_needed(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="expected a folder"):
        find_descriptors(str(tmp_path / "none"), {})
