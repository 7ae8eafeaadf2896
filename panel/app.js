// SPDX-License-Identifier: Apache-2.0
// The page: signing in and out, its frame, and which view is shown. Views are told by the address behind its #, which the server
// never sees; it holds ids and paths, and never a token.
import { get, isSignedIn, nameOwner, ownerName, Problem, signIn, signOut } from "./api.js";
import { element, every, mark, say } from "./dom.js";
import { Live } from "./live.js";
import { shown } from "./text.js";
import { showApprovals } from "./approvals.js";
import { showContainers } from "./containers.js";
import { showEnvironments } from "./environments.js";
import { showSession } from "./session.js";
import { showSessions } from "./sessions.js";

// `owned`: it lists things of owners, so that a client that acts for users must have named one, unless it may look at
// all.
const VIEWS = [
        { path: "environments", title: "Environments", show: showEnvironments, owned: true },
        { path: "sessions", title: "Sessions", show: showSessions, one: showSession, owned: true },
        { path: "containers", title: "Containers", show: showContainers, owned: true },
        { path: "approvals", title: "Approvals", show: showApprovals },
];
const SELF_MS = 5000;

/** ["sessions", ID, "files", PATH]; what is no view is the first one. */
function readAddress() {
        let parts = [];

        try {
                parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
        } catch {
                // An invalid escape, typed by hand.
        }
        return VIEWS.some((view) => view.path === parts[0]) ? parts : [VIEWS[0].path];
}

const mayLookAtAll = (self) => self.may.includes("observe") || self.may.includes("administer");

function needsOwner(self) {
        return self.actsFor === "users" && !self.owner && !mayLookAtAll(self);
}

/** A token that names its owner itself leaves nothing to be named. */
function hasOwnerToName(self) {
        return self.actsFor === "users" && (!self.owner || ownerName() !== "");
}

// --- signed out ---

let page = null; // aborted when what is shown is shown no more

function begin() {
        page?.abort();
        page = new AbortController();
        return page.signal;
}

function logo() {
        return element("span", { class: "logo" }, element("img", { src: "/panel/icon.svg", alt: "", width: 22, height: 22 }), "Berth");
}

function showSignIn(reason) {
        const field = element("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
        const button = element("button", { type: "submit", class: "primary", text: "Sign in" });
        const told = element("div", {});
        const tell = (text) => told.replaceChildren(element("p", { role: "alert", class: "alert", text }));
        const enter = async (event) => {
                const token = field.value.trim();

                event.preventDefault();
                button.disabled = true;
                try {
                        // A text that no header can hold is not a token.
                        if (/^[\x21-\x7e]+$/.test(token)) {
                                signIn(token);
                                if (await start())
                                        return;
                                signOut();
                        }
                        tell("The server does not know this token.");
                } catch (error) {
                        signOut();
                        tell(shown(error.message));
                }
                button.disabled = false;
                field.select();
                field.focus();
        };

        begin();
        document.title = "Sign in · Berth";
        document.body.className = "outside";
        document.body.replaceChildren(element("main", { class: "card" },
                element("h1", {}, logo()),
                element("p", { class: "quiet", text: "Environments, sessions and their files on this server." }),
                element("form", { on: { submit: enter } },
                        element("label", { for: "token", text: "Token" }), field, told, button),
                element("p", { class: "hint" }, "Without a Server's file, the token lies in ", element("code", { text: ".berth/serve.token" }),
                        ". It stays in this tab, and goes when the tab is closed.")));
        if (reason)
                tell(reason);
        field.focus();
}

// --- signed in ---

/** Whether the token is known; then the page is shown. */
async function start() {
        const self = await get("/panel/self");

        if (!self.known)
                return false;
        showPage(self, begin());
        return true;
}

/** `everybody`: it may be left empty. */
function ownerForm(everybody) {
        const field = element("input", { id: "owner", value: ownerName(), maxlength: 256, autocomplete: "off", spellcheck: "false", placeholder: everybody && "everybody" });
        const told = element("div", {});
        const look = async (event) => {
                const before = ownerName();

                event.preventDefault();
                nameOwner(field.value.trim());
                try {
                        await start();
                } catch (error) {
                        nameOwner(before);
                        told.replaceChildren(element("p", { role: "alert", class: "alert", text: shown(error.message) }));
                }
        };

        return element("form", { class: "owner", on: { submit: look } },
                element("label", { for: "owner", text: "Owner" }),
                element("div", { class: "joined" }, field, element("button", { type: "submit", text: "Look" })), told);
}

/** What the frame has beside the view: links to the views, who is signed in, and whether what is shown is as it is now. */
function makeFrame(self, live) {
        const links = VIEWS.map((view) => element("a", { href: `#/${view.path}`, text: view.title }));
        const state = element("span", { role: "status", class: "state" });
        const leave = () => {
                signOut();
                history.replaceState(null, "", "/");
                showSignIn();
        };
        const look = () => {
                mark(state, "data-state", live.state);
                say(state, { live: "Live", waiting: "Connecting", off: "Not live" }[live.state]);
        };
        const skip = (event) => {
                event.preventDefault();
                document.querySelector("main h1")?.focus();
        };

        live.addEventListener("state", look);
        look();
        document.body.className = "inside";
        document.body.replaceChildren(
                element("a", { class: "skip", href: "#main", text: "Skip to content", on: { click: skip } }),
                element("header", {}, logo(),
                        element("nav", { "aria-label": "Views" }, links),
                        element("div", { class: "account" },
                                element("p", { class: "who" }, element("span", { text: shown(self.client) }), state),
                                hasOwnerToName(self) && !needsOwner(self) && ownerForm(mayLookAtAll(self)),
                                element("button", { type: "button", text: "Sign out", on: { click: leave } }))),
                element("main", { id: "main" }));
        return links;
}

function showGate(main, title) {
        document.title = `${title} · Berth`;
        main.append(element("h1", { tabindex: -1, text: title }),
                element("p", { class: "quiet", text: "This token acts for users: name the owner whose things you want to see." }), ownerForm(false));
        document.getElementById("owner").focus();
}

function showPage(self, signal) {
        const may = (...rights) => rights.some((right) => self.may.includes(right));
        const live = new Live(signal, self.serves.sessions && may("execute", "containers", "observe", "shell", "approve") && !needsOwner(self));
        const links = makeFrame(self, live);
        const main = document.getElementById("main");
        let view = null, key = null, turn = null;
        const show = () => {
                const parts = readAddress();
                const found = VIEWS.find((one) => one.path === parts[0]);
                const one = found.one && parts.length > 1;
                const newKey = one ? `${parts[0]}/${parts[1]}` : parts[0];

                links.forEach((link, index) => mark(link, "aria-current", VIEWS[index] === found && "page"));
                if (key === newKey) {
                        turn?.(parts);
                        return;
                }
                const lost = main.contains(document.activeElement);

                view?.abort();
                view = new AbortController();
                key = newKey;
                main.replaceChildren();
                if (found.owned && needsOwner(self)) {
                        showGate(main, found.title);
                        return;
                }
                document.title = `${one ? shown(parts[1]) : found.title} · Berth`;
                turn = (one ? found.one : found.show)(main, { self, may, live, parts, signal: view.signal }) ?? null;
                scrollTo(0, 0);
                // Otherwise a user that followed a link of the view before would lose the focus.
                if (lost)
                        main.querySelector("h1")?.focus({ preventScroll: true });
        };
        const lookAtSelf = async () => {
                try {
                        const now = await get("/panel/self", signal);

                        if (!now.known)
                                showSignIn("The server does not know this token any more.");
                        else if (JSON.stringify(now) !== JSON.stringify(self))
                                showPage(now, begin());
                } catch (error) {
                        if (!(error instanceof Problem) && error.name !== "AbortError")
                                throw error;
                }
        };

        addEventListener("hashchange", show, { signal });
        signal.addEventListener("abort", () => view?.abort());
        addEventListener("berth-refused", () => {
                signOut();
                showSignIn("The server does not know this token any more.");
        }, { signal });
        show();
        // A server that was started again may serve other things.
        live.addEventListener("again", lookAtSelf);
        every(SELF_MS, signal, () => live.state === "off" ? lookAtSelf() : null);
}

if (isSignedIn())
        start().then((known) => known || (signOut(), showSignIn("The server does not know this token any more.")),
                (error) => showSignIn(shown(error.message)));
else
        showSignIn();
