# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev doors: agent frameworks in the newest versions that their registry has, each against a server of its own and a stub of its model's
# service. Sourced by dev. What fails there is a framework that moved or a fault of Berth's; the suite runs pinned versions of some of them.

# Name, program in tests/e2e/frameworks, its ways in, what is installed: the first of these gives the version.
DOORS=(
    'OpenAI Agents|openai_agents_mcp.py|http stdio|openai-agents'
    'OpenAI Agents JS|openai_agents_mcp.mjs|http stdio|@openai/agents'
    'LangChain|langchain_mcp.py|http stdio|langchain langchain-anthropic langchain-mcp-adapters'
    'Deep Agents|deepagents_backend.py|backend|deepagents langchain-anthropic httpx'
    'Pydantic AI|pydantic_ai_mcp.py|http stdio|pydantic-ai-slim[mcp,openai]'
    'Google ADK|adk_mcp.py|http stdio|google-adk[mcp]'
    'Vercel AI SDK|ai_sdk_mcp.mjs|http stdio|ai @ai-sdk/mcp @ai-sdk/anthropic'
    'Strands Agents|strands_mcp.py|http stdio|strands-agents[openai] httpx2'
    'Haystack|haystack_mcp.py|http stdio|haystack-ai mcp-haystack'
    'LlamaIndex|llamaindex_mcp.py|http stdio|llama-index-core llama-index-tools-mcp llama-index-llms-openai-like'
    'CrewAI|crewai_mcp.py|http stdio|crewai crewai-tools[mcp]'
    'AutoGen|autogen_mcp.py|http stdio|autogen-agentchat autogen-ext[mcp,openai] mcp<2'
    'Agent Framework|agent_framework_mcp.py|http stdio|agent-framework-core agent-framework-openai mcp tenacity'
    'smolagents|smolagents_mcp.py|http stdio|smolagents[mcp,openai] mcp<2'
    'smolagents|smolagents_e2b.py|e2b|smolagents[e2b]'
    'Mastra|mastra_mcp.mjs|http stdio|@mastra/core @mastra/mcp @ai-sdk/openai'
    'Inspect|inspect_sandbox.py|sandbox|inspect-ai openai httpx'
)

# install_door FOLDER PROGRAM PACKAGE ...
install_door() {
    local folder=$1 program=$2
    shift 2
    case $program in
    *.py) environment "$folder" "$@" ;;
    *)
        rm -rf "$folder"
        mkdir -p "$folder"
        (PATH=$PWD/$VENV/bin:$PATH && cd "$folder" &&
            npm install --loglevel error --ignore-scripts --no-audit --no-fund --no-update-notifier "$@" </dev/null >&2)
        ;;
    esac
}

# version_of FOLDER PROGRAM PACKAGE
version_of() {
    case $2 in
    *.py) "$1/bin/python" -c 'import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))' "${3%%[*}" ;;
    *) "$VENV/bin/python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["version"])' "$1/node_modules/$3/package.json" ;;
    esac
}

door_row() { printf '%-17s %-10s %-8s %-7s %s\n' "$@"; }

# try_door NAME PROGRAM WAYS PACKAGE ...: a row for each way in. 1 if one of them failed.
try_door() {
    local name=$1 program=$2 ways=$3 folder=build/doors/$2 version interpreter way why failed=0
    shift 3
    if ! why=$(install_door "$folder" "$program" "$@" 2>&1); then
        door_row "$name" - - failed "it could not be installed: $(sed -n '/[^ ]/{p;q}' <<<"$why")"
        return 1
    fi
    version=$(version_of "$folder" "$program" "$1")
    interpreter=$PWD/$folder
    [[ $program != *.py ]] || interpreter+=/bin/python
    for way in $ways; do
        if "$VENV/bin/python" tests/e2e/doors.py "$program" "$interpreter" "$way" >"$folder/$way.log" 2>&1 </dev/null; then
            door_row "$name" "$version" "$way" worked ''
        else
            door_row "$name" "$version" "$way" failed "$(tail -n 1 "$folder/$way.log") (all of it: $folder/$way.log)"
            failed=1
        fi
    done
    return "$failed"
}

# ./dev doors [PROGRAM ...]: all, or those whose program has one of these words in its name.
run_doors() {
    local row name program ways packages word wanted failed=0
    need_tests
    need_node
    need_packages python3-numpy python3-pil # smolagents imports them in its sandbox, where E2B's template has them
    build dev berth berth-runtime
    mkdir -p build/doors
    export PYTHONPYCACHEPREFIX=$PWD/build/pycache BERTH_BIN=$PWD/build/dev/berth
    door_row framework version 'way in' result ''
    for row in "${DOORS[@]}"; do
        IFS='|' read -r name program ways packages <<<"$row"
        wanted=$([ $# -gt 0 ] || echo yes)
        for word in "$@"; do
            [[ $program != *"$word"* ]] || wanted=yes
        done
        [ -n "$wanted" ] || continue
        # shellcheck disable=SC2086 # a list
        try_door "$name" "$program" "$ways" $packages || failed=1
    done
    return "$failed"
}
