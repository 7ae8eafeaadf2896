# SPDX-License-Identifier: Apache-2.0
"""Node, and the packages that tests run in it."""


from binary import ROOT

HERE = ROOT / "tests/e2e/node"
NODE = ROOT / "build/venv/bin/node"
MODULES = ROOT / "build/tools/node/node_modules"
