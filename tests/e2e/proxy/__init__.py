# SPDX-License-Identifier: Apache-2.0
"""A proxy between an AWS client and a stand-in for AWS: it records, judges, supplies and spoils.

Reading order: server.py (the life of one request), identify.py, signature.py, presigned.py, decode.py, shapes.py,
demands.py (the judge), functions.py, environments.py (where functions run), images.py, storage.py, transactions.py, registry.py, listing.py
(what the stand-ins lack), faults.py (what goes wrong on purpose), settings.py and admin.py (its controls).
"""
