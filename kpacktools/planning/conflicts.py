"""Conflicts: one destination that several inputs offer, and destinations that cannot stand side by side."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from kpacktools.findings import Finding, finding
from kpacktools.planning.claims import Claim, ClaimedArtifact
from kpacktools.trees import Entry, is_file
from kpacktools.trees.shards import Shard

__all__ = ["Candidate", "Contest", "conflict", "described", "is_special", "preferred", "same_content"]

_TEXT_LIMIT: Final = 1 << 20
_EXEC: Final = 0o111


class Candidate(NamedTuple):
    """One input's offer for a destination."""

    shard: Shard
    source: ClaimedArtifact
    entry: Entry
    claim: Claim | None
    foreign: bool
    """The shard was not built for the claim's target, and another one was."""

    @property
    def where(self) -> str:
        """The file as the user would type it."""
        return self.source.artifact.where(self.entry.path)


class Contest(Struct, frozen=True, eq=False):
    """A destination that several inputs offer."""

    dest: str
    candidates: tuple[Candidate, ...]


Digests = Mapping[tuple[int, str], str]


def _content(candidate: Candidate, digests: Digests) -> tuple[str, object]:
    entry = candidate.entry
    if entry.link:
        return ("link", entry.link)
    return ("file", digests[id(candidate.source.artifact.tree), entry.path])


def same_content(first: Candidate, second: Candidate, digests: Digests) -> bool:
    """True where two candidates hold the same bytes (or, for links, the same target)."""
    return _content(first, digests) == _content(second, digests)


def preferred(candidates: Sequence[Candidate]) -> Candidate:
    """Of candidates with the same bytes the one that is kept: an executable one before others, so that no
    exec bit is lost; then in the order of the shards, which does not depend on the order of arguments."""
    return max(candidates, key=lambda candidate: bool(candidate.entry.mode & _EXEC))


def described(candidate: Candidate, digests: Digests) -> str:
    """A candidate with what tells it from others: size and hash, or a link's target."""
    kind, value = _content(candidate, digests)
    what = f"link to {value}" if kind == "link" else f"{candidate.entry.size} bytes, sha256 {value}"
    return f"{candidate.where} ({what})"


def conflict(contest: Contest, digests: Digests, hint: str = "") -> Finding:
    """The ``content-conflict`` of a contest whose candidates differ."""
    distinct: dict[tuple[str, object], Candidate] = {}
    for candidate in contest.candidates:
        distinct.setdefault(_content(candidate, digests), candidate)
    words = [described(candidate, digests) for candidate in contest.candidates]
    return finding(
        "content-conflict",
        contest.dest,
        f"{len(words)} inputs offer it with different content: {'; '.join(words)}",
        _hint(contest, list(distinct.values()))
        or hint
        or "find out which build is right, or make both write the same bytes",
        sources=[candidate.where for candidate in contest.candidates],
    )


def _hint(contest: Contest, distinct: Sequence[Candidate]) -> str:
    if _only_line_ends(distinct):
        return (
            "only the line ends differ (LF against CRLF): build on one platform, or set eol in .gitattributes"
        )
    first = contest.candidates[0]
    container = first.source.containers.get(first.entry.path.rpartition("/")[0])
    if first.claim is None and container is not None:
        return (
            f"it lies in an engine's folder outside any target: what differs by target belongs under "
            f"{first.source.artifact.where(container)}/<target>/"
        )
    return ""


def _only_line_ends(candidates: Sequence[Candidate]) -> bool:
    if not all(is_file(c.entry) and c.entry.size <= _TEXT_LIMIT for c in candidates):
        return False
    texts = set()
    for candidate in candidates:
        try:
            with candidate.source.artifact.tree.open(candidate.entry.path) as stream:
                data = stream.read(_TEXT_LIMIT + 1)
        except OSError:
            return False
        if b"\0" in data:
            return False
        texts.add(data.replace(b"\r\n", b"\n"))
    return len(texts) == 1


def is_special(entry: Entry) -> bool:
    """True for what is neither a regular file nor a link."""
    return not (stat.S_ISREG(entry.mode) or entry.link)
