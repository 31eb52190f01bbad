"""What a user names in settings and on the command line as `my_package.my_module:my_object`."""

import importlib
import sys
from pathlib import Path

from bestofq.core.errors import ConfigError


def load_object(name: str) -> object:
    """The object of that name; modules are also looked for in the current folder.

    Raises ConfigError where there is no such module or object, and where the module itself cannot be imported.
    """
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise ConfigError(f"{name!r} cannot be loaded: the module {module} has no {attribute!r}") from error
    except Exception as error:  # whatever a module of the user's does when it is imported
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{name!r} cannot be loaded from {here}: importing {module} raised {said}") from error
