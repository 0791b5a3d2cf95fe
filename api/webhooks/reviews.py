# SPDX-License-Identifier: Apache-2.0
"""What does a Kubernetes API server ask, and how is it answered? AdmissionReview v1, in and out."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from flask import Response

from api.answers import answer
from api.body import json_body, load
from api.schemas.reviews import API_VERSION, KIND, REVIEW
from registry.domain.errors import InvalidField, MalformedBody
from registry.domain.node_naming import Naming
from registry.domain.node_review import NodeChange, ReviewAnswer
from registry.domain.taints import closing_patch, read_marks


@dataclass(frozen=True, slots=True)
class Review:
    """One question of an API server: what is done to which object. An object that it did not send is None."""

    uid: str
    operation: str
    is_of_node: bool
    sub_resource: str
    name: str
    object: Mapping[str, Any] | None
    old_object: Mapping[str, Any] | None

    @property
    def node(self) -> str:
        """The node's name; a CREATE that left its naming to the API server has it in the object, or not yet."""
        metadata = (self.object or {}).get("metadata")
        named = metadata.get("name") if isinstance(metadata, Mapping) else None
        return self.name or (named if isinstance(named, str) else "")


def read_review() -> Review:
    """Read the review in the body of this request. Raises MalformedBody with a JSON Pointer for all that is wrong."""
    try:
        asked = load(REVIEW, json_body())["request"]
    except InvalidField as error:
        raise MalformedBody(f"this is no AdmissionReview: {error.detail}", errors=error.errors) from None
    resource = asked["resource"]
    return Review(
        uid=asked["uid"],
        operation=asked["operation"],
        is_of_node=not resource.get("group") and resource["resource"] == "nodes",
        sub_resource=asked.get("subResource") or "",
        name=asked.get("name") or "",
        object=asked.get("object"),
        old_object=asked.get("oldObject"),
    )


def change_of(review: Review, naming: Naming) -> NodeChange | None:
    """Return the change of a node that a review is about, or None where it is about something else.

    Who the node is, is read from what it was: nobody opens a node by giving it another's name in the same breath.

    Raises MalformedBody where an UPDATE lacks what it changes, or what should be Node objects is none.
    """
    if not review.is_of_node or review.operation != "UPDATE" or review.sub_resource not in {"", "status"}:
        return None
    if not review.name or review.object is None or review.old_object is None:
        raise MalformedBody("an UPDATE of a node comes with its name, object and oldObject")
    after = dict(review.object)
    if review.sub_resource == "status":
        # A write to the status changes no spec, whatever it says of it; labels it can change.
        after["spec"] = review.old_object.get("spec")
    try:
        before = read_marks(review.old_object)
        return NodeChange(review.name, naming.of(review.old_object), before, read_marks(after))
    except ValueError as error:
        raise MalformedBody(str(error)) from None


def patch_of(review: Review) -> list[dict[str, Any]]:
    """Return the JSON Patch that closes a node of ours as it is born; empty for everything else.

    Raises MalformedBody where what should be a Node object is none.
    """
    if not review.is_of_node or review.operation != "CREATE" or review.sub_resource:
        return []
    if review.object is None:
        raise MalformedBody("a CREATE of a node comes with its object")
    try:
        return closing_patch(review.object)
    except ValueError as error:
        raise MalformedBody(str(error)) from None


def respond(review: Review, found: ReviewAnswer, patch: Sequence[Mapping[str, Any]] = ()) -> Response:
    """Answer a review under its own uid."""
    response: dict[str, Any] = {"uid": review.uid, "allowed": found.is_allowed}
    if not found.is_allowed:
        refused = HTTPStatus.FORBIDDEN
        response["status"] = {"code": int(refused), "reason": refused.phrase, "message": found.message}
    if found.warnings:
        response["warnings"] = list(found.warnings)
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    return answer({"apiVersion": API_VERSION, "kind": KIND, "response": response})
