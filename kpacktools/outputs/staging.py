"""Staging: outputs appear whole or not at all.

A run fills a *staging folder* on the file system of its destination and renames what is finished into place::

    with stage("dist") as staging:
        build(staging.path("one.whl"))
        build(staging.path("two.whl"))
        staging.publish()

Where OUT is new, the staging folder lies beside it and OUT appears by one rename with everything in it. In
an OUT that exists it lies inside, and each entry appears by one rename beside whatever else is there, so that
many runs may fill one OUT at the same time. A staging folder holds a locked file for as long as its run
lives: the next run removes the folders whose lock is free, which are those of killed runs.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.outputs.transfer import same_files
from kpacktools.trees.names import STAGING_PREFIX, STAGING_SUFFIX, is_staging_name

__all__ = [
    "Staging",
    "State",
    "clean_around",
    "clean_stale",
    "is_staging_name",
    "is_vacant",
    "move_new",
    "refusals_named",
    "resolve",
    "same_file",
    "stage",
]

State = Literal["written", "kept", "replaced"]
"""What became of one entry of OUT."""

_LOCK = "lock"
_CONTENT = "content"
_ASIDE_SUFFIX = "-replaced"
_ATTEMPTS = 100  # each failed one means that another run did something at that very moment
_RENAME_EXCHANGE = 2  # linux/fs.h
_AT_FDCWD = -100  # linux/fcntl.h
_OCCUPIED = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)
_NO_HARD_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK)
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)

_logger = logging.getLogger(__name__)

if sys.platform == "win32":
    import msvcrt

    def _take_lock(fd: int, *, wait: bool) -> bool:
        """Lock an open file; False where another process holds it or locks do not work here."""
        try:
            msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:  # neither Windows nor Unix

        def _take_lock(fd: int, *, wait: bool) -> bool:
            """False: what cannot be locked is never cleaned."""
            return False

    else:

        def _take_lock(fd: int, *, wait: bool) -> bool:
            """Lock an open file; False where another process holds it or locks do not work here."""
            try:
                flock(fd, LOCK_EX if wait else LOCK_EX | LOCK_NB)
            except OSError:
                return False
            return True


def resolve(out: str | os.PathLike[str]) -> str:
    """OUT with links resolved: what is renamed is the folder, not a link to it.

    Raises :class:`~kpacktools.errors.CallError` where OUT is there and no folder.
    """
    target = os.path.realpath(out)
    if os.path.lexists(target) and not os.path.isdir(target):
        raise CallError(f"{out} is not a folder")
    return target


@contextmanager
def refusals_named(out: str) -> Iterator[None]:
    """Turns an :class:`OSError` into a :class:`~kpacktools.errors.CallError` that names OUT."""
    try:
        yield
    except OSError as error:
        raise CallError(f"{out} cannot be written: {error.strerror or error}") from error


def is_vacant(path: str) -> bool:
    """True where a folder may be put by a rename: nothing is there, or an empty folder."""
    if not os.path.lexists(path):
        return True
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    with os.scandir(path) as entries:
        return next(entries, None) is None


def same_file(staged: str, existing: str) -> bool:
    """True where both are regular files of the same bytes."""
    try:
        left, right = os.lstat(staged), os.lstat(existing)
    except FileNotFoundError:
        return False
    if not (stat.S_ISREG(left.st_mode) and stat.S_ISREG(right.st_mode)) or left.st_size != right.st_size:
        return False
    if os.path.samestat(left, right):
        return True
    return same_files(staged, existing)


class Staging(Struct, frozen=True):
    """An open staging folder; made by :func:`stage`."""

    out: str
    """OUT as the user wrote it, for messages."""
    target: str
    """OUT with links resolved."""
    root: str
    """The folder to fill: it becomes OUT, or its entries move there."""
    fresh: bool
    """True where ``root`` may become OUT by one rename."""
    whole: bool
    """True where OUT itself is the one entry."""

    def path(self, name: str) -> str:
        """Where the entry ``name`` of OUT is to be written; OUT itself where ``name`` is empty."""
        return os.path.join(self.root, name) if name else self.root

    def publish(
        self, *, replace: bool = False, same: Callable[[str, str], bool] = same_file
    ) -> dict[str, State]:
        """Move everything staged into OUT and say what became of each entry (``""`` for OUT itself).

        Each entry appears by one rename, a whole new OUT by a single one. Where an entry is there already,
        also because another run put it there a moment ago, it is replaced in one step with ``replace``, kept
        where ``same(staged, existing)`` says that they are equal, and is else an error. To be called once.

        Raises :class:`~kpacktools.errors.CallError` where an entry is there with other content, and where
        the file system refuses.
        """
        with refusals_named(self.out):
            names = [""] if self.whole else sorted(os.listdir(self.root))
            if self.fresh:
                with suppress(FileExistsError):
                    move_new(self.root, self.target)
                    return dict.fromkeys(names, "written")
            # First a look at all of them: what another run wrote meanwhile must not stop this one half way.
            kept = set() if replace else {name for name in names if self._stands(name, same)}
            return {name: "kept" if name in kept else self._settle(name, replace, same) for name in names}

    def _final(self, name: str) -> str:
        return os.path.join(self.target, name) if name else self.target

    def _stands(self, name: str, same: Callable[[str, str], bool]) -> bool:
        """True where the entry is there and equal, False where its place is free, else an error."""
        staged, final = self.path(name), self._final(name)
        if is_vacant(final) if os.path.isdir(staged) else not os.path.lexists(final):
            return False
        if same(staged, final):
            return True
        shown = os.path.join(self.out, name) if name else self.out
        raise CallError(f"{shown} is there already with other content, and was left alone")

    def _settle(self, name: str, replace: bool, same: Callable[[str, str], bool]) -> State:
        """Move one entry into place however other runs change it meanwhile."""
        staged, final = self.path(name), self._final(name)
        for _ in range(_ATTEMPTS):
            with suppress(FileExistsError):
                move_new(staged, final)
                return "written"
            if replace:
                # Where it is gone since, the next round finds the place free.
                with suppress(FileNotFoundError):
                    _swap(staged, final, self.root + _ASIDE_SUFFIX)
                    return "replaced"
            elif self._stands(name, same):
                return "kept"
        raise CallError(f"{final} is made and removed by others again and again")


@contextmanager
def stage(out: str | os.PathLike[str], *, whole: bool = False) -> Iterator[Staging]:
    """Open a staging folder for ``out``; it is gone afterwards, whatever happened.

    ``whole`` says that OUT itself is the one thing that appears (an install prefix, say), not its entries;
    an empty OUT then counts as absent. Missing parents of OUT are made, and removed again where nothing came
    of it. Folders that killed runs left in the same places are removed first.

    Raises :class:`~kpacktools.errors.CallError` where OUT is no folder or cannot be written to.
    """
    label = os.fspath(out)
    target = resolve(label)
    parent = os.path.dirname(target)
    clean_around(target)
    fresh = whole or not os.path.lexists(target)
    place = parent if fresh else target
    missing = _missing(place)
    try:
        with refusals_named(label):
            folder, lock = _begin(place)
        try:
            root = os.path.join(folder, _CONTENT)
            with refusals_named(label):
                os.mkdir(root)
            yield Staging(out=label, target=target, root=root, fresh=fresh, whole=whole)
        finally:
            _end(folder, lock)
    finally:
        for made in missing:
            with suppress(OSError):
                os.rmdir(made)


def clean_around(target: str) -> None:
    """Remove what killed runs left of an output: beside it, where it was new, and in it.

    :func:`stage` does so by itself; a run that finds its output complete has nothing to stage.
    """
    clean_stale(os.path.dirname(target))
    clean_stale(target)


def clean_stale(place: str) -> None:
    """Remove the staging folders of killed runs from a folder; those of live runs are spared.

    A folder whose lock cannot be had or judged counts as live, and one that another user owns is that user's: in a
    place that all may write to, its paths could be made to lead elsewhere while they are removed. Nothing is raised:
    what cannot be removed is left to its owner.
    """
    try:
        with os.scandir(place) as entries:
            found = [entry.path for entry in entries if is_staging_name(entry.name) and _is_own(entry)]
    except OSError:
        return
    for folder in found:
        path = os.path.join(folder, _LOCK)
        with suppress(OSError):
            try:
                lock = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            except FileNotFoundError:
                # Killed before it had a lock, or about to take one: in that case it starts over.
                os.rmdir(folder)
                continue
            if _take_lock(lock, wait=False) and _is_at(lock, path):
                _end(folder, lock)
            else:
                os.close(lock)


def _is_own(entry: os.DirEntry[str]) -> bool:
    """True for a folder of the user who runs this."""
    if not entry.is_dir(follow_symlinks=False):
        return False
    return not hasattr(os, "geteuid") or entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def _begin(place: str) -> tuple[str, int]:
    """Make a staging folder: its path and its locked file.

    Another run may take the folder for a stale one before the lock is held, and may remove ``place`` while
    it is empty: then everything is done again.
    """
    for _ in range(_ATTEMPTS):
        folder = os.path.join(place, f"{STAGING_PREFIX}{os.urandom(8).hex()}{STAGING_SUFFIX}")
        path = os.path.join(folder, _LOCK)
        try:
            os.makedirs(place, exist_ok=True)
            os.mkdir(folder, 0o700)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileNotFoundError:
            continue
        except OSError:
            with suppress(OSError):
                os.rmdir(folder)
            raise
        _take_lock(lock, wait=True)
        if _is_at(lock, path):
            return folder, lock
        os.close(lock)
    raise FileNotFoundError(errno.ENOENT, "it is removed by others again and again", place)


def _is_at(lock: int, path: str) -> bool:
    """True while an open file has its path: its folder may be gone by the time the lock is had."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def _end(folder: str, lock: int) -> None:
    """Remove a staging folder whose lock is held; the lock goes last, so that a kill in between is mended."""
    path = os.path.join(folder, _LOCK)
    held = True
    try:
        for name in os.listdir(folder):
            if name != _LOCK:
                _remove(os.path.join(folder, name))
        if os.name == "nt":  # which does not delete an open file
            os.close(lock)
            held = False
        os.unlink(path)
        with suppress(FileNotFoundError):  # another run may find it empty first
            os.rmdir(folder)
    except OSError as error:
        _logger.warning("%s could not be removed: %s", folder, error.strerror or error)
    finally:
        if held:
            os.close(lock)


def _remove(path: str) -> None:
    """Delete a file or a folder, also where folders inside are read-only (replaced outputs may hold some)."""
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        os.chmod(path, 0o700)
        for folder, names, _ in os.walk(path):
            for inner in (os.path.join(folder, name) for name in names):
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
        shutil.rmtree(path)


def _missing(place: str) -> list[str]:
    """The folders on the way to ``place`` that are not there, deepest first."""
    missing = []
    while not os.path.lexists(place):
        missing.append(place)
        place = os.path.dirname(place)
    return missing


def move_new(staged: str, final: str) -> None:
    """Rename to a path where nothing is, in one step; a folder may take the place of an empty one.

    Raises :class:`FileExistsError` where something is there.
    """
    if os.path.isdir(staged) or os.name == "nt":
        try:
            if os.name == "nt":  # which does not rename onto anything
                with suppress(OSError):
                    os.rmdir(final)
            os.rename(staged, final)
        except OSError as error:
            if error.errno in _OCCUPIED:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), final) from error
            raise
        return
    # rename() would silently replace a file; link() does not.
    try:
        os.link(staged, final, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(final):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), final) from error
        os.rename(staged, final)
    else:
        os.unlink(staged)


def _swap(staged: str, final: str, aside: str) -> None:
    """Put ``staged`` in the place of ``final``; the old content ends up inside the staging folder.

    Raises :class:`FileNotFoundError` where ``final`` is gone.
    """
    if _exchange(staged, final):
        return
    if not os.path.isdir(staged) and not os.path.isdir(final):
        os.replace(staged, final)
        return
    aside = f"{aside}-{os.urandom(4).hex()}"
    os.rename(final, aside)
    try:
        os.rename(staged, final)
    except OSError:
        os.rename(aside, final)
        raise


def _exchange(staged: str, final: str) -> bool:
    """Exchange two paths in one step (``renameat2``); False where this system cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library that does not know it
        return False
    if not renameat2(_AT_FDCWD, os.fsencode(staged), _AT_FDCWD, os.fsencode(final), _RENAME_EXCHANGE):
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), final)
