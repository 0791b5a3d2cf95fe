# SPDX-License-Identifier: Apache-2.0
"""What does the hot path cost? Measured as ratios in one run; nothing here is a test."""
