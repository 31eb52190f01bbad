"""What a program says, for machines: one JSON object a line on stderr."""

import io
import json
import logging
import sys
from datetime import UTC, datetime


class JsonLines(io.StringIO):
    """A console's file: what is printed in one go is the `message` of one object."""

    def write(self, text: str) -> int:
        if said := text.strip():
            self.say(level="info", message=said)
        return len(text)

    def say(self, **facts: object) -> None:
        """One object of these facts, with its time in UTC."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts}
        print(json.dumps(line, ensure_ascii=False, default=str), file=sys.stderr, flush=True)  # noqa: T201


class JsonHandler(logging.Handler):
    """Log records as such objects."""

    def emit(self, record: logging.LogRecord) -> None:
        facts = {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            facts["exception"] = logging.Formatter().formatException(record.exc_info)
        JsonLines().say(**facts)
