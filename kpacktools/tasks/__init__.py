"""The work of a stage as a list of tasks, and where they run.

A :class:`~kpacktools.tasks.model.Task` is a function of this package's and its arguments, all of which can be sent to
another machine. :func:`~kpacktools.tasks.running.run_tasks` hands tasks to a :class:`concurrent.futures.Executor`:
that of a Dask cluster (:mod:`kpacktools.tasks.cluster`) or one of threads. What a task gives does not depend on where
it ran, so that any number of machines writes the same bytes.
"""
