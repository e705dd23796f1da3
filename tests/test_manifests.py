"""Types of manifests against their schemas: what a type takes, its schema takes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import Build, code_object
from kpacktools import manifests
from kpacktools.commands import inspect
from kpacktools.hookspecs import Depth
from kpacktools.manifests import aot_catalog, hip_kernel_provider, rocke, typed
from kpacktools.pipeline import Settings

INSTANCE: dict[str, Any] = {
    "name": "k",
    "op": "gemm",
    "family": "wmma",
    "compile_spec": {"minimum_llvm_flavor": "llvm20", "tile": [1, 2]},
    "cache_key": "c",
    "toc_key": "rocke/gemm/wmma/k",
    "symbol": "s",
    "selection": {"arch": "gfx942"},
    "launch": {},
    "args_signature": [{"name": "x", "size_bytes": 8}, {}],
}
EARLIEST = {k: v for k, v in INSTANCE.items() if k not in ("name", "op", "family", "compile_spec")}
BUNDLE = {
    "schema": "rocke.aot.bundle/v1",
    "producer": "rocKE",
    "engine_build_id": "b1",
    "llvm_flavor": "llvm22",
    "arch": "gfx942",
    "kpack": "rocke_client_gfx942.kpack",
    "entries": [INSTANCE, EARLIEST],
}
PACKED = {
    "version": "1.0",
    "id": "k.ukd",
    "name": "k",
    "arch": ["gfx942"],
    "kernel_source": {
        "kind": "kpack",
        "library": "../kpack/a.kpack",
        "toc_key": "t",
        "symbol": "s",
        "sha256": "0a" * 32,
        "signature": [{"kind": "global_buffer", "size": 8, "offset": 0}],
    },
    "metadata": {"deep": {"er": [1.5, None]}},
    "priority": 1.5,
}
EMBEDDED = PACKED | {"kernel_source": {"kind": "embedded_source", "source_file": "k.hip", "entry_point": "k"}}
PACKAGE = {
    "version": "1.0",
    "id": "p.kdp",
    "name": "p",
    "arch": [],
    "matchers": ["m"],
    "engine": "e",
    "dispatch": "d",
    "kernelDescriptors": [PACKED, "other.ukd", EMBEDDED],
    "comment": "more is allowed",
}
PART = {"id": "m.umd", "version": "1.0", "name": "m", "more": [1]}
FAMILY = {
    "family": "f",
    "op_kind": "o",
    "arch": "gfx942",
    "dtype": "fp16",
    "kernels": [
        {
            "symbol": "s",
            "co_file": "s.co",
            "constraints": {},
            "grid": {"x": 1},
            "block": [256, 1, 1],
            "args_signature": [{"name": "x", "type": "ptr"}],
            "workspace_bytes": 0,
        },
        {"symbol": "s", "co_file": "t.co", "args_signature": []},
    ],
}
SIDECAR = {
    "schema": "rocke.aot.sidecar/v1",
    "cache_key": "c",
    "artifact": {"hsaco_filename": "k.hsaco", "symbol": "k", "hsaco_sha256": "0a" * 32, "hsaco_size": 8},
    "selection": {},
    "launch": {},
    "args_signature": [{"name": "x"}],
}
KINDS: dict[str, tuple[type, type, dict[str, Any]]] = {
    # schema: the type of a file, the type of what its schema accepted, an example
    "rocke.bundle": (rocke.BundleManifest, rocke.BundleManifest, BUNDLE),
    "hip_kernel_provider.ukd": (hip_kernel_provider.KernelFile, hip_kernel_provider.Kernel, PACKED),
    "hip_kernel_provider.kdp": (hip_kernel_provider.PackageFile, hip_kernel_provider.Package, PACKAGE),
    "hip_kernel_provider.part": (hip_kernel_provider.PartFile, hip_kernel_provider.Part, PART),
    "aot_catalog.family": (aot_catalog.Family, aot_catalog.Family, FAMILY),
    "rocke.sidecar": (rocke.Sidecar, rocke.Sidecar, SIDECAR),
}

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 8.0, 1.5, 10**30, -0.5]),
    st.sampled_from(["", "x", "kpack", "embedded_source", "hip", "1.0", "1.0\n", "v1", "0A" * 32, "0a" * 31 + "\n\n"]),
    st.sampled_from([[], {}, [1], ["x"], [{}], {"kind": "kpack"}, {"minimum_llvm_flavor": 3}]),
).map(copy.deepcopy)  # fmt: skip
REPLACEMENTS: tuple[Any, ...] = (None, 8.0, 8, -1, "", "x", "hip", [], {}, ["gfx950"], "gfx950", "0a" * 32)
KEYS = st.sampled_from(
    [
        "name",
        "op",
        "kind",
        "sha256",
        "arch",
        "kernel_source",
        "kernelDescriptors",
        "size",
        "block",
        "schema",
        "new",
    ]
)


def containers(document: Any) -> Iterator[Any]:
    """Each object and array of a document."""
    if isinstance(document, dict | list):
        yield document
        for item in document.values() if isinstance(document, dict) else document:
            yield from containers(item)


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, Any]:
    """A schema's name, and its example with up to three places changed."""
    name = draw(st.sampled_from(sorted(KINDS)))
    document = copy.deepcopy(KINDS[name][2])
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(list(containers(document))))
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "add" or not keys:
            if isinstance(place, dict):
                place[draw(KEYS)] = draw(VALUES)
            else:
                place.append(draw(VALUES))
        elif action == "remove":
            del place[draw(st.sampled_from(keys))]
        else:
            place[draw(st.sampled_from(keys))] = draw(VALUES)
    return name, document


def follows(name: str, document: Any) -> bool:
    """What the schemas say, of a package's inline kernels too."""
    if manifests.problems(name, document):
        return False
    inline = document["kernelDescriptors"] if name.endswith("kdp") else []
    return not any(manifests.problems("hip_kernel_provider.ukd", i) for i in inline if isinstance(i, dict))


@given(changed())
def test_what_a_type_takes_follows_the_schema(case: tuple[str, Any]) -> None:
    name, document = case
    if typed.decoded(json.dumps(document).encode(), KINDS[name][0]) is not None:
        assert follows(name, document)


@given(changed())
def test_what_follows_the_schema_fits_the_type(case: tuple[str, Any]) -> None:
    name, document = case
    if follows(name, document):
        assert isinstance(typed.fitted(document, KINDS[name][1]), KINDS[name][1])


@pytest.mark.parametrize("name", KINDS)
def test_a_manifest_as_producers_write_it_takes_the_fast_way(name: str) -> None:
    kind, _, document = KINDS[name]
    assert follows(name, document)
    assert isinstance(typed.decoded(json.dumps(document).encode(), kind), kind)


def test_a_manifest_that_is_accepted_says_the_same_either_way() -> None:
    data = json.dumps(PACKAGE).replace('"size": 8,', '"size": 8.0,').encode()
    package = {key: value for key, value in json.loads(data).items() if key != "comment"}
    assert typed.decoded(data, hip_kernel_provider.PackageFile) is None
    fast = typed.decoded(json.dumps(PACKAGE).encode(), hip_kernel_provider.PackageFile)
    slow = typed.fitted(package, hip_kernel_provider.Package)
    assert fast is not None
    assert (fast.inline(), fast.id, fast.arch) == (slow.inline(), slow.id, slow.arch)


def bundles_with_manifests(shard: Build) -> list[Path]:
    """One bundle of each engine that has manifests; the manifests."""
    shard.rocke("gfx942", ["k0", "k1"], archive=["k0", "k2"])
    provider = shard.kernel_provider("gfx942")
    kernel = PACKED | {"kernel_source": PACKED["kernel_source"] | {"library": "../kpack/none.kpack"}}
    (provider / "relu/other.ukd.json").write_text(json.dumps(kernel))
    shard.put("arch_content/aot_catalog/gfx942/f/family.json", json.dumps(FAMILY))
    shard.put("arch_content/aot_catalog/gfx942/f/s.co", code_object("gfx942"))
    shard.put("arch_content/rocke/gfx950/k.hsaco", code_object("gfx950"))
    shard.put("arch_content/rocke/gfx950/k.sidecar.json", json.dumps(SIDECAR))
    return sorted(shard.engines.rglob("*.json"))


@pytest.mark.parametrize("seed", range(24))
def test_a_report_does_not_depend_on_the_way_that_manifests_are_read(
    build: Callable[..., Build], settings: Settings, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    shard = build("gfx942", "gfx950")
    file = chance.choice(bundles_with_manifests(shard))
    document = json.loads(file.read_text())
    for _ in range(seed % 3):
        place = chance.choice(list(containers(document)))
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        if keys:
            place[chance.choice(keys)] = copy.deepcopy(chance.choice(REPLACEMENTS))
    file.write_text(json.dumps(document))

    deep = replace(settings, depth=Depth.CONTENT)
    fast = inspect([str(shard.root)], deep)
    monkeypatch.setattr(typed, "decoded", lambda data, kind: None)
    slow = inspect([str(shard.root)], deep)
    assert fast.findings == slow.findings
    assert [item.kernels for item in fast.bundles] == [item.kernels for item in slow.bundles]
    assert {item.name for item in fast.findings}


@pytest.mark.parametrize(
    "data",
    [
        b'{"launch": {"a": "\xff"}}',
        b'{"launch": {"\xed\xa0\x80": 1}}',
        b'{"launch": {"a": "\\ud800"}}',
        b'{"launch": {"a": 01}}',
        b'{"launch": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    ],
    ids=["no UTF-8", "an encoded surrogate", "half a pair", "an octal number", "nested too deep"],
)
def test_what_a_type_skips_has_to_be_json(data: bytes) -> None:
    document = json.dumps(BUNDLE).encode()
    broken = document.replace(b'"launch": {}', data[1:-1])
    assert broken != document
    assert typed.decoded(document, rocke.BundleManifest) is not None
    assert typed.decoded(broken, rocke.BundleManifest) is None


@pytest.mark.parametrize("field", ["name", "op", "family", "compile_spec"])
def test_an_entry_has_all_or_none_of_what_the_earliest_form_lacks(field: str) -> None:
    entry = {key: value for key, value in INSTANCE.items() if key != field}
    data = json.dumps(BUNDLE | {"entries": [EARLIEST, entry]}).encode()
    assert typed.decoded(data, rocke.BundleManifest) is None


def test_of_a_property_that_is_there_twice_each_has_to_be_right() -> None:
    data = json.dumps(PACKED).encode().replace(b'"kind": "kpack"', b'"kind": "kpack", "kind": "hip"')
    assert typed.decoded(data, hip_kernel_provider.KernelFile) is None


def test_a_document_that_the_deciding_validator_refuses_is_never_accepted() -> None:
    (problem,) = manifests.problems("hip_kernel_provider.ukd", PACKED | {"version": "1.0\n"})
    assert problem.path == "$"
