# SPDX-License-Identifier: Apache-2.0
"""Where credentials come from: Berth's chain (credentials_cli) beside botocore's, on the same files and variables."""

import contextlib
import dataclasses
import hashlib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import pytest

import stacks
from binary import tool
from credential_server import CONTAINER_TOKEN, CredentialServer, login_pem, time_text

HERE = Path(__file__).resolve().parent


@dataclasses.dataclass
class Case:
    """
    `want`: the access key that both come to; None: both fail. `says`: part of Berth's message then. In texts, {S} is the
    server's URL, {P} its port, and {H} the home folder.
    """

    name: str
    want: str | None
    env: dict = dataclasses.field(default_factory=dict)
    config: str = ""
    credentials: str = ""
    files: dict = dataclasses.field(default_factory=dict)
    stack: str | None = None  # a profile named in code
    says: str = ""


KEYS = "[keys]\naws_access_key_id = KEYS\naws_secret_access_key = SECRET.KEYS\n"
IN_ENV = {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": "SECRET.ENV"}
ARN = "arn:aws:iam::123456789012:role/"
ROLE = f"role_arn = {ARN}"
IMDS = {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "{S}"}
PROCESS = "credential_process = {H}/give-keys"
SSO_PROFILE = "sso_role_name = Deployer\nsso_account_id = 123456789012\n"
SSO_SESSION = "[sso-session corp]\nsso_start_url = https://corp.example/start\nsso_region = us-east-1\n"
SSO_LEGACY = "sso_start_url = https://corp.example/start\nsso_region = us-east-1\n"


def script(output, code=0, complaint=""):
    return f"#!/bin/sh\necho '{complaint}' >&2\ncat <<'END'\n{output}\nEND\nexit {code}\n"


def output(**more):
    return json.dumps({"Version": 1, "AccessKeyId": "PROCESS", "SecretAccessKey": "SECRET.PROCESS", **more})


def sso_file(key, seconds=3600, **more):
    """Its time of expiry counts from when the test runs, not from when the tests were gathered: in_time() puts it in."""
    name = hashlib.sha1(key.encode()).hexdigest()
    return {f".aws/sso/cache/{name}.json": json.dumps({"accessToken": "bearer", "expiresAt": f"@now{seconds:+}@", **more})}


LOGIN_ARN = "arn:aws:iam::123456789012:user/me"
LOGIN = f"[profile l]\nlogin_session = {LOGIN_ARN}\n"


def login_file(seconds=840, folder=".aws/login/cache", session=LOGIN_ARN, left_out=(), **more):
    access = {
        "accessKeyId": "LOGIN", "secretAccessKey": "SECRET.LOGIN", "sessionToken": "TOKEN.LOGIN", "accountId": "123456789012",
        "expiresAt": f"@now{seconds:+}@",
    }  # fmt: skip
    held = {
        "accessToken": access, "tokenType": "aws_sigv4", "refreshToken": "again", "idToken": "kept",
        "clientId": "arn:aws:signin:::devtools/same-device", "dpopKey": login_pem(), **more,
    }  # fmt: skip
    for name in left_out:
        del held[name]
    return {f"{folder}/{hashlib.sha256(session.encode()).hexdigest()}.json": json.dumps(held)}


def in_time(text):
    return re.sub(r"@now([+-]\d+)@", lambda found: time_text(int(found.group(1))), text)


RENEWABLE = {"clientId": "client", "clientSecret": "client-secret", "registrationExpiresAt": time_text(86400), "refreshToken": "again"}

CASES = [
    # the environment, and what a profile does to it
    Case("nothing at all", None, says="no AWS credentials found"),
    Case("keys in variables", "ENV", IN_ENV),
    Case("keys and token in variables", "ENV", {**IN_ENV, "AWS_SESSION_TOKEN": "tok"}),
    Case("both tokens in variables", "ENV", {**IN_ENV, "AWS_SESSION_TOKEN": "tok", "AWS_SECURITY_TOKEN": "old"}),
    Case("half a pair in variables", None, {"AWS_ACCESS_KEY_ID": "ENV"}, says="AWS_SECRET_ACCESS_KEY is not"),
    Case("a secret alone is passed over", "KEYS", {"AWS_SECRET_ACCESS_KEY": "x", "AWS_PROFILE": "keys"}, credentials=KEYS),
    Case("variables before AWS_PROFILE", "ENV", {**IN_ENV, "AWS_PROFILE": "keys"}, credentials=KEYS),
    Case("a profile named in code before variables", "KEYS", IN_ENV, credentials=KEYS, stack="keys"),
    Case("a profile that does not exist, whatever the variables", None, {**IN_ENV, "AWS_PROFILE": "nobody"}, credentials=KEYS,
         says="the profile nobody, named by AWS_PROFILE"),
    Case("variables that end in time", "ENV", {**IN_ENV, "AWS_CREDENTIAL_EXPIRATION": "2999-01-31T12:00:00Z"}),
    Case("variables that have ended", None, {**IN_ENV, "AWS_CREDENTIAL_EXPIRATION": "2020-01-31T12:00:00Z"}, says="have expired (2020-01-31"),
    Case("AWS_DEFAULT_PROFILE before AWS_PROFILE", "KEYS", {"AWS_DEFAULT_PROFILE": "keys", "AWS_PROFILE": "other"},
         credentials=KEYS + "[other]\naws_access_key_id = OTHER\naws_secret_access_key = s\n"),
    # keys in files
    Case("the default profile", "KEYS", credentials=KEYS.replace("[keys]", "[default]")),
    Case("keys in the config file", "KEYS", {"AWS_PROFILE": "keys"}, config=KEYS.replace("[keys]", "[profile keys]")),
    Case("keys in both files", "KEYS", {"AWS_PROFILE": "keys"}, credentials=KEYS,
         config="[profile keys]\naws_access_key_id = OTHER\naws_secret_access_key = o\n"),
    Case("one key in each file", None, {"AWS_PROFILE": "keys"}, credentials="[keys]\naws_access_key_id = A\n",
         config="[profile keys]\naws_secret_access_key = s\n", says="has aws_access_key_id but no aws_secret_access_key"),
    Case("a token in the file", "KEYS", {"AWS_PROFILE": "keys"}, credentials=KEYS + "aws_session_token = tok\n"),
    Case("a secret alone in a file", None, {"AWS_PROFILE": "keys"}, credentials="[keys]\naws_secret_access_key = s\n", says="no AWS credentials found"),
    # roles
    Case("a role by another profile's keys", "ROLE-one-by-KEYS", {"AWS_PROFILE": "r"}, f"[profile r]\n{ROLE}one\nsource_profile = keys\n", KEYS),
    Case("session name, external id, duration", "ROLE-one-by-KEYS-as-me-e/1-900", {"AWS_PROFILE": "r"},
         f"[profile r]\n{ROLE}one\nsource_profile = keys\nrole_session_name = me\nexternal_id = e/1\nduration_seconds = 900\n", KEYS),
    Case("a role by keys with a token", "ROLE-one-by-KEYS+tok", {"AWS_PROFILE": "r"}, f"[profile r]\n{ROLE}one\nsource_profile = keys\n",
         KEYS + "aws_session_token = tok\n"),
    Case("roles behind one another", "ROLE-three-by-ROLE-two-by-ROLE-one-by-KEYS", {"AWS_PROFILE": "c"},
         f"[profile c]\n{ROLE}three\nsource_profile = b\n[profile b]\n{ROLE}two\nsource_profile = a\n[profile a]\n{ROLE}one\nsource_profile = keys\n", KEYS),
    Case("a profile that is its own source", "ROLE-one-by-SELF", {"AWS_PROFILE": "s"},
         f"[profile s]\n{ROLE}one\nsource_profile = s\naws_access_key_id = SELF\naws_secret_access_key = s\n"),
    Case("a role before the profile's own keys", "ROLE-one-by-KEYS", {"AWS_PROFILE": "r"},
         f"[profile r]\n{ROLE}one\nsource_profile = keys\naws_access_key_id = OWN\naws_secret_access_key = s\n", KEYS),
    Case("keys before a role where a role asks for them", "ROLE-one-by-OWN", {"AWS_PROFILE": "r"},
         f"[profile r]\n{ROLE}one\nsource_profile = q\n[profile q]\n{ROLE}two\nsource_profile = keys\naws_access_key_id = OWN\naws_secret_access_key = s\n", KEYS),
    Case("a circle of roles", None, {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = b\n[profile b]\n{ROLE}b\nsource_profile = a\n",
         says="lead to each other"),
    Case("its own source without keys", None, {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = a\n", says="lead to each other"),
    Case("a source that does not exist", None, {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = b\n", says="the source_profile b"),
    Case("a source without credentials", None, {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = b\n[profile b]\nregion = eu-west-1\n",
         says="the profile b has no credentials"),
    Case("two kinds of source", None, {**IN_ENV, "AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = keys\ncredential_source = Environment\n", KEYS,
         stack="a", says="both source_profile and credential_source"),
    Case("no kind of source", None, {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\n", says="neither source_profile nor"),
    Case("a role by variables, whatever profile is named", "ROLE-a-by-ENV", IN_ENV, f"[profile a]\n{ROLE}a\ncredential_source = Environment\n", stack="a"),
    Case("a role by variables that are not there", None, {}, f"[profile a]\n{ROLE}a\ncredential_source = Environment\n", stack="a", says="which has no credentials"),
    Case("a role by the container", "ROLE-a-by-CONTAINER-plain", {"AWS_PROFILE": "a", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain"},
         f"[profile a]\n{ROLE}a\ncredential_source = EcsContainer\n"),
    Case("a role by the instance", "ROLE-a-by-IMDS-web-server", {**IMDS, "AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\ncredential_source = Ec2InstanceMetadata\n"),
    Case("a role by a mistyped source", None, {**IMDS, "AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\ncredential_source = ec2instancemetadata\n", says="it must be"),
    Case("a role that is denied", None, {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}denied\nsource_profile = keys\n", KEYS, says="allow sts:AssumeRole"),
    Case("a role with MFA", None, {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = keys\nmfa_serial = arn:aws:iam::1:mfa/me\n", KEYS, says="mfa_serial"),
    Case("a duration that STS would refuse", None, {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = keys\nduration_seconds = 60\n", KEYS,
         says="900 to 43200"),
    Case("a role by a process", "ROLE-a-by-PROCESS+tok", {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = p\n[profile p]\n{PROCESS}\n",
         files={"give-keys": script(output(SessionToken="tok"))}),
    Case("a role by SSO", "ROLE-a-by-SSO-123456789012-Deployer-by-bearer", {"AWS_PROFILE": "a"},
         f"[profile a]\n{ROLE}a\nsource_profile = p\n[profile p]\n{SSO_PROFILE}{SSO_LEGACY}", files=sso_file("https://corp.example/start")),
    Case("a role by web identity of another profile", "ROLE-a-by-ROLE-w-by-web.e30.jwt", {"AWS_PROFILE": "a", "AWS_ROLE_ARN": ARN + "not-this"},
         f"[profile a]\n{ROLE}a\nsource_profile = p\n[profile p]\n{ROLE}w\nweb_identity_token_file = {{H}}/token\n", files={"token": "e30.jwt"}),
    # web identity
    Case("web identity by variables", "ROLE-w-by-web.e30.jwt", {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/token", "AWS_ROLE_ARN": ARN + "w"}, files={"token": "e30.jwt"}),
    Case("web identity with a session name", "ROLE-w-by-web.e30.jwt-as-me",
         {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/token", "AWS_ROLE_ARN": ARN + "w", "AWS_ROLE_SESSION_NAME": "me"}, files={"token": "e30.jwt"}),
    Case("web identity by a profile", "ROLE-w-by-web.e30.jwt-as-pod", {"AWS_PROFILE": "w"},
         f"[profile w]\n{ROLE}w\nweb_identity_token_file = {{H}}/token\nrole_session_name = pod\n", files={"token": "e30.jwt"}),
    Case("variables before the profile's web identity", "ROLE-v-by-web.e30.jwt", {"AWS_PROFILE": "w", "AWS_ROLE_ARN": ARN + "v"},
         f"[profile w]\n{ROLE}w\nweb_identity_token_file = {{H}}/token\n", files={"token": "e30.jwt"}),
    Case("a profile named in code sets web identity aside", "KEYS", {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/token", "AWS_ROLE_ARN": ARN + "w"},
         credentials=KEYS, files={"token": "e30.jwt"}, stack="keys"),
    Case("web identity before a profile's keys", "ROLE-w-by-web.e30.jwt",
         {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/token", "AWS_ROLE_ARN": ARN + "w", "AWS_PROFILE": "keys"}, credentials=KEYS, files={"token": "e30.jwt"}),
    Case("web identity without a role", None, {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/token"}, files={"token": "e30.jwt"}, says="set AWS_ROLE_ARN"),
    Case("web identity without its file", None, {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/none", "AWS_ROLE_ARN": ARN + "w"}, says="/none"),
    Case("web identity with an old token", None, {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/token", "AWS_ROLE_ARN": ARN + "w"}, files={"token": "expired"},
         says="the web identity token"),
    # SSO
    Case("SSO by a session", "SSO-123456789012-Deployer-by-bearer", {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}{SSO_SESSION}", files=sso_file("corp")),
    Case("SSO the older way", "SSO-123456789012-Deployer-by-bearer", {"AWS_PROFILE": "s"}, f"[profile s]\n{SSO_PROFILE}{SSO_LEGACY}",
         files=sso_file("https://corp.example/start")),
    Case("SSO before the profile's keys", "SSO-123456789012-Deployer-by-bearer", {"AWS_PROFILE": "keys"}, f"[profile keys]\n{SSO_PROFILE}{SSO_LEGACY}", KEYS,
         files=sso_file("https://corp.example/start")),
    Case("SSO at an endpoint of its own", "SSO-123456789012-Deployer-by-bearer", {"AWS_PROFILE": "s", "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_SSO": "{S}"},
         f"[profile s]\n{SSO_PROFILE}{SSO_LEGACY}", files=sso_file("https://corp.example/start")),
    Case("SSO about to end is renewed", "SSO-123456789012-Deployer-by-renewed-again", {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}{SSO_SESSION}",
         files=sso_file("corp", 300, **RENEWABLE)),
    Case("SSO ended, but renewed", "SSO-123456789012-Deployer-by-renewed-again", {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}{SSO_SESSION}",
         files=sso_file("corp", -300, **RENEWABLE)),
    Case("SSO about to end and not renewed", "SSO-123456789012-Deployer-by-bearer", {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}{SSO_SESSION}",
         files=sso_file("corp", 300, **{**RENEWABLE, "refreshToken": "spent"})),
    Case("SSO ended", None, {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}{SSO_SESSION}", files=sso_file("corp", -60), says="aws sso login --profile s"),
    Case("SSO ended, the older way", None, {"AWS_PROFILE": "s"}, f"[profile s]\n{SSO_PROFILE}{SSO_LEGACY}", files=sso_file("https://corp.example/start", -60, **RENEWABLE),
         says="aws sso login --profile s"),
    Case("SSO never signed in", None, {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}{SSO_SESSION}", says="aws sso login --profile s"),
    Case("SSO signed out elsewhere", None, {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}{SSO_SESSION}", files=sso_file("corp", accessToken="revoked"),
         says="aws sso login --profile s"),
    Case("SSO without that role", None, {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\nsso_role_name = none\nsso_account_id = 123456789012\n{SSO_SESSION}",
         files=sso_file("corp"), says="has no role none in the account 123456789012"),
    Case("SSO without its session's section", None, {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}", files=sso_file("corp"), says="sso-session corp"),
    Case("SSO with half its settings", None, {"AWS_PROFILE": "s"}, f"[profile s]\nsso_role_name = x\n{SSO_LEGACY}", says="sso_account_id is not set"),
    Case("SSO where profile and session differ", None, {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\nsso_region = eu-west-1\n{SSO_PROFILE}{SSO_SESSION}",
         files=sso_file("corp"), says="differ in sso_region"),
    Case("SSO session without a role is passed over", "CONTAINER-plain", {"AWS_PROFILE": "s", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain"},
         f"[profile s]\nsso_session = corp\n{SSO_SESSION}"),
    Case("SSO with a damaged cache", None, {"AWS_PROFILE": "s"}, f"[profile s]\nsso_session = corp\n{SSO_PROFILE}{SSO_SESSION}",
         files=dict.fromkeys(sso_file("corp"), '{"accessToken": "sec'), says="is not JSON"),
    # aws login
    Case("a login", "LOGIN", {"AWS_PROFILE": "l"}, LOGIN, files=login_file()),
    Case("a login in another folder", "LOGIN", {"AWS_PROFILE": "l", "AWS_LOGIN_CACHE_DIRECTORY": "~/elsewhere"}, LOGIN, files=login_file(folder="elsewhere")),
    Case("a login behind the credentials file's keys", "KEYS", {"AWS_PROFILE": "keys"}, LOGIN.replace("profile l", "profile keys"), KEYS, files=login_file()),
    Case("a login before a process and the config file's keys", "LOGIN", {"AWS_PROFILE": "l"},
         f"{LOGIN}{PROCESS}\naws_access_key_id = CONFIG\naws_secret_access_key = s\n", files={**login_file(), "give-keys": script(output())}),
    Case("a role by a login", "ROLE-a-by-LOGIN", {"AWS_PROFILE": "a"}, f"[profile a]\n{ROLE}a\nsource_profile = l\n{LOGIN}", files=login_file()),
    Case("a login about to end is renewed", "LOGIN-renewed-again", {"AWS_PROFILE": "l"}, LOGIN, files=login_file(240)),
    Case("a login that has ended is renewed", "LOGIN-renewed-again", {"AWS_PROFILE": "l"}, LOGIN, files=login_file(-240)),
    Case("a login at an endpoint of its own", "LOGIN-renewed-again",
         {"AWS_PROFILE": "l", "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_SIGNIN": "{S}"}, LOGIN, files=login_file(-240)),
    Case("a login that is over", None, {"AWS_PROFILE": "l"}, LOGIN, files=login_file(-240, refreshToken="TOKEN_EXPIRED"),
         says="the session of the profile l has expired: run aws login --profile l"),
    Case("a login with another password", None, {"AWS_PROFILE": "l"}, LOGIN, files=login_file(-240, refreshToken="USER_CREDENTIALS_CHANGED"),
         says="password was changed: run aws login --profile l"),
    Case("a login that may not be renewed", None, {"AWS_PROFILE": "l"}, LOGIN, files=login_file(-240, refreshToken="INSUFFICIENT_PERMISSIONS"),
         says=f"allow signin:CreateOAuth2Token to {LOGIN_ARN}"),
    Case("a login whose service is down", None, {"AWS_PROFILE": "l"}, LOGIN, files=login_file(-240, refreshToken="busy"), says="signin CreateOAuth2Token: 500"),
    Case("a login whose service cannot be reached", None, {"AWS_PROFILE": "l", "AWS_ENDPOINT_URL_SIGNIN": "http://127.0.0.1:1"}, LOGIN, files=login_file(-240),
         says="cannot reach 127.0.0.1:1"),
    Case("a login that never was", None, {"AWS_PROFILE": "l"}, LOGIN, says="there is no session yet"),
    Case("a login of somebody else", None, {"AWS_PROFILE": "l"}, LOGIN, files=login_file(session="arn:aws:iam::123456789012:user/you"), says="aws login --profile l"),
    Case("a login's file without what renews it", None, {"AWS_PROFILE": "l"}, LOGIN, files=login_file(left_out=["refreshToken"]), says="has no refreshToken"),
    Case("a login's file without keys", None, {"AWS_PROFILE": "l"}, LOGIN, files=login_file(accessToken={}), says="has no accessToken.accessKeyId"),
    Case("a login's file that is damaged", None, {"AWS_PROFILE": "l"}, LOGIN, files=dict.fromkeys(login_file(), '{"accessToken": "sec'), says="is not JSON"),
    Case("a login whose key is none", None, {"AWS_PROFILE": "l"}, LOGIN, files=login_file(-240, dpopKey=login_pem().replace("MH", "AA", 1)),
         says="its dpopKey is no private key of P-256"),
    # processes
    Case("a process", "PROCESS", {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\n", files={"give-keys": script(output())}),
    Case("a process with arguments that need care", "PROCESS", {"AWS_PROFILE": "p"},
         "[profile p]\ncredential_process = \"{H}/with space\" 'it is' $HOME a\\ b \"say \\\"x\\\"\" ; '' #no\n",
         files={"with space": "#!/bin/sh\n[ \"$#|$1|$2|$3|$4|$5|$6|$7\" = '7|it is|$HOME|a b|say \"x\"|;||#no' ] || { echo \"$#|$1|$2|$3|$4|$5|$6|$7\" >&2; exit 3; }\n"
                              f"echo '{output()}'\n"}),
    Case("a process looked for along PATH", "PROCESS", {"AWS_PROFILE": "p", "PATH": "{H}:/usr/bin:/bin"}, "[profile p]\ncredential_process = give-keys\n",
         files={"give-keys": script(output())}),
    Case("a process whose keys end in time", "PROCESS", {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\n",
         files={"give-keys": script(output(SessionToken="tok", Expiration="2999-01-31T12:00:00+00:00"))}),
    Case("a process whose keys have ended", None, {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\n",
         files={"give-keys": script(output(Expiration="2020-01-31T12:00:00Z"))}, says="have expired (2020"),
    Case("a process that fails", None, {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\n", files={"give-keys": script(output(), 1, "sign in first")}, says="ended with 1: sign in first"),
    Case("a process of another version", None, {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\n", files={"give-keys": script(output(Version=2))}, says='"Version": 1'),
    Case("a process without a secret", None, {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\n",
         files={"give-keys": script('{"Version": 1, "AccessKeyId": "A"}')}, says="has no SecretAccessKey"),
    Case("a process that says no JSON", None, {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\n", files={"give-keys": script("SECRET.x")}, says="is not JSON"),
    Case("a process that does not exist", None, {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\n", says="cannot start"),
    Case("a process with an open quote", None, {"AWS_PROFILE": "p"}, "[profile p]\ncredential_process = echo 'x\n", says="is not closed"),
    Case("a process after the credentials file", "KEYS", {"AWS_PROFILE": "keys"}, f"[profile keys]\n{PROCESS}\n", KEYS, files={"give-keys": script(output())}),
    Case("a process before the config file's keys", "PROCESS", {"AWS_PROFILE": "p"}, f"[profile p]\n{PROCESS}\naws_access_key_id = A\naws_secret_access_key = s\n",
         files={"give-keys": script(output())}),
    # containers
    Case("a container", "CONTAINER-plain", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain"}),
    Case("a container by a name and a query", "CONTAINER-plain", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://localhost:{P}/container/plain?id=1"}),
    Case("a container with a token", "CONTAINER-plain-container-secret",
         {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain", "AWS_CONTAINER_AUTHORIZATION_TOKEN": CONTAINER_TOKEN}),
    Case("a container whose token's file comes first", "CONTAINER-plain-from-file",
         {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain", "AWS_CONTAINER_AUTHORIZATION_TOKEN": CONTAINER_TOKEN,
          "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "{H}/token"}, files={"token": "Bearer from-file"}),
    Case("a container's token with a line break", None,
         {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "{H}/token"},
         files={"token": "Bearer x\r\nx-more: y"}, says="line break"),
    Case("a container's token without its file", None,
         {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "{H}/none"}, says="/none"),
    Case("a container elsewhere", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/x"}, says="192.0.2.1"),
    Case("a container at a name under localhost", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://x.localhost:{P}/container/plain"}, says="x.localhost"),
    Case("a container that says no JSON", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/garbage"}, says="is not JSON"),
    Case("a container without an end", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/partial"}, says="has no Expiration"),
    Case("a container with old keys", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/expired"}, says="have expired"),
    Case("a container that sends on", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/moved"}, says="answered 302"),
    Case("a container that fails", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/broken"}, says="answered 500"),
    Case("a container after files", "KEYS", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain", "AWS_PROFILE": "keys"}, credentials=KEYS),
    Case("a container though a profile is named in code", "CONTAINER-plain", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain"},
         "[profile bare]\nregion = us-east-1\n", stack="bare"),
    # instances
    Case("an instance", "IMDS-web-server", IMDS),
    Case("an instance, its address with a slash", "IMDS-web-server", {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "{S}/"}),
    Case("an instance, its address in the profile", "IMDS-web-server", {"AWS_EC2_METADATA_DISABLED": "false"}, "[default]\nec2_metadata_service_endpoint = {S}\n"),
    Case("an instance that is switched off", None, {**IMDS, "AWS_EC2_METADATA_DISABLED": "TRUE"}, says="AWS_EC2_METADATA_DISABLED is set"),
    Case("an instance without a role", None, {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "{S}/imds-no-role"}, says="the instance has no role"),
    Case("an instance whose role is refused", None, {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "{S}/imds-failed"}, says="has no AccessKeyId"),
    Case("no metadata there", None, {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "{S}/imds-none"}, says="answered 404"),
    Case("nobody there", None, {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}, says="cannot reach 127.0.0.1:1"),
    Case("no session with the metadata", None, {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "{S}/imds-forbidden"}, says="answered 403"),
    Case("an instance that cannot renew its keys", "IMDS-web-server", {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "{S}/imds-stale"}),
    Case("a mode that does not exist", None, {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv5"}, says="IPv4 or IPv6"),
    Case("an address goes before a mode", "IMDS-web-server", {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv6"}),
    Case("a container before an instance", "CONTAINER-plain", {**IMDS, "AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain"}),
]  # fmt: skip


@pytest.fixture
def server():
    made = CredentialServer()
    yield made
    made.stop()


class Place:
    """A home folder and an environment, for both chains."""

    def __init__(self, home, server):
        self.home, self.server = home, server
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": server.url,
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1", "AWS_METADATA_SERVICE_TIMEOUT": "5", "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        }  # fmt: skip

    def fill(self, text):
        return text.replace("{S}", self.server.url).replace("{P}", str(self.server.server_address[1])).replace("{H}", str(self.home))

    def write(self, name, text):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.fill(text))
        path.chmod(0o700)
        return path

    def take(self, case):
        self.env.update({name: self.fill(value) for name, value in case.env.items()})
        for name, text in {".aws/config": case.config, ".aws/credentials": case.credentials, **case.files}.items():
            if text:
                self.write(name, in_time(text))

    def ours(self, stack=None, lines="get\n"):
        """The answers, and all that was written."""
        aws = json.dumps({"profile": stack} if stack else {})
        ran = subprocess.run([tool("credentials_cli"), aws], input=lines, env=self.env, capture_output=True, text=True, timeout=100)
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr

    @contextlib.contextmanager
    def running(self):
        """One process that is asked again and again: a function from a line to an answer."""
        with subprocess.Popen([tool("credentials_cli"), "{}"], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

            def ask(line):
                process.stdin.write(line + "\n")
                process.stdin.flush()
                return json.loads(process.stdout.readline())

            yield ask
            process.stdin.close()
            assert process.wait(60) == 0

    def botocores(self, stack=None):
        command = [sys.executable, str(HERE / "resolve_botocore.py"), *([stack] if stack else [])]
        ran = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
        return json.loads(ran.stdout)


@pytest.fixture
def place(tmp_path, server):
    return Place(tmp_path, server)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_as_botocore(case, place):
    place.take(case)
    (ours,), log = place.ours(case.stack)
    place.take(case)  # a renewed token was put into its file
    theirs = place.botocores(case.stack)
    assert ours.get("access_key") == case.want, (ours, theirs)
    assert theirs.get("access_key") == case.want, (ours, theirs)
    if case.want:
        assert {name: ours.get(name) for name in ("access_key", "secret_key", "token")} == {
            name: theirs.get(name) for name in ("access_key", "secret_key", "token")
        }
    else:
        assert case.says and case.says in ours["error"], ours["error"]
        assert "\n" not in ours["error"] and "SECRET." not in ours["error"] and "TOKEN." not in ours["error"]
    for secret in ("SECRET.", "TOKEN.", "bearer", "client-secret", "imds-secret", "container-secret", "from-file", "e30.", "tok "):
        assert secret not in log, log
    assert not [asked for asked in place.server.requests if asked[0] == "ERROR"]


# --- texts that would end a header ---

PROFILE_OF = {
    "a role": f"[default]\n{ROLE}one\nsource_profile = keys\n",
    "an SSO session": f"[default]\n{SSO_PROFILE}sso_session = corp\n{SSO_SESSION}",
}
TOKEN_FILE = {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/token", "AWS_ROLE_ARN": f"{ARN}one"}
BROKEN = [
    (Case("a key in variables", None, {**IN_ENV, "AWS_ACCESS_KEY_ID": "ENV\r\nX-Other: 1"}, says="AWS_ACCESS_KEY_ID holds a line break"), ""),
    (Case("a secret in variables", None, {**IN_ENV, "AWS_SECRET_ACCESS_KEY": "SECRET.\n"}, says="AWS_SECRET_ACCESS_KEY holds a line break"), ""),
    (Case("a token in variables", None, {**IN_ENV, "AWS_SESSION_TOKEN": "TOKEN.\x1b"}, says="AWS_SESSION_TOKEN holds a line break or another control"), ""),
    (Case("an old token in variables", None, {**IN_ENV, "AWS_SECURITY_TOKEN": "TOKEN.\r"}, says="AWS_SECURITY_TOKEN holds a line break"), ""),
    (Case("a token in a file", None, credentials=KEYS.replace("[keys]", "[default]") + "aws_session_token = TOKEN.\n  x\n",
          says="aws_session_token holds a line break or another control character (credentials of the profile default)"), ""),
    (Case("a program's token", None, config=f"[default]\n{PROCESS}\n", files={"give-keys": script(output(SessionToken="TOKEN.\r\nX-Other: 1"))},
          says="SessionToken holds a line break"), ""),
    (Case("a role's token", None, config=PROFILE_OF["a role"], credentials=KEYS, says="SessionToken holds a line break"), "TOKEN.ROLE"),
    (Case("a role's key", None, config=PROFILE_OF["a role"], credentials=KEYS, says="AccessKeyId holds a line break"), "<AccessKeyId>ROLE"),
    (Case("a web identity's token", None, TOKEN_FILE, files={"token": "web"}, says="SessionToken holds a line break"), "TOKEN.ROLE"),
    (Case("an SSO token", None, config=PROFILE_OF["an SSO session"], files=sso_file("corp"), says="sessionToken holds a line break"), "TOKEN.SSO"),
    (Case("a container's token", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain"}, says="Token holds a line break"), "TOKEN.CONTAINER"),
    (Case("a container's secret", None, {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{S}/container/plain"}, says="SecretAccessKey holds a line break"), "SECRET.CONT"),
    (Case("an instance's token", None, IMDS, says="Token holds a line break"), "TOKEN.IMDS"),
]  # fmt: skip


@pytest.mark.parametrize("case, spoiled", BROKEN, ids=lambda value: value.name.replace(" ", "-") if isinstance(value, Case) else "")
def test_a_line_break_in_a_key_or_token_is_refused(case, spoiled, place):
    place.take(case)
    place.server.spoiled = spoiled
    (ours,), _ = place.ours()
    assert "access_key" not in ours and case.says in ours["error"], ours
    assert not re.search(r"[\x00-\x1f]", ours["error"]) and "SECRET." not in ours["error"] and "TOKEN." not in ours["error"], ours


# --- in the course of time ---


def test_the_web_identity_token_is_read_anew(place):
    """A token that is replaced while Berth runs, and a provider that cannot be asked for a moment."""
    token = place.write("token", "first-token")
    place.env.update(AWS_WEB_IDENTITY_TOKEN_FILE=str(token), AWS_ROLE_ARN=ARN + "w")
    with place.running() as ask:
        assert ask("get")["access_key"] == "ROLE-w-by-web.first-token"
        token.write_text("second-token")
        assert ask("get")["access_key"] == "ROLE-w-by-web.first-token"
        assert ask("forget")["access_key"] == "ROLE-w-by-web.second-token"


def test_the_containers_token_is_read_anew(place):
    token = place.write("token", "Bearer first")
    place.env.update(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{place.server.url}/container/plain", AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(token))
    with place.running() as ask:
        assert ask("get")["access_key"] == "CONTAINER-plain-first"
        token.write_text("Bearer second")
        assert ask("forget")["access_key"] == "CONTAINER-plain-second"


def test_keys_that_live_for_minutes_are_not_fetched_for_each_call(place):
    """With 14 minutes left they are due for renewal at once; a minute is let pass since the last time."""
    place.write(".aws/credentials", KEYS)
    place.write(".aws/config", f"[default]\n{ROLE}one\nsource_profile = keys\n")
    place.server.role_seconds = 14 * 60
    with place.running() as ask:
        first, again = ask("get"), ask("get")
        assert first == again and first["access_key"] == "ROLE-one-by-KEYS"
    assert len(place.server.requests) == 1


def test_an_identity_provider_that_is_down_for_a_moment_is_asked_again(place):
    place.take(Case("", None, {"AWS_WEB_IDENTITY_TOKEN_FILE": "{H}/token", "AWS_ROLE_ARN": ARN + "w", "AWS_MAX_ATTEMPTS": "2"}, files={"token": "provider-down"}))
    ran = subprocess.run([tool("call_cli"), "{}"], input='{"account": true}\n', env=place.env, capture_output=True, text=True, timeout=60)
    assert json.loads(ran.stdout)["arn"].endswith("user/ROLE-w-by-web.provider-down"), ran.stdout
    assert len(place.server.requests) == 3


def test_a_renewed_sign_in_is_kept_for_others(place):
    place.take(next(case for case in CASES if case.name == "SSO ended, but renewed"))
    assert place.ours()[0][0]["access_key"].endswith("renewed-again")
    assert place.ours()[0][0]["access_key"].endswith("renewed-again"), "the file has it now"
    assert [path for method, path, _, _ in place.server.requests if method == "POST"] == ["/token"]
    (cached,) = place.home.glob(".aws/sso/cache/*.json")
    kept = json.loads(cached.read_text())
    assert (kept["accessToken"], kept["refreshToken"], kept["clientSecret"]) == ("renewed-again", "next", "client-secret")
    assert cached.stat().st_mode & 0o777 == 0o600
    assert place.botocores()["access_key"].endswith("renewed-again")


def test_a_renewed_login_is_kept_for_others(place):
    place.take(next(case for case in CASES if case.name == "a login that has ended is renewed"))
    (cached,) = place.home.glob(".aws/login/cache/*.json")
    before = json.loads(cached.read_text())
    for chain in (place.ours, place.ours, place.botocores):
        found = chain() if chain == place.botocores else chain()[0][0]
        assert found["access_key"] == "LOGIN-renewed-again", "the file has it now"
    assert [path for method, path, _, _ in place.server.requests if method == "POST"] == ["/v1/token"]
    kept = json.loads(cached.read_text())
    assert kept["accessToken"]["accessKeyId"] == "LOGIN-renewed-again" and kept["accessToken"]["accountId"] == "123456789012"
    assert kept["refreshToken"] == "next"
    assert {name: kept[name] for name in ("clientId", "dpopKey", "idToken", "tokenType")} == {
        name: before[name] for name in ("clientId", "dpopKey", "idToken", "tokenType")
    }
    assert cached.stat().st_mode & 0o777 == 0o600


RENEWED = {"a login that has ended is renewed": ".aws/login/cache", "SSO ended, but renewed": ".aws/sso/cache"}


def renewed(place, name):
    place.take(next(case for case in CASES if case.name == name))
    (cached,) = place.home.glob(f"{RENEWED[name]}/*.json")
    return cached


@pytest.mark.parametrize("name", RENEWED)
@pytest.mark.parametrize("left", ["signed out", "signed in again", "damaged"])
def test_what_a_person_did_meanwhile_is_not_undone(place, name, left):
    """While Berth waits for new keys the person signs out, or in again: the old session must not come back into the file."""
    cached = renewed(place, name)
    other = cached.read_text().replace('"refreshToken": "again"', '"refreshToken": "of another sign-in"')
    assert other != cached.read_text()
    place.server.meanwhile = {
        "signed out": cached.unlink, "signed in again": lambda: cached.write_text(other), "damaged": lambda: cached.write_text("{"),
    }[left]  # fmt: skip
    assert "renewed-again" in place.ours()[0][0]["access_key"]
    assert cached.exists() == (left != "signed out")
    if cached.exists():
        assert cached.read_text() == (other if left == "signed in again" else "{")


def test_a_renewal_that_another_process_was_faster_with(place):
    """The service takes the refresh token once. The process that comes second has what the first one wrote."""
    cached = renewed(place, "a login that has ended is renewed")
    mine = json.loads(cached.read_text())
    others = {**mine, "refreshToken": "of the other process"}
    others["accessToken"] = {**mine["accessToken"], "accessKeyId": "OTHER", "expiresAt": time_text(900)}
    cached.write_text(json.dumps({**mine, "refreshToken": "TOKEN_EXPIRED"}))
    place.server.meanwhile = lambda: cached.write_text(json.dumps(others))
    assert place.ours()[0][0]["access_key"] == "OTHER"
    assert json.loads(cached.read_text()) == others
    # One that has not lasted is no answer.
    others["accessToken"]["expiresAt"] = time_text(-60)
    cached.write_text(json.dumps({**mine, "refreshToken": "TOKEN_EXPIRED"}))
    place.server.meanwhile = lambda: cached.write_text(json.dumps(others))
    assert "has expired: run aws login --profile l" in place.ours()[0][0]["error"]


def test_a_renewal_of_sso_that_another_process_was_faster_with(place):
    cached = renewed(place, "SSO ended, but renewed")
    spent = {**json.loads(cached.read_text()), "refreshToken": "spent"}
    others = {**spent, "accessToken": "of-the-other", "refreshToken": "next", "expiresAt": time_text(3600)}
    cached.write_text(json.dumps(spent))
    place.server.meanwhile = lambda: cached.write_text(json.dumps(others))
    assert place.ours()[0][0]["access_key"].endswith("of-the-other")
    assert json.loads(cached.read_text()) == others


@pytest.mark.parametrize("name, spoiled", [("a login that has ended is renewed", "TOKEN.LOGIN-renewed-again"), ("SSO ended, but renewed", "renewed-again")])
def test_a_renewed_text_that_cannot_be_used_is_not_kept(place, name, spoiled):
    """The AWS CLI reads the file, too."""
    cached = renewed(place, name)
    before = cached.read_text()
    place.server.spoiled = spoiled
    (ours,), _ = place.ours()
    assert "access_key" not in ours and cached.read_text() == before, ours


def test_a_login_is_renewed_while_berth_runs(place):
    """The file is read again: what another process has renewed is used, and no second renewal asked for."""
    place.take(next(case for case in CASES if case.name == "a login"))
    with place.running() as ask:
        assert ask("get")["access_key"] == "LOGIN"
        place.take(next(case for case in CASES if case.name == "a login that has ended is renewed"))
        assert ask("forget")["access_key"] == "LOGIN-renewed-again"
        assert place.botocores()["access_key"] == "LOGIN-renewed-again"
        assert ask("forget")["access_key"] == "LOGIN-renewed-again"
    assert [path for method, path, _, _ in place.server.requests if method == "POST"] == ["/v1/token"]


def test_a_stacks_endpoint_gets_no_login(place):
    place.take(next(case for case in CASES if case.name == "a login that has ended is renewed"))
    del place.env["AWS_ENDPOINT_URL"]
    place.env["AWS_ENDPOINT_URL_SIGNIN"] = "http://127.0.0.1:1"
    aws = json.dumps({"endpointUrl": place.server.url, "profile": "l"})
    ran = subprocess.run([tool("credentials_cli"), aws], input="get\n", env=place.env, capture_output=True, text=True, timeout=60)
    assert "cannot reach 127.0.0.1:1" in json.loads(ran.stdout)["error"]
    assert place.server.requests == []


# --- processes that misbehave ---


def test_a_process_that_never_stops_writing_is_ended(place):
    place.write("give-keys", "#!/bin/sh\nexec yes SECRET.flood\n")
    place.write(".aws/config", f"[default]\n{PROCESS}\n")
    (answer,), log = place.ours()
    assert "writes more than 65536 bytes" in answer["error"]
    assert "SECRET." not in answer["error"] + log


def test_a_process_that_leaves_a_child_behind(place):
    """The child holds our pipe open: the keys are taken all the same, and nobody waits for it."""
    place.write("give-keys", f"#!/bin/sh\necho '{output()}'\nsleep 30 &\n")
    place.write(".aws/config", f"[default]\n{PROCESS}\n")
    begin = time.monotonic()
    assert place.ours()[0][0]["access_key"] == "PROCESS"
    assert time.monotonic() - begin < 20


def test_a_process_gets_nothing_of_our_input_and_no_shell(place):
    place.write("give-keys", "#!/bin/sh\nif read line; then echo \"got $line\" >&2; exit 1; fi\n" + f"echo '{output()}'\n")
    place.write(".aws/config", f"[default]\n{PROCESS} $(touch {{H}}/made) `touch {{H}}/made` > {{H}}/made\n")
    assert [a.get("access_key") for a in place.ours(lines="get\nget\n")[0]] == ["PROCESS"] * 2
    assert not (place.home / "made").exists()


# --- what is asked of whom ---


def test_metadata_is_asked_by_version_2_only(place):
    place.take(Case("", None, IMDS))
    assert place.ours()[0][0]["access_key"] == "IMDS-web-server"
    assert [(method, path) for method, path, _, _ in place.server.requests] == [
        ("PUT", "/latest/api/token"),
        ("GET", "/latest/meta-data/iam/security-credentials/"),
        ("GET", "/latest/meta-data/iam/security-credentials/web-server"),
    ]
    assert all("x-aws-ec2-metadata-token" in headers for _, _, headers, _ in place.server.requests[1:])


def test_metadata_attempts(place):
    place.take(Case("", None, {**IMDS, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "{S}/imds-none", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "3"}))
    assert "no AWS credentials found" in place.ours()[0][0]["error"]
    assert len(place.server.requests) == 3
    place.env["AWS_METADATA_SERVICE_NUM_ATTEMPTS"] = "many"
    assert 'AWS_METADATA_SERVICE_NUM_ATTEMPTS (or metadata_service_num_attempts of the profile default) is "many"' in place.ours()[0][0]["error"]


def test_a_machine_without_metadata_fails_fast(place):
    """A listener that never answers stands for a network that swallows packets."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        del place.env["AWS_METADATA_SERVICE_TIMEOUT"]
        place.env.update(AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}")
        begin = time.monotonic()
        assert "no answer in time" in place.ours()[0][0]["error"]
        assert time.monotonic() - begin < 5


def test_a_stacks_endpoint_gets_no_sso_token(place):
    place.take(next(case for case in CASES if case.name == "SSO the older way"))
    del place.env["AWS_ENDPOINT_URL"]
    place.env["AWS_ENDPOINT_URL_SSO"] = "http://127.0.0.1:1"
    aws = json.dumps({"endpointUrl": place.server.url, "profile": "s"})
    ran = subprocess.run([tool("credentials_cli"), aws], input="get\n", env=place.env, capture_output=True, text=True, timeout=60)
    assert "cannot reach 127.0.0.1:1" in json.loads(ran.stdout)["error"]
    assert place.server.requests == []


def _namespaces():
    tried = subprocess.run(["unshare", "-Urn", "ip", "link", "set", "lo", "up"], capture_output=True) if shutil.which("unshare") and shutil.which("ip") else None
    return tried is not None and tried.returncode == 0


@pytest.mark.skipif(not _namespaces(), reason="needs a network namespace of its own, to give the loopback device AWS's addresses")
def test_the_addresses_that_aws_gives_these_servers(place):
    """
    169.254.170.2, 169.254.170.23, fd00:ec2::23, 169.254.169.254, fd00:ec2::254, all on the loopback device of a namespace.
    No web proxy is asked for them (botocore sends its metadata requests to one: its variables are left out there).
    """
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:1")
    cases = [
        ({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/container/relative?x=1"}, "CONTAINER-relative"),
        ({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/container/relative", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/"}, "CONTAINER-relative"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/container/full"}, "CONTAINER-full"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://[fd00:ec2::23]/container/six"}, "CONTAINER-six"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.99/container/full"}, None),
        ({"AWS_EC2_METADATA_DISABLED": "false"}, "IMDS-web-server"),
        ({"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv6"}, "IMDS-web-server"),
    ]  # fmt: skip
    work = {
        "cases": [[{**place.env, **proxies, **env}, {**place.env, **env}] for env, _ in cases], "cli": str(tool("credentials_cli")),
        "addresses": ["169.254.170.2", "169.254.170.23", "fd00:ec2::23", "169.254.169.254", "fd00:ec2::254"],
    }  # fmt: skip
    command = ["unshare", "-Urn", sys.executable, str(HERE / "aws_addresses.py")]
    ran = subprocess.run(command, input=json.dumps(work), capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    answers = json.loads(ran.stdout)
    assert [(ours.get("access_key"), theirs.get("access_key")) for ours, theirs in answers] == [(want, want) for _, want in cases], answers


# --- with Berth itself ---


def test_the_wrong_account_sees_one_call(cloud, berth):
    """Before anything is read or written, Berth asks whose credentials it has: GetCallerIdentity, and nothing else."""
    berth.write("stack.yaml", stacks.text(stacks.stack(aws={"region": "us-east-1", "account": "999999999999"}), stacks.environment("e")))
    for verb in ("plan", "apply", "destroy"):
        mark = cloud.mark()
        ran = berth(verb, *([] if verb == "plan" else ["--yes"])).expect(3)
        assert "wrong-account" in ran.out + ran.err
        assert [call["operation"] for call in cloud.calls(mark)] == ["GetCallerIdentity"], verb


def test_no_secret_is_told_to_anybody(cloud, berth, server):
    """An apply with a role assumed on a container's keys: outputs with -v, plan file and state hold no key of either."""
    folder = berth.folder / "found"
    folder.mkdir()
    place = Place(folder, server)
    place.write(".aws/config", f"[profile a]\n{ROLE}a\ncredential_source = EcsContainer\n")
    secret, made = "container-secret", "ROLE-a-by-CONTAINER-plain-container-secret"
    server.account = cloud.account
    cloud.issue_credentials(made, f"SECRET.{made}", f"TOKEN.{made}")
    berth.env.update(
        AWS_CONFIG_FILE=str(folder / ".aws/config"), AWS_PROFILE="a", AWS_ENDPOINT_URL_STS=server.url,
        AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{server.url}/container/plain", AWS_CONTAINER_AUTHORIZATION_TOKEN=f"Basic {secret}",
    )  # fmt: skip
    del berth.env["AWS_ACCESS_KEY_ID"], berth.env["AWS_SECRET_ACCESS_KEY"]
    berth.write("stack.yaml", stacks.text(stacks.stack(aws={"region": "us-east-1"}), stacks.environment("e", image={"prebuilt": "python"})))
    cloud.pushes.amd64("alphaagent/prebuilt/python")
    texts = []
    for arguments in (["plan", "-v", "-o", str(folder / "plan")], ["apply", "-v", "--yes"], ["destroy", "-v", "--yes"]):
        ran = berth(*arguments).expect(0)
        texts.append((arguments[0], (ran.out + ran.err).encode()))
        assert "aws: credentials of the role" in ran.err
    texts += [(str(path), path.read_bytes()) for base in (berth.stack, folder) for path in base.rglob("*") if path.is_file() and path.name != "config"]
    assert any("data.mdb" in name for name, _ in texts), [name for name, _ in texts]
    for name, text in texts:
        assert b"SECRET." not in text and b"TOKEN." not in text and f"Basic {secret}".encode() not in text, name


def test_a_session_that_ends_in_mid_apply_is_replaced(cloud, berth, server, prebuilt):
    """AWS says that the session has expired before its time: the role is assumed once more, and the apply goes on."""
    place = Place(berth.folder, server)
    place.write(".aws/credentials", KEYS)
    place.write(".aws/config", f"[profile a]\n{ROLE}a\nsource_profile = keys\n")
    server.account = cloud.account
    made = "ROLE-a-by-KEYS"
    cloud.issue_credentials(made, f"SECRET.{made}", f"TOKEN.{made}")
    berth.env.update(
        AWS_CONFIG_FILE=str(berth.folder / ".aws/config"), AWS_SHARED_CREDENTIALS_FILE=str(berth.folder / ".aws/credentials"),
        AWS_PROFILE="a", AWS_ENDPOINT_URL_STS=server.url,
    )  # fmt: skip
    del berth.env["AWS_ACCESS_KEY_ID"], berth.env["AWS_SECRET_ACCESS_KEY"]
    berth.write("stack.yaml", stacks.text(stacks.stack(aws={"region": "us-east-1"}), stacks.environment("e")))
    expired = {"kind": "error", "status": 403, "code": "ExpiredTokenException", "message": "The security token included in the request is expired"}
    cloud.faults(({"operation": "CreateFunction", "times": 1}, expired))
    berth.apply()
    assert cloud.fault_hits() == [1]
    assert [dict(urllib.parse.parse_qsl(body))["Action"] for _, _, _, body in server.requests].count("AssumeRole") == 2
    berth.assert_settled()
