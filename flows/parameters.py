"""What Prefect checks parameters against."""

from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from anonpipe.job import aliases
from anonpipe.job.model import Job


class _OldNames:
    """Lets parameters pass that a deployment stored under a job's old names; the job itself reads and notices them."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        aliases.let_in(handler.resolve_ref_schema(schema), handler.resolve_ref_schema)
        return schema


JobParameter = Annotated[Job, _OldNames()]
"""The job, as a parameter of a flow."""
