// SPDX-License-Identifier: Apache-2.0
// What happens on the server, as it happens. One stream for all of the page; it is let go while nobody looks at the page, since a
// browser has only some connections for one server.
import { follow, Problem } from "./api.js";

const SOONEST = 1000, LATEST = 15_000; // milliseconds until it is tried again

/**
 * Tells `session`, `execution` and the like with the event's data as `detail`; `again` if events
 * may have been missed, so that lists have to be asked for again; `state` as it opens and breaks:
 * "live", "waiting"; or "off" where the server has no such stream for who asks.
 */
export class Live extends EventTarget {
        #stop = null;
        #signal;

        constructor(signal, wanted) {
                super();
                this.state = wanted ? "waiting" : "off";
                if (!wanted)
                        return;
                this.#signal = signal;
                document.addEventListener("visibilitychange", () => this.#look(), { signal });
                signal.addEventListener("abort", () => this.#stop?.abort());
                this.#look();
        }

        #look() {
                if (document.hidden) {
                        this.#stop?.abort();
                        this.#stop = null;
                } else if (!this.#stop && !this.#signal.aborted) {
                        this.#stop = new AbortController();
                        this.#listen(this.#stop.signal);
                }
        }

        #tell(name, detail) {
                this.dispatchEvent(new CustomEvent(name, { detail }));
        }

        #become(state) {
                this.state = state;
                this.#tell("state", state);
        }

        async #listen(signal) {
                let pause = SOONEST;

                while (!signal.aborted) {
                        try {
                                const opened = () => {
                                        pause = SOONEST;
                                        this.#become("live");
                                        this.#tell("again");
                                };

                                for await (const { event, data } of follow("/v1/events", signal, opened))
                                        this.#tell(event === "missed" ? "again" : event, data);
                        } catch (error) {
                                if (signal.aborted)
                                        return;
                                if (error instanceof Problem && error.status === 403) {
                                        this.#become("off");
                                        return;
                                }
                        }
                        this.#become("waiting");
                        await new Promise((go) => setTimeout(go, pause));
                        pause = Math.min(LATEST, 2 * pause);
                }
        }
}
