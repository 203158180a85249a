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


OPTIONS = "Options of a method are given in the menu of the key above: Use JSON input."


class _AsForm:
    """Names the alternatives of a key, and keeps the order and names of keys."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        schema = handler(core)
        name_alternatives(schema, handler.resolve_ref_schema)
        handler.resolve_ref_schema(schema)["properties"]["columns"]["description"] += STUDIO
        keep_order(schema, handler.resolve_ref_schema)
        return schema


def keep_order(schema: Schema, resolve: Callable[[Schema], Schema]) -> None:
    """Give each key its name and place in the form, as in a job file; Postgres sorts what it stores by length.

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
    >>> [(each["title"], each["position"]) for each in job["properties"].values()]
    [('input', 0), ('k', 1)]
    """
    for part in _parts(schema, resolve):
        for position, (name, field) in enumerate(part.get("properties", {}).items()):
            field |= {"title": name, "position": position}


def name_alternatives(schema: Schema, resolve: Callable[[Schema], Schema]) -> None:
    """Give each alternative of each key a title, which is what the form writes on its button.

    Methods are one menu: their buttons would not wrap, and the form takes the
    first of objects that share a key for the one that is given.

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
    ['not given', 'given']
    >>> kept["anyOf"][1]["properties"]["method"]["enum"]
    ['mdav']
    """
    for part in _parts(schema, resolve):
        if "anyOf" in part:
            found = [one for each in part["anyOf"] for one in each.get("oneOf", [each])]
            methods = {name: each for each in found if (name := _method(resolve(each)))}
            part["anyOf"] = [each for each in found if each.get("type") == "null"]
            part["anyOf"] += [_menu(methods)] if methods else [each for each in found if each.get("type") != "null"]
            for each in part["anyOf"]:
                alternative = resolve(each)
                alternative.setdefault("title", _TYPES.get(alternative.get("type"), "value"))


def _method(alternative: Schema) -> str | None:
    return alternative.get("properties", {}).get("method", {}).get("const")


def _menu(methods: dict[str, Schema]) -> Schema:
    """Methods by name, of which each holds its options against its own schema where the form does not look."""
    chosen = [{"if": {"properties": {"method": {"const": name}}}, "then": each} for name, each in methods.items()]
    return {
        "title": "given",
        "type": "object",
        "properties": {"method": {"type": "string", "enum": [*methods], "description": OPTIONS}},
        "dependentSchemas": {"method": {"allOf": chosen}},
    }


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


JobParameter = Annotated[Job, _AsForm()]
"""The job, as a parameter of a flow."""
