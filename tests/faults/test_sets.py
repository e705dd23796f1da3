"""Merge and split on any set of shards: a machine that grows shards, and a model that knows what must come out."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from builders import ENGINES, STAGE, code_object
from kpacktools.cli import run
from kpacktools.trees.names import MANIFEST_NAME

TARGETS = ("gfx906", "gfx90a", "gfx942", "gfx942:xnack+", "gfx1100", "gfx1201")
NAMES = ("a", "b", "c.txt", "deep/er/d")
ARTIFACTS = ("hipkernelprovider_lib", "hipkernelprovider_test")

targets = st.sampled_from(TARGETS)
artifacts = st.sampled_from(ARTIFACTS)
file_names = st.sampled_from(NAMES)


def contents(root: Path) -> dict[str, bytes | str]:
    """Path -> bytes of every file and target of every link below a folder."""
    found: dict[str, bytes | str] = {}
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def kpacktools(*arguments: str | Path) -> None:
    assert run([*map(str, arguments), "--quiet"]) == 0


class Sets(RuleBasedStateMachine):
    """Shards that agree on what they share, so that merging them is always allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.expected: dict[str, bytes | str] = {}
        self.merges = 0

    @initialize(key=targets)
    def begin(self, key: str) -> None:
        self.add_shard(key)

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    @property
    def shards(self) -> list[Path]:
        return sorted((self.place / "in").iterdir())

    @rule(key=targets)
    def add_shard(self, key: str) -> None:
        self._artifact(key, ARTIFACTS[0])

    @rule(
        key=targets, artifact=artifacts, name=file_names, body=st.binary(max_size=8), executable=st.booleans()
    )
    def add_kernel(self, key: str, artifact: str, name: str, body: bytes, executable: bool) -> None:
        """A file of a key, in the shard that owns it."""
        path = f"{STAGE}/{ENGINES}/arch_content/aiter/{key}/{name}"
        data = code_object(key, body) if name == "a" else body
        file = self._put(key, artifact, path + (".co" if name == "a" else ""), data)
        file.chmod(0o755 if executable else 0o644)
        self.expected[f"{artifact}_{key}/{file.relative_to(self._artifact(key, artifact)).as_posix()}"] = data

    @rule(artifact=artifacts, name=file_names, body=st.binary(max_size=8), data=st.data())
    def add_generic(self, artifact: str, name: str, body: bytes, data: st.DataObject) -> None:
        """A generic file, the same in every shard that has it."""
        path = f"{STAGE}/{ENGINES}/{name}"
        body = self.expected.setdefault(f"{artifact}_generic/{path}", body)  # type: ignore[assignment]
        holders = data.draw(st.sets(st.sampled_from([shard.name for shard in self.shards]), min_size=1))
        for key in holders:
            self._put(key, artifact, path, body)

    @rule(key=targets, artifact=artifacts)
    def add_link(self, key: str, artifact: str) -> None:
        """A link to a generic file that is always there beside it."""
        for name, data in (("z", b"z"), ("link", "z")):
            path = f"{STAGE}/{ENGINES}/{name}"
            self.expected[f"{artifact}_generic/{path}"] = data
            if isinstance(data, bytes):
                self._put(key, artifact, path, data)
            elif not (link := self._artifact(key, artifact) / path).is_symlink():
                link.symlink_to(data)

    @invariant()
    @precondition(lambda self: bool(self.expected))
    def inputs_are_what_the_model_says(self) -> None:
        found = {data for shard in self.shards for data in contents(shard).values()}
        assert set(self.expected.values()) <= found

    @precondition(lambda self: bool(self.expected))
    @rule(
        data=st.data(), jobs=st.sampled_from(("1", "3")), link=st.sampled_from(("auto", "hardlink", "copy"))
    )
    def merging_and_splitting_lose_nothing_in_any_order(
        self, data: st.DataObject, jobs: str, link: str
    ) -> None:
        shards = data.draw(st.permutations(self.shards))
        self.merges += 1
        place = self.place / f"out{self.merges}"
        before = contents(self.place / "in")

        merged = place / "merged"
        kpacktools("merge", *shards, "-o", merged, "--jobs", jobs, "--link", link)
        found = contents(merged)
        content = {path: data for path, data in found.items() if Path(path).name != MANIFEST_NAME}
        assert content == self.expected

        kpacktools("merge", *reversed(shards), "-o", merged)  # which is refused where it would change a thing
        kpacktools("split", merged, "-o", place / "again", "--link", link)
        assert contents(merged) == contents(place / "again") == found

        for number, shard in enumerate(shards):
            kpacktools("split", shard, "-o", place / "split" / str(number))
        kpacktools("merge", *(place / "split").iterdir(), "-o", place / "merged-splits")
        assert contents(place / "merged-splits") == found

        assert contents(self.place / "in") == before
        shutil.rmtree(place)

    def _artifact(self, key: str, artifact: str) -> Path:
        folder = self.place / "in" / key / f"{artifact}_{key}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST_NAME).write_text(f"{STAGE}\n")
        return folder

    def _put(self, key: str, artifact: str, path: str, data: bytes) -> Path:
        file = self._artifact(key, artifact) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file


Sets.TestCase.settings = settings(
    max_examples=int(os.environ.get("KPACKTOOLS_EXAMPLES", "15")), stateful_step_count=12, deadline=None
)
TestAnySetOfShards = Sets.TestCase
