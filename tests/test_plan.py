"""Plans are made of groups of neighbours, and give their files in the order of paths all the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kpacktools.planning.plan import PlannedFile, PlannedFolder, PlannedGroup, in_order
from kpacktools.trees import Entry, names_in
from kpacktools.trees.directory import DirectoryTree

TREE = DirectoryTree("tree", "/nowhere", {})
NAMES = st.lists(st.sampled_from(["a", "a-", "a.b", "a0", "b", "-"]), min_size=1, max_size=4)
PATHS = st.sets(NAMES.map("/".join), max_size=30)


def groups_of(paths: set[str]) -> list[PlannedGroup]:
    folders: dict[str, list[Entry]] = {}
    for path in sorted(paths):
        folders.setdefault(path.rpartition("/")[0], []).append(Entry(path, 1, 0o100644))
    return [PlannedGroup(folder, names_in(entries), TREE, entries) for folder, entries in folders.items()]


@given(PATHS)
def test_groups_in_order_hold_all_files_in_order(paths: set[str]) -> None:
    folder = PlannedFolder("x", "x", tuple(in_order(groups_of(paths))), None)
    assert [file.dest for file in folder.files] == sorted(paths)
    assert [file.entry.path for file in folder.files] == sorted(paths)
    assert (folder.count, folder.size) == (len(paths), len(paths))


@given(PATHS)
def test_a_folder_of_single_files_has_these_files(paths: set[str]) -> None:
    files = [PlannedFile(path, TREE, Entry(path, 1, 0o100644)) for path in sorted(paths)]
    folder = PlannedFolder.of("x", "x", files, None)
    assert list(folder.files) == files
    assert all(group.names for group in folder.groups)


def test_a_part_of_a_group_has_some_of_its_files() -> None:
    (group,) = groups_of({"a/x", "a/y", "a/z"})
    assert group.part(0, 3) is group
    assert [file.dest for file in group.part(1, 3).files()] == ["a/y", "a/z"]
    assert group.file(2).dest == "a/z"
