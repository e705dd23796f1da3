"""``topology check FILE --tree DIR``: a topology and what a release holds."""

from __future__ import annotations

from pathlib import Path

from topology_files import Checkout

from builders import code_object, only
from kpacktools.findings import Severity

STAGE = "s/stage"


def artifact(checkout: Checkout, name: str, *files: str) -> Path:
    """An artifact directory of the release, with small files below its stage directory."""
    tree = checkout.root / "release"
    folder = tree / name
    folder.mkdir(parents=True)
    (folder / "artifact_manifest.txt").write_text(f"{STAGE}\n")
    for path in files:
        file = folder / STAGE / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(code_object("gfx942"))
    return tree


def test_content_where_it_is_declared_has_no_findings(checkout: Checkout) -> None:
    artifact(checkout, "blas_lib_gfx942", "lib/rocblas/library/gfx942/a.co")
    tree = artifact(checkout, "hip_lib_generic", "lib/libhip.so")
    assert checkout.check(tree=tree).findings == ()


def test_target_content_in_a_neutral_artifact_is_an_error(checkout: Checkout) -> None:
    tree = artifact(checkout, "hip_lib_gfx942", "lib/rocblas/library/gfx942/a.co")
    report = checkout.check(tree=tree)
    found = only(report, "topology-disagrees")
    assert found.severity is Severity.ERROR
    assert "content of rocblas for gfx942 in hip" in found.message


def test_a_neutral_artifact_keyed_by_a_target_is_an_error(checkout: Checkout) -> None:
    found = only(
        checkout.check(tree=artifact(checkout, "hip_lib_gfx942", "lib/libhip.so")), "topology-disagrees"
    )
    assert found.severity is Severity.ERROR
    assert "is keyed by gfx942" in found.message


def test_a_specific_artifact_without_target_content_in_any_component_is_a_warning(checkout: Checkout) -> None:
    artifact(checkout, "blas_lib_generic", "lib/libblas.so")
    tree = artifact(checkout, "blas_dev_generic", "include/blas.h")
    found = only(checkout.check(tree=tree), "topology-disagrees")
    assert found.severity is Severity.WARNING
    assert "in any component of blas" in found.message


def test_target_content_in_one_component_is_enough(checkout: Checkout) -> None:
    artifact(checkout, "blas_lib_generic", "lib/libblas.so")
    tree = artifact(checkout, "blas_test_gfx942", ".kpack/blas_test_gfx942.kpack")
    assert checkout.check(tree=tree).findings == ()


def test_content_of_an_engine_that_is_not_named_is_a_warning(checkout: Checkout) -> None:
    tree = artifact(
        checkout, "blas_lib_gfx942", "lib/rocblas/library/gfx942/a.co", "lib/hipblaslt/library/gfx942/a.co"
    )
    found = only(checkout.check(tree=tree), "topology-disagrees")
    assert "does not name hipblaslt in artifacts.blas.split_databases" in found.message
    assert found.severity is Severity.WARNING


def test_hipkernelprovider_stands_for_all_of_arch_content(checkout: Checkout) -> None:
    checkout.replace('["rocblas"]', '["hipkernelprovider"]')
    tree = artifact(checkout, "blas_lib_gfx942", "lib/engines/arch_content/aiter/gfx942/a.co")
    assert checkout.check(tree=tree).findings == ()


def test_an_artifact_that_the_topology_lacks_is_a_warning(checkout: Checkout) -> None:
    found = only(checkout.check(tree=artifact(checkout, "bals_lib_generic", "a")), "topology-disagrees")
    assert "near: blas" in found.message
