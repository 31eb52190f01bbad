"""Best-of-Q and Agent Q: make a frozen web agent better at inference, and learn from its episodes.

The names of `__init__.pyi` are the public face. Each is loaded when it is first used: importing bestofq loads no torch.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
