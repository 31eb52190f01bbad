"""The words of commands that cannot be taken back, in the commonest languages, and of personal data.

Patterns are matched against `plain` text: case and accents folded, punctuation gone, so they are written without.
"""

import re
import unicodedata
from collections.abc import Sequence

Words = re.Pattern[str]


def plain(text: str) -> str:
    """Folded case, no accents, no punctuation, single blanks."""
    return " ".join(re.sub(r"[\W_]+", " ", _folded(text)).split())


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def _any(*patterns: str, start: str = r"\b(?:", end: str = r")\b") -> Words:
    """One of them as whole words; without patterns, nothing."""
    return re.compile(start + _folded("|".join(patterns)) + end) if patterns else re.compile(r"(?!)")


class Command:
    """One kind of command: phrases that are sure wherever a name begins with them, and verbs that open a name."""

    def __init__(
        self,
        reason: str,
        *,
        sure: Sequence[str],
        verbs: Sequence[str],
        last: Sequence[str] = (),
        nouns_too: Sequence[str] = (),
        script: Sequence[str] = (),
        harmless: Sequence[str] = (),
        in_carts_harmless: bool = False,
    ) -> None:
        self.reason = reason
        self.sure = _any(*sure)
        self.verb = _any(*verbs)
        self.infinitive = _any(*last, end=r")$")  # German and Dutch put the verb last
        self.noun_too = _any(*nouns_too)  # as a link they are places, not commands
        self.script = _any(*script, start="(?:", end=")")  # of languages without blanks
        self.harmless = _any(*harmless)
        self.asked = _any(*sure, *verbs, *last, *script)
        self.in_carts_harmless = in_carts_harmless


_MINE = r"(?: (?:my|your|our|the|this|these|all|mein\w*|ihr\w*|dein\w*|das|die|la|le|el|los|las|mi|tu|ma|mon|votre|l))?"
_DELETE = Command(
    "delete or cancel something",
    sure=(
        "permanently delete",
        "unsubscribe",
        rf"(?:cancel|end|terminate|stop){_MINE} (?:subscription|membership|order|booking|reservation|appointment|flight"
        r"|trip|stay|account|plan|trial|contract|policy|payment|service|event|meeting|ticket|auto ?renewal)s?",
        rf"(?:close|deactivate|delete|remove|terminate){_MINE} accounts?",
        "discard (?:the |this )?draft",
        "empty (?:the )?(?:trash|bin|recycle bin)",
        r"clear (?:all )?(?:history|data|browsing data|chat|conversation)",
        "revoke",
        "factory reset",
        "wipe",
        r"leave (?:the |this )?(?:group|team|organi[sz]ation|workspace|server)",
        r"(?:konto|abo|abonnement|vertrag|mitgliedschaft|bestellung|buchung|reservierung)(?: jetzt)? (?:löschen"
        "|kündigen|stornieren|beenden)",
        rf"annuler{_MINE} (?:commande|réservation|abonnement|rendez vous|vol)",
        "se désabonner",
        rf"(?:fermer|désactiver){_MINE} compte",
        rf"(?:cancelar|anular){_MINE} (?:suscripción|pedido|reserva|cuenta|membresía|assinatura|inscripción|cita)",
        "dar(?:se|me)? de baja",
        r"(?:annulla|disdici)(?: l| il| la)? ?(?:ordine|abbonamento|prenotazione|iscrizione)",
        "(?:bestelling|boeking|abonnement|reservering) (?:annuleren|opzeggen)",
        "anuluj (?:subskrypcję|zamówienie|rezerwację)",
    ),
    verbs=(
        "delete|remove|erase|destroy|deactivate",
        "supprimer|effacer|résilier|eliminar|borrar|elimina|cancella|rimuovi|disdici",
        "excluir|apagar|remover|verwijder|usuń|skasuj|удалить",
    ),
    last=(
        "löschen|entfernen|kündigen|stornieren|abbestellen",
        "verwijderen|wissen|opzeggen",
    ),
    script=("削除", "删除", "刪除", "解約", "退订", "取消订单"),
    harmless=(
        r"filt\w+",
        r"such\w*",
        r"search\w*",
        "recherche",
        "búsqueda",
        "ricerca",
        "query",
        "selection",
        "auswahl",
        "tags?",
        r"coupon|promo \w+|voucher|gutschein",
        r"(?:from|aus|du|de|del|dal|uit) (?:the |my |your |dem |la |el )?(?:cart|basket|bag|wish ?list|list|favou?rites"
        r"|compar\w+|warenkorb|merkliste|panier|carrito|cesta|carrello|winkelwagen)",
        "deleted",
        r"(?:background|duplicates?) (?:remov\w+|tool)",
    ),
    in_carts_harmless=True,
)
_PAY = Command(
    "buy or pay for something",
    sure=(
        "buy(?: it| this)? now",
        "(?:one|1) click",
        "(?:pay|purchase|order|donate) (?:now|in full|securely)",
        r"pay (?:\d+|usd|eur|gbp|with|by|using)",
        "order and pay",
        r"place(?: an?| my| your| the)? (?:order|bid)",
        rf"(?:complete|confirm|submit|finish|finali[sz]e){_MINE} (?:order|purchase|payment|transaction)",
        rf"start{_MINE}(?: free)? (?:trial|membership)",
        "(?:send|transfer|withdraw) (?:money|funds)",
        "(?:make|accept)(?: an| the| this)? offer",
        "(?:zahlungspflichtig|kostenpflichtig|verbindlich) (?:bestellen|buchen|kaufen|bieten)",
        "sofort ?kaufen",
        rf"(?:bestellung|zahlung|kauf){_MINE} (?:aufgeben|abschliessen|abschicken|abgeben|bestätigen)",
        r"(?:passer|valider|confirmer|finaliser)(?: la| ma| votre| une| le| mon| l)? ?(?:commande|paiement|achat)",
        r"(?:acheter|commander|payer) (?:maintenant|cet article|en ligne)",
        "faire un don",
        r"(?:realizar|confirmar|finalizar|hacer|fazer|concluir)(?: el| la| mi| tu| o| a| un)? (?:pedido|pago|compra"
        "|pagamento)",
        "(?:comprar|pagar) (?:ahora|ya|agora)",
        r"(?:effettua|conferma|completa|invia)(?: l| il| la)? ?(?:ordine|pagamento|acquisto)",
        "(?:acquista|compra|paga) (?:ora|adesso)",
        "bestelling (?:plaatsen|afronden|bevestigen)",
        "złóż zamówienie",
        "kupuję",
        "zamawiam",
        "оформить заказ",
    ),
    verbs=(
        "buy|purchase|pay|order|donate|bid|transfer|acheter|payer|commander|comprar|pagar|donar",
        "acquista|acquistare|compra|paga|doar|kup|zapłać|zamów|купить|оплатить|заказать",
    ),
    last=("kaufen", "bestellen", "bezahlen", "zahlen", "spenden", "überweisen", "kopen", "betalen"),
    nouns_too=("order", "bid", "compra", "commander", "purchase", "spenden", r"pay \w+", "transfer"),
    script=(
        "購入する",
        "購入を確定",
        "注文を確定",
        "注文する",
        "支払う",
        "购买",
        "購買",
        "支付",
        "付款",
        "提交订单",
        "下单",
    ),
    harmless=(
        r"^order (?:history|status|details|by|number|tracking|summary|again|id|form|date|total|type|confirmation)",
        r"^(?:pay|buy|purchase|bid) (?:history|later|monthly|guides?|back|lists?|info\w*|options?|it again|again)",
        "anzeigen",
    ),
)
_BOOK = Command(
    "book or reserve something",
    sure=(
        "(?:book|reserve)(?: it| this)? (?:now|online)",
        "instant book",
        "request to book",
        rf"(?:confirm|complete|finish|finali[sz]e)(?: and)?{_MINE} (?:book|booking|reservation|appointment|stay|trip)",
        "termin (?:buchen|vereinbaren|bestätigen)",
        "(?:buchung|reservierung) (?:abschliessen|bestätigen)",
        "réserver maintenant",
        "prendre rendez vous",
        rf"(?:confirmer|finaliser|confirmar|completar|conferma){_MINE} (?:réservation|reserva|prenotazione)",
        "(?:reservar|prenota) (?:ahora|agora|ora)",
        "boeking bevestigen",
    ),
    verbs=(
        "book|reserve|rsvp|schedule|réserver|reservar|agendar|prenota|prenotare",
        "zarezerwuj|rezerwuj|забронировать",
    ),
    last=("buchen", "reservieren", "boeken", "reserveren"),
    nouns_too=("book", "schedule", "boeken", "reserve"),
    script=("予約する", "予約を確定", "预订", "預訂"),
    harmless=(
        r"^book (?:reviews?|clubs?|details|lists?|shops?|stores?|covers?|titles?|series|of|by|one|two|three|\d+$)",
        r"^schedule (?:view|overview|settings)",
    ),
)
_SEND = Command(
    "send or publish something",
    sure=(
        r"send(?: my| your| the| this)? (?:messages?|e ?mails?|requests?|invit\w+|application|enquiry|inquiry|reply|now"
        r"|feedback|form|report|gift)",
        "publish",
        r"post(?: my| your| the| this)? (?:comment|reply|review|tweet|ad|job|message|answer|question|now)",
        r"submit(?: my| your| the| this)? (?:application|review|comment|claim|form|request|report|entry|responses?"
        r"|answers?|feedback|paper|assignment|ticket|question|rating|offer|vote|tax return)",
        "apply now",
        "easy apply",
        "sign(?: the| this)? petition",
        "cast(?: my| your)? vote",
        "jetzt bewerben",
    ),
    verbs=(
        "send|post|publish|retweet|envoyer|publier|soumettre|poster|postuler|enviar|publicar",
        "mandar|invia|inviare|pubblica|spedisci|verstuur|publiceer|wyślij|opublikuj",
        *("отправить", "опубликовать", "submit (?:an?|and) "),
    ),
    last=(
        "senden|absenden|abschicken|verschicken|versenden|veröffentlichen|posten|einreichen",
        "bewerben|verzenden|versturen|publiceren|indienen",
    ),
    nouns_too=("post", r"send \w+", "envoyer", "poster"),
    script=("送信", "投稿する", "发送", "發送", "发布", "發佈", "提交"),
    harmless=(
        r"^(?:send|enviar) (?:to (?:cart|back|front)|me to)",
        r"^post (?:details|history|settings|office|codes?|id|\d)",
    ),
)
COMMANDS: Sequence[Command] = (_DELETE, _PAY, _BOOK, _SEND)

LEAD_IN = re.compile(
    r"^(?:(?:yes|ok|okay|ja|oui|si|sim|tak|да|please|bitte|jetzt|nu|i want to|(?:confirm|review|agree|accept|save"
    r"|submit|continue|proceed|click(?: here)?|sign in|log in) (?:and|to)) )+"
)
BARE_YES = _any(
    "yes|ok|okay|confirm|proceed|continue|i agree|agree|ja|bestätigen|oui|confirmer|si|confirmar|conferma|sim",
    "potwierdź|tak|да|подтвердить|bevestigen|fortfahren|はい|确定|确认",
)
WITH_TEXT = _any(
    "reply|comment|share|post|tweet|submit|answer|done|kommentieren|antworten|teilen|répondre|partager|commenter",
    "responder|compartir|comentar|rispondi|condividi|commenta|reageren|plaatsen|odpowiedz|ответить",
    end=r")$",
)
MESSAGE = _any(
    r"messages?|comments?|reply|replies|chat|tweet|what s (?:happening|on your mind)|nachricht|kommentar|antwort",
    "mensaje|comentario|respuesta|commentaire|réponse|messaggio|commento|mensagem|bericht|reactie|wiadomość|сообщение",
)
SEARCH = _any(
    "search|find|filter|query|suche|suchen|recherche|rechercher|chercher|buscar|búsqueda|cerca|ricerca|zoeken|szukaj|поиск"
)
HARMLESS_BUTTON = _any(
    "cancel|back|close|reset|clear|show|hide|search|abbrechen|zurück|schliessen|suchen|annuler|retour|fermer|cancelar"
    "|volver|cerrar|annulla|indietro|chiudi|annuleren|terug|sluiten"
)
SUBMITTING = _any(
    r"sign (?:in|up|me up)|log ?(?:in|on)|register|join|create(?: (?:my|an|your))? account|continue|next|submit|save",
    "confirm|subscribe|done|verify|request|get|apply|add|anmelden|registrieren|weiter|speichern|einloggen|bestätigen|abonnieren",
    r"(?:se )?connecter|connexion|s inscrire|continuer|suivant|valider|enregistrer|iniciar sesión|entrar",
    r"registrar(?:se|me)?|siguiente|guardar|accedi|registrati|continua|avanti|salva|inloggen|doorgaan|volgende|opslaan|zaloguj|dalej|войти",
)
ROLE_WORDS = _any(
    "the|an?|button|link|icon|item|labell?ed|that says|on the page|at the (?:top|bottom)|orange|blue|green|red"
)
CART = re.compile(r"cart|basket|/bag\b|warenkorb|panier|carrito|cesta|carrello|winkelwagen|koszyk")
URL_WORDS = re.compile(
    r"(?<![\w-])(?:delete|destroy|unsubscribe|cancel-(?:order|subscription|booking|account)|place-?order|buy-?now"
    r"|confirm-?(?:order|payment|purchase))(?![\w-])"
)

PERSONAL_TOKENS: Sequence[tuple[Words, str]] = (
    (re.compile("password|current-password|new-password"), "a password"),
    (re.compile("one-time-code"), "a code"),
    (re.compile("cc-.*|transaction-.*"), "card details"),
    (re.compile("email"), "an e-mail address"),
    (re.compile("tel.*"), "a phone number"),
    (re.compile("street-address|address-line.*"), "an address"),
    (re.compile("bday.*"), "a date of birth"),
    (re.compile("username"), "a user name"),
    (re.compile("file"), "a file"),
)
PERSONAL: Sequence[tuple[Words, str]] = (
    (
        _any(
            "password|passwort|kennwort|mot de passe|contraseña|senha|wachtwoord|hasło|пароль|passcode|パスワード|密码"
        ),
        "a password",
    ),
    (
        _any(
            r"(?:card|credit card|debit card|account|routing|konto|karten) ?(?:number|nummer|no)|kartennummer"
            r"|kontonummer|numéro de (?:la )?carte|número de (?:la )?tarjeta|numero (?:della )?carta|kaartnummer",
            r"cvv|cvc|iban|bic|security code|sort code|name on (?:the )?card|expiry|expiration",
        ),
        "card details",
    ),
    (_any(r"e ?mails?|e ?mail \w+|courriel|correo(?: electrónico)?|e ?post"), "an e-mail address"),
    (
        _any(r"(?:mobile|cell) ?(?:number|phone)?|phone|telephone|telefon\w*|handynummer|téléphone|teléfono|telefone"),
        "a phone number",
    ),
    (
        _any(
            r"^address|(?:street|home|billing|shipping|delivery|mailing|postal) address|address line \d|strasse(?: .*)?"
            r"|anschrift|^adresse|dirección|indirizzo|endereço|^adres",
        ),
        "an address",
    ),
    (
        _any("date of birth|birth ?da(?:te|y)|geburtsdatum|date de naissance|fecha de nacimiento|data di nascita"),
        "a date of birth",
    ),
    (_any("social security|ssn|passport|ausweisnummer|tax id|national id|dni|steuernummer"), "an identity number"),
    (_any("user ?name|benutzername|nom d utilisateur|usuario|gebruikersnaam"), "a user name"),
)
