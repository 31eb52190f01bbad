"""What BrowserGym writes, in whose words several logs are: accessibility trees and actions."""

import ast
import re
from collections.abc import Mapping

from bestofq.core.actions import Action, Other
from bestofq.core.observation import Element
from bestofq.interop.actions import exactly
from bestofq.interop.nouns import element_of

_LINE = re.compile(r"""^\s*\[(\d{1,9})\] (\w+) ['"](.*?)['"](?:,|$)""", re.M)
_SIGNATURES: Mapping[str, tuple[str, tuple[str, ...]]] = {  # its actions that are exactly ours
    "click": ("click", ("mark",)),
    "fill": ("write", ("mark", "text")),
    "clear": ("clear", ("mark",)),
    "goto": ("goto", ("url",)),
    "go_back": ("go_back", ()),
    "noop": ("wait", ("seconds",)),
    "send_msg_to_user": ("answer", ("text",)),
}


def elements_in(text: str) -> tuple[Element, ...]:
    """Those of an accessibility tree, a line each: `[12] button 'Search', clickable`."""
    found = (element_of(int(mark), role, name) for mark, role, name in _LINE.findall(text))
    return tuple({element.mark: element for element in found if element is not None}.values())


def action_of(written: str) -> Action:
    """`click('12')` with nothing but values."""
    try:
        call = ast.parse(written.strip(), mode="eval").body
        values = [ast.literal_eval(one) for one in call.args] if isinstance(call, ast.Call) else []
    except (SyntaxError, ValueError):
        return Other(text=written)
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return Other(text=written)
    kind, names = _SIGNATURES.get(call.func.id, ("", ()))
    if len(values) != len(names):
        return Other(text=written)
    given = dict(zip(names, values, strict=True))
    if "seconds" in given:  # of milliseconds
        given["seconds"] = given["seconds"] / 1000
    return exactly(kind, written, **given)
