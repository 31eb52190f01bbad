"""What the site knows of a visit: a value, replaced after each request, so that an earlier one can be put back."""

from dataclasses import dataclass

from bestofq.envs.booking.tables import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Details:
    """What a guest has sent."""

    name: str = ""
    phone: str = ""
    email: str = ""

    @property
    def wanting(self) -> tuple[str, ...]:
        """The fields that the site does not accept so."""
        wrong = {"Name": not self.name, "Phone": not self.phone, "Email": "@" not in self.email}
        return tuple(field for field, is_wrong in wrong.items() if is_wrong)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    table: Table
    details: Details


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """The site's record of one episode."""

    city: str  # where it began
    held: Table | None = None  # whose details form was shown last
    draft: Details | None = None  # sent and not accepted
    reservation: Reservation | None = None
