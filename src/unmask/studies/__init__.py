"""The studies of the papers, on the rooms to the left.

`lab`, a public name of `unmask`, is loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules={"lab"})
