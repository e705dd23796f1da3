"""Artifact descriptors: which files of which stage directory belong to which component of an artifact.

``artifact-<name>.toml``, as TheRock's ``fileset_tool artifact`` reads it. :mod:`.model` reads them,
:mod:`.capture` says what one takes, :mod:`.checking` what is wrong with that, and :mod:`.emitting` writes one
for files that are there.
"""
