// SPDX-License-Identifier: Apache-2.0
// Approvals: exactly what is asked for, by whom and why, and the two answers.
import { ask, get, list, pathOf } from "./api.js";
import { element, every, keep, say, scrolling } from "./dom.js";
import { shown, shownAge, shownBlock, shownTime, shownWord } from "./text.js";
import { statusOf, tellProblem } from "./table.js";

const LOOK_MS = 2000;

const FACTS = [
        ["Why", (approval) => approval.reason],
        ["Folder", (approval) => approval.cwd && shownWord(approval.cwd)],
        ["Program", (approval) => approval.program && shownWord(approval.program)],
        ["User", (approval) => approval.user],
        ["Agent", (approval) => approval.agent],
        ["Asked by", (approval) => approval.client],
        ["For", (approval) => approval.owner && shownWord(approval.owner)],
        ["Variables", (approval) => Object.entries(approval.variables ?? {}).map(([name, value]) => `${name}=${shownWord(value)}`).join(" ")],
];

function outcomeOf(result) {
        const text = (stream) => stream?.encoding === "base64" ? `${stream.bytesTotal} bytes that are no text\n` : stream?.content ?? "";
        const output = text(result.stdout) + text(result.stderr);
        const how = [result.status, Number.isInteger(result.exitCode) && `exit code ${result.exitCode}`, result.detail].filter(Boolean);

        return [element("p", { class: "quiet", text: shown(how.join(", ")) }),
                output && scrolling(element("pre", { role: "group", "aria-label": "Output", text: shownBlock(output) }))].filter(Boolean);
}

function makeApproval(approval, decide, maySay) {
        const told = element("div", {});
        const command = (approval.command ?? []).map(shownWord).join(" ");
        const button = (verb, kind) => element("button", { type: "button", class: kind, text: verb,
                on: { click: () => decide(approval, verb.toLowerCase(), told) } });

        return element("li", {}, element("article", { "aria-label": `Approval of ${command}` },
                element("header", {}, element("span", {}), element("span", { class: "quiet" })),
                scrolling(element("pre", { class: "code", role: "group", "aria-label": "Command", text: command })),
                element("dl", { class: "facts" }, FACTS.map(([name, read]) => [name, read(approval)]).filter(([, value]) => value)
                        .map(([name, value]) => element("div", {}, element("dt", { text: name }), element("dd", { text: shown(value) })))),
                element("div", { class: "outcome" }), told,
                maySay && element("div", { class: "actions" }, button("Approve", "primary"), button("Deny"))));
}

function updateApproval(item, approval, showOne) {
        const article = item.firstElementChild;
        const [status, when] = article.firstElementChild.children;
        const outcome = article.querySelector(".outcome"), actions = article.querySelector(".actions");
        const isPending = approval.status === "pending";

        if (status.textContent !== approval.status)
                status.replaceChildren(statusOf(approval.status));
        say(when, isPending && approval.expiresAt ? `expires ${shownAge(approval.expiresAt)}` : "");
        when.title = shownTime(approval.expiresAt);
        if (!isPending && actions) {
                // A user that has just pressed one of them stays with this approval.
                if (actions.contains(document.activeElement)) {
                        article.tabIndex = -1;
                        article.focus({ preventScroll: true });
                }
                actions.remove();
        }
        // A list has no output: it is asked for once, when there is one.
        if (approval.result && !outcome.dataset.told) {
                outcome.dataset.told = "yes";
                showOne(approval).then((one) => standingStill(item.parentElement, () => outcome.append(...outcomeOf(one.result))), () => delete outcome.dataset.told);
        }
}

/*
 * Agents choose when they ask. The item under the pointer stays there, whatever comes or grows
 * above it: otherwise a user about to press would press on another one. The list has room behind
 * its end to scroll into.
 */
function standingStill(items, change) {
        const pointed = items.querySelector("article:hover");
        const before = pointed?.getBoundingClientRect().top;

        change();
        if (pointed?.isConnected)
                window.scrollBy({ top: pointed.getBoundingClientRect().top - before, behavior: "instant" });
}

export function showApprovals(main, { self, may, live, signal }) {
        const told = element("div", {}, element("p", { class: "empty", text: "Loading…" }));
        const items = element("ul", { class: "approvals" });
        const decide = async (approval, verb, place) => {
                try {
                        await ask(`/v1/approvals/${pathOf(approval.id)}/${verb}`, { method: "POST", body: {} });
                        place.replaceChildren();
                } catch (error) {
                        tellProblem(place, error);
                }
                await lookAgain();
        };
        const showOne = (approval) => get(`/v1/approvals/${pathOf(approval.id)}`, signal);
        let looking = null, isStale = false, isShown = false;
        const look = async () => {
                try {
                        const { items: found } = await list("/v1/approvals", signal);

                        isShown = true;
                        told.replaceChildren(...(found.length > 0 ? [] : [element("p", { class: "empty", text: "Nothing waits for an approval." })]));
                        standingStill(items, () => keep(items, found, (approval) => approval.id, (approval) => makeApproval(approval, decide, may("approve")),
                                (item, approval) => updateApproval(item, approval, showOne)));
                } catch (error) {
                        isShown = false;
                        tellProblem(told, error);
                }
        };
        // One at a time. A change that comes while the list is on its way may not be in it: then it is asked for once more.
        const lookAgain = () => {
                isStale = true;
                return looking ??= (async () => {
                        while (isStale && !signal.aborted) {
                                isStale = false;
                                await look();
                        }
                })().finally(() => looking = null);
        };

        main.append(element("h1", { tabindex: -1, text: "Approvals" }));
        if (!self.serves.approvals || !may("approve", "shell", "observe", "administer")) {
                main.append(element("p", { class: "empty", text: self.serves.approvals ? "This token may not see approvals."
                        : "This server has no approvals: its file enables no commands on the host." }));
                return;
        }
        main.append(told, items);
        for (const event of ["approval", "again"])
                live.addEventListener(event, lookAgain, { signal });
        // Where nothing tells of them they are looked at.
        every(LOOK_MS, signal, () => isShown && live.state === "live" ? null : lookAgain());
}
