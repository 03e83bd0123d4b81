"""What a check is doing, on a terminal: one line that the next one replaces."""
from __future__ import annotations

import contextlib
from typing import Iterator, List, TextIO

_terminals: List[TextIO] = []


def say(what: str) -> None:
    for terminal in _terminals:
        terminal.write(f"\r\033[Krecapture check: {what} …")
        terminal.flush()


@contextlib.contextmanager
def shown_on(stream: TextIO) -> Iterator[None]:
    """Shows what is said within, if the stream is a terminal; nothing of it stays."""
    if not stream.isatty():
        yield
        return
    _terminals.append(stream)
    try:
        yield
    finally:
        _terminals.remove(stream)
        stream.write("\r\033[K")
        stream.flush()
