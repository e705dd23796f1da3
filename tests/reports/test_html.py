"""The HTML report: one page that needs nothing else and trusts nothing it shows."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from builders import Build, code_object, write_kpack
from kpacktools import commands
from kpacktools.cli import run
from kpacktools.findings import finding
from kpacktools.pipeline import Settings
from kpacktools.reports.html import as_html
from kpacktools.reports.kernellists import KernelLists, kernel_lists
from kpacktools.reports.model import Report

Maker = Callable[..., Build]
VOID = {"meta", "br", "input"}


class Outline(HTMLParser):
    """Elements with their attributes, ids and links; complains about what is left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def report(build: Maker, settings: Settings) -> Report:
    one, two = build("gfx942").host(), build("gfx1201").host()
    one.rocke("gfx942", ["a"], archive=["a", "b"])
    one.put("arch_content/aiter/gfx942/loose.co", code_object("gfx942"))
    two.rocke("gfx1201")
    return commands.inspect([str(one.root), str(two.root)], settings, ["aiter:gfx1201"])


def page_of(report: Report) -> str:
    return as_html(report, kernel_lists(report.bundles))


def embedded(page: str) -> Any:
    match = re.search(r'<script type="application/json" id="kernel-data">(.*?)</script>', page)
    assert match is not None
    return json.loads(match[1])


def test_the_page_is_well_formed_and_its_inner_links_lead_somewhere(report: Report) -> None:
    outline = Outline(page_of(report))
    assert outline.open == []
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    inner = [str(link["href"])[1:] for link in outline.all("a") if str(link["href"]).startswith("#")]
    assert inner
    assert set(inner) <= set(ids)


def test_the_page_loads_nothing(report: Report) -> None:
    outline = Outline(page_of(report))
    assert not {"link", "img", "iframe", "base"} & {tag for tag, _ in outline.elements}
    assert not any("src" in attributes or "style" in attributes for _, attributes in outline.elements)
    assert "://" not in page_of(report)


def test_the_policy_of_the_page_admits_its_own_style_and_script_only(report: Report) -> None:
    page = page_of(report)
    (policy,) = (str(m["content"]) for m in Outline(page).all("meta") if m.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        match = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert match is not None
        digest = base64.b64encode(hashlib.sha256(match[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_names_from_outside_stay_text(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    name = "<script>alert(1)<script>"
    shard.put(f"arch_content/{name}/gfx942/x.co", code_object("gfx942"))
    write_kpack(
        shard.engines / "arch_content/aiter/gfx942/x.kpack",
        {"</script><script>alert(2)</script>": code_object("gfx942")},
        "gfx942",
    )
    report = commands.inspect([str(shard.root)], settings)
    page = page_of(report)
    assert len(Outline(page).all("script")) == 2
    assert "&lt;script&gt;alert(1)&lt;script&gt;" in page
    assert embedded(page)["key"] == ["</script><script>alert(2)</script>"]


def test_bytes_that_are_no_text_and_control_characters_are_spelled_out(report: Report) -> None:
    odd = replace(report, findings=(finding("bad-path", "a\udcff\x1b\u202eb", "odd"),))
    page = page_of(odd)
    page.encode()
    assert "a\\xff\\x1b\\u202eb" in page


def test_the_same_report_gives_the_same_bytes(report: Report) -> None:
    assert page_of(report) == page_of(report)


def test_every_cell_says_how_it_stands_without_colour(report: Report) -> None:
    page = page_of(report)
    matrix = page[page.index('<table class="matrix">') :].partition("</table>")[0]
    assert re.findall(r'<td class="(\w+)">', matrix) == ["error", "ok", "ok", "warning"]
    assert matrix.count("nothing found") == 2
    assert "1 finding for rocke on gfx942: warning" in matrix
    assert "1 finding for aiter on gfx1201: required and missing" in matrix


def test_the_verdict_comes_first(report: Report) -> None:
    page = page_of(report)
    assert "<title>not ok - kpacktools inspect</title>" in page
    assert page.index("<h1") < page.index("<h2")


def test_findings_have_their_hints_and_links_to_their_documentation(report: Report) -> None:
    page = page_of(report)
    for name in ("coverage-gap", "orphan-kernel"):
        assert f'<a href="docs/findings.md#{name}">' in page
    assert all(item.message in page.replace("&#x27;", "'") for item in report.findings)
    elsewhere = as_html(report, KernelLists((), ()), findings_page="https://example.org/findings")
    assert '<a href="https://example.org/findings#coverage-gap">' in elsewhere


def test_a_report_of_nothing_is_a_page_too() -> None:
    page = as_html(Report("inspect", ()), KernelLists((), ()))
    assert Outline(page).open == []
    assert "Nothing was found." in page


def test_every_form_control_has_a_label(report: Report) -> None:
    page = page_of(report)
    labels = re.findall(r"<label>(.*?)</label>", page, re.DOTALL)
    controls = re.findall(r"<(?:select|input)\b", page)
    assert len(controls) == sum(len(re.findall(r"<(?:select|input)\b", label)) for label in labels)


def test_inspect_writes_the_page_where_it_is_told(report: Report, build: Maker, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    status = run(["inspect", str(build("gfx942").root), "--format", "html", "-o", str(file)])
    assert status == 0
    assert file.read_text("utf-8").startswith("<!DOCTYPE html>\n")
