# SPDX-License-Identifier: Apache-2.0
"""smolagents: an agent whose code runs in Berth, by E2B's interface; only variables say where that is. Its model is two texts."""

import re
import sys

from smolagents import ChatMessage, CodeAgent, Model


class Script(Model):
    """In place of a model: its words, one after the other."""

    def __init__(self, turns):
        super().__init__(model_id="script")
        self.turns = list(turns)

    def generate(self, messages, **kwargs):
        return ChatMessage(role="assistant", content="Thought: I compute.\n<code>\n" + self.turns.pop(0) + "\n</code>")


def main(way, prompt):
    number, factor = re.search(r"Keep (\d+) .* by (\d+)", prompt).groups()
    model = Script([f"kept = {number}\nprint(kept)", f"final_answer(kept * {factor})"])
    with CodeAgent(tools=[], model=model, executor_type=way, verbosity_level=0, max_steps=2) as agent:
        print(agent.run(prompt))


main(*sys.argv[1:])
