"""``kpack.lock``: the kernels of a release, written down in a file that people review, and builds held to it."""
