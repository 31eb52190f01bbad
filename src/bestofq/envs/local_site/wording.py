"""What a text environment says where an action cannot be carried out."""

from typing import NamedTuple


class Wording(NamedTuple):
    """Sentences of `Observation.error`, by default those of a browser. They may name the element by {mark}, {name} and
    {role}, the number of elements by {count}, an address by {url}."""

    no_way_back: str = "There is no page to go back to."
    no_element: str = "There is no element [{mark}] on this page."
    no_field: str = "Element [{mark}] is no text field."
    no_form: str = "Element [{mark}] belongs to no form."
    no_address: str = "{url} is not on this site: its addresses begin with /."
