# SPDX-License-Identifier: Apache-2.0
"""
Programs, cell by cell, in ipykernel and in a session of Berth: both must show the same. Reading order: programs.py (what runs),
kernels.py (where), compare.py (what is equal), __main__.py (`./dev judge`).
"""
