# SPDX-License-Identifier: Apache-2.0
"""In what shape does a Kubernetes API server ask, and want to be answered? AdmissionReview v1.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#webhook-request-and-response
"""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, ValidationError, fields

from api.schemas.document import listed, obj
from api.schemas.fields import SENTENCES, JsonSchema, OpaqueId, OwnField, Shape, Word
from api.text import why_not_text

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
NAME_LENGTH = 253
"""Longest name of an object: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/."""


class Name(OwnField):
    """A word of Kubernetes, which may be empty: the core group is."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "string", "maxLength": NAME_LENGTH}

    def _read(self, value: Any) -> str:
        reason = why_not_text(value, NAME_LENGTH)
        if reason is not None:
            raise ValidationError(reason)
        return str(value)


class Object(OwnField):
    """An object of Kubernetes, of which nothing is said here."""

    def json_schema(self) -> JsonSchema:
        """Say in JSON Schema what this field takes."""
        return {"type": "object"}

    def _read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("must be a JSON object")
        return value


class Open(Shape):
    """An object of which a part is read: an API server may send more with each release."""

    class Meta:
        """What marshmallow is to do with members that are not named here."""

        unknown = EXCLUDE


class ResourceShape(Open):
    """What sort of object is concerned."""

    group = Name()
    resource = Name(required=True)


class RequestShape(Open):
    """What is done to which object."""

    uid = OpaqueId(required=True)
    operation = Word(OPERATIONS, required=True)
    resource = fields.Nested(ResourceShape, required=True, error_messages=SENTENCES)
    subResource = Name()  # noqa: N815 - as Kubernetes spells it; so below
    name = Name()
    object = Object()
    oldObject = Object()  # noqa: N815


class ReviewShape(Open):
    """`POST /k8s/nodes/validate` and `/k8s/nodes/mutate`."""

    apiVersion = Word((API_VERSION,), required=True)  # noqa: N815
    kind = Word((KIND,), required=True)
    request = fields.Nested(RequestShape, required=True, error_messages=SENTENCES)


REVIEW = ReviewShape()

_OURS = {"name": "node-a", "labels": {"pratique.dev/managed": "true"}}
EXAMPLE = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "name": "node-a",
        "operation": "UPDATE",
        "object": {"metadata": _OURS, "spec": {}},
        "oldObject": {
            "metadata": _OURS,
            "spec": {"taints": [{"key": "pratique.dev/unadmitted", "effect": "NoSchedule"}]},
        },
        "dryRun": False,
    },
}

_TEXT: JsonSchema = {"type": "string"}
_STATUS = obj({"code": {"type": "integer"}, "reason": _TEXT, "message": _TEXT})
_RESPONSE = {
    "uid": _TEXT,
    "allowed": {"type": "boolean"},
    "status": _STATUS,
    "warnings": listed(_TEXT),
    "patchType": {"const": "JSONPatch"},
    "patch": {"type": "string", "contentEncoding": "base64"},
}
ANSWER = obj(
    {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": KIND},
        "response": obj(_RESPONSE, required=("uid", "allowed"), is_closed=True),
    },
    is_closed=True,
)
"""The answer to a review."""
