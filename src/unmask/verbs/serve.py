"""The verb `serve`: the page and its JSON interface on this machine, until it is interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Written
from unmask.common.errors import InputError
from unmask.models.load import Model
from unmask.verbs import PathLike


@checked
def serve(
    model: Model = None,
    *,
    beside: Annotated[Sequence[PathLike], Written(metavar="MODEL", repeat=True)] = (),
    host: str = "127.0.0.1",
    port: Annotated[int, Interval(ge=0, le=65535)] = 8000,
    allow_host: Annotated[Sequence[str], Written(metavar="NAME", repeat=True)] = (),
    ready: Callable[[str], None] | None = None,
) -> None:
    """Open a page on this machine that shows joints, dependence, chains and scores of a model,
    until Ctrl-C.

    The models are loaded once, before the page is up.

    Parameters:
        beside: Another model, which the page shows in place of the first or beside it; repeat
            for more.
        host: Where to listen; there is no password.
        port: Of the page; 0 takes a free one.
        allow_host: Another name or address of this server, for example that of a proxy in front
            of it; repeat for more.
        ready: Called with the page's address once it can be opened; otherwise the address is
            printed.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise InputError(
            "the page needs fastapi and uvicorn, which are not installed: pip install"
            " 'unmask[serve]'"
        ) from None
    from unmask.surfaces.serving.server import print_address, run_page

    printed = partial(print_address, host=host, hosts=allow_host)
    run_page(
        model,
        beside=beside,
        host=host,
        port=port,
        hosts=allow_host,
        ready=ready or printed,
    )
