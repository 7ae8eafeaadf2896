# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev demo: the example stack on this machine alone, code run in its sandboxes. Sourced by dev.
#
# ./dev demo aws: the same stack against a stand-in for AWS. MiniStack plays AWS; the tests' proxy stands in front of it, adds what MiniStack lacks, and refuses what AWS would
# refuse. Both listen on the loopback only. Whatever is started here is ended by its id when the demo ends, however it
# ends.

DEMO=build/demo
DEMO_LOGS=$PWD/$DEMO/logs
DEMO_PIDS=()

stop_demo() {
    local pid
    for pid in "${DEMO_PIDS[@]}"; do
        kill "$pid" 2>/dev/null || true
    done
    for pid in "${DEMO_PIDS[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
    DEMO_PIDS=()
}

chapter() { printf '\n%s== %s ==%s\n' "$BOLD" "$*" "$PLAIN"; }

# Shows a command as one would type it, and runs it.
typed() {
    local word line=''
    for word in "$@"; do
        [[ $word =~ ^[[:alnum:]/._:=@%+-]+$ ]] || word="'$word'"
        line+=" $word"
    done
    printf '\n%s$%s%s\n' "$DIM" "$line" "$PLAIN"
    "$@"
}

# typed_failing CODE COMMAND ...: the same, of a command that must end with that code, which is shown.
typed_failing() {
    local wanted=$1 code=0
    shift
    typed "$@" || code=$?
    [ "$code" -eq "$wanted" ] || die "this should have ended with exit code $wanted, and ended with $code"
    printf '%s(exit code %d)%s\n' "$DIM" "$code" "$PLAIN"
}

free_port() {
    /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# wait_for WHAT PID COMMAND ...: until the command succeeds; fails where the process has ended, or after 30 s.
wait_for() {
    local what=$1 pid=$2 i
    shift 2
    for ((i = 0; i < 150; i++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    die "$what did not start; see $DEMO_LOGS"
}

answers() { (: <"/dev/tcp/127.0.0.1/$1"); }

# Starts the stand-in and the proxy, and points AWS's own variables at them.
start_aws() {
    local port
    port=$(free_port)
    GATEWAY_PORT=$port BIND_HOST=127.0.0.1 "$VENV/bin/ministack" >"$DEMO_LOGS/ministack.log" 2>&1 </dev/null &
    DEMO_PIDS+=($!)
    wait_for MiniStack $! answers "$port"

    PYTHONPATH=tests/e2e "$VENV/bin/python" -m proxy --upstream "http://127.0.0.1:$port" --flavor ministack --port 0 \
        >"$DEMO_LOGS/proxy.url" 2>"$DEMO_LOGS/proxy.log" </dev/null &
    DEMO_PIDS+=($!)
    wait_for "the proxy" $! grep -q . "$DEMO_LOGS/proxy.url"

    # The proxy checks signatures, and these are the keys it knows: inventions of the tests.
    unset AWS_PROFILE AWS_SESSION_TOKEN
    export AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    AWS_ENDPOINT_URL=$(head -n 1 "$DEMO_LOGS/proxy.url")
    read -r AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY < <(PYTHONPATH=tests/e2e "$VENV/bin/python" -c \
        'from proxy.settings import TEST_ACCESS_KEY, TEST_SECRET; print(TEST_ACCESS_KEY, TEST_SECRET)')
    export AWS_REGION=eu-central-1 AWS_DEFAULT_REGION=eu-central-1 AWS_EC2_METADATA_DISABLED=true
    say "pushing the images that the example stack runs"
    "$VENV/bin/python" examples/push-images --create "127.0.0.1:$port" >"$DEMO_LOGS/images.log"
}

# Code in sandboxes; where this machine cannot make them whole, without what it lacks, or not at all: said, and no reason to end.
demo_sandboxes() {
    local lacking='' exec=(berth exec --provider local)

    if ! "${exec[@]}" --env literature -c pass 2>"$DEMO_LOGS/exec.log"; then
        exec+=(--accept-degraded)
        lacking=$(cat "$DEMO_LOGS/exec.log")
        if ! "${exec[@]}" --env literature -c pass 2>>"$DEMO_LOGS/exec.log"; then
            chapter "No sandboxes: this machine lacks what they need (berth doctor)"
            cat "$DEMO_LOGS/exec.log"
            return
        fi
    fi

    chapter "Run an agent's code, each time in a fresh sandbox"
    [ -z "$lacking" ] || printf 'This machine cannot keep every limit, which Berth accepts only when told to:\n%s\n' "$lacking"
    typed "${exec[@]}" --env literature -c 'import sys; print("Python", sys.version.split()[0], "says", 6 * 7)'
    typed "${exec[@]}" --env quality --lang sh -c 'id -un; pwd; df -h /workspace'

    if [ -z "$lacking" ]; then
        chapter "A limit is a limit: this environment has 1,769 MB"
        typed_failing 137 "${exec[@]}" --env quality -c 'hoard = bytearray(4 << 30)'
    fi

    chapter "No way out: the network, the host's files, other namespaces"
    typed "${exec[@]}" --env literature escape.py
}

# start_server: in the background, with one client beside the users that may open its socket; until it serves.
start_server() {
    : >"$DEMO_LOGS/serve.log"
    berth serve -f ../server.yaml "$@" >"$DEMO_LOGS/serve.log" 2>&1 </dev/null &
    SERVER=$!
    DEMO_PIDS+=("$SERVER")
    wait_for "berth serve" "$SERVER" grep -q 'it serves what was applied' "$DEMO_LOGS/serve.log"
}

# A session, over the death of its server, and the view of another owner. Said where it cannot be had, and no reason to end.
demo_session() {
    local session port token=$PWD/../colleague.token more=()

    port=$(free_port)
    head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$token"
    chmod 600 "$token"
    cat >../server.yaml <<END
apiVersion: berth/v1
kind: Server
metadata: {name: demo}
spec:
  stack: northlight
  listen: 127.0.0.1:$port
  clients: [{name: colleague, tokenFile: $token, may: [execute]}]
END
    [ "$(id -u)" -eq 0 ] || echo '  sessions: {sharedUser: true}' >>../server.yaml
    if ! berth exec --provider local --env literature -c pass 2>/dev/null; then
        more=(--accept-degraded)
        berth exec --provider local --env literature -c pass "${more[@]}" 2>/dev/null || return 0
    fi

    chapter "A session: Python that keeps its variables, in the server of this stack"
    start_server "${more[@]}"
    if ! typed berth session create --env literature | tee "$DEMO_LOGS/session"; then
        chapter "No sessions: this machine lacks what they need (berth doctor)"
        cat "$DEMO_LOGS/serve.log"
        return
    fi
    session=$(tail -n 1 "$DEMO_LOGS/session")
    typed berth session run "$session" -c 'import random
random.seed(7)
walk = [0.0]
for step in range(2000): walk.append(walk[-1] + random.gauss(0, 1))
print("2,000 steps, between", round(min(walk), 1), "and", round(max(walk), 1))
len(walk)'
    typed berth session run "$session" plot.py
    typed berth session run "$session" --lang sh -c 'ls -l walk.png; head -c 8 walk.png | od -c | head -n 1'

    chapter "Its server is killed, and started again: the variables are still there"
    typed kill -9 "$SERVER"
    wait "$SERVER" 2>/dev/null || true
    start_server "${more[@]}"
    typed berth session run "$session" -c 'round(walk[-1], 3)'
    typed berth session history "$session"

    chapter "Another client, with a token of its own, finds nothing under its id"
    printf 'Authorization: Bearer %s\n' "$(cat "$token")" >../colleague.header
    typed curl -sS -H @../colleague.header "http://127.0.0.1:$port/v1/sessions/$session"
    printf '\n'
    typed curl -sS -H @../colleague.header "http://127.0.0.1:$port/v1/sessions"
    printf '\n'

    chapter "It ends, and its files stay"
    typed berth session end "$session"
    typed find .berth/local/northlight/workspaces/sessions -name walk.png
    kill "$SERVER" && wait "$SERVER" 2>/dev/null || true
}

demo_local() {
    chapter "A research company's stack: 13 environments, 26 agents, 3 swarms"
    typed berth validate
    typed berth plan --provider local

    chapter "Make it so, on this machine, without any cloud"
    typed berth apply --provider local --yes --quiet
    typed berth plan --provider local

    demo_sandboxes
    demo_session

    chapter "Guards: a colleague deletes the research team's environments, which agents still use"
    typed rm research/environments.yaml
    typed_failing 3 berth apply --provider local --yes
    cp "$DEMO_SOURCE/examples/manifests/research/environments.yaml" research/

    chapter "Who uses what"
    typed berth map --provider local

    printf '\nThe manifests and the state of this demonstration are in %s. Go on there, with\n' "$PWD"
    printf '%s first in PATH; or see ./dev demo aws.\n' "$DEMO_SOURCE/build/release"
}

demo_aws() {
    chapter "A research company's stack: 13 environments, 26 agents, 3 swarms"
    typed find . -name '*.yaml'
    typed berth validate

    chapter "What would change in the empty account"
    typed berth plan

    chapter "Make it so (quietly: the plan has just been shown)"
    typed berth apply --yes --quiet

    chapter "Nothing is left to do"
    typed berth plan

    chapter "One number changes in one file"
    typed sed -i 's/memoryMB: 5307/memoryMB: 7076/' data/environments.yaml
    typed berth plan
    typed berth apply --yes

    printf '\nThe manifests and the state of this demonstration are in %s.\n' "$PWD"
}

run_demo() {
    local where=${1:-local}

    BOLD='' DIM='' PLAIN=''
    if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
        BOLD=$'\e[1m' DIM=$'\e[36m' PLAIN=$'\e[0m'
    fi
    DEMO_SOURCE=$PWD
    rm -rf "$DEMO"
    mkdir -p "$DEMO_LOGS"
    trap stop_demo EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    case $where in
    local) need_packages "${BUILD_PACKAGES[@]}" "${PRESET_PACKAGES[@]}" "${RUN_PACKAGES[@]}" curl ;;
    aws) need_tests ;;
    *) die "there is no demo of '$where': local (the default) or aws" ;;
    esac
    build release berth berth-runtime
    [ "$where" != aws ] || {
        say "starting a stand-in for AWS on this machine"
        start_aws
    }
    cp -R examples/manifests "$DEMO/northlight"
    cp examples/escape.py examples/plot.py "$DEMO/northlight"

    local PATH=$PWD/build/release:$PATH
    cd "$DEMO/northlight" || exit
    "demo_$where"
}
