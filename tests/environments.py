"""Runs the tests in odd environments, one thing odd at a time: ``python tests/environments.py [NAME]... [-- WORD...]``

Without names it takes all of them that this machine can have; WORDs go to pytest, instead of the tests that need
neither real inputs nor a browser nor kill anything. The last lines say what became of each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
TESTS: Final = ("-m", "not real and not browser", "-k", "not atheris", "--ignore", "tests/faults")
ODD_PATH: Final = "odd päth \N{SNOWMAN}/kpacktools"
NOT_COPIED: Final = (".git", ".venv", ".*_cache", "__pycache__", ".hypothesis")


@dataclass(frozen=True)
class Environment:
    """What is odd."""

    variables: Mapping[str, str] = field(default_factory=dict)
    umask: int = -1
    """-1 for what it is."""
    user: str = ""
    """Who runs the tests, on a copy of their own."""
    group: str = ""
    path: str = ""
    """Where the repository is copied to, below a temporary folder."""


ENVIRONMENTS: Final[Mapping[str, Environment]] = {
    "hash-seed-1": Environment({"PYTHONHASHSEED": "1"}),
    "hash-seed-2": Environment({"PYTHONHASHSEED": "2"}),
    "locale-c": Environment({"LC_ALL": "C"}),
    "locale-turkish": Environment({"LC_ALL": "tr_TR.UTF-8"}),
    "kathmandu": Environment({"TZ": "Asia/Kathmandu"}),
    "umask-077": Environment(umask=0o077),
    "umask-000": Environment(umask=0o000),
    "path": Environment(path=ODD_PATH),
    "user": Environment(user="nobody", group="nogroup", path="kpacktools"),
    "all": Environment(
        {"PYTHONHASHSEED": "3", "LC_ALL": "C", "TZ": "Asia/Kathmandu", "COLUMNS": "37"},
        umask=0o077,
        path=ODD_PATH,
    ),
}


def main(arguments: Sequence[str]) -> int:
    words = list(arguments)
    tests = words[words.index("--") + 1 :] if "--" in words else list(TESTS)
    names = words[: words.index("--")] if "--" in words else words
    if unknown := set(names) - ENVIRONMENTS.keys():
        sys.exit(f"no such environment: {', '.join(unknown)}; known: {', '.join(ENVIRONMENTS)}")
    results = {name: _run(ENVIRONMENTS[name], tests) for name in names or ENVIRONMENTS}
    for name, result in results.items():
        print(f"{name}: {result}")
    return int(any(result.startswith("failed") for result in results.values()))


def _run(environment: Environment, tests: Sequence[str]) -> str:
    reason = _lacking(environment)
    if reason:
        return f"not run: {reason}"
    with tempfile.TemporaryDirectory(prefix="environment-") as place:
        os.chmod(place, 0o755)
        root = REPOSITORY
        if environment.path:
            root = Path(place) / environment.path
            shutil.copytree(REPOSITORY, root, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
        temporary = Path(place) / "tmp"
        temporary.mkdir()
        variables = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(temporary), **environment.variables}
        if environment.user:
            variables["HOME"] = str(temporary)
            _give(Path(place), environment.user)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            cwd=root,
            env=variables,
            umask=environment.umask,
            user=environment.user or None,
            group=environment.group or None,
            extra_groups=[] if environment.user else None,
            check=False,
        )
        _take_back(Path(place))
    return "passed" if done.returncode == 0 else f"failed, exit status {done.returncode}"


def _lacking(environment: Environment) -> str:
    """Why this machine cannot have an environment."""
    locale = environment.variables.get("LC_ALL", "C")
    check = f"import locale; locale.setlocale(locale.LC_ALL, {locale!r})"
    if subprocess.run([sys.executable, "-c", check], check=False, capture_output=True).returncode:
        return f"there is no locale {locale}"
    if not environment.user:
        return ""
    if os.name == "nt" or os.geteuid() != 0:
        return "only root can become another user"
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, user=environment.user, capture_output=True)
    except (OSError, LookupError, subprocess.CalledProcessError):
        return f"{environment.user} may not run {sys.executable}"
    return ""


def _give(place: Path, user: str) -> None:
    for path in (place, *place.rglob("*")):
        shutil.chown(path, user)


def _take_back(place: Path) -> None:
    """Make sure that everything can be removed."""
    for folder, _, _ in os.walk(place):
        os.chmod(folder, 0o700)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
