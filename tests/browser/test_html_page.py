"""The HTML report in a real browser, opened from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from builders import Build, code_object
from kpacktools import commands
from kpacktools.findings import Finding, finding, sort_findings
from kpacktools.pipeline import Settings
from kpacktools.reports.html import as_html
from kpacktools.reports.kernellists import Container, KernelLists, KernelRow, kernel_lists
from kpacktools.reports.model import Report

pytestmark = pytest.mark.browser

Maker = Callable[..., Build]
Open = Callable[[str], Any]

FOUND = (
    finding("content-conflict", "lib/a.so", "two contents", "build both from one commit"),
    finding("content-conflict", "lib/b.so", "two contents"),
    finding("orphan-kernel", "x.kpack", "holds a stray kernel"),
    finding("fat-binary", "lib/c.so", "carries device code"),
)


NO_KERNELS = KernelLists((), ())


def page_of(found: Sequence[Finding] = (), kernels: KernelLists = NO_KERNELS) -> str:
    return as_html(Report("inspect", sort_findings(found)), kernels)


def many(count: int) -> KernelLists:
    """``count`` kernels in two archives, the keys in an order that sorting must change."""
    archives = tuple(
        Container(f"in/{target}.kpack", "rocke", (target,), count // 2, 1000, "none")
        for target in ("gfx942", "gfx950")
    )
    rows = (
        KernelRow(i % 2, f"ops/kernel_{i * 7919 % count:06d}", ("gfx942", "gfx950")[i % 2], i)
        for i in range(count)
    )
    return KernelLists(archives, tuple(rows))


def texts(browser: Any, selector: str) -> list[str]:
    """The texts of the elements that are in sight."""
    script = (
        "return [...document.querySelectorAll(arguments[0])]"
        ".filter((e) => e.checkVisibility()).map((e) => e.innerText)"
    )
    found: list[str] = browser.execute_script(script, selector)
    return found


def click(browser: Any, selector: str) -> None:
    browser.find_element("css selector", selector).click()


def settle(browser: Any) -> None:
    """Wait until the browser has drawn twice."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    )


def test_findings_are_filtered_by_severity_name_and_text(show: Open) -> None:
    browser = show(page_of(FOUND))
    assert texts(browser, "#findings .path") == ["lib/a.so", "lib/b.so", "x.kpack", "lib/c.so"]
    click(browser, "input[value=error]")
    assert texts(browser, "#findings .path") == ["x.kpack", "lib/c.so"]
    assert texts(browser, "#finding-count") == ["2 of 4 findings"]
    browser.find_element("id", "finding-name").send_keys("fat-binary")
    assert texts(browser, "#findings .path") == ["lib/c.so"]
    browser.find_element("id", "finding-search").send_keys("nowhere")
    assert texts(browser, "#findings .group") == []


def test_a_link_to_a_finding_shows_it_though_a_filter_hides_it(
    show: Open, build: Maker, settings: Settings
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"], archive=["a", "b"])
    report = commands.inspect([str(shard.root)], settings)
    browser = show(as_html(report, kernel_lists(report.bundles)))
    click(browser, "input[value=warning]")
    assert texts(browser, "#finding-0") == []
    click(browser, ".matrix td.warning a")
    settle(browser)
    assert len(texts(browser, "#finding-0")) == 1
    assert browser.switch_to.active_element.get_attribute("id") == "finding-0"


def test_names_that_look_like_markup_run_nothing(show: Open, build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    name = "<img src=x onerror=document.title=1><script>document.title=2<"
    shard.put(f"arch_content/{name}/gfx942/x.co", code_object("gfx942"))
    shard.put(f"arch_content/aiter/gfx942/{name}.co", code_object("gfx942"))
    report = commands.inspect([str(shard.root)], settings)
    browser = show(as_html(report, kernel_lists(report.bundles)))
    assert browser.title == "not ok - kpacktools inspect"
    assert any(name in text for text in texts(browser, "#findings .path"))
    assert texts(browser, "#kernel-rows td:first-child") == [f"{name}.co"]


def test_fifty_thousand_kernels_are_sorted_searched_and_scrolled(show: Open) -> None:
    browser = show(page_of(kernels=many(50_000)))
    assert browser.execute_script("return document.querySelectorAll('#kernel-rows tr').length") < 100
    assert texts(browser, "#kernel-rows td:first-child")[0] == "ops/kernel_000000"
    click(browser, "[data-column=size] button")
    assert texts(browser, "#kernel-rows td:last-child")[0] == "49,999"
    heading = browser.find_element("css selector", "[data-column=size]")
    assert heading.get_attribute("aria-sort") == "descending"
    click(browser, "[data-column=key] button")
    assert heading.get_attribute("aria-sort") == "none"
    browser.execute_script("document.getElementById('kernel-list').scrollTop = 1e9")
    settle(browser)
    assert texts(browser, "#kernel-rows td:first-child")[-1] == "ops/kernel_049999"
    browser.find_element("id", "kernel-search").send_keys("kernel_04000")
    assert texts(browser, "#kernel-count") == ["10 of 50,000 kernels"]


def test_the_rows_in_sight_keep_their_place_among_all(show: Open) -> None:
    browser = show(page_of(kernels=many(50_000)))
    browser.execute_script("document.getElementById('kernel-list').scrollTop = 28 * 20000")
    settle(browser)
    first = browser.find_element("css selector", "#kernel-rows tr:not(.gap)")
    place = int(first.get_attribute("aria-rowindex"))
    assert 19_900 < place <= 20_002
    assert first.find_elements("css selector", "td")[2].text == f"{place - 2:,}"
    table = browser.find_element("id", "kernel-table")
    assert table.get_attribute("aria-rowcount") == "50001"


def test_the_name_of_an_archive_shows_its_kernels(show: Open) -> None:
    browser = show(page_of(kernels=many(100)))
    click(browser, "th[data-container='1'] button")
    assert texts(browser, "#kernel-count") == ["50 of 100 kernels"]
    assert set(texts(browser, "#kernel-rows td:nth-child(2)")) == {"gfx950"}


def test_tables_are_sorted_by_keyboard(show: Open) -> None:
    from selenium.webdriver.common.keys import Keys

    browser = show(page_of(kernels=many(100)))
    browser.find_element("css selector", "table.sortable thead th:nth-child(3) button").send_keys(Keys.ENTER)
    browser.find_element("css selector", "table.sortable thead th:nth-child(3) button").send_keys(Keys.ENTER)
    assert texts(browser, "table.sortable tbody td:nth-child(3)") == ["gfx950", "gfx942"]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_never_wider_than_the_window(
    show: Open, build: Maker, settings: Settings, width: int
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"], archive=["a", "b"])
    shard.kernel_provider("gfx942")
    report = commands.inspect([str(shard.root)], settings)
    browser = show(as_html(report, kernel_lists(report.bundles)))
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_on_paper_every_finding_is_shown_whatever_the_filter(show: Open) -> None:
    browser = show(page_of(FOUND, many(100)))
    click(browser, "input[value=error]")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert len(texts(browser, "#findings .path")) == 4
        assert texts(browser, ".controls, nav, .list") == []
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground_in_light_and_dark(
    show: Open, build: Maker, settings: Settings, scheme: str
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"], archive=["a", "b"])
    shard.kernel_provider("gfx942")
    report = commands.inspect([str(shard.root)], settings, ["aiter:gfx942"])
    browser = show(as_html(report, kernel_lists(report.bundles)))
    preference = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", preference)
    try:
        for selector in (
            "body",
            "h1",
            ".matrix td.error b",
            ".matrix td.warning b",
            ".meaning",
            ".hint",
            "nav a",
        ):
            assert _contrast(browser, selector) >= 4.5, selector
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def _contrast(browser: Any, selector: str) -> float:
    """The contrast ratio of an element's text, after WCAG 2.2."""
    script = """
    const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
    let element = document.querySelector(arguments[0]);
    const text = numbers(getComputedStyle(element).color);
    let ground = numbers(getComputedStyle(element).backgroundColor);
    while (ground.length === 4 && ground[3] === 0) {
      element = element.parentElement;
      ground = numbers(getComputedStyle(element).backgroundColor);
    }
    return [text, ground];
    """
    text, ground = (_luminance(colour) for colour in browser.execute_script(script, selector))
    return (max(text, ground) + 0.05) / (min(text, ground) + 0.05)


def _luminance(colour: Sequence[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
