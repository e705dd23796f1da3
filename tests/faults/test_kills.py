"""Runs that are killed at any moment: each output is the old one or the new one, whole.

``KPACKTOOLS_KILLS=50`` kills each command 50 times, and not just often enough to meet each signal; ``-rP`` shows
what became of them.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_runs import REPOSITORY, SHARDS, STAGE, call, command_line, digest, entries, leftovers
from real_wheels import aiter_shards

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

LINKS = ("merge", "{shards}/*", "--link", "hardlink", "--jobs", "4")
COMMANDS: dict[str, tuple[str, ...]] = {
    "merge": ("merge", "{shards}/*"),
    "split": ("split", "{prefix}", "--artifact", "hipkernelprovider", "--stage", STAGE),
    "wheel": ("wheel", "{shards}/*", "--version", "7.15.0"),
    "archive": ("artifacts", "archive", "{merged}"),
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
KILLS = int(os.environ.get("KPACKTOOLS_KILLS", "0"))


@dataclass(frozen=True, slots=True)
class Inputs:
    """One set of inputs in every form that a command takes."""

    root: Path

    @classmethod
    def of(cls, shards: Path, root: Path) -> Inputs:
        """Shards, what they merge to, and the same as an install prefix."""
        shutil.copytree(shards, root / "shards")
        targets = sorted((root / "shards").iterdir())
        for out, option in (("merged", "--link=auto"), ("prefix", "--flatten")):
            assert call("merge", *targets, "-o", root / out, option).returncode == 0
        return cls(root)

    def words(self, command: str) -> list[str]:
        """A command's arguments without its output."""
        words: list[str] = []
        for word in COMMANDS[command]:
            if word.endswith("/*"):
                words += map(str, sorted((self.root / "shards").iterdir()))
            else:
                words.append(word.format(merged=self.root / "merged", prefix=self.root / "prefix"))
        return words


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs.of(SHARDS, tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """So many files that several processes link them."""
    root = tmp_path_factory.mktemp("many")
    artifact = root / "shards/gfx942/hipkernelprovider_lib_gfx942"
    for folder in range(9):
        place = artifact / STAGE / "lib/hipdnn_plugins/engines/arch_content/aiter/gfx942" / str(folder)
        place.mkdir(parents=True)
        for number in range(1024):
            (place / f"{number}.csv").write_bytes(b"")
    (artifact / "artifact_manifest.txt").write_text(f"{STAGE}\n")
    return Inputs(root)


@pytest.fixture(scope="module")
def aiter(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    shards = aiter_shards(tmp_path_factory.mktemp("aiter-shards"))
    return Inputs.of(shards, tmp_path_factory.mktemp("aiter"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_run_leaves_the_old_or_the_new_output(command: str, demo: Inputs, tmp_path: Path) -> None:
    print(command, kill_often(demo, command, KILLS or len(SIGNALS), tmp_path))


def test_a_killed_run_of_several_processes_leaves_the_old_or_the_new_output(
    many: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "links", LINKS)
    print("links", kill_often(many, "links", KILLS or len(SIGNALS), tmp_path))


@pytest.mark.real
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_run_on_real_code_objects_leaves_the_old_or_the_new_output(
    command: str, aiter: Inputs, tmp_path: Path
) -> None:
    print(command, kill_often(aiter, command, KILLS or 1, tmp_path))


def kill_often(inputs: Inputs, command: str, kills: int, tmp_path: Path) -> Counter[str]:
    """Kill a command again and again and look at what is left; says how often it was what."""
    words = inputs.words(command)
    place = tmp_path / "place"
    place.mkdir()
    out = place / "out"
    started = time.monotonic()
    with _start(words, out) as process:
        writing = _until_it_writes(process, place) - started
    assert process.returncode == 0
    lasted = time.monotonic() - started
    new = entries(out)
    stale = _make_stale(out, tmp_path / "stale")
    old = entries(stale)
    before = digest(inputs.root)

    figures: Counter[str] = Counter()
    for number in range(kills):
        send = SIGNALS[number % len(SIGNALS)]
        present = number % 2 == 1
        shutil.rmtree(out, ignore_errors=True)
        if present:
            shutil.copytree(stale, out, symlinks=True)
        process = _start(words, out)
        # One half of the kills come while outputs are written, which is a small part of a short run.
        if random.random() < 0.5:
            _until_it_writes(process, place)
            moment = random.uniform(0, lasted - writing)
        else:
            moment = random.uniform(0, lasted)
        time.sleep(moment)
        process.send_signal(send)
        _, stderr = process.communicate(timeout=60)
        told = f"{send.name} after {moment:.3f} s, {'old' if present else 'no'} output before: {stderr}"

        found = entries(out)
        left = leftovers(place, out)
        assert "internal error" not in stderr, told
        assert len(left) <= 1, told
        assert digest(inputs.root) == before, told
        if present:
            assert found.keys() == new.keys(), told
            assert all(found[name] in (old[name], new[name]) for name in found), told
        else:
            assert found in ({}, new), told
        figures[send.name] += 1
        figures["new" if found == new else "between entries" if set(found) and found != old else "old"] += 1
        figures["temporary folder left"] += len(left)

        done = call(*words, "-o", out, "--replace")
        assert done.returncode == 0, told + done.stderr
        assert entries(out) == new, told
        assert leftovers(place, out) == [], told
    return figures


def _start(words: list[str], out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_line(*words, "-o", out, "--replace"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )


def _until_it_writes(process: subprocess.Popen[str], place: Path) -> float:
    """Wait until a run has a temporary folder or is over; the time then."""
    while process.poll() is None and not leftovers(place, place / "out"):
        time.sleep(0.0005)
    return time.monotonic()


def _make_stale(out: Path, stale: Path) -> Path:
    """An older output: the same entries, each with something else in it."""
    shutil.copytree(out, stale, symlinks=True)
    for entry in stale.iterdir():
        file = entry / "stale" if entry.is_dir() else entry
        file.write_bytes(b"stale" + (file.read_bytes() if file.exists() else b""))
    return stale
