"""What Prefect checks parameters against, and draws its form from."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from anonpipe.job.model import Job

Schema = dict[str, Any]

_TYPES = {
    "null": "not given",
    "string": "text",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "array": "list",
    "object": "keys",
}


STUDIO = (
    " A job file is easier to edit: `anonpipe studio` shows columns as a form, and the deployment job-file runs it."
)


class _AsForm:
    """Names the alternatives of a key, and keeps the order of keys."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        schema = handler(core)
        name_alternatives(schema, handler.resolve_ref_schema)
        handler.resolve_ref_schema(schema)["properties"]["columns"]["description"] += STUDIO
        keep_order(schema, handler.resolve_ref_schema)
        return schema


def keep_order(schema: Schema, resolve: Callable[[Schema], Schema]) -> None:
    """Give each key its place in the form: Postgres sorts the keys of what it stores by their length.

    Parameters
    ----------
    schema
        Changed, and so is what it refers to.
    resolve
        Of a reference, what it refers to; of another schema, itself.

    Examples
    --------
    >>> job = {"properties": {"input": {"type": "string"}, "k": {"type": "integer"}}}
    >>> keep_order(job, lambda schema: schema)
    >>> [each["position"] for each in job["properties"].values()]
    [0, 1]
    """
    for part in _parts(schema, resolve):
        for position, field in enumerate(part.get("properties", {}).values()):
            field["position"] = position


def name_alternatives(schema: Schema, resolve: Callable[[Schema], Schema]) -> None:
    """Give each alternative of each key a title, which is what the form writes on its button.

    Methods are called as in a job. The form knows `anyOf` alone, so that `oneOf`
    becomes this; each has its own `method`, and no two can hold. The form sends
    this one only where it is the default. Nothing comes first: buttons do not wrap.

    Parameters
    ----------
    schema
        Changed, and so is what it refers to.
    resolve
        Of a reference, what it refers to; of another schema, itself.

    Examples
    --------
    >>> kept = {"anyOf": [{"oneOf": [{"properties": {"method": {"const": "mdav"}}}]}, {"type": "null"}]}
    >>> name_alternatives(kept, lambda schema: schema)
    >>> [each["title"] for each in kept["anyOf"]]
    ['not given', 'mdav']
    """
    for part in _parts(schema, resolve):
        if "anyOf" in part:
            found = [one for each in part["anyOf"] for one in each.get("oneOf", [each])]
            part["anyOf"] = sorted(found, key=lambda each: each.get("type") != "null")
            for each in part["anyOf"]:
                _name(resolve(each))


def _parts(schema: Schema, resolve: Callable[[Schema], Schema]) -> Iterator[Schema]:
    """The schema, what is in it, and what it refers to, each once; parts may be changed as they come."""
    seen: set[int] = set()
    todo: list[Any] = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, list):
            todo += part
        elif isinstance(part, dict) and id(part) not in seen:
            seen.add(id(part))
            yield part
            todo += [resolve(part) if "$ref" in part else None, *part.values()]


def _name(alternative: Schema) -> None:
    method = alternative.get("properties", {}).get("method", {})
    if "const" in method:
        alternative["title"] = method["default"] = method["const"]
    elif "title" not in alternative:
        alternative["title"] = _TYPES.get(alternative.get("type"), "value")


JobParameter = Annotated[Job, _AsForm()]
"""The job, as a parameter of a flow."""
