"""What a user is asked about first, and what is done without asking."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from bestofq.browser.browser import Browser
from bestofq.browser.session import BrowserSession
from bestofq.core.actions import Answer, Clear, Click, GoBack, Goto, Press, Refresh, Scroll, Submit, Upload, Wait, Write
from bestofq.core.observation import Box, Element, Observation, Point
from bestofq.envs.serving import serve_app
from bestofq.safety.irreversible import irreversible

SHOP = "http://shop.test/item/7"
BUY, SEND, DELETE, BOOK = "buy or pay", "send or publish", "delete or cancel", "book or reserve"
RESET = "restore, reset or wipe"


def page(*elements: tuple[Any, ...], url: str = SHOP, text: str = "") -> Observation:
    """Elements as (role, name) or (role, name, {more fields}), marks from 1."""
    made = (
        Element(mark=mark, role=role, name=name, **(more[0] if more else {}))
        for mark, (role, name, *more) in enumerate(elements, 1)
    )
    return Observation(url=url, title="", text=text, elements=tuple(made))


NAMED: dict[tuple[str | None, str], str] = {  # reason and role: names
    (BUY, "button"): (
        "Buy now | Buy Now: Kettle, blue, $24.99 for 1 piece | Place your order | Pay $12.99 | "
        "🔒 Confirm and pay | Complete purchase | Start my free trial | Zahlungspflichtig bestellen | "
        "Jetzt kaufen | Valider ma commande | Realizar pedido | Acquista ora | Оплатить | 注文を確定する"
    ),
    (BUY, "link"): "Buy now",
    (BUY, "clickable"): "Donate",
    (SEND, "button"): (
        "Send | Publish | Post comment | Submit application | Absenden | Nachricht senden | Envoyer | Enviar mensaje"
    ),
    (SEND, "link"): "Send feedback",
    (DELETE, "button"): (
        "Delete | Yes, cancel my subscription | Close my account | Konto löschen | Abo kündigen | "
        "Supprimer le compte | Eliminar cuenta | Cancel booking | Tag löschen | Vil du slette skriptet? | "
        "자동화를 삭제하시겠습니까? | Xóa tất cả các sự kiện trong tương lai | Confirmer la suppression du compte | "
        "Veranstaltung absagen"
    ),
    (DELETE, "link"): "Delete account | Unsubscribe",
    (DELETE, "menuitem"): "Remove",
    (RESET, "button"): (
        "Restore backup | Cloud-Daten zurücksetzen | Přivést zpět tovární nastavení | "
        "Felhőadatok visszaállítása | 恢复出厂设置"
    ),
    (RESET, "link"): "Factory reset",
    (BOOK, "button"): "Book | Book a table | Reserve | Confirm reservation | Termin buchen | Réserver",
    (BOOK, "link"): "Book now",
    (None, "button"): (
        "Choose file | Reset zoom | Reset filters | Reset form | Clear | Create backup | Remove all selections | "
        "Odhlásit se | Add to cart | In den Warenkorb | Ajouter au panier | Order by price | Book reviews | "
        "Delete filter | Filter löschen | Supprimer le filtre | Remove from wishlist | Remove from cart | "
        "Cancel | Next | Search | Submit | Reply | Share | Accept all cookies | Apply filters | Sign in | Log out"
    ),
    (None, "tab"): "Reset data | Buy",
    (None, "link"): (
        "Checkout | Proceed to checkout | Order history | Orders | Payment methods | Buying guide | "
        "Buy Less, Live More: a book about things | Book | The Book Thief | Book of the month | Books | "
        "Bookings | Deleted scenes | Blog posts | Post | Sent | Sendung mit der Maus"
    ),
    (None, "radio"): "Delete after 30 days",
    (None, "checkbox"): "Send me offers",
    (None, "combobox"): "Book",
}


@pytest.mark.parametrize(
    ("reason", "role", "name"), [(*of, name) for of, names in NAMED.items() for name in names.split(" | ")]
)
def test_what_a_click_does_by_its_name(reason: str | None, role: str, name: str) -> None:
    said = irreversible(Click(mark=1), page((role, name)))
    if reason is None:
        assert said is None
    else:
        assert said.startswith(reason)
        assert name[:20] in said


def login(*, password: str = "", form: int | None = 1) -> Observation:
    return page(
        ("textbox", "User", {"form": form, "value": "ann"}),
        ("textbox", "Secret", {"form": form, "value": password, "asks": "password"}),
        ("button", "Sign in", {"form": form}),
        ("searchbox", "Search", {"form": 2, "value": "my@mail.test"}),
        ("button", "Go", {"form": 2}),
        ("button", "Cancel", {"form": form}),
        ("button", "Menu"),
    )


@pytest.mark.parametrize(
    ("action", "seen", "reason"),
    [
        (Click(mark=3), login(password="••••"), "submit personal data (a password)"),
        (Click(mark=3), login(password="••••", form=None), "submit personal data (a password)"),
        (Click(mark=3), login(), None),
        (Click(mark=7), login(password="••••", form=None), None),
        (Click(mark=5), login(password="••••"), None),
        (Click(mark=6), login(password="••••"), None),
        (Write(mark=2, text="hunter2"), login(), None),
        (Write(mark=2, text="hunter2", enter=True), login(), "submit personal data (a password)"),
        (Write(mark=2, text="hunter2", enter=True), login(form=None), "submit personal data (a password)"),
        (Write(mark=1, text="bob", enter=True), login(password="••••"), "submit personal data (a password)"),
        (Write(mark=2, text="", enter=True), login(password="••••"), None),
        (Write(mark=4, text="red shoes", enter=True), login(password="••••"), None),
        (Submit(mark=1), login(password="••••"), "submit personal data (a password)"),
        (Submit(mark=4), login(password="••••"), None),
        (Press(mark=2, keys="Tab Enter"), login(password="••••"), "submit personal data (a password)"),
        (Press(mark=3, keys="Space"), login(password="••••"), "submit personal data (a password)"),
        (Press(mark=2, keys="Space"), login(password="••••"), None),
        (Press(mark=3, keys="Escape"), login(password="••••"), None),
        (Press(keys="Enter"), login(password="••••"), None),
        (Upload(mark=7, file="cv.pdf"), login(), 'upload a file ("cv.pdf")'),
    ],
)
def test_what_a_form_sends(action: Any, seen: Observation, reason: str | None) -> None:
    assert irreversible(action, seen) == reason


@pytest.mark.parametrize(
    ("name", "more", "what"),
    [
        ("Card number", {}, "card details"),
        ("Kartennummer", {}, "card details"),
        ("Number", {"asks": "cc-number"}, "card details"),
        ("E-Mail-Adresse", {}, "an e-mail address"),
        ("Your email", {"asks": "email"}, "an e-mail address"),
        ("Phone", {"asks": "tel-national"}, "a phone number"),
        ("Teléfono", {}, "a phone number"),
        ("Street address", {}, "an address"),
        ("Date of birth", {}, "a date of birth"),
        ("Search by email", {}, None),
        ("Quantity", {}, None),
        ("City", {}, None),
        ("Web address", {}, None),
    ],
)
def test_which_fields_are_personal(name: str, more: dict[str, Any], what: str | None) -> None:
    seen = page(("textbox", name, {"form": 1, "value": "1234", **more}), ("button", "Next", {"form": 1}))
    assert irreversible(Click(mark=2), seen) == (what and f"submit personal data ({what})")
    empty = page(("textbox", name, {"form": 1, "value": " ", **more}), ("button", "Next", {"form": 1}))
    assert irreversible(Click(mark=2), empty) is None


def test_a_form_is_known_by_its_button_also_when_enter_sends_it() -> None:
    seen = page(("textbox", "Gift code", {"form": 1}), ("button", "Place order", {"form": 1}))
    assert irreversible(Write(mark=1, text="X", enter=True), seen) == 'buy or pay for something ("Place order")'
    assert irreversible(Submit(mark=1), seen) == 'buy or pay for something ("Place order")'
    assert irreversible(Write(mark=1, text="X"), seen) is None


def test_a_message_goes_off_by_enter_or_by_a_button_beside_it() -> None:
    seen = page(
        ("textbox", "Write a comment…", {"value": "hello"}), ("button", "Reply"), ("searchbox", "Search messages")
    )
    assert irreversible(Write(mark=1, text="hi all", enter=True), seen) == 'send or publish "hi all"'
    assert irreversible(Click(mark=2), seen) == 'send or publish something ("Reply")'
    assert irreversible(Write(mark=3, text="hi", enter=True), seen) is None


def test_a_bare_yes_means_the_question_before_it() -> None:
    asked = "Notes\nAre you sure you want to delete this note?\nYes [1]\nNo [2]"
    seen = page(("button", "Yes"), ("button", "No"), text=asked)
    assert irreversible(Click(mark=1), seen) == 'delete or cancel something ("Yes")'
    assert irreversible(Click(mark=2), seen) is None
    assert irreversible(Click(mark=1), page(("button", "Yes"), text="Do you like tea?\nYes [1]")) is None
    reset = page(("button", "Yes"), text="Reset the cloud data?\nYes [1]")
    assert irreversible(Click(mark=1), reset) == 'restore, reset or wipe data ("Yes")'


def test_removing_from_a_cart_is_no_loss() -> None:
    assert irreversible(Click(mark=1), page(("button", "Remove"), url="http://shop.test/cart?x=1")) is None
    assert irreversible(Click(mark=1), page(("button", "Delete account"), url="http://shop.test/cart")) is not None


def test_a_point_means_the_innermost_element_under_it() -> None:
    seen = page(
        ("clickable", "A card with all sorts of things in it", {"box": Box(0, 0, 400, 300)}),
        ("button", "Pay now", {"box": Box(10, 10, 80, 20)}),
        ("button", "Details", {"box": Box(10, 40, 80, 20)}),
    )
    assert irreversible(Click(point=Point(20, 20)), seen) == 'buy or pay for something ("Pay now")'
    assert irreversible(Click(point=Point(20, 50)), seen) is None
    assert irreversible(Click(point=Point(300, 200)), seen) is None
    assert irreversible(Click(point=Point(900, 700)), seen) is None


def test_words_that_are_not_located_yet_are_judged_as_words() -> None:
    seen = page(("button", "Pay now"))
    assert irreversible(Click(target='the orange "Place order" button'), seen) is not None
    assert irreversible(Click(target="the delete button of the second note"), seen) is not None
    assert irreversible(Click(target="the search button"), seen) is None
    password = Write(target="the password field", text="hunter2", enter=True)
    assert irreversible(password, seen) == "submit personal data (a password)"
    assert irreversible(Write(target="the comment box", text="hi", enter=True), seen) == 'send or publish "hi"'
    assert irreversible(Write(target="the search box", text="hi", enter=True), seen) is None


def test_a_file_is_not_chosen_without_asking() -> None:
    seen = page(("button", "CV", {"asks": "file", "value": ""}))
    assert irreversible(Click(mark=1), seen) == "choose a file to upload"


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("http://shop.test/notes/3/delete", True),
        ("http://shop.test/note?action=delete&id=3", True),
        ("http://shop.test/unsubscribe", True),
        (r"http://shop.test\account\delete", True),
        (r"https:\\shop.test\account%5Cconfirm", True),
        ("http://shop.test/notes/de\tle\r\nte", True),
        ("http://shop.test/blog/how-to-delete-an-account", False),
        ("http://shop.test/cart", False),
    ],
)
def test_addresses_that_do_something(url: str, is_one: bool) -> None:
    assert (irreversible(Goto(url=url), page()) is not None) == is_one


def test_what_only_looks_is_never_asked_about() -> None:
    seen = login(password="••••")
    for action in (Scroll(), GoBack(), Refresh(), Wait(), Answer(text="delete"), Clear(mark=2), Click(mark=99)):
        assert irreversible(action, seen) is None


@pytest.mark.parametrize(
    ("role", "name", "more", "reason"),
    [
        ("button", "𝐁𝐮𝐲 𝐧𝐨𝐰", {}, BUY),
        ("button", "B\u200bu\u200by n\u2060ow", {}, BUY),
        ("button", "Unsub\u00adscribe", {}, DELETE),
        ("button", "\u0412u\u0443 n\u043ew", {}, BUY),  # Cyrillic
        ("button", "K\u0443пить ceй\u0447ac", {}, BUY),  # Latin within Cyrillic
        ("tab", "Buy now", {}, BUY),
        ("switch", "Delete account", {}, DELETE),
        ("treeitem", "Delete repository", {}, DELETE),
        ("option", "Sort by deletion date", {}, None),
        ("link", "Continue", {"href": "/checkout/complete"}, "call"),
        ("link", "More", {"href": "/account/%2564elete"}, "call"),
        ("link", "Help", {"href": "/help/how-to-delete-an-account"}, None),
        ("button", "Continue", {"shown": "Place order"}, BUY),
        ("button", "Delete", {"shown": "Learn more"}, DELETE),
        ("link", "Kettle", {"shown": "A kettle that whistles\nPay now"}, BUY),
        ("button", "", {"form": 1}, "send a form"),
        ("button", "", {}, None),
        ("unreadable", "", {}, "press"),
        ("button", "No, keep my account", {}, None),
        ("button", "No, cancel my subscription", {}, DELETE),
        ("button", "Nein, löschen", {}, DELETE),
        ("button", "Nein, nicht löschen", {}, None),
        ("button", "No prepayment needed – Book now", {}, "book"),
        ("link", "Non-refundable rate, pay now", {}, BUY),
        ("button", "Non-refundable Pay now", {}, BUY),
        ("button", "Do not place order", {}, None),
        ("button", "No, don't pay now", {}, None),
        ("link", "Non-stop flights", {}, None),
        ("button", "How do I cancel my order?", {}, None),
        ("button", "How do I reset my data?", {}, None),
    ],
)
def test_a_name_is_read_as_a_person_reads_it(role: str, name: str, more: dict[str, Any], reason: str | None) -> None:
    said = irreversible(Click(mark=1), page((role, name, more)))
    assert said is None if reason is None else (said or "").startswith(reason)


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        (Click(mark=2), True),  # the form's button
        (Write(mark=1, text="x", enter=True), True),
        (Submit(mark=1), True),
        (Click(mark=4), True),  # beside a filled field that is in no form
        (Click(target="the blue arrow"), True),  # which may be one
        (Click(mark=1), False),
        (Click(mark=5), False),
        (Write(mark=1, text="x"), False),
    ],
)
def test_every_form_can_be_asked_about(action: Any, asked: bool) -> None:
    seen = page(
        ("textbox", "Quantity", {"form": 1, "value": "2"}),
        ("button", "Next", {"form": 1}),
        ("textbox", "Note", {"value": "hello"}),
        ("button", "→"),
        ("tab", "Details", {"form": 1}),
    )
    assert irreversible(action, seen) is None
    assert (irreversible(action, seen, forms=True) == "send a form") is asked


def test_no_address_is_too_odd_to_be_judged() -> None:
    for url in ("http://[::1", "http://a.test:99999/delete", "%", "javascript:alert(1)", "//"):
        irreversible(Goto(url=url), page())
    assert irreversible(Goto(url="http://[::1/delete"), page()) is not None


STYLE = """<style>.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip: rect(0,0,0,0) }
.in { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden }
i { display: inline-block; width: 9px; height: 9px }</style>"""
LONG = "A long story about a kettle. " * 12
ICON = "<svg width=9 height=9></svg>"
ASKED = (
    "<button>Delete account</button>",
    f"<button aria-label='Delete account'>{ICON}</button>",
    f"<button>{ICON}<span class=sr>Delete account</span></button>",
    f"<button>{ICON}<span class=in>Place order</span></button>",
    "<button><i title='Delete row'></i></button>",
    f"<button aria-labelledby=n>{ICON}</button><div hidden id=n><span>Pay now</span></div>",
    "<button><svg width=9 height=9><title>Delete file</title></svg></button>",
    "<button><img alt='Delete photo' width=9 height=9></button>",
    "<input type=image alt='Buy now'>",
    "<button><svg data-testid=DeleteIcon width=9 height=9></svg></button>",
    f"<button data-tooltip='Delete account'>{ICON}</button>",
    f"<a href=# title='Pay now'>{ICON}</a>",
    "<div role=button tabindex=0><span class=sr>Place order</span></div>",
    f"<button><span style='font-size:0'>Delete account</span>{ICON}</button>",
    "<button style='text-indent:-999px;overflow:hidden;width:20px;height:20px'>Delete account</button>",
    "<button><i class='fa fa-trash'></i></button>",
    "<button><svg width=9 height=9><use href='#icon-trash-can'/></svg></button>",
    "<button>Info<span class=sr>Delete account</span></button>",
    "<button><i title='Delete row'></i>Info</button>",
    f"<button>{LONG} Pay now</button>",
    f"<a href=#>{LONG}<p>Pay now</p></a>",
    "<svg role=button tabindex=0 aria-label=Info width=90 height=30><text y=20>Pay now</text></svg>",
    "<input type=button aria-label=Info value='Pay now'>",
    "<label>Pay now<input type=checkbox aria-label=Info style='display:none'></label>",
    f"<form action=/order><button>{ICON}</button></form>",
)
NOT_ASKED = (
    "<button>Show details</button><a href=#t>Trash</a><button><i class='fa fa-search'></i></button>"
    f"<form><input type=search><button>{ICON}</button></form>"
)


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_named_for_some_is_asked_about(browser: Browser) -> None:
    async def page(_: Any) -> HTMLResponse:
        return HTMLResponse(f"<!doctype html>{STYLE}{''.join(ASKED)}{NOT_ASKED}")

    async with serve_app(Starlette(routes=[Route("/", page)])) as url:
        session = BrowserSession(browser)
        await session.reset(url)
        seen = await session.snapshot()
        await session.close()
    names = [(one.name, irreversible(Click(mark=one.mark), seen) is not None) for one in seen.elements]
    assert [asked for _, asked in names] == [True] * len(ASKED) + [False] * 5, names
