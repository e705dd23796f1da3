"""Prints the lowest versions that pyproject.toml allows, as constraints for pip::

python tests/lowest.py > lowest.txt
pip install -c lowest.txt . pytest hypothesis
"""

from __future__ import annotations

import sys
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def main() -> None:
    project = Path(__file__).resolve().parents[1] / "pyproject.toml"
    for text in tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]:
        requirement = Requirement(text)
        (lowest,) = [item.version for item in requirement.specifier if item.operator == ">="]
        print(f"{requirement.name}=={lowest}" + (f"; {requirement.marker}" if requirement.marker else ""))


if __name__ == "__main__":
    main()
