/* SPDX-License-Identifier: Apache-2.0 */
/* The page's files, as the build embeds them: from panel/, each with a symbol for its bytes and one for how many they are. */
#ifndef BERTH_BROKER_PANEL_FILES_H
#define BERTH_BROKER_PANEL_FILES_H

#include <stddef.h>

#define PANEL_SCRIPT "text/javascript; charset=utf-8"
#define PANEL_FILES(row)                                                                                     \
        row(panel_index_html, "/", "text/html; charset=utf-8") row(panel_style_css, "/panel/style.css",      \
                                                                   "text/css; charset=utf-8")                \
                row(panel_icon_svg, "/panel/icon.svg", "image/svg+xml") row(                                 \
                        panel_app_js, "/panel/app.js",                                                       \
                        PANEL_SCRIPT) row(panel_api_js, "/panel/api.js",                                     \
                                          PANEL_SCRIPT) row(panel_dom_js, "/panel/dom.js", PANEL_SCRIPT)     \
                        row(panel_table_js, "/panel/table.js", PANEL_SCRIPT) row(                            \
                                panel_text_js, "/panel/text.js",                                             \
                                PANEL_SCRIPT) row(panel_live_js, "/panel/live.js", PANEL_SCRIPT)             \
                                row(panel_environments_js, "/panel/environments.js",                         \
                                    PANEL_SCRIPT) row(panel_sessions_js, "/panel/sessions.js", PANEL_SCRIPT) \
                                        row(panel_session_js, "/panel/session.js", PANEL_SCRIPT) row(        \
                                                panel_history_js, "/panel/history.js", PANEL_SCRIPT)         \
                                                row(panel_files_js, "/panel/files.js", PANEL_SCRIPT) row(    \
                                                        panel_preview_js, "/panel/preview.js", PANEL_SCRIPT) \
                                                        row(panel_containers_js, "/panel/containers.js",     \
                                                            PANEL_SCRIPT)                                    \
                                                                row(panel_approvals_js,                      \
                                                                    "/panel/approvals.js", PANEL_SCRIPT)

#define PANEL_DECLARATION(symbol, path, type) \
        extern const unsigned char symbol[];  \
        extern const size_t symbol##_size;
PANEL_FILES(PANEL_DECLARATION)
#undef PANEL_DECLARATION

#endif
