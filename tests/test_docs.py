"""The documentation says what is true: its links, commands, output, policies and JSON."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from console_blocks import REPOSITORY, blocks, commands, normalised, prepare, refreshed
from kpacktools.cli import COMMANDS
from kpacktools.cli import main as command_line
from kpacktools.findings import KINDS
from kpacktools.manifests import load_schema
from kpacktools.plugins import load_registry
from kpacktools.policy import load_policy
from kpacktools.targets import default_targets
from kpacktools.trees.shardsfile import read_shards_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *sorted(REPOSITORY.glob("docs/*.md"))]
SESSIONS = [
    page
    for page in (*PAGES, *sorted(REPOSITORY.glob("docs/findings.d/*.md")))
    if "```console tested" in page.read_text("utf-8")
]

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def spans(page: Path) -> list[str]:
    """The code spans of a page."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target


@every_page
def test_commands_parse(page: Path) -> None:
    for block in blocks(page.read_text("utf-8"), "console"):
        for command in commands(block.body):
            if command.startswith("kpacktools "):
                _parse(shlex.split(command)[1:])


def _parse(arguments: list[str]) -> None:
    """Parse arguments as click would before it calls the command. Raises :class:`click.UsageError`."""
    command: click.Command = command_line
    while isinstance(command, click.Group):
        name, *arguments = arguments
        inner = command.get_command(click.Context(command), name)
        assert inner is not None, name
        command = inner
    command.make_context(command.name, arguments)


def _options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _options(inner)


def _benchmark_options() -> set[str]:
    """The options of the scripts in benchmarks/, which pages name as they name those of commands."""
    texts = [path.read_text("utf-8") for path in REPOSITORY.glob("benchmarks/*.py")]
    return {option for text in texts for option in re.findall(r"add_argument\(\s*\"(--[a-z-]+)\"", text)}


@every_page
def test_no_page_names_a_command_or_option_that_is_not_there(page: Path) -> None:
    known = {"--help", *_options(command_line)}
    for span in spans(page):
        words = span.split()
        options = {word for word in words if re.fullmatch(r"--[a-z-]+", word)}
        if words[0] == "kpacktools":
            assert words[1:2] == [] or words[1].startswith("-") or words[1] in COMMANDS, span
            assert options <= known, span
        elif words[0].startswith("--"):
            assert options <= known | _benchmark_options(), span


@pytest.mark.skipif(sys.platform != "linux", reason="the sessions use GNU tools")
@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.stem)
def test_sessions_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    prepare(text, tmp_path)
    assert normalised(refreshed(text, tmp_path)) == normalised(text)


def _toml(page: Path) -> list[str]:
    return [block.body for block in blocks(page.read_text("utf-8"), "toml") if len(block.info) == 1]


@every_page
def test_policies_and_shards_files_load(page: Path, tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "topology/BUILD_TOPOLOGY.toml", tmp_path)  # which a policy may name
    for text in _toml(page):
        file = tmp_path / "example.toml"
        file.write_text(text)
        if "[[shard]]" in text:
            read_shards_file(str(file), default_targets())
        else:
            load_policy(str(file))


def _keys(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Every key that a schema knows by name, ``generic.artifact``."""
    for name, inner in schema.get("properties", {}).items():
        yield prefix + name
        yield from _keys(inner, f"{prefix}{name}.")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), Mapping):
            yield from _keys(schema[part], prefix)


def _shown(value: object, prefix: str = "") -> Iterator[str]:
    """The keys of an example, spelled alike."""
    for item in value if isinstance(value, list) else [value]:
        for name, inner in item.items() if isinstance(item, Mapping) else ():
            yield prefix + name
            yield from _shown(inner, f"{prefix}{name}.")


def test_every_key_of_the_policy_file_has_an_example() -> None:
    shown = {key for text in _toml(REPOSITORY / "docs/policy.md") for key in _shown(tomllib.loads(text))}
    # The tables whose keys are names of the project's own are skipped over by the schema's walk.
    shown |= {re.sub(r"^engines\.[^.]+\.", "engines.", key) for key in shown}
    assert set(_keys(load_schema("policy"))) <= shown


def test_json_examples_are_json_and_the_report_follows_its_schema() -> None:
    schema = json.loads(resources.files("kpacktools.reports").joinpath("report.schema.json").read_text())
    text = (REPOSITORY / "docs/json.md").read_text("utf-8")
    bodies = [block.body for block in blocks(text, "console")]
    documents = [json.loads(body[body.index("\n{") :]) for body in bodies if body.endswith("\n}\n")]
    assert [document["schema"] for document in documents] == ["kpacktools.report/v1", "kpacktools.kpack/v1"]
    Draft202012Validator(schema).validate(documents[0])


def test_every_json_document_that_is_printed_is_on_the_page_about_json() -> None:
    modules = [path.read_text("utf-8") for path in (REPOSITORY / "kpacktools").rglob("*.py")]
    names = {name for text in modules for name in re.findall(r"\"(kpacktools\.[a-z-]+/v\d+)\"", text)}
    assert names <= set(spans(REPOSITORY / "docs/json.md"))


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(docs/([\w.]+)\)", prose(REPOSITORY / "README.md")))
    assert {page.name for page in REPOSITORY.glob("docs/*.md")} == linked


def test_the_changelog_names_every_command() -> None:
    named = set(re.findall(r"`kpacktools (\w+)", (REPOSITORY / "CHANGELOG.md").read_text("utf-8")))
    assert named == set(COMMANDS)


@every_page
def test_links_to_findings_are_spelled_like_them(page: Path) -> None:
    for name, anchor in re.findall(r"\[`([^`]+)`\]\([\w.]*findings\.md#([\w-]+)\)", prose(page)):
        assert name == anchor
        assert name in KINDS


@pytest.mark.parametrize("name", ["findings.md", "policy.md"])
def test_no_page_names_a_finding_that_is_not_there(name: str) -> None:
    others = {"rocke-client", "zstd-per-kernel", "target-specific", "target-neutral", "code-objects"}
    words = {word for word in spans(REPOSITORY / "docs" / name) if re.fullmatch(r"[a-z]+(-[a-z]+)+", word)}
    assert words - others <= KINDS.keys()


def test_the_table_of_engines_is_that_of_the_handlers() -> None:
    text = (REPOSITORY / "docs/concepts.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w+) \| ([\w-]+) \| `(.*)` \|$", text, re.MULTILINE)
    assert rows == [(h.name, h.engine, h.summary) for h in load_registry([]).handlers]


def test_the_readme_lists_every_command_and_stays_short() -> None:
    text = (REPOSITORY / "README.md").read_text("utf-8")
    assert set(re.findall(r"^\| `kpacktools (\w+)", text, re.MULTILINE)) == set(COMMANDS)
    assert text.count("\n") <= 120


def test_the_readmes_test_command_is_what_ci_runs() -> None:
    text = (REPOSITORY / "README.md").read_text("utf-8")
    setup = [block.body.strip() for block in blocks(text, "sh")]
    assert setup == [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/kpacktools demo",
        "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/pytest",
    ]
    assert f"\n{setup[1]}\n" in (REPOSITORY / ".ci/run").read_text()


def test_paths_that_the_architecture_page_names_are_there() -> None:
    named = [
        span
        for span in spans(REPOSITORY / "docs/architecture.md")
        if re.fullmatch(r"[\w.]+(/[\w.-]+)+/?", span)
    ]
    assert len(named) > 20
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_the_architecture_page_has_a_row_for_every_module_and_package() -> None:
    named = set(spans(REPOSITORY / "docs/architecture.md"))
    package = REPOSITORY / "kpacktools"
    modules = {f"kpacktools/{path.name}" for path in package.glob("*.py") if not path.name.startswith("_")}
    packages = {f"kpacktools/{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert modules | packages <= named


def test_the_architecture_page_says_what_every_folder_of_tests_and_every_marker_is_for() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text("utf-8")
    markers = tomllib.loads(text)["tool"]["pytest"]["ini_options"]["markers"]
    wanted = {marker.partition(":")[0] for marker in markers}
    wanted |= {f"tests/{path.parent.name}/" for path in REPOSITORY.glob("tests/*/test_*.py")}
    assert wanted <= set(spans(REPOSITORY / "docs/architecture.md"))
