"""How an episode of an agent ended, as somebody posts it."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bestofq.core.decision import Verdict
from bestofq.core.errors import DataError, SetupError
from bestofq.interop.nouns import json_in
from bestofq.serve.sessions import Sessions


async def outcome(sessions: Sessions, request: Request) -> Response:
    """`{"success": true}`, or `{"reward": 0.4}` too; `reason` and `judge` (who says so) where known."""
    name = request.path_params["session"]
    try:
        said = json_in(await request.body())
        success = bool(said["success"])
        verdict = Verdict(
            reward=float(said.get("reward", success)),
            outcome="success" if success else "failure",
            reason=str(said.get("reason", "")),
            judge=str(said.get("judge", "client")),
        )
        await sessions.outcome(name, verdict)
    except DataError as error:
        return _error_response(404, str(error))
    except SetupError as error:  # the store cannot be written
        return _error_response(503, str(error))
    except (ValueError, KeyError, TypeError, AttributeError):
        what = 'an outcome is {"success": true or false}, with reward from 0 to 1, reason and judge where known'
        return _error_response(422, what)
    return JSONResponse({"session": name, "outcome": verdict.outcome})


def _error_response(status: int, why: str) -> Response:
    return JSONResponse({"error": {"message": why}}, status)
