"""The workloads: which races are run on which input, and what they have to show."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiter import make_aiter
from inputs import STAGE, W3_FILES, make_prefix, shards_of
from peers import artifact_flatten, bdist_wheel, wheel_pack
from race import BenchmarkError, Contender, Race, Result, Role, Track, Verdict, by_name

__all__ = ["WORKLOADS", "Finished", "Setting", "Workload", "make_input", "run_startup"]

HERE: Final = Path(__file__).resolve().parent
MEMORY_LIMIT: Final = 200.0
"""MB (10^6 bytes)."""
STORE, DEFLATE = "read, hash, store", "read, hash, deflate"
HARD_LINKS, COPIES = "cp -rl", "cp -r"
TOCS, MANIFESTS, KERNELS = "decode TOCs", "decode TOCs and manifests", "zstd + sha256, all cores"
OURS, START = "kpacktools", "the same, almost empty"

Command = Callable[[Path], Sequence[str | Path]]
Judge = Callable[[Mapping[str, Result]], Iterator[Verdict]]
"""From results by name to what they show."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A race that was run, and its verdicts."""

    race: Race
    results: tuple[Result, ...]
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """What a workload is run with."""

    track: Track
    start: Path
    """An almost empty input: what a command costs on it is its start-up."""
    quick: bool = False
    aiter: Path | None = None

    def make(self, name: str) -> Path:
        """Make the input of a workload."""
        return make_input(self.track, name, quick=self.quick)

    def finish(self, race: Race, judge: Judge) -> Finished:
        """Run a race and judge it."""
        results = self.track.run(race)
        return Finished(race, tuple(results), tuple(judge(by_name(results))))


@dataclass(frozen=True, slots=True)
class Workload:
    """One input and all that is run on it."""

    name: str
    text: str
    room: int
    """MB that its input and one run's outputs take."""
    run: Callable[[Setting], Iterator[Finished]]


def make_input(track: Track, name: str, *, quick: bool = False) -> Path:
    """Make an input in a process of its own: the measured ones inherit this process's peak memory.

    Raises :class:`~race.BenchmarkError`.
    """
    root = track.root / name
    track.tell(f"{name}: making its input")
    command = [sys.executable, str(HERE / "inputs.py"), name, str(root)]
    if subprocess.run([*command, *(["--quick"] if quick else [])], check=False).returncode != 0:
        raise BenchmarkError(f"the input of {name} could not be made")
    return root


def kpacktools(*arguments: str | Path, role: Role = "kpacktools", name: str = OURS) -> Contender:
    """A command of kpacktools; its output is ``out`` in the fresh folder."""

    def command(folder: Path) -> Sequence[str | Path]:
        output: list[str | Path] = [] if arguments[0] in _READING else ["-o", folder / "out"]
        return [sys.executable, "-m", "kpacktools", *arguments, *output]

    return Contender(name, role, command)


_READING = ("inspect", "handlers", "--help")


def cp(name: str, trees: Sequence[Path]) -> Contender:
    return Contender(name, "floor", lambda folder: [*name.split(), *trees, folder])


def floor(name: str, job: str, *arguments: Path, writes: bool = False) -> Contender:
    """A program of :mod:`floors`."""

    def command(folder: Path) -> Sequence[str | Path]:
        return [sys.executable, HERE / "floors.py", job, *([folder] if writes else []), *arguments]

    return Contender(name, "floor", command)


def artifacts_of(root: Path) -> list[Path]:
    return sorted((root / "shards").glob("*/*"))


def stages_of(root: Path) -> list[Path]:
    return [artifact / STAGE for artifact in artifacts_of(root)]


# Races.


def wheel_race(
    name: str,
    root: Path,
    projects: Path | None,
    *,
    once: bool = False,
    start: Path | None = None,
    compressible: bool = False,
) -> Race:
    """Device wheels of all shards; with ``projects``, a new folder, peers take part; with ``start``, start-up too."""
    contenders = [
        kpacktools("wheel", *shards_of(root), "--version", "1.0"),
        floor(STORE, "store", *stages_of(root), writes=True),
    ]
    if compressible:
        contenders += [floor(DEFLATE, "deflate", *stages_of(root), writes=True)]
    if start is not None:
        contenders += [
            kpacktools("wheel", *shards_of(start), "--version", "1.0", role="start-up", name=START)
        ]
    if projects is not None:
        contenders += [bdist_wheel(stages_of(root), projects / "setuptools")]
        contenders += [wheel_pack(stages_of(root), projects / "wheel")]
    return Race(f"{name} wheel", contenders, once=once)


def merge_race(name: str, root: Path, start: Path, link: str, *, peers: bool = False) -> Race:
    hard = link == "hardlink"
    contenders = [
        kpacktools("merge", *shards_of(root), "--link", link),
        kpacktools("merge", *shards_of(start), "--link", link, role="start-up", name=START),
        cp(HARD_LINKS if hard else COPIES, shards_of(root)),
    ]
    if peers:
        contenders.append(artifact_flatten(artifacts_of(root)))
    return Race(f"{name} merge, {_named(link)}", contenders)


def split_race(name: str, root: Path, start: Path, link: str) -> Race:
    contenders = [
        kpacktools("split", root / "prefix", "--link", link),
        kpacktools("split", start / "prefix", "--link", link, role="start-up", name=START),
        cp(HARD_LINKS if link == "hardlink" else COPIES, [root / "prefix"]),
    ]
    return Race(f"{name} split, {_named(link)}", contenders)


def _named(link: str) -> str:
    return {"hardlink": "hard links", "auto": "copies (auto)", "copy": "copies"}[link]


def inspect_race(
    name: str, root: Path, depth: str, *floors: Contender, once: bool = False, start: Path | None = None
) -> Race:
    contenders = [kpacktools("inspect", root / "shards", "--depth", depth), *floors]
    if start is not None:
        contenders += [kpacktools("inspect", start / "shards", "--depth", depth, role="start-up", name=START)]
    return Race(f"{name} inspect, {depth}", contenders, once=once)


# Verdicts.


def no_verdict(results: Mapping[str, Result]) -> Iterator[Verdict]:
    """For rows that nothing is asked of."""
    return iter(())


def memory(results: Mapping[str, Result]) -> Iterator[Verdict]:
    """At most 200 MB."""
    yield Verdict("peak memory, MB", results[OURS].memory / 1e6, MEMORY_LIMIT)


def apart(results: Mapping[str, Result]) -> float:
    """kpacktools' seconds without those of its start-up; noise must not make it nothing."""
    return max(results[OURS].wall - results[START].wall, 1e-3)


def linked(times: float, seconds: float = 0.0) -> Judge:
    """At most ``times`` the time of cp and ``seconds`` more, start-up apart."""

    def judge(results: Mapping[str, Result]) -> Iterator[Verdict]:
        cost = results[HARD_LINKS if HARD_LINKS in results else COPIES]
        more = f" + {seconds:g} s" if seconds else ""
        limit = times + seconds / cost.wall
        yield Verdict(f"{cost.name} x {times:g}{more}, start-up apart", apart(results) / cost.wall, limit)

    return judge


def near_floor(floor_name: str, times: float) -> Judge:
    """At most ``times`` the floor, with start-up and apart from it: small inputs are mostly start-up."""

    def judge(results: Mapping[str, Result]) -> Iterator[Verdict]:
        cost = results[floor_name].wall
        yield Verdict(f"{floor_name} x {times:g}", results[OURS].wall / cost, times)
        yield Verdict(f"{floor_name} x {times:g}, start-up apart", apart(results) / cost, times)

    return judge


def faster_than_setuptools(results: Mapping[str, Result], times: float) -> Iterator[Verdict]:
    peer = results.get("setuptools bdist_wheel")
    if peer is not None:
        yield Verdict("times faster than bdist_wheel", peer.wall / results[OURS].wall, times, at_least=True)


# Workloads.


def run_startup(setting: Setting) -> Finished:
    """The commands on an almost empty input, and what the bare command line costs."""
    start = setting.start
    commands = {
        "merge": kpacktools("merge", *shards_of(start), "--link", "hardlink"),
        "split": kpacktools("split", start / "prefix", "--link", "hardlink"),
        "wheel": kpacktools("wheel", *shards_of(start), "--version", "1.0"),
        "inspect": kpacktools("inspect", start / "shards"),
        "--help": kpacktools("--help"),
        "handlers": kpacktools("handlers"),
    }
    click, empty = "python -c 'import click'", "python -c ''"
    contenders = [
        *(Contender(f"kpacktools {name}", "kpacktools", c.command) for name, c in commands.items()),
        Contender(click, "floor", lambda folder: [sys.executable, "-c", "import click"]),
        Contender(empty, "floor", lambda folder: [sys.executable, "-c", ""]),
    ]

    def judge(results: Mapping[str, Result]) -> Iterator[Verdict]:
        for command, times in (("--help", 2), ("handlers", 3)):
            value = results[f"kpacktools {command}"].wall / results[click].wall
            yield Verdict(f"kpacktools {command}: {click} x {times}", value, times)

    return setting.finish(Race("start-up", contenders, warm=True), judge)


def run_w1(setting: Setting) -> Iterator[Finished]:
    """Large archives and many descriptors."""
    root = setting.make("W1")

    def judge(results: Mapping[str, Result]) -> Iterator[Verdict]:
        yield from near_floor(STORE, 1)(results)
        yield from faster_than_setuptools(results, 10)

    race = wheel_race("W1", root, setting.track.root / "W1-projects", start=setting.start)
    yield setting.finish(race, judge)
    yield from _folders("W1", root, setting)


def run_w2(setting: Setting) -> Iterator[Finished]:
    """AITER's code objects."""
    root = setting.track.root / "W2"
    setting.track.tell("W2: making its input")
    make_aiter(setting.aiter, root)
    make_prefix(root)

    def judge(results: Mapping[str, Result]) -> Iterator[Verdict]:
        yield from faster_than_setuptools(results, 6)
        peer = results.get("setuptools bdist_wheel")
        if peer is not None:
            yield Verdict("size of bdist_wheel's, MB", results[OURS].size / 1e6, peer.size / 1e6)

    projects = setting.track.root / "W2-projects"
    race = wheel_race("W2", root, projects, start=setting.start, compressible=True)
    yield setting.finish(race, judge)
    yield from _folders("W2", root, setting)


def _folders(name: str, root: Path, setting: Setting) -> Iterator[Finished]:
    start = setting.start
    yield setting.finish(merge_race(name, root, start, "hardlink", peers=True), linked(3, 0.15))
    yield setting.finish(split_race(name, root, start, "hardlink"), linked(3, 0.15))
    for link in ("auto", "copy"):
        yield setting.finish(merge_race(name, root, start, link), linked(1.3))
    yield setting.finish(split_race(name, root, start, "auto"), linked(1.3))


def run_w3(setting: Setting) -> Iterator[Finished]:
    """Many small files, and how time grows with their number."""
    root = setting.make("W3")
    seconds = {}
    for count in W3_FILES:
        last = count == W3_FILES[-1]
        place = root if last else setting.make(f"W3-{count}")
        race = merge_race(f"W3 {count:,}", place, setting.start, "hardlink", peers=last)
        finished = setting.finish(race, linked(1.5) if last else no_verdict)
        seconds[count] = apart(by_name(finished.results))
        if last:
            growth = Verdict("exponent of growth, start-up apart", exponent(seconds), 1.1)
            finished = Finished(finished.race, finished.results, (*finished.verdicts, growth))
        yield finished
    yield setting.finish(split_race("W3", root, setting.start, "hardlink"), linked(1.5))
    yield setting.finish(wheel_race("W3", root, None), no_verdict)


def run_w7(setting: Setting) -> Iterator[Finished]:
    """500 MB of archives, packed."""
    root = setting.make("W7")

    def judge(results: Mapping[str, Result]) -> Iterator[Verdict]:
        yield from near_floor(STORE, 1)(results)
        yield from memory(results)

    yield setting.finish(wheel_race("W7", root, None, start=setting.start), judge)


def exponent(seconds: Mapping[int, float]) -> float:
    """The slope of the line through the logarithms, by least squares."""
    points = [(math.log(count), math.log(time)) for count, time in seconds.items()]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def run_w4(setting: Setting) -> Iterator[Finished]:
    """One large archive."""
    root = setting.make("W4")

    def judge(results: Mapping[str, Result]) -> Iterator[Verdict]:
        throughput = results[KERNELS].wall / results[OURS].wall
        yield Verdict(f"throughput of {KERNELS} x 0.8", throughput, 0.8, at_least=True)
        yield from memory(results)

    kernels = floor(KERNELS, "kernels", root / "shards")
    yield setting.finish(inspect_race("W4", root, "content", kernels), judge)
    yield setting.finish(wheel_race("W4", root, None, once=True), memory)
    yield setting.finish(merge_race("W4", root, setting.start, "copy"), memory)


def run_w5(setting: Setting) -> Iterator[Finished]:
    """Very many kernels in tables of contents."""
    root = setting.make("W5")

    def judge(results: Mapping[str, Result]) -> Iterator[Verdict]:
        yield from near_floor(TOCS, 2)(results)
        yield from memory(results)

    tocs = floor(TOCS, "tocs", root / "shards")
    manifests = floor(MANIFESTS, "manifests", root / "shards")
    yield setting.finish(inspect_race("W5", root, "toc", tocs, manifests, start=setting.start), judge)
    yield setting.finish(merge_race("W5", root, setting.start, "hardlink"), memory)
    yield setting.finish(inspect_race("W5", root, "content", once=True), memory)


def run_w6(setting: Setting) -> Iterator[Finished]:
    """An archive larger than 4 GiB, with holes."""
    root = setting.make("W6")
    yield setting.finish(inspect_race("W6", root, "toc", once=True), memory)
    yield setting.finish(inspect_race("W6", root, "content", once=True), memory)
    yield setting.finish(merge_race("W6", root, setting.start, "copy"), memory)
    yield setting.finish(wheel_race("W6", root, None, once=True), memory)


WORKLOADS: Final = (
    Workload("W1", "4 targets, each with 48 MB of kpack and 500 descriptors", 700, run_w1),
    Workload("W2", "AITER's code objects for two targets", 500, run_w2),
    Workload("W3", "100,000 small files for two targets", 1200, run_w3),
    Workload("W4", "one kpack of 2 GiB", 4400, run_w4),
    Workload("W5", "30 targets x 12 engines, 200,000 kernels in TOCs", 400, run_w5),
    Workload("W6", "one sparse kpack of 5 GiB", 5500, run_w6),
    Workload("W7", "500 MB of kpack for four targets", 1600, run_w7),
)
