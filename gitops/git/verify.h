/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies the signature of a commit: gpgv and ssh-keygen are the judges, each by its exit code and
 * by its machine-readable output. A signature that has expired, or is by a key that has expired or
 * was revoked, counts for nothing.
 *
 * Of a tag source the annotated tag's own signature counts as well as the commit's: either will do.
 */
#ifndef BERTH_GITOPS_GIT_VERIFY_H
#define BERTH_GITOPS_GIT_VERIFY_H

#include "gitops/git/judge.h"
#include "gitops/git/repository.h"

/* Lives in the arena: "Name <address> (OpenPGP FINGERPRINT)", "principal (ssh SHA256:...)". */
int verify_commit(struct judge *judge, struct repository *repository, const struct remote_ref *ref,
                  struct arena *arena, const char **ret_signer, enum git_failure *ret_failure,
                  struct error *err) MUST_USE;

/* OpenPGP keys as gpgv wants them: armor taken off. Appends to `keyring`; binary input stays as it is. */
int keyring_add(const char *data, size_t length, struct strbuf *keyring, struct error *err) MUST_USE;

/*
 * Where the armor begins that ends a tag: the last line that begins one, as git has it. `size` if
 * it has no armor.
 */
size_t verify_find_armor(const char *data, size_t size);

/* Whether the tag says of itself, where the signature covers it, that this is its name. */
bool verify_tag_is_called(const char *data, size_t size, const char *name);

/* What gpgv's --status-fd says. 1 where exactly one good and valid signature is there, with the signer. Else 0 and why. */
int verify_read_status(const char *text, struct arena *arena, const char **ret_signer, const char **ret_why);

#endif
