# SPDX-License-Identifier: Apache-2.0
"""How does a shape read in the published document? As the JSON Schema of what it takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from marshmallow import RAISE, Schema, fields, validate

from api.schemas.fields import JsonSchema, OwnField


def shape_schema(shape: Schema, *, is_nullable: bool = True) -> JsonSchema:
    """Give the JSON Schema of a shape: its members, which of them are required, and no others where it refuses them.

    A query has no null: there a member is left out.
    """
    fields_ = {field.data_key or name: field for name, field in shape.load_fields.items()}
    members = {name: _field_schema(field, is_nullable=is_nullable) for name, field in fields_.items()}
    required = [field.data_key or name for name, field in shape.load_fields.items() if field.required]
    schema = obj(members, required=required, is_closed=shape.unknown == RAISE)
    return {**schema, "description": " ".join(shape.__doc__.split())} if shape.__doc__ else schema


def obj(members: dict[str, Any], *, required: Iterable[str] | None = None, is_closed: bool = False) -> JsonSchema:
    """Give the schema of an object. Without `required` every member is always there."""
    names = list(members) if required is None else list(required)
    schema: JsonSchema = {"type": "object", "properties": members}
    if names:
        schema["required"] = names
    return {**schema, "additionalProperties": False} if is_closed else schema


def nullable(schema: JsonSchema) -> JsonSchema:
    """Give a schema that takes null as well."""
    if "$ref" in schema or "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    either: JsonSchema = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        either["enum"] = [*schema["enum"], None]
    return either


def listed(schema: JsonSchema) -> JsonSchema:
    """Give the schema of a list."""
    return {"type": "array", "items": schema}


def _field_schema(field: fields.Field[Any], *, is_nullable: bool = True) -> JsonSchema:
    if isinstance(field, fields.List):
        bounds = field.validate
        within = {"minItems": bounds.min, "maxItems": bounds.max} if isinstance(bounds, validate.Length) else {}
        return {**listed(_field_schema(field.inner)), **within}
    if isinstance(field, fields.Nested):
        return shape_schema(field.schema)
    if not isinstance(field, OwnField):
        raise TypeError(f"nobody said how {type(field).__name__} reads in the document")
    return nullable(field.json_schema()) if field.allow_none and is_nullable else field.json_schema()
