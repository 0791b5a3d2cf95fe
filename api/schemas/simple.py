# SPDX-License-Identifier: Apache-2.0
"""What are the schemas of answers made of? Plain values, words out of a few, pages and references."""

from __future__ import annotations

from typing import Any

from api.schemas.document import listed, obj
from api.schemas.fields import JsonSchema

TEXT: JsonSchema = {"type": "string"}
MAYBE: JsonSchema = {"type": ["string", "null"]}
TIME: JsonSchema = {"type": "string", "format": "date-time"}
MAYBE_TIME: JsonSchema = {"type": ["string", "null"], "format": "date-time"}
COUNT: JsonSchema = {"type": "integer", "minimum": 0}
MAYBE_COUNT: JsonSchema = {"type": ["integer", "null"], "minimum": 0}
NUMBER: JsonSchema = {"type": "number"}
MAYBE_NUMBER: JsonSchema = {"type": ["number", "null"]}
SHARE: JsonSchema = {"type": "number", "minimum": 0, "maximum": 1}
MAYBE_SHARE: JsonSchema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
FLAG: JsonSchema = {"type": "boolean"}
ANY_OBJECT: JsonSchema = {"type": "object"}
HASH: JsonSchema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def word(words: Any) -> JsonSchema:
    """Give the schema of one of a few words."""
    return {"type": "string", "enum": [str(one) for one in words]}


def ref(name: str) -> JsonSchema:
    """Point at a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def page(name: str) -> JsonSchema:
    """Give the schema of one page of a list."""
    return obj({"items": listed(ref(name)), "next": {**MAYBE, "description": "The cursor of the next page."}})


def items(name: str) -> JsonSchema:
    """Give the schema of an answer for each of many things asked."""
    return obj({"items": listed(ref(name))})
