"""A page as HTML that a browser reads as the very text `page.render` writes."""

from html import escape

from bestofq.envs.local_site.page import Button, Choice, Field, Form, Line, Link, Node, Page


def to_html(page: Page, root: str, style: str) -> str:
    """`root` stands before every address of the page; `style` is CSS."""
    body = "\n".join(_form(part, root) if isinstance(part, Form) else _line(part, root) for part in page.parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(page.title)}</title>'
        f'<link rel="icon" href="data:,"><style>{style}</style></head><body>{body}</body></html>'
    )


def _form(form: Form, root: str) -> str:
    hidden = "".join(f'<input type="hidden" name="{key}" value="{escape(value)}">' for key, value in form.hidden)
    lines = "\n".join(_line(line, root, again=root + form.again) for line in form.lines)
    method = "post" if form.post else "get"
    return f'<form novalidate method="{method}" action="{escape(root + form.action)}">{hidden}{lines}</form>'


def _line(line: Line, root: str, *, again: str = "") -> str:
    return f"<div>{' '.join(_node(node, root, again) for node in line)}</div>"


def _node(node: Node, root: str, again: str) -> str:
    match node:
        case str():
            return escape(node)
        case Link(role="radio"):
            state = f'role="radio" aria-checked="{"true" if node.checked else "false"}"'
            return f'<a {state} href="{escape(root + node.to)}">{escape(node.name)}</a>'
        case Link():
            return f'<a href="{escape(root + node.to)}">{escape(node.name)}</a>'
        case Button(to=str(to)) if to:
            return f'<form method="post" action="{escape(root + to)}"><button>{escape(node.name)}</button></form>'
        case Button():
            return f"<button>{escape(node.name)}</button>"
        case Field():
            named = f'type="{node.kind}" name="{node.key}" aria-label="{escape(node.name)}"'
            return _labelled(node.name, f'<input {named} value="{escape(node.value)}" autocomplete="off">')
        case Choice():
            options = "".join(
                f'<option value="{escape(value)}"{" selected" if value == node.value else ""}>{escape(shown)}</option>'
                for value, shown in node.options
            )
            change = f"this.form.action='{again}';this.form.submit()"
            named = f'name="{node.key}" aria-label="{escape(node.name)}" autocomplete="off"'
            return _labelled(node.name, f'<select {named} onchange="{escape(change)}">{options}</select>')


def _labelled(name: str, html: str) -> str:
    """With a label that is drawn and not text of the page, where the control's own name stands already."""
    return f'<span data-label="{escape(name)}">{html}</span>'
