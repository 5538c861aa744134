"""What runs where a worker is: it is set up once, and then computes one item after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unmask.common.errors import UnmaskError
from unmask.common.files import first_line


class Worker:
    """In a worker's process: gets (function, setup) and answers None, then gets items and answers
    their results.
    """

    function: Callable[..., Any] | None = None
    loaded: Any = None

    def answer(self, message: Any) -> Any:
        """The result, or the error that ends the loop."""
        try:
            if self.function is not None:
                return self.function(self.loaded, message)
            function, setup = message
            self.loaded = setup()
            self.function = function  # only now: a worker whose setup failed takes no items
        except UnmaskError as error:
            return error
        except Exception as error:
            failed = f"a worker failed ({type(error).__name__}: {first_line(error)})"
            return UnmaskError(f"{failed}: the same command tries again")
