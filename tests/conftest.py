"""Instrument the package: every jaxtyping shape in a signature is checked while the tests run."""

from jaxtyping import install_import_hook

install_import_hook("sfra", "beartype.beartype")
