// SPDX-License-Identifier: Apache-2.0
// What ran in a session: its code, how it ended, and what came of it, the newest first. What runs is followed as it prints.
import { ask, follow, get, list, pathOf } from "./api.js";
import { element, keep, say, scrolling } from "./dom.js";
import { imageType, shown, shownAge, shownBlock, shownBytes, shownDuration, shownTime, tablesIn } from "./text.js";
import { statusOf, tellProblem } from "./table.js";
import { imageOf, tableOf } from "./preview.js";

const SHOWN = 20;
const LIVE_MAX = 200_000; // characters of what a running execution has printed
const HTML_MAX = 1 << 20, TABLES_MAX = 4;
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const isOver = (status) => status !== "queued" && status !== "running";

function bytesOf(base64) {
        return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** The content in front of what is missing and behind it; one text where nothing is. */
function textsOf(stream) {
        const bytes = stream.encoding === "base64" ? bytesOf(stream.content) : new TextEncoder().encode(stream.content);
        const at = stream.gap ? stream.gap.at : bytes.length;

        return [bytes.subarray(0, at), bytes.subarray(at)].map((part) => new TextDecoder().decode(part));
}

function block(kind, label, text) {
        return scrolling(element("pre", { class: kind, role: "group", "aria-label": label, text: shownBlock(text) }));
}

function streamOf(stream, kind, label) {
        if (!stream || stream.bytesTotal === 0)
                return [];
        const [head, tail] = textsOf(stream);
        const part = stream.bytesReturned < stream.bytesTotal && element("p", {
                class: "quiet",
                text: `${shownBytes(stream.bytesReturned)} of ${shownBytes(stream.bytesTotal)} are kept${tail ? ": the middle is missing here" : ""}.`,
        });

        return [block(kind, label, head), part, tail !== "" && block(kind, `${label}, its end`, tail)];
}

// --- displays ---

function source(html, name) {
        return element("details", {}, element("summary", { text: `${name} source` }), block("source", `${name} source`, html));
}

/** The best of a display's forms that can be shown; HTML and SVG do nothing here: they are text. */
function displayOf(display, number, id, signal) {
        const { mime, file } = display;
        const picture = IMAGES.find((type) => mime[type] !== undefined);
        const html = mime["text/html"];

        if (picture)
                return [imageOf(bytesOf(mime[picture]), picture, `Figure of execution ${number}`, signal)];
        if (display.truncated && file?.match(/\.(png|jpe?g)$/)) {
                const place = element("div", {});

                loadPicture(place, id, file, number, signal);
                return [place];
        }
        if (html !== undefined) {
                const tables = tablesIn(html.slice(0, HTML_MAX), TABLES_MAX);

                return tables.length > 0 ? [...tables.map((rows) => tableOf(rows, `Table of execution ${number}`)), source(html, "HTML")]
                        : [block("source", "HTML source", html)];
        }
        for (const [type, text] of Object.entries(mime)) {
                if (type !== "text/plain" && typeof text === "string")
                        return [block("source", type, text)];
        }
        return mime["text/plain"] === undefined ? [] : [block("value", "Display", mime["text/plain"])];
}

/** History keeps small pictures; the others are files. */
async function loadPicture(place, id, file, number, signal) {
        try {
                const answer = await ask(`/v1/workspaces/${pathOf(id)}/files/${pathOf(file)}`, { signal });
                const bytes = new Uint8Array(await answer.arrayBuffer());
                const type = imageType(bytes);

                if (type)
                        place.replaceChildren(imageOf(bytes, type, `Figure of execution ${number}`, signal));
        } catch {
                place.replaceChildren(element("p", { class: "quiet", text: `Its picture was the file ${shown(file)}, which is gone.` }));
        }
}

// --- one execution ---

function noteOf(state) {
        if (!state || (state.was !== "restored" && state.was !== "lost"))
                return null;
        const lost = (state.lost ?? []).map(({ name }) => name).slice(0, 20);

        return `Variables were ${state.was}${state.reason ? `: ${state.reason}` : ""}${lost.length ? `; lost: ${lost.join(", ")}` : ""}`;
}

function filesOf(files) {
        const parts = [["wrote", files?.changed?.map(({ path }) => path)], ["deleted", files?.deleted],
                ["in conflict", files?.conflict], ["not kept", files?.skipped?.map(({ path, reason }) => `${path} (${reason})`)]];

        return parts.filter(([, paths]) => paths?.length > 0)
                .map(([what, paths]) => element("p", { class: "quiet", text: `${what} ${paths.slice(0, 12).map(shown).join(", ")}${paths.length > 12 ? ` and ${paths.length - 12} more` : ""}` }));
}

/** All that came of an execution which has ended. */
function resultOf(result, id, signal) {
        const main = result.displays?.find((display) => display.main);
        const isRich = main && Object.keys(main.mime).some((type) => type !== "text/plain");
        const error = result.error && (result.error.traceback?.length > 0 ? result.error.traceback.join("\n") : `${result.error.name}: ${result.error.value}`);
        const note = noteOf(result.state);

        return [
                note && element("p", { class: "note", text: shown(note) }),
                ...streamOf(result.stdout, "stdout", "Output"),
                ...streamOf(result.stderr, "stderr", "Errors"),
                ...(result.displays ?? []).flatMap((display) => display === main && !isRich ? [] : displayOf(display, result.n, id, signal)),
                result.value && !isRich && block("value", "Value", result.value.text),
                error && block("stderr", "Exception", error),
                result.detail && element("p", { class: "note", text: shown(result.detail) }),
                ...filesOf(result.files),
        ].filter(Boolean);
}

function makeRun(summary) {
        return element("li", {}, element("article", { "aria-label": `Execution ${summary.n}` },
                element("header", {}, element("span", { class: "number", text: String(summary.n) }), element("span", {}),
                        element("span", { class: "quiet" })),
                block("code", "Code", summary.code ?? ""),
                element("div", { class: "out" })));
}

function updateRun(item, run) {
        const { summary } = run;
        const [, status, about] = item.firstElementChild.firstElementChild.children;
        const wall = summary.usage?.wallMs;
        const words = [summary.language, summary.context !== "main" && shown(summary.context ?? ""), wall !== undefined && wall !== null && shownDuration(wall),
                summary.exitCode > 0 && `exit code ${summary.exitCode}`, summary.queuedAt && shownAge(summary.queuedAt)];

        if (status.textContent !== summary.status)
                status.replaceChildren(statusOf(summary.status));
        say(about, words.filter(Boolean).join(" · "));
        about.title = shownTime(summary.queuedAt);
        run.out = item.firstElementChild.lastElementChild;
}

export function showHistory(section, { id, live, signal, changed }) {
        const base = `/v1/sessions/${pathOf(id)}/executions`;
        const told = element("div", {}, element("p", { class: "empty", text: "Loading…" }));
        const items = element("ol", { class: "runs" });
        const older = element("button", { type: "button", text: "Show older", hidden: true });
        const runs = new Map(); // by number: {summary, out, full, followed}
        let most = SHOWN;

        const showResult = async (run) => {
                run.full = true;
                try {
                        const result = await get(`${base}/${run.summary.n}`, signal);

                        if (isOver(result.status)) {
                                run.summary = { ...run.summary, status: result.status, exitCode: result.exitCode, usage: result.usage };
                                run.out.replaceChildren(...resultOf(result, id, signal));
                        } else {
                                run.full = false;
                        }
                        show();
                } catch (error) {
                        run.full = false;
                        tellProblem(run.out, error);
                }
        };
        const followRun = async (run) => {
                const texts = { stdout: "", stderr: "" };

                run.followed = true;
                try {
                        for await (const { event, data } of follow(`${base}/${run.summary.n}/events`, signal)) {
                                if (event === "started") {
                                        take({ n: run.summary.n, status: "running" });
                                        show();
                                }
                                if (!(event in texts))
                                        continue;
                                const text = data.text ?? new TextDecoder().decode(bytesOf(data.contentBase64));
                                let place = run.out.querySelector(`.${event}`);

                                if (!place) {
                                        place = block(event, event === "stdout" ? "Output" : "Errors", "");
                                        run.out.append(place);
                                }
                                const isAtEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;

                                texts[event] = (texts[event] + text).slice(-LIVE_MAX);
                                place.textContent = shownBlock(texts[event]);
                                if (isAtEnd)
                                        place.scrollTop = place.scrollHeight;
                        }
                } catch {
                        // Its end is told by the page's own stream as well.
                }
                run.followed = false;
                if (!signal.aborted)
                        await showResult(run);
        };
        const show = () => {
                const all = [...runs.values()].sort((one, two) => two.summary.n - one.summary.n);
                const seen = all.slice(0, most);

                told.replaceChildren(...(all.length === 0 ? [element("p", { class: "empty", text: "Nothing ran here yet." })] : []));
                older.hidden = all.length <= most;
                keep(items, seen, (run) => String(run.summary.n), (run) => makeRun(run.summary), updateRun);
                for (const run of seen) {
                        if (isOver(run.summary.status) && !run.full && !run.followed)
                                showResult(run);
                }
                // The first of those in line is followed, and no other: a browser has only some connections for one
                // server.
                const next = seen.findLast((run) => !isOver(run.summary.status));

                if (next && !next.followed)
                        followRun(next);
        };
        // Lists tell what was written when it was put in line: what is known already may be newer.
        const take = (summary) => {
                const run = runs.get(summary.n);
                const stage = ({ status }) => ["queued", "running"].indexOf(status) + 1 || 3;

                if (!run)
                        runs.set(summary.n, { summary, full: false, followed: false });
                else if (stage(summary) >= stage(run.summary))
                        run.summary = { ...run.summary, ...summary };
        };
        const load = async (after) => {
                try {
                        const { items: found } = await list(after > 0 ? `${base}?cursor=${after}` : base, signal);

                        found.forEach(take);
                        show();
                } catch (error) {
                        tellProblem(told, error);
                }
        };
        const hear = async ({ detail }) => {
                if (detail.session !== id)
                        return;
                if (!runs.has(detail.n))
                        await load(Math.max(0, ...runs.keys()));
                if (runs.has(detail.n)) {
                        take(detail);
                        show();
                }
                if (isOver(detail.status))
                        changed();
        };

        older.addEventListener("click", () => {
                most += SHOWN;
                show();
        });
        section.append(told, items, older);
        live.addEventListener("execution", hear, { signal });
        live.addEventListener("again", () => load(0), { signal });
        load(0);
}
