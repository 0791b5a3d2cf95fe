# SPDX-License-Identifier: Apache-2.0
"""Does the whole hold over real HTTP, against several worker processes, when callers race and processes die?"""
