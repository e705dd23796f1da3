"""Small trees and descriptors for the tests of descriptors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from kpacktools.descriptors.check import check
from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report

STAGE = "ml-libs/x/stage"


class Project:
    """A build tree and descriptors beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = root / "build"
        self.descriptors: list[str] = []

    def files(self, *paths: str, stage: str = STAGE) -> Project:
        """Empty files below a stage directory."""
        for path in paths:
            file = self.tree / stage / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
        return self

    def descriptor(self, text: str, name: str = "artifact-x.toml") -> Project:
        """A descriptor; ``STAGE`` in its text stands for the stage directory."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("STAGE", f'"{STAGE}"'))
        self.descriptors.append(str(path))
        return self

    def check(self, *mapped: str, platform: str = "linux", tree: Path | None = None) -> Report:
        return check(self.descriptors, str(tree or self.tree), Settings(), mapped=mapped, platform=platform)


def texts(report: Report, name: str) -> list[str]:
    """The messages of the findings of one name."""
    return [finding.message for finding in report.findings if finding.name == name]


def artifact_directory(root: Path, name: str, paths: Iterable[str], stages: Iterable[str] = (STAGE,)) -> Path:
    """An artifact directory ``root/name`` with empty files, given as paths with their stage prefix."""
    folder = root / name
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "artifact_manifest.txt").write_text("".join(f"{stage}\n" for stage in stages))
    return folder


MakeProject = Callable[[], Project]
