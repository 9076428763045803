"""What the generator must not do to the relay that it asks."""

import schemathesis

OWN_TOKEN = 1

SHORTEST = {"Annals-Seen": "0-" + "0" * 64, "Content-Range": "bytes */1"}


@schemathesis.hook
def before_call(context, case, kwargs):
    # It would end the token that it shows.
    if str((case.path_parameters or {}).get("token")) == str(OWN_TOKEN):
        case.path_parameters["token"] = 10**9
    # A pull at the head waits for as long as it asks to.
    query = case.query or {}
    if str(query.get("wait", "")).isdigit():
        query["wait"] = "0"
    # What it takes for the shortest value of a pattern in several parts is empty.
    for name, value in SHORTEST.items():
        if (kwargs.get("headers") or {}).get(name) == "":
            kwargs["headers"][name] = value
        if (case.headers or {}).get(name) == "":
            case.headers[name] = value


@schemathesis.serializer("application/vnd.annals.batch", "application/vnd.annals.snapshot")
def raw(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
