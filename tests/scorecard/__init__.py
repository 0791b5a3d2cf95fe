# SPDX-License-Identifier: Apache-2.0
"""Do the promises hold when things go wrong, and how often was that tried? `make scorecard` tells what was measured."""
