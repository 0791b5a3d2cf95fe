# SPDX-License-Identifier: Apache-2.0
"""Which commands speak HTTP? One file per noun; `connection`, `output` and `kinds` are what they share."""
