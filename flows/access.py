"""Who may talk to the Prefect API that a flow uses: nobody without a password.

Whoever can talk to the API can start programs as the user of the worker, and
read the steward's secret. The API is open unless it is given a password, and
"on this machine only" means every user of the machine.

To be imported before anything of Prefect starts: a run without a server
brings its own, which gets a random password that only this process and its
children know.
"""

import os
import secrets

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.context import refresh_global_settings_context
from prefect.settings import get_current_settings

from anonpipe.errors import JobError

OF_SERVER, OF_CLIENTS = "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"
EXAMPLES = ("change-me", "your-password-here", "password1234")
SHORTEST = 12

_HOW = (
    f"give the server {OF_SERVER}, and clients and worker the same as {OF_CLIENTS}: a name, a colon and a random "
    "password, generated as in docs/runbook.md (2. Secret, password, environment)"
)


def close_own_server() -> None:
    """Where no server is named, the one that the run will bring answers to this process only."""
    if get_current_settings().api.url is None:
        os.environ[OF_SERVER] = os.environ[OF_CLIENTS] = f"anonpipe:{secrets.token_urlsafe(32)}"
        refresh_global_settings_context()


def refuse_open_api() -> None:
    """Stop where the API answers without a password, or with one that everybody can guess.

    Raises
    ------
    JobError
        The password is that of an example, is short, is not asked for, or
        is refused; or it cannot be found out whether it is.
    """
    settings = get_current_settings()
    for given in (settings.api.auth_string, settings.server.api.auth_string):
        password = None if given is None else given.get_secret_value().partition(":")[2]
        if password is not None and (password in EXAMPLES or len(password) < SHORTEST):
            raise JobError(
                f"the password of the Prefect API is that of an example, or shorter than {SHORTEST} characters; {_HOW}"
            )
    url = str(settings.api.url or get_client(sync_client=True).api_url)
    status = _status(SyncPrefectClient(url))
    if status is None:
        raise JobError(f"the Prefect API at {url} does not answer; start the server, or correct PREFECT_API_URL")
    if status not in (401, 403):
        raise JobError(
            f"the Prefect API at {url} answers without a password: any user of the machine could run programs as you, "
            f"and read the secret; {_HOW}"
        )
    if _status(get_client(sync_client=True)) in (401, 403):
        what = "asks for a password, and none was given" if settings.api.auth_string is None else "refuses the password"
        raise JobError(f"the Prefect API at {url} {what}; {_HOW}")


def refuse_open_server() -> None:
    """The same before a run starts, which sends the job: an own server is not up by then."""
    if get_current_settings().api.url is not None:
        refuse_open_api()


def _status(client: SyncPrefectClient) -> int | None:
    """The status of an answer to a request of this client; None for no answer."""
    try:
        return client.request("GET", "/admin/version").status_code
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    except httpx.HTTPError:
        return None


close_own_server()
