"""The build topology: which stages build which artifacts, and which of these hold per-target content.

``BUILD_TOPOLOGY.toml``, as TheRock's build reads it. :mod:`.model` reads it, :mod:`.rules` says what is wrong with it
by itself, :mod:`.agreement` and :mod:`.content` where descriptors and a release say otherwise; :mod:`.parts` derives
what a release must hold, and :mod:`.mermaid` and :mod:`.svg` draw it.
"""
