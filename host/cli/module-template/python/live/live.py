"""The entry point of components that `latchmail module dev` builds.

Such a component contains the text of the module's sources, and imports them again in each sandbox.
So a change of a source only replaces the text, which takes no build. Components for production do
not contain this file.
"""

import importlib
import importlib.abc
import importlib.util
import json
import sys
from pathlib import Path

import app


def _names(files):
    """Returns the names of modules by the relative paths of their files."""
    return [file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in files]


def _import_all():
    """Imports all modules that the sources need. A sandbox has no files, so it cannot read them later."""
    folder = Path(app.__file__).parent
    for name in _names(str(file.relative_to(folder)) for file in sorted(folder.rglob("*.py"))):
        try:
            importlib.import_module(name)
        except Exception:
            # `app` does not import this module. If it does so later, it reports the error.
            pass


_import_all()

# build.py finds this text in the component, and writes the sources over the spaces.
MARK = b"latchmail-live-sources:"
SIZE = 256 * 1024
SOURCES = MARK + b" " * SIZE


class _Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from texts, by the path of their files."""

    def __init__(self, texts):
        self._texts = texts

    def find_spec(self, name, path=None, target=None):
        file = name.replace(".", "/")
        for origin in (f"{file}.py", f"{file}/__init__.py"):
            if origin in self._texts:
                is_package = origin.endswith("/__init__.py")
                return importlib.util.spec_from_loader(name, self, origin=origin, is_package=is_package)
        return None

    def exec_module(self, module):
        origin = module.__spec__.origin
        exec(compile(self._texts[origin], origin, "exec"), module.__dict__)


class _Export:
    """The functions of an export, from the current sources."""

    def __init__(self, name):
        self._name = name
        self._current = None

    def __getattr__(self, function):
        if self._current is None:
            self._current = getattr(_current_app(), self._name)()
        return getattr(self._current, function)


def _current_app():
    """Imports the sources at the first call in a sandbox."""
    if not any(isinstance(finder, _Sources) for finder in sys.meta_path):
        texts = json.loads(SOURCES[len(MARK) :])
        for name in _names(texts):
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, _Sources(texts))
    return importlib.import_module("app")


def Module():
    return _Export("Module")


def Handlers():
    return _Export("Handlers")
