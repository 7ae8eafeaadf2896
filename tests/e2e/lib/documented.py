# SPDX-License-Identifier: Apache-2.0
"""A Controller or Server of the docs, written with the files that it names."""

import re


def write_alone(berth, text):
    """A Controller or Server, and the files of secrets and keys that it names, which must be there: none of the machine's own."""
    text = re.sub(r"(?<=[\s\[])/(?=[\w.-]+/)", "", text)
    berth.write("alone.yaml", text)
    for name in re.findall(r"\b\w+File: ([\w./-]+)", text) + sum((k.split(", ") for k in re.findall(r"gpgKeys: \[(.*?)\]", text)), []):
        berth.write(name, "a-secret-of-many-characters\n").chmod(0o600)
