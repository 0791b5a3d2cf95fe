# SPDX-License-Identifier: Apache-2.0
"""Who may hold a token, and what for? What each role may ask of which route stands beside the routes."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a token is good for."""

    NODE = "node"
    """One machine: it adds evidence about itself and reads its own admission."""
    OPERATOR = "operator"
    """A person or program on duty: holds and releases, rules on conflicts, sets what is expected."""
    AUDITOR = "auditor"
    """Whoever checks: reads everything except tokens, changes nothing."""
    ADMIN = "admin"
    """Whoever runs the service: everything, tokens and permanent holds too."""
    WEBHOOK = "webhook"
    """A Kubernetes API server that asks about nodes."""
    JOIN = "join"
    """New nodes, before they have a token of their own: each trades it for one, and for nothing else."""
