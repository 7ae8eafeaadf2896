/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that came from outside, for a comment on GitHub, GitLab, Gitea: whatever it holds, it becomes no markup, link,
 * mention, reference, emoji or command there, and does not break the table that it stands in. One line of source each.
 */
#ifndef BERTH_CONTROLLER_MARKUP_H
#define BERTH_CONTROLLER_MARKUP_H

#include "base/strbuf.h"

/* As code. At most `most` bytes of it, and then how many there were; 0 for all. */
void markup_code(struct strbuf *to, const char *text, size_t most);
/*
 * As sentences: plain where a word is nothing else in any forge's Markdown, as code where it might be. Lines are parted by
 * <br>; one that is indented by two is a command, and code as a whole.
 */
void markup_text(struct strbuf *to, const char *text);

#endif
