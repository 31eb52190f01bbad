"""A page as HTML that a browser reads as the very text `page.render` writes: the template is `page.jinja`."""

from html import escape
from importlib.resources import files

from jinja2 import Environment

from bestofq.envs.local_site.page import Page

_JINJA = Environment(autoescape=False)
_JINJA.filters["e"] = escape
_PAGE = _JINJA.from_string(files(__package__).joinpath("page.jinja").read_text("utf-8"))


def to_html(page: Page, root: str, style: str) -> str:
    """`root` stands before every address of the page; `style` is CSS."""
    return _PAGE.render(page=page, root=root, style=style, kind=lambda part: type(part).__name__)
