"""``topology check FILE --descriptors DIR``: a topology, descriptors, and CMake's word on whose they are."""

from __future__ import annotations

import pytest
from topology_files import Checkout

from builders import names, only
from kpacktools.errors import CallError
from kpacktools.findings import Severity

HIP = '[components.lib."core/hip/stage"]\n'
BLAS = '[components.lib."math/blas/stage"]\ninclude = "*/rocblas/library/**"\n'


@pytest.fixture
def described(checkout: Checkout) -> Checkout:
    return checkout.put("core/artifact-hip.toml", HIP).put("math/artifact-blas.toml", BLAS)


def test_descriptors_of_all_artifacts_have_no_findings(described: Checkout) -> None:
    assert described.check(descriptors=True).findings == ()


def test_descriptors_are_checked_too(described: Checkout) -> None:
    report = described.put("core/artifact-hip.toml", HIP + "inlcude = 'x'\n").check(descriptors=True)
    assert "near: include" in only(report, "descriptor-invalid").message


def test_an_artifact_without_a_descriptor_is_a_warning(described: Checkout) -> None:
    (described.root / "core/artifact-hip.toml").unlink()
    found = only(described.check(descriptors=True), "topology-disagrees")
    assert (found.message, found.severity) == ("artifacts.hip has no descriptor", Severity.WARNING)


def test_a_descriptor_of_no_artifact_asks_whose_it_is(described: Checkout) -> None:
    described.put("other/artifact-x.toml")
    found = only(described.check(descriptors=True), "topology-disagrees")
    assert found.severity is Severity.INFO
    assert "nothing else says which one it describes" in found.message
    assert "--map NAME=" in found.hint


def test_unmatched_descriptors_and_artifacts_are_infos_with_a_likely_match(described: Checkout) -> None:
    (described.root / "core/artifact-hip.toml").rename(described.root / "core/artifact-core-hip.toml")
    report = described.check(descriptors=True)
    assert {finding.severity for finding in report.findings} == {Severity.INFO}
    assert any("--map hip=" in finding.hint for finding in report.findings)
    assert any("the artifacts are hip" in finding.message for finding in report.findings)


@pytest.mark.parametrize("name", ["artifact.toml", "artifact-openhip.toml"])
def test_a_map_says_whose_a_descriptor_is(described: Checkout, name: str) -> None:
    (described.root / "core/artifact-hip.toml").rename(described.root / "core" / name)
    assert described.check(f"hip=ROOT/core/{name}").findings == ()


def test_a_map_to_an_artifact_that_is_not_there_is_an_error(described: Checkout) -> None:
    described.put("core/artifact.toml", HIP)
    report = described.check("hop=ROOT/core/artifact.toml")
    assert "near: hip" in only(report, "topology-disagrees").message
    assert not report.ok


CMAKE = """
therock_provide_artifact(hip TARGET_NEUTRAL DESCRIPTOR core/artifact-core-hip.toml COMPONENTS lib)
therock_provide_artifact(blas DESCRIPTOR math/artifact-blas.toml COMPONENTS lib)
"""


@pytest.fixture
def provided(described: Checkout) -> Checkout:
    (described.root / "core/artifact-hip.toml").rename(described.root / "core/artifact-core-hip.toml")
    return described.put("CMakeLists.txt", CMAKE)


def test_cmake_says_whose_a_descriptor_is(provided: Checkout) -> None:
    assert provided.check(descriptors=True).findings == ()


@pytest.mark.parametrize(
    ("old", "new", "severity", "said"),
    [
        ("artifact(blas", "artifact(blass", Severity.ERROR, "which {path} lacks; near: blas"),
        ("TARGET_NEUTRAL ", "", Severity.WARNING, "provides hip without TARGET_NEUTRAL"),
        ("blas DESC", "blas TARGET_NEUTRAL DESC", Severity.WARNING, "provides blas with TARGET_NEUTRAL"),
        ("artifact-blas.toml", "none.toml", Severity.ERROR, "none.toml, which is not there"),
        ("toml COMPONENTS lib)\n", "toml COMPONENTS dev)\n", Severity.WARNING, "without the components lib"),
        ("artifact-blas.toml", "${x}.toml", Severity.INFO, None),
    ],
)
def test_cmake_and_topology_must_agree(
    provided: Checkout, old: str, new: str, severity: Severity, said: str | None
) -> None:
    provided.put("CMakeLists.txt", CMAKE.replace(old, new, 1))
    found = provided.check(descriptors=True).findings
    if said is None:
        assert [f for f in found if f.severity is Severity.ERROR] == []
    else:
        expected = said.format(path=provided.path)
        assert [f.severity for f in found if expected in f.message] == [severity], found


def test_an_artifact_that_cmake_does_not_provide_is_a_warning(provided: Checkout) -> None:
    provided.put("CMakeLists.txt", CMAKE.strip().splitlines()[0])
    (provided.root / "math/artifact-blas.toml").unlink()
    found = only(provided.check(descriptors=True), "topology-disagrees")
    assert "no therock_provide_artifact call provides it" in found.message


def test_a_descriptor_that_cmake_does_not_name_is_a_warning(provided: Checkout) -> None:
    provided.put("old/artifact-old.toml")
    found = only(provided.check(descriptors=True), "topology-disagrees")
    assert found.severity is Severity.WARNING
    assert "no therock_provide_artifact call names it" in found.message


def test_a_handler_whose_content_no_pattern_takes_disagrees(described: Checkout) -> None:
    report = described.put("math/artifact-blas.toml", BLAS.replace("rocblas", "rocblsa")).check(
        descriptors=True
    )
    found = only(report, "topology-disagrees")
    assert found.severity is Severity.WARNING
    assert "takes nothing of what the handler rocblas splits" in found.message


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        ("rocblas", '[components.run."math/blas/stage"]\n'),
        ("rocke", '[components.lib."math/blas/stage"]\ninclude = "**/engines/arch_content/**"\n'),
        ("hipkernelprovider", '[components.lib."math/blas/stage"]\ninclude = "**/engines/arch_content/**"\n'),
        ("composablekernel", '[components.dev."math/blas/stage"]\n'),
        ("kpack", '[components.lib."math/blas/stage"]\n'),
    ],
)
def test_patterns_that_may_take_a_handlers_content_agree(
    described: Checkout, handler: str, text: str
) -> None:
    described.replace('["rocblas"]', f'["{handler}"]').put("math/artifact-blas.toml", text)
    assert described.check(descriptors=True).findings == ()


def test_engine_content_in_a_target_neutral_artifacts_patterns_disagrees(described: Checkout) -> None:
    described.put("core/artifact-hip.toml", HIP + 'include = "share/miopen/db/**"\n')
    found = only(described.check(descriptors=True), "topology-disagrees")
    assert "where miopen content lies" in found.message
    assert found.severity is Severity.WARNING


def test_a_map_needs_descriptors(checkout: Checkout) -> None:
    from kpacktools.cli.topology_command import command

    with pytest.raises(CallError, match="--descriptors"):
        command.main(["check", str(checkout.path), "--map", "x=y"], standalone_mode=False)


def test_starved_components_are_named(described: Checkout) -> None:
    text = HIP + '[components.run."core/hip/stage"]\n[components.dev."core/hip/stage"]\n'
    assert names(described.put("core/artifact-hip.toml", text).check(descriptors=True)) == {
        "descriptor-invalid"
    }
