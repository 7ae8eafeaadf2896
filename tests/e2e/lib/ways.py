# SPDX-License-Identifier: Apache-2.0
"""The stack of the ways in which a machine with systemd starts Berth."""

STACK = """apiVersion: berth/v1
kind: Stack
metadata: {name: ways}
spec: {provider: local}
---
apiVersion: berth/v1
kind: Environment
metadata: {name: box}
spec: {image: {prebuilt: python}}
---
apiVersion: berth/v1
kind: Agent
metadata: {name: small}
spec: {type: general, environment: box, limits: {memoryMB: 256, cpus: 1}}
"""
