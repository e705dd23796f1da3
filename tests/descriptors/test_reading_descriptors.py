"""Reading descriptors: what the format allows, and what is said about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from kpacktools.descriptors.model import Descriptor, StageRules, name_of, read_descriptor
from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity


def read(tmp_path: Path, text: str) -> tuple[Descriptor | None, tuple[Finding, ...]]:
    path = tmp_path / "artifact-x.toml"
    path.write_text(text)
    return read_descriptor(str(path))


def messages(tmp_path: Path, text: str) -> list[str]:
    return [finding.message for finding in read(tmp_path, text)[1]]


def test_every_key_is_read(tmp_path: Path) -> None:
    descriptor, findings = read(
        tmp_path,
        """
        [components.lib."a/stage"]
        include = "one"
        exclude = ["two", "three"]
        force_include = ["four"]
        default_patterns = false
        optional = ["Windows", "linux"]
        [components.test]
        extends = "lib"
        [components.test."a/stage"]
        optional = true
        [options]
        unmatched_include = "five"
        unmatched_exclude = ["six"]
        """,
    )
    assert findings == ()
    assert descriptor is not None
    assert descriptor.components["lib"].stages["a/stage"] == StageRules(
        ("one",), ("two", "three"), ("four",), False, ("windows", "linux")
    )
    assert descriptor.components["test"].stages["a/stage"].optional is True
    assert descriptor.before("test") == {"lib"}
    assert (descriptor.unmatched_include, descriptor.unmatched_exclude) == (("five",), ("six",))


def test_an_empty_file_is_a_descriptor_of_nothing(tmp_path: Path) -> None:
    descriptor, findings = read(tmp_path, "")
    assert findings == ()
    assert descriptor is not None
    assert descriptor.stages() == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[component.lib."a"]', "unknown key 'component'; near: components"),
        ('[components.libs."a"]', "components: unknown key 'libs'; near: lib"),
        ('[components.lib."a"]\noptoinal = true', "unknown key 'optoinal'; near: optional"),
        ("[options]\nunmatched_excludes = []", "unknown key 'unmatched_excludes'; near: unmatched_exclude"),
        ('[components.lib."a"]\ninclude = 3', "include: expected string, found 3"),
        ('[components.lib."a"]\ndefault_patterns = "no"', 'default_patterns: expected boolean, found "no"'),
        ("[components.lib]\noptional = true", "components.lib.optional: expected object, found true"),
        ('[components.lib."a"]\noptional = "windos"', "unknown platform 'windos'; near: windows"),
        ('[components.test]\nextends = ["libs"]', "unknown component 'libs'; near: lib"),
        (
            '[components.lib]\nextends = ["dev"]',
            "components.lib.extends: leads in a circle: lib, run, dbg, dev",
        ),
        ('[components.lib."../a"]', "a stage directory is a plain path"),
        ('[components.lib."a"]\ninclude = "/lib/**"', "the pattern '/lib/**' can match nothing"),
        ('[components.lib."a"]\ninclude = "lib\\\\**"', "can match nothing"),
        ("[components.lib", "is not valid TOML: "),
    ],
)
def test_what_is_wrong_is_named_with_what_was_meant(tmp_path: Path, text: str, said: str) -> None:
    (message,) = messages(tmp_path, text)
    assert said in message


def test_a_pattern_that_can_match_nothing_is_a_warning(tmp_path: Path) -> None:
    (found,) = read(tmp_path, '[components.lib."a"]\ninclude = "./lib"')[1]
    assert found.severity is Severity.WARNING


def test_the_rest_of_a_faulty_descriptor_is_read(tmp_path: Path) -> None:
    descriptor, findings = read(tmp_path, '[components.lib."a"]\ninclude = [3, "lib"]\nunknown = 1')
    assert len(findings) == 2
    assert descriptor is not None
    assert descriptor.components["lib"].stages["a"].include == ("lib",)


def test_a_file_that_is_not_there_is_a_call_error(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="No such file"):
        read_descriptor(str(tmp_path / "artifact-x.toml"))


def test_a_file_without_an_artifacts_name_needs_a_map(tmp_path: Path) -> None:
    (tmp_path / "artifact.toml").write_text("")
    with pytest.raises(CallError, match="--map NAME="):
        read_descriptor(str(tmp_path / "artifact.toml"))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/artifact-core-hip.toml", "core-hip"),
        ("artifact_fftw3.toml", "fftw3"),
        ("artifact.toml", None),
        ("artifact-a_b.toml", None),
        ("other.toml", None),
    ],
)
def test_names_are_read_from_file_names(path: str, name: str | None) -> None:
    assert name_of(path) == name
