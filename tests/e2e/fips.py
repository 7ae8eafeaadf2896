# SPDX-License-Identifier: Apache-2.0
"""An OpenSSL that is configured for FIPS and gives no MD5 (fips.c), or one that gives nothing at all."""

import subprocess
from pathlib import Path

CONFIGURATION = """\
openssl_conf = init
[init]
providers = providers
alg_section = properties
[properties]
default_properties = fips=yes
[providers]
base = base
{name} = module
[base]
activate = 1
[module]
module = {module}
activate = 1
"""


class Fips:
    def __init__(self, folder):
        self.module, self.configuration = folder / "like-fips.so", folder / "openssl.cnf"
        source = Path(__file__).with_name("fips.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.module, source, "-lcrypto"], check=True)
        self.configuration.write_text(CONFIGURATION.format(name="like-fips", module=self.module))
        self.nothing = folder / "nothing.cnf"
        self.nothing.write_text(CONFIGURATION.format(name="absent", module=folder / "absent.so"))

    def env(self):
        return {"OPENSSL_CONF": str(self.configuration)}

    def openssl(self, *args):
        """Whether the command line tool can do it under this configuration."""
        done = subprocess.run(["openssl", *args], input=b"x", env={"PATH": "/usr/bin:/bin", **self.env()}, capture_output=True)
        return done.returncode == 0
