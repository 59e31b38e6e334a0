"""Errors of the fake host."""

import unicodedata
from contextlib import contextmanager

from componentize_py_types import Err
from wit_world.imports import types


def check(valid, code, text, case=types.Error_Invalid):
    """Raises an error with a text if `valid` is false."""
    if not valid:
        raise Err(case(types.Problem(code, text)))


@contextmanager
def failing(failed, own):
    """Converts an error to the case `failed` of a function's own error type, except an error of the type `own`."""
    try:
        yield
    except Err as error:
        # `contextmanager` cannot raise the same `Err` again, because an `Err` is immutable.
        raise Err(error.value if isinstance(error.value, own) else failed(error.value)) from None


def is_line(text):
    """Returns whether a text has no control characters."""
    return not any(unicodedata.category(char) == "Cc" for char in text)
