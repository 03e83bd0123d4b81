"""Keeps Python's garbage collector off what is older than a check."""
from __future__ import annotations

import contextlib
import gc
from typing import Iterator

_set_aside = False


@contextlib.contextmanager
def old_objects_set_aside() -> Iterator[None]:
    """Within, the collector looks only through objects made since.

    A recording makes so many objects that it would look through everything that PyTorch has imported, several times, and
    so does a collection before a capture: one takes as long as ten calls of a training step.
    """
    global _set_aside
    if gc.get_freeze_count():  # The program has set objects aside itself; unfreeze() would be of those, too.
        yield
        return
    gc.collect()  # What is garbage already would stay for as long.
    gc.freeze()
    _set_aside = True
    try:
        yield
    finally:
        try:
            if _set_aside:
                gc.collect()  # Of what the check has left, such as recordings.
        finally:
            look_at_old_objects()


def look_at_old_objects() -> None:
    """Ends it early: a collection frees what the program's own would."""
    global _set_aside
    if _set_aside:
        gc.unfreeze()
    _set_aside = False
