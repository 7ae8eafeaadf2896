/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a Server: what is taken, what is refused and with which words. */
#include "schema/fields.h"
#include "schema/support.h"

#define HEAD "apiVersion: berth/v1\nkind: Server\nmetadata: {name: s}\nspec:\n"
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HASH_2 "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CLIENT HEAD "  clients:\n  - {name: a, tokenSha256: " HASH ", may: [execute]"
#define JWT HEAD "  clients: [{name: a, may: [execute], jwt: {issuer: i, audience: b"
#define SESSIONS HEAD "  sessions: {"
#define TRUSTED HEAD "  shell: {trusted: [{agent: a, command: [df, -h]"

static const struct alone_case cases[] = {
        { "apiVersion: berth/v1\nkind: Server\nmetadata: {name: s}\n", "" },
        { HEAD
          "  stack: ../stack\n  listen: ':9471'\n  hosts: [berth.example.com, '[2001:db8::1]']\n  behindProxy: true\n"
          "  tls: {certFile: c, keyFile: k}\n"
          "  clients:\n"
          "  - {name: app, realm: company, tokenFile: t, actsFor: users, may: [execute, containers, shell, observe],\n"
          "     agents: [coder], environments: [data],\n"
          "     limits: {requestsPerSecond: 1000000, ownerRequestsPerSecond: 1, underWay: 384, ownerUnderWay: 1}}\n"
          "  - {name: people, tokenSha256: " HASH ", may: [approve, administer]}\n"
          "  - {name: sso, may: [execute], jwt: {issuer: 'https://i', audience: berth, jwksUrl: 'https://i/keys', ownerClaim: sub}}\n"
          "  - {name: file, may: [execute], actsFor: users, jwt: {issuer: i, audience: berth, jwksFile: k}}\n"
          "  sessions: {idleSeconds: 1209600, ttlSeconds: 1209600, parkSeconds: 60, perOwner: 3, total: 200, warm: {data: 2},\n"
          "    preload: [numpy, os.path], checkpointMB: 64, checkpointSeconds: 2, sharedUser: true, allowShared: true}\n"
          "  workspaces: {perOwnerMB: 1000, minFreeMB: 500}\n  containers: {total: 50}\n"
          "  shell: {enabled: true, user: nobody, approvalSeconds: 60,\n"
          "    trusted: [{agent: coder, command: [df, '-h', 'a*'], cwd: /srv}]}\n"
          "  compat: {e2b: true, e2bTemplate: data}\n",
          "" },

        { HEAD "  listen: '0.0.0.0:9471'\n", "listen is reached from beyond this machine" },
        { HEAD "  listen: ':9471'\n", "listen is reached from beyond this machine" },
        { HEAD "  listen: 'localhost.example.com:9471'\n", "listen is reached from beyond this machine" },
        { HEAD "  listen: '127.0.0.1.example.com:9471'\n", "listen is reached from beyond this machine" },
        { HEAD "  listen: '[::]:9471'\n  behindProxy: false\n",
          "listen is reached from beyond this machine" },
        { HEAD "  listen: '[::]:9471'\n  behindProxy: true\n", "" },
        { HEAD "  listen: '10.0.0.1:9471'\n  tls: {certFile: c, keyFile: k}\n", "" },
        { HEAD "  listen: 'off'\n", "" },
        { HEAD "  listen: '[::1]:0'\n", "" },
        { HEAD "  listen: 'localhost:1'\n", "" },
        { HEAD "  listen: '127.1.2.3:1'\n", "" },
        { HEAD "  listen: '127.0.0.1:70000'\n", "0 to 65535" },
        { HEAD "  listen: nowhere\n", "HOST:PORT" },
        { HEAD "  hosts: ['a:1']\n", "without a port" },
        { HEAD "  tls: {certFile: c}\n", "keyFile" },
        { HEAD "  behindProxy: maybe\n", "behindProxy" },
        { HEAD "  stak: x\n", "did you mean stack?" },

        { CLIENT ", limits: {requestsPerSecond: 0}}\n", "requestsPerSecond" },
        { CLIENT ", limits: {ownerRequestsPerSecond: 1000001}}\n", "ownerRequestsPerSecond" },
        { CLIENT ", limits: {underWay: 385}}\n", "underWay" },
        { CLIENT ", limits: {ownerUnderWay: 1.5}}\n", "ownerUnderWay" },
        { CLIENT ", limits: {perSecond: 5}}\n", "perSecond" },
        { CLIENT ", limits: 5}\n", "limits" },
        { HEAD "  clients: []\n", "clients" },
        { HEAD "  clients: [{name: a, may: [execute]}]\n", "needs tokenFile, tokenSha256 or jwt" },
        { CLIENT ", tokenFile: t}\n", "only one of tokenFile, tokenSha256 or jwt can be given" },
        { CLIENT ", jwt: {issuer: i, audience: b, jwksFile: k}}\n", "only one of" },
        { CLIENT "}\n  - {name: a, tokenFile: t, may: [execute]}\n",
          "two clients have the same name, the first on line 6" },
        { CLIENT "}\n  - {name: b, tokenSha256: " HASH ", may: [observe]}\n",
          "two clients have the same tokenSha256" },
        { CLIENT "}\n  - {name: b, tokenSha256: " HASH_2 ", may: [observe]}\n", "" },
        { HEAD
          "  clients: [{name: a, tokenFile: t, may: [execute]}, {name: b, tokenFile: t, may: [execute]}]\n",
          "two clients have the same tokenFile" },
        { HEAD "  clients: [{name: a, tokenSha256: pa55word, may: [execute]}]\n", "SHA-256" },
        { HEAD "  clients: [{name: a, tokenFile: t}]\n", "may" },
        { HEAD "  clients: [{name: a, tokenFile: t, may: []}]\n", "may" },
        { HEAD "  clients: [{name: a, tokenFile: t, may: [execut]}]\n", "did you mean" },
        { HEAD "  clients: [{name: a, tokenFile: t, may: [execute, execute]}]\n", "named twice" },
        { HEAD "  clients: [{name: a, tokenFile: t, may: [shell, approve]}]\n",
          "who asks for commands on the host must not approve them" },
        { HEAD "  clients: [{name: 'uid:0', tokenFile: t, may: [execute]}]\n", "lower-case letters" },
        { CLIENT ", realm: 'client:a'}\n", "lower-case letters" },
        { CLIENT ", realm: 'a/b'}\n", "lower-case letters" },
        { CLIENT ", actsFor: everybody}\n", "actsFor" },
        { CLIENT ", agents: [x, x]}\n", "named twice" },
        { CLIENT ", environments: ['../x']}\n", "lower-case letters" },
        { JWT "}}]\n", "needs jwksFile or jwksUrl" },
        { JWT ", jwksFile: k, jwksUrl: 'https://i'}}]\n", "only one of jwksFile or jwksUrl" },
        { JWT ", jwksUrl: 'http://i'}}]\n", "https://" },
        { JWT ", jwksFile: k, ownerClaim: sub}, actsFor: itself}]\n", "such a client acts for users" },
        { JWT ", jwksFile: k, ownerClaim: sub}, actsFor: users}]\n", "" },

        { SESSIONS "idleSeconds: 0}\n", "1 to 1209600" },
        { SESSIONS "idleSeconds: 1209601}\n", "1 to 1209600" },
        { SESSIONS "ttlSeconds: 1209601}\n", "1 to 1209600" },
        { SESSIONS "parkSeconds: -1}\n", "1 to 1209600" },
        { SESSIONS "perOwner: 0}\n", "perOwner" },
        { SESSIONS "warm: {data: 0}}\n", "1 to 100" },
        { SESSIONS "warm: {DATA: 1}}\n", "lower-case letters" },
        { SESSIONS "preload: ['os; import x']}\n", "Python module" },
        { SESSIONS "checkpointMB: 0}\n", "1 to 4000" },
        { SESSIONS "checkpointSeconds: 601}\n", "1 to 600" },
        { HEAD "  workspaces: {perOwnerMB: 0}\n", "perOwnerMB" },
        { HEAD "  containers: {total: 0}\n", "total" },
        { HEAD "  shell: {user: 'a b'}\n", "a user's name" },
        { HEAD "  shell: {approvalSeconds: 1209601}\n", "1 to 1209600" },
        { TRUSTED "}]}\n", "cwd" },
        { HEAD "  shell: {trusted: [{agent: a, command: [tar, tf, '**'], cwd: /srv}]}\n",
          "no * stands for other words" },
        { HEAD "  shell: {trusted: [{agent: a, command: [git, grep, '**'], cwd: /srv}]}\n",
          "no * stands for other words" },
        { HEAD "  shell: {trusted: [{agent: a, command: [find, '*', -print], cwd: /srv}]}\n",
          "no * stands for other words" },
        { HEAD "  shell: {trusted: [{agent: a, command: ['*'], cwd: /srv}]}\n",
          "no * stands for other words" },
        { TRUSTED ", cwd: srv}]}\n", "a folder's path from the root" },
        { HEAD "  compat: {e2bTemplate: data}\n", "e2bTemplate means nothing without e2b" },

        { CLIENT "}\n---\napiVersion: berth/v1\nkind: Server\nmetadata: {name: t}\n",
          "a second Server, t: the first stands on line 1" },
        { CLIENT "}\n---\napiVersion: berth/v1\nkind: Controller\nmetadata: {name: d}\n",
          "the file of a Server holds nothing else, found Controller" },
        { CLIENT "}\n---\napiVersion: berth/v1\nkind: Agent\nmetadata: {name: d}\n",
          "the file of a Server holds nothing else, found Agent" },
        { "# nothing\n", "no Server stands in this file" },
};

static void servers(void **state) {
        (void)state;
        check_alone_cases(&server_kind, cases, sizeof(cases) / sizeof(cases[0]));
}

static void not_in_a_stack(void **state) {
        (void)state;
        check_not_in_a_stack(CLIENT ", nonsense: 1}\n",
                             "c.yaml:2:7: a Server is no part of a stack [it stands in a file of its own, "
                             "outside of the stack's: berth serve -f FILE]\n");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(servers),
                cmocka_unit_test(not_in_a_stack),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
