# SPDX-License-Identifier: Apache-2.0
"""The controller's unit, and what it applies."""

import stacks

NAME = "berth-controller.service"


def environment(name):
    return stacks.text(stacks.document("Environment", name, {"image": {"prebuilt": "python"}}))
