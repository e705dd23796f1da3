"""Fuzzes one target with atheris: ``python tests/fuzz/fuzz.py NAME [CORPUS] [libFuzzer option]...``

Without a name it lists the targets. Inputs that are found go to CORPUS, which is else a temporary folder; what does
harm is written to the current folder by libFuzzer. ``-max_total_time=600`` stops after ten minutes.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from random import Random

import atheris

HERE = Path(__file__).resolve().parent
OPTIONS = ("-timeout=20", "-rss_limit_mb=1024", "-max_len=16384", "-len_control=20", "-print_final_stats=1")


def main(arguments: list[str]) -> None:
    sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]
    import targets

    if not arguments or arguments[0] not in targets.names():
        sys.exit("targets: " + ", ".join(targets.names()))
    name, *rest = arguments
    logging.disable()
    warnings.simplefilter("error")
    warnings.simplefilter(
        "ignore", ResourceWarning
    )  # an exception that libFuzzer is told of keeps files open
    with atheris.instrument_imports(include=["kpacktools"]), tempfile.TemporaryDirectory() as place:
        target = targets.load(name)
        # The plugins are the same for every input, and looking for them takes half of the time.
        commands = importlib.import_module("kpacktools.commands")
        commands.load_registry = functools.cache(commands.load_registry)
        corpus = Path(next((word for word in rest if not word.startswith("-")), place))
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(
            [*target.seeds(), *(path.read_bytes() for path in target.regressions())]
        ):
            (corpus / f"seed-{number}").write_bytes(seed)
            target.run(seed)  # which imports, in here, what is imported late
        options = [word for word in rest if word.startswith("-")]

        def mutate(data: bytes, most: int, seed: int) -> bytes:
            random = Random(seed)
            if target.change is None or random.random() < 0.5:
                return bytes(atheris.Mutate(data, len(data) if random.random() < 0.1 else most))
            for _ in range(random.choice((1, 1, 2, 4))):
                data = target.change(data, random)
            return data[:most]

        atheris.Setup([sys.argv[0], *OPTIONS, *options, str(corpus)], target.run, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
