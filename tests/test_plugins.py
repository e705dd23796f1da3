"""Plugins: loading, ordering, isolation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from builders import Build, names, only
from kpacktools import commands
from kpacktools.commands import inspect
from kpacktools.findings import Severity
from kpacktools.hookspecs import Bundle, Checked, Content, Handler, hookimpl
from kpacktools.pipeline import Settings
from kpacktools.plugins import Registry, load_registry

Maker = Callable[..., Build]


class Acme(Handler):
    name = "acme"
    engines = ("acme",)
    summary = "arch_content/acme/<target>/**"


@pytest.fixture
def plugin() -> Iterator[Callable[..., EntryPoint]]:
    """Makes an entry point of a module that provides the given handlers, or raises."""
    made: list[str] = []

    def make(name: str, *handlers: object, error: Exception | None = None) -> EntryPoint:
        module = ModuleType(f"plugin_{name}_{len(made)}")

        @hookimpl
        def kpacktools_handlers() -> list[object]:
            if error is not None:
                raise error
            return list(handlers)

        module.kpacktools_handlers = kpacktools_handlers  # type: ignore[attr-defined]
        sys.modules[module.__name__] = module
        made.append(module.__name__)
        return EntryPoint(name, module.__name__, "kpacktools")

    yield make
    for name in made:
        del sys.modules[name]


Plugin = Callable[..., EntryPoint]


def _use(monkeypatch: pytest.MonkeyPatch, registry: Registry) -> None:
    monkeypatch.setattr(commands, "load_registry", lambda: registry)


def test_built_in_handlers_come_through_the_hook() -> None:
    registry = load_registry([])
    assert {"aiter", "hip_kernel_provider", "rocke"} <= {item.handler.name for item in registry.registered}
    assert registry.findings == registry.broken == ()


def test_a_third_partys_engine_is_claimed(
    build: Maker, plugin: Plugin, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = build("gfx942")
    shard.put("arch_content/acme/gfx942/x.bin", "x")
    assert names(inspect([str(shard.root)], settings)) == {"unclaimed-target-content"}
    _use(monkeypatch, load_registry([plugin("acme", Acme())]))
    report = inspect([str(shard.root)], settings)
    assert report.ok
    assert report.bundles[0].bundle.engine == "acme"


def test_E2_a_plugin_that_fails_on_import_is_an_error_only_where_its_engine_is_present(
    build: Maker, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    _use(monkeypatch, load_registry([EntryPoint("acme", "no_such_module_anywhere", "kpacktools")]))
    without, present = build("gfx950").host(), build("gfx942").host()
    present.put("arch_content/acme/gfx942/x.bin", "x")
    report = inspect([str(without.root)], settings)
    assert only(report, "plugin-invalid").severity is Severity.WARNING
    assert "no_such_module_anywhere" in only(report, "plugin-invalid").message
    report = inspect([str(present.root)], settings)
    assert only(report, "plugin-invalid").severity is Severity.ERROR


@pytest.mark.parametrize(
    "answer", ["no handler", 3, None, type("Nameless", (Handler,), {"engines": ("x",)})()]
)
def test_a_plugin_that_breaks_the_contract_is_named(plugin: Plugin, answer: object) -> None:
    ((name, found),) = load_registry([plugin("odd", answer)]).broken
    assert name == "odd"
    assert "odd" in found.message


def test_a_plugin_whose_hook_raises_is_named(plugin: Plugin) -> None:
    registry = load_registry([plugin("angry", error=RuntimeError("no\nway")), plugin("acme", Acme())])
    known = [item.handler.name for item in registry.registered]
    assert known == sorted({*known, "acme", "rocke"})
    assert "RuntimeError: no way" in registry.broken[0][1].message


def test_E2_two_distributions_with_one_handler_name_are_both_named(plugin: Plugin) -> None:
    class Rocke(Handler):
        name = "rocke"
        engines = ("rocke2",)

    registry = load_registry([plugin("mine", Rocke())])
    (found,) = registry.findings
    assert (found.name, found.severity) == ("plugin-invalid", Severity.ERROR)
    assert len(found.sources) == 2
    assert any(source.startswith("kpacktools ") for source in found.sources)


def test_E2_two_handlers_that_claim_one_folder(
    build: Maker, plugin: Plugin, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Greedy(Handler):
        name = "greedy"
        engines = ("aiter",)

    _use(monkeypatch, load_registry([plugin("greedy", Greedy())]))
    shard = build("gfx942")
    shard.put("arch_content/aiter/gfx942/x.csv", "x")
    found = only(inspect([str(shard.root)], settings), "double-claim")
    assert "aiter" in found.message
    assert "greedy" in found.message
    assert len(found.sources) == 2


def test_a_handler_that_raises_leaves_its_bundle_refused(
    build: Maker, plugin: Plugin, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Broken(Acme):
        def check(self, bundle: Bundle, content: Content) -> Checked:
            raise ZeroDivisionError("oops")

    _use(monkeypatch, load_registry([plugin("acme", Broken())]))
    shard = build("gfx942")
    shard.put("arch_content/acme/gfx942/x.bin", "x")
    report = commands.merge([str(shard.root)], str(tmp_path / "out"), settings)
    assert "ZeroDivisionError: oops" in only(report, "plugin-invalid").message
    assert not (tmp_path / "out").exists()


def test_tracing_shows_hook_calls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KPACKTOOLS_TRACE_PLUGINS", "1")
    load_registry([])
    assert "kpacktools_handlers" in capsys.readouterr().err
