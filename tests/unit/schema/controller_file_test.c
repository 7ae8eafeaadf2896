/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a Controller: what is taken, what is refused and with which words. */
#include "schema/fields.h"
#include "schema/support.h"

#define HEAD "apiVersion: berth/v1\nkind: Controller\nmetadata: {name: c}\nspec:\n"
#define SOURCE HEAD "  sources:\n  - {name: a, url: /srv/a.git, branch: main"
#define OTHER "  - {name: b, url: /srv/a.git, branch: main"

static const struct alone_case cases[] = {
        { SOURCE "}\n", "" },
        { SOURCE ", path: teams/a, intervalSeconds: 1, driftSeconds: 1, mode: approve, correctDrift: false, "
                 "fastForwardOnly: false, verify: {gpgKeys: [k], sshAllowedSigners: s}, "
                 "allow: [mass-delete], suspended: true}\n",
          "" },
        { HEAD
          "  listen: 'off'\n  webhookSecretFile: s\n  notify: [{url: 'https://x/y', events: [applied, drift], secretFile: s}]\n"
          "  sources: [{name: a, url: 'git@host:team/a.git', tag: '>=1.2 <2', credentials: {sshKeyFile: k, knownHostsFile: h}}]\n",
          "" },
        { HEAD "  sources: []\n", "sources" },
        { "apiVersion: berth/v1\nkind: Controller\nmetadata: {name: c}\n", "spec is required" },
        { SOURCE ", tag: '1.x'}\n", "only one of branch or tag can be given" },
        { HEAD "  sources: [{name: a, url: /srv/a}]\n", "needs branch or tag" },
        { SOURCE "}\n  - {name: a, url: /srv/b, branch: main}\n",
          "two sources are named a, the first on line 6" },
        { SOURCE ", intervalSecond: 3}\n", "did you mean intervalSeconds?" },
        { SOURCE ", intervalSeconds: 0}\n", "1 to 86400" },
        { SOURCE ", mode: aply}\n", "did you mean" },
        { SOURCE ", allow: [plan-stale]}\n", "plan-stale" },
        { SOURCE
          ", allow: [has-dependents, not-owned, protected, mass-delete, image-unusable, image-in-use, "
          "expires-existing, bucket-not-empty, needs-replacement, inactive-specialist, over-quota, expires-logs, "
          "secret-unusable, role-unusable, has-sessions, table-not-empty]}\n",
          "" },
        { SOURCE ", verify: {}}\n", "at least one of gpgKeys or sshAllowedSigners" },
        { SOURCE ", path: ../up}\n", "path must be a folder within the repository" },
        { SOURCE ", path: a/../b}\n", "path must be a folder within the repository" },
        { SOURCE ", path: /a}\n", "path must be a folder within the repository" },
        { SOURCE ", path: a/..b}\n", "" },
        { SOURCE ", path: 'a/[x]'}\n", "" },
        { SOURCE ", path: 'stacks/*/pro?'}\n", "" },
        { SOURCE ", path: 'stacks/[ab]*'}\n", "a pattern is made of * and ?" },
        { SOURCE ", path: 'stacks/**/x'}\n", "a pattern is made of * and ?" },
        { SOURCE ", path: '*/../x'}\n", "path must be a folder within the repository" },
        { SOURCE ", path: s/a}\n" OTHER ", path: s/a}\n", "" },
        { SOURCE ", path: 's/*'}\n" OTHER ", path: s/a}\n", "can match the same folder" },
        { SOURCE ", path: s/a}\n" OTHER ", path: './s//a*/'}\n",
          "s/a, on line 6, can match the same folder" },
        { SOURCE ", path: 's/*'}\n" OTHER ", path: 's/*/x'}\n", "" },
        { SOURCE ", path: 's/*'}\n" OTHER ", path: 't/*'}\n", "" },
        { SOURCE ", path: 's/*-eu'}\n" OTHER ", path: 's/*-us'}\n", "" },
        { SOURCE ", path: 's/a*c'}\n" OTHER ", path: 's/*b*'}\n", "can match the same folder" },
        { SOURCE ", path: 's/a?'}\n" OTHER ", path: 's/?b'}\n", "can match the same folder" },
        { SOURCE ", path: 's/a?'}\n" OTHER ", path: 's/?'}\n", "" },
        { SOURCE ", path: 's/*a'}\n" OTHER ", path: 's/a'}\n", "can match the same folder" },
        { SOURCE ", path: 's/*'}\n  - {name: b, url: /srv/a.git, branch: next, path: 's/*'}\n", "" },
        { SOURCE ", path: 's/*'}\n  - {name: b, url: /srv/b.git, branch: main, path: 's/*'}\n", "" },
        { HEAD "  sources: [{name: a, url: /a, branch: refs/heads/main}]\n",
          "write main, not refs/heads/main" },
        { HEAD "  sources: [{name: a, url: /a, branch: -x}]\n", "a branch's name" },
        { HEAD "  sources: [{name: a, url: 'http://h/a', branch: m}]\n", "https://HOST/PATH" },
        { HEAD "  sources: [{name: a, url: 'ext::sh -c x', branch: m}]\n", "https://HOST/PATH" },
        { HEAD "  sources: [{name: a, url: 'https://u:pa55word@h/a', branch: m}]\n",
          "must not hold a password" },
        { HEAD "  sources: [{name: a, url: 'u:pa55word@h:a', branch: m}]\n",
          "found what may hold a password" },
        { HEAD "  sources: [{name: a, url: 'http://u:pa55word@h/a', branch: m}]\n",
          "found what may hold a password" },
        { HEAD "  sources: [{name: a, url: 'https://u@h/a', branch: m}]\n", "" },
        { HEAD "  sources: [{name: a, url: 'ssh://h/a', branch: m}]\n", "needs credentials.knownHostsFile" },
        { HEAD "  sources: [{name: a, url: 'u@h:a', branch: m, credentials: {sshKeyFile: k}}]\n",
          "sshKeyFile means nothing without knownHostsFile" },
        { HEAD "  sources: [{name: a, url: 'https://h/a', branch: m, credentials: {knownHostsFile: k}}]\n",
          "knownHostsFile means nothing to a source by https" },
        { HEAD "  sources: [{name: a, url: 'file:///a', branch: m, credentials: {passwordFile: k}}]\n",
          "passwordFile means nothing to a source by file" },
        { HEAD "  listen: nowhere\n  sources: [{name: a, url: /a, branch: m}]\n", "HOST:PORT" },
        { HEAD "  listen: '127.0.0.1:70000'\n  sources: [{name: a, url: /a, branch: m}]\n", "0 to 65535" },
        { HEAD "  hosts: ['a:1']\n  sources: [{name: a, url: /a, branch: m}]\n", "without a port" },
        { HEAD "  listen: '[::1]:0'\n  sources: [{name: a, url: /a, branch: m}]\n", "" },
        { HEAD "  notify: [{url: 'ftp://x'}]\n  sources: [{name: a, url: /a, branch: m}]\n", "http" },
        { HEAD
          "  notify: [{url: 'http://x', events: [aplied]}]\n  sources: [{name: a, url: /a, branch: m}]\n",
          "aplied" },
        { SOURCE
          "}\n---\napiVersion: berth/v1\nkind: Controller\nmetadata: {name: d}\nspec:\n  sources: [{name: "
          "b, url: /b, branch: m}]\n",
          "a second Controller, d: the first stands on line 1" },
        { SOURCE "}\n---\napiVersion: berth/v1\nkind: Agent\nmetadata: {name: d}\n",
          "the file of a Controller holds nothing else, found Agent" },
        { "# nothing\n", "no Controller stands in this file" },
};

static void controllers(void **state) {
        (void)state;
        check_alone_cases(&controller_kind, cases, sizeof(cases) / sizeof(cases[0]));
}

static void not_in_a_stack(void **state) {
        (void)state;
        check_not_in_a_stack(
                SOURCE ", nonsense: 1}\n",
                "c.yaml:2:7: a Controller is no part of a stack [it stands in a file of its own, "
                "outside of the stack's: berth controller -f FILE]\n");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(controllers),
                cmocka_unit_test(not_in_a_stack),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
