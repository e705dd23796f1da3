"""A Dask cluster as workers: one that runs somewhere, or processes on this machine for as long as a run lasts.

``tcp://HOST:PORT`` (or ``tls://``) is the address of a ``dask-scheduler``, ``local:N`` asks for N processes. The only
module that knows Dask, which is imported here and nowhere else: it comes with the extra ``kpacktools[dask]``.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import re
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any, Final

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.tasks.model import Software, Workers
from kpacktools.tasks.portable import forget
from kpacktools.tasks.running import software

__all__ = ["Address", "parse_scheduler", "workers_at"]

TIMEOUT: Final = 10
"""Seconds in which a scheduler has to answer."""
_WORKERS_TIMEOUT: Final = 30
"""Seconds in which the first worker has to be there."""
_WITHOUT_WORKERS: Final = 60
"""Seconds for which no worker may be there before a run gives up."""
_CLOSING: Final = 10
"""Seconds that a local cluster may take to end its workers, before they are killed."""
_COUNT_HOLDS: Final = 2
"""Seconds."""
_MOST: Final = 1024
_EXPECTED: Final = "expected tcp://HOST:PORT, tls://HOST:PORT or local:N"
_ADDRESS: Final = re.compile(r"(?:tcp|tls)://(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):([0-9]{1,5})/?")
_LOCAL: Final = re.compile(r"local:([0-9]{1,4})")


class Address(Struct, frozen=True):
    """What ``--scheduler`` says."""

    text: str
    processes: int = 0
    """Worker processes to start on this machine; 0 where the cluster runs already."""


def parse_scheduler(text: str) -> Address:
    """Read ``tcp://HOST:PORT``, ``tls://HOST:PORT`` or ``local:N``.

    Raises :class:`~kpacktools.errors.CallError` for anything else.

    >>> parse_scheduler("local:4").processes
    4
    """
    local = _LOCAL.fullmatch(text)
    if local is not None:
        if not 1 <= int(local[1]) <= _MOST:
            raise CallError(f"--scheduler {text}: between 1 and {_MOST} processes can be started")
        return Address(text, int(local[1]))
    address = _ADDRESS.fullmatch(text)
    if address is None:
        raise CallError(f"--scheduler {text}: {_EXPECTED}")
    if not 1 <= int(address[1]) <= 0xFFFF:
        raise CallError(f"--scheduler {text}: the port is between 1 and 65535")
    return Address(text)


@contextmanager
def workers_at(scheduler: str) -> Iterator[Workers]:
    """The workers of a cluster; those of ``local:N`` end with the context.

    Raises :class:`~kpacktools.errors.CallError` where Dask is not installed, nobody answers in time, or a worker runs
    other software than this process.
    """
    address = parse_scheduler(scheduler)
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        try:
            import distributed
        except ImportError:
            raise CallError("--scheduler needs Dask: pip install kpacktools[dask]") from None
        # What matters of what Dask would log becomes an error of ours, in one line.
        for name in logging.root.manager.loggerDict:
            if name.partition(".")[0] in ("distributed", "tornado"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
        if address.processes:
            where = stack.enter_context(_local_cluster(address))
        else:
            _ask_who_is_there(address)
            where = address.text
        client = distributed.Client(where, timeout=TIMEOUT, set_as_default=False)
        stack.callback(_close, client)
        _wait_for_workers(client, address)
        mine = software()
        _check_software(client.run(software, on_error="return"), mine, address)
        # The scheduler of a cluster that is there already tries a lost task again by itself, as often as it is told to.
        lost = (distributed.KilledWorker,) if address.processes else ()
        watch = _Watch(client)
        yield Workers(client.get_executor(pure=False), watch.count, lost, mine, watch.trouble)
        if not address.processes:
            with suppress(Exception):  # the run is over: whatever a worker says to this does not change it
                client.run(forget, on_error="ignore")


class _Watch:
    """Looks at a cluster whose workers may come and go; not for every task, since each look is a message."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._known = 0
        self._until = 0.0
        self._seen = time.monotonic()

    def count(self) -> int:
        """How many tasks the workers can run at once."""
        now = time.monotonic()
        if now >= self._until:
            try:
                self._known = sum(self._client.nthreads().values())
            except Exception as error:
                raise CallError(f"the Dask scheduler went away ({_reason(error)})") from error
            self._until = now + _COUNT_HOLDS
            if self._known:
                self._seen = now
        return self._known

    def trouble(self) -> str:
        """Why nothing more can be expected; empty where it can."""
        if self._client.status not in ("running", "connecting"):
            return "the Dask scheduler went away"
        if not self.count() and time.monotonic() - self._seen > _WITHOUT_WORKERS:
            return f"no worker has been there for {_WITHOUT_WORKERS} seconds"
        return ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings of Dask and its libraries are about their own future, not about this run."""
    with warnings.catch_warnings():
        for module in ("dask", "distributed", "tornado", "asyncio"):
            warnings.filterwarnings("ignore", module=rf"{module}(\..*)?$")
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


@contextmanager
def _local_cluster(address: Address) -> Iterator[Any]:
    """Processes of one thread each, which end with the context, and with this process however it ends."""
    import dask
    import distributed

    settings = {
        # The task that ran is tried again by run_tasks, which counts and says so.
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.memory.terminate": False,
        # Nobody looks at how workers spend their time, which they would note a hundred times a second.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        "distributed.admin.system-monitor.interval": "10s",
        # Dask has workers give every freed block back to the system (MALLOC_TRIM_THRESHOLD_), which costs half of the
        # time that it takes to read kernels.
        "distributed.nanny.pre-spawn-environ": {},
        # Nothing is told over HTTP.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kpacktools-dask-"))
        stack.enter_context(dask.config.set({**settings, "temporary-directory": folder}))
        try:
            # Ctrl-C is for this process. Its threads' children inherit what the thread blocks that starts them; else
            # every one of them would print a traceback and die before it is asked to end.
            with _interrupts_blocked():
                cluster = distributed.LocalCluster(
                    n_workers=address.processes,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    # A new key for each run: whoever else is on this machine can reach the port, and a scheduler
                    # does what it is told.
                    security=distributed.Security.temporary(),
                    scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                    memory_limit=0,
                    silence_logs=logging.CRITICAL,
                )
        except Exception as error:
            raise CallError(f"--scheduler {address.text}: no worker could be started: {error}") from error
        try:
            yield cluster
        except BaseException:
            _kill_workers(cluster)  # what they are at is of no use, and may take long
            raise
        finally:
            if not _close(cluster):
                _kill_workers(cluster)
                _close(cluster)


def _close(what: Any) -> bool:
    """Close a client or a cluster in time; False where that failed. All results have been collected: how it takes
    leave of its workers is no matter of the run."""
    try:
        what.close(timeout=_CLOSING)
    except Exception:  # noqa: BLE001 (see above)
        return False
    return True


def _kill_workers(cluster: Any) -> None:
    """Kill the processes of a local cluster."""
    numbers = {getattr(nanny, "pid", None) for nanny in cluster.workers.values()}
    for process in multiprocessing.active_children():
        if process.pid in numbers:
            process.kill()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """SIGINT waits until the end of the context, for this thread."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # multiprocessing would start its tracker in the first child's place, and unblock SIGINT after that (before 3.13).
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ask_who_is_there(address: Address) -> None:
    """Raises :class:`~kpacktools.errors.CallError` unless a scheduler answers in time.

    Dask's client would wait for ever for a server that speaks another protocol.
    """
    from distributed.core import rpc
    from distributed.security import Security

    async def identity() -> Any:
        arguments = Security().get_connection_args("client")
        async with rpc(address.text, timeout=TIMEOUT, connection_args=arguments) as there:
            return await there.identity()

    try:
        answer = asyncio.run(asyncio.wait_for(identity(), TIMEOUT))
        kind = answer["type"]
    except Exception as error:
        raise CallError(
            f"--scheduler {address.text}: no Dask scheduler answers there within {TIMEOUT} seconds"
            f" ({_reason(error)})"
        ) from error
    if kind != "Scheduler":
        raise CallError(f"--scheduler {address.text}: a Dask {kind} answers there, and no scheduler")


def _wait_for_workers(client: Any, address: Address) -> None:
    try:
        client.wait_for_workers(max(1, address.processes), timeout=_WORKERS_TIMEOUT)
    except Exception as error:
        raise CallError(
            f"--scheduler {address.text}: no worker is there after {_WORKERS_TIMEOUT} seconds"
        ) from error


def _check_software(answers: Mapping[str, object], mine: Software, address: Address) -> None:
    for worker, answer in sorted(answers.items()):
        if not isinstance(answer, Software):
            reason = _reason(answer) if isinstance(answer, BaseException) else "no answer"
            raise CallError(
                f"--scheduler {address.text}: the worker {worker} cannot run kpacktools ({reason}): "
                f"install {' '.join(mine.versions[0])} there"
            )
        if difference := mine.difference(answer):
            raise CallError(
                f"--scheduler {address.text}: the worker {worker} runs {difference}; install the same on all machines"
            )


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
