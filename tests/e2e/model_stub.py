# SPDX-License-Identifier: Apache-2.0
"""A stand-in for model services: Anthropic's Messages, OpenAI's Chat Completions and Responses, Gemini's generateContent, at one port of loopback.

A request whose tools break the service's rules (model_services.py) is refused as a whole, with 400 and the service's form of an error. All
others are answered by a script in place of a model: it keeps a number in a variable of a session, multiplies it in a second call of the same
session, and says what the second call returned. It never multiplies itself, so its last words hold the product only if a sandbox computed it.
"""

import http.server
import itertools
import json
import re
import threading
import uuid
from dataclasses import dataclass, field

import model_services

PROMPT = "Keep {} in a variable of a session. Then multiply it there by {}, in a second call."
# How Berth names sessions.
SESSION = re.compile(r"\bs-[a-z0-9]{26}\b")


class Refused(Exception):
    """The request is refused, with HTTP's status and the service's words."""

    def __init__(self, message, status=400):
        super().__init__(message)
        self.status = status


# --- the script ---


@dataclass
class Call:
    name: str
    arguments: dict
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])


@dataclass
class Conversation:
    """What a request says, whichever service it was sent to."""

    prompt: str = ""
    tools: list = field(default_factory=list)  # each in the form of MCP
    called: set = field(default_factory=set)  # identifiers of calls
    results: list = field(default_factory=list)  # a text for each
    strict: bool = False  # all tools are to be called by OpenAI's strict rules

    def find(self, name):
        """The offered tool of this name. Some frameworks put the server's name before it."""
        return next((tool for tool in self.tools if tool["name"] == name or tool["name"].endswith("_" + name)), None)

    def took(self, identifier, text, refusal):
        if identifier not in self.called:
            raise Refused(refusal.format(identifier))
        self.results.append(text)


def filled(tool, arguments):
    """With a value for each argument that the tool calls required, as models give one: null, where that is allowed."""
    schema = tool["inputSchema"]
    for name in schema.get("required", []):
        if name in arguments:
            continue
        property = schema["properties"][name]
        kinds = [kind for option in [property, *property.get("anyOf", [])] for kind in model_services.types(option)]
        if "null" in kinds or property.get("nullable"):
            arguments[name] = None
        elif "enum" in property:
            arguments[name] = property["enum"][0]
        else:
            arguments[name] = {"integer": 60, "number": 60, "boolean": False, "array": [], "object": {}}.get(kinds[0] if kinds else "", "")
    return Call(tool["name"], arguments)


def steps(found, number, factor):
    """The calls that answer the prompt with the tools that are offered."""
    python = [f"kept = {number}", f"print(kept * {factor})"]
    shell = [f"echo {number} >kept", f"echo $(($(cat kept) * {factor}))"]
    if tool := found.find("run_code"):
        properties = tool["inputSchema"].get("properties", {})
        argument = "session_id" if "session_id" in properties else "session"
        session = SESSION.search(found.results[0]) if found.results else None
        where = {argument: session.group()} if session else {}
        yield filled(tool, {"code": python[0]})
        yield filled(tool, {"code": python[1], **where})
        if end := found.find("end_session"):
            yield filled(end, dict(where))
        return
    if tool := found.find("execute") or found.find("bash"):  # of Deep Agents, of Inspect
        yield from (filled(tool, {tool["inputSchema"]["required"][0]: command}) for command in shell)
        return
    raise Refused("the stub knows none of the tools: " + " ".join(tool["name"] for tool in found.tools))


def next_turn(found):
    """A Call, or the text that ends the conversation."""
    numbers = re.search(r"Keep (\d+) .* by (\d+)", found.prompt, re.S)
    if not numbers:
        raise Refused("the stub was asked for something else: " + found.prompt[:200])
    turn = next(itertools.islice(steps(found, *numbers.groups()), len(found.results), None), None)
    if turn:
        return turn
    words = "The sandbox answered: " + found.results[1]
    # smolagents takes an answer for the last one if it calls this tool.
    last = found.find("final_answer")
    return filled(last, {"answer": words}) if last else words


def text_of(content):
    """A message's words: a text, or those parts of a list that have one."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or "" for part in content or [] if isinstance(part, dict))


def offered(functions, schema_of, rule):
    """The functions of a request in the form of MCP, all of which have to pass a rule: (tool, function) -> objections."""
    found = []
    for position, function in enumerate(functions):
        tool = {"name": function["name"], "description": function.get("description"), "inputSchema": schema_of(function)}
        if objections := rule(tool, function):
            raise Refused(f"tools[{position}] {tool['name']}: {'; '.join(objections)}")
        found.append(tool)
    return found


def pieces(text):
    """For streams: never in one piece."""
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


# --- the services ---


class Anthropic:
    name = "anthropic"

    @staticmethod
    def is_streamed(path, body):
        return body.get("stream") is True

    @staticmethod
    def error(status, message):
        kind = {400: "invalid_request_error", 401: "authentication_error"}.get(status, "not_found_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_stub"}

    @staticmethod
    def read(headers, body):
        if not headers.get("x-api-key") and not headers.get("authorization"):
            raise Refused("x-api-key header is required", 401)
        if not headers.get("anthropic-version"):
            raise Refused("anthropic-version: header is required")
        for member in ("model", "max_tokens", "messages"):
            if member not in body:
                raise Refused(f"{member}: Field required")
        found = Conversation()
        found.tools = offered(body.get("tools", []), lambda function: function["input_schema"], lambda tool, _: model_services.anthropic(tool))
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                if block["type"] == "tool_use":
                    found.called.add(block["id"])
                elif block["type"] == "tool_result":
                    found.took(block["tool_use_id"], text_of(block.get("content")), "unexpected `tool_use_id` found in `tool_result` blocks: {}")
                elif block["type"] == "text" and message["role"] == "user":
                    found.prompt += block["text"]
        return found

    @staticmethod
    def message(body, turn):
        if isinstance(turn, Call):
            block, reason = {"type": "tool_use", "id": "toolu_" + turn.id, "name": turn.name, "input": turn.arguments}, "tool_use"
        else:
            block, reason = {"type": "text", "text": turn}, "end_turn"
        return {
            "id": "msg_stub", "type": "message", "role": "assistant", "model": body["model"], "content": [block], "stop_reason": reason,
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip

    @classmethod
    def stream(cls, body, turn):
        whole = cls.message(body, turn)
        (block,) = whole["content"]
        if block["type"] == "tool_use":
            begin, deltas = {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": p} for p in pieces(json.dumps(block["input"]))]
        else:
            begin, deltas = {"type": "text", "text": ""}, [{"type": "text_delta", "text": p} for p in pieces(block["text"])]
        yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        yield {"type": "content_block_start", "index": 0, "content_block": begin}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None}, "usage": {"output_tokens": 1}}
        yield {"type": "message_stop"}


class OpenAI:
    """What both of OpenAI's forms have in common."""

    @staticmethod
    def is_streamed(path, body):
        return body.get("stream") is True

    @staticmethod
    def error(status, message):
        code = {400: "invalid_function_parameters", 401: "invalid_api_key"}.get(status)
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}

    @classmethod
    def begin(cls, headers, functions):
        if not re.fullmatch("Bearer .+", headers.get("authorization") or ""):
            raise Refused("You didn't provide an API key.", 401)
        tools = offered(functions, lambda function: function.get("parameters") or {}, cls.rule)
        return Conversation(tools=tools, strict=all(function.get("strict") for function in functions))

    @staticmethod
    def rule(tool, function):
        return model_services.openai_strict(tool) if function.get("strict") else model_services.openai(tool)


class OpenAIChat(OpenAI):
    name = "openai-chat"

    @classmethod
    def read(cls, headers, body):
        found = cls.begin(headers, [tool["function"] for tool in body.get("tools") or []])
        for message in body["messages"]:
            if message["role"] == "user" and text_of(message["content"]).startswith("Observation:\n"):
                found.results.append(text_of(message["content"]))  # smolagents gives a call's result in a user's words
            elif message["role"] == "user":
                found.prompt += text_of(message["content"])
            elif message["role"] == "assistant":
                found.called |= {call["id"] for call in message.get("tool_calls") or []}
            elif message["role"] == "tool":
                found.took(message["tool_call_id"], text_of(message["content"]), "messages with role 'tool' must be a response to a preceding message with 'tool_calls': {}")
        return found

    @staticmethod
    def said(turn):
        if isinstance(turn, Call):
            call = {"id": "call_" + turn.id, "type": "function", "function": {"name": turn.name, "arguments": json.dumps(turn.arguments)}}
            return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        return {"role": "assistant", "content": turn}, "stop"

    @classmethod
    def message(cls, body, turn):
        message, reason = cls.said(turn)
        return {
            "id": "chatcmpl-stub", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }  # fmt: skip

    @classmethod
    def stream(cls, body, turn):
        def chunk(delta, reason=None):
            return {
                "id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 1, "model": body["model"],
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }  # fmt: skip

        message, reason = cls.said(turn)
        for call in message.get("tool_calls", []):
            yield chunk({"role": "assistant", "content": None, "tool_calls": [{"index": 0, **call, "function": {**call["function"], "arguments": ""}}]})
            for piece in pieces(call["function"]["arguments"]):
                yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        for piece in pieces(message["content"] or ""):
            if piece:
                yield chunk({"role": "assistant", "content": piece})
        yield chunk({}, reason)
        yield {**chunk({}), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


class OpenAIResponses(OpenAI):
    name = "openai-responses"
    stored = {}  # a response's id -> the items up to it, for requests that name it as the previous one

    @classmethod
    def items(cls, body):
        given, previous = body["input"], body.get("previous_response_id")
        if previous and previous not in cls.stored:
            raise Refused(f"Previous response with id '{previous}' not found.")
        return cls.stored.get(previous, []) + ([{"role": "user", "content": given}] if isinstance(given, str) else given)

    @classmethod
    def read(cls, headers, body):
        found = cls.begin(headers, [tool for tool in body.get("tools") or [] if tool["type"] == "function"])
        for item in cls.items(body):
            kind = item.get("type", "message")
            if kind == "message" and item["role"] == "user":
                found.prompt += text_of(item["content"])
            elif kind == "function_call":
                found.called.add(item["call_id"])
            elif kind == "function_call_output":
                found.took(item["call_id"], text_of(item["output"]), "No tool call found for function call output with call_id {}.")
        return found

    @staticmethod
    def item(turn):
        if isinstance(turn, Call):
            return {
                "type": "function_call", "id": "fc_" + turn.id, "call_id": "call_" + turn.id, "name": turn.name,
                "arguments": json.dumps(turn.arguments), "status": "completed",
            }  # fmt: skip
        content = [{"type": "output_text", "text": turn, "annotations": [], "logprobs": []}]
        return {"type": "message", "id": "msg_" + uuid.uuid4().hex[:16], "role": "assistant", "status": "completed", "content": content}

    @classmethod
    def message(cls, body, turn):
        name, item = "resp_" + uuid.uuid4().hex, cls.item(turn)
        if body.get("store", True):
            cls.stored[name] = [*cls.items(body), item]
        return {
            "id": name, "object": "response", "created_at": 1, "status": "completed", "model": body["model"], "output": [item],
            "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0,
            "top_p": 1.0, "tool_choice": "auto", "tools": body.get("tools") or [], "max_output_tokens": None, "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None}, "text": {"format": {"type": "text"}}, "truncation": "disabled", "user": None,
            "usage": {
                "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
                "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
            },
        }  # fmt: skip

    @classmethod
    def stream(cls, body, turn):
        whole = cls.message(body, turn)
        (item,) = whole["output"]
        at = {"output_index": 0, "item_id": item["id"]}
        events = [{"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}]
        if item["type"] == "function_call":
            events.append({"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": "", "status": "in_progress"}})
            events += [{"type": "response.function_call_arguments.delta", **at, "delta": piece} for piece in pieces(item["arguments"])]
            events.append({"type": "response.function_call_arguments.done", **at, "name": item["name"], "arguments": item["arguments"]})
        else:
            (part,) = item["content"]
            at["content_index"] = 0
            events.append({"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": [], "status": "in_progress"}})
            events.append({"type": "response.content_part.added", **at, "part": {**part, "text": ""}})
            events += [{"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []} for piece in pieces(part["text"])]
            events.append({"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []})
            events.append({"type": "response.content_part.done", **at, "part": part})
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        events.append({"type": "response.completed", "response": whole})
        yield from ({**event, "sequence_number": number} for number, event in enumerate(events))


class Gemini:
    name = "gemini"

    @staticmethod
    def schema(function):
        return function.get("parameters") or function.get("parametersJsonSchema") or {"type": "object"}

    @staticmethod
    def rule(tool, function):
        objections = model_services.gemini(tool)
        if "parameters" in function:
            return objections
        # A schema in JSON Schema's own form may have words that Gemini passes over; without arguments there may be none.
        return [o for o in objections if "unknown name" not in o] if "parametersJsonSchema" in function else []

    @staticmethod
    def is_streamed(path, body):
        return path.endswith(":streamGenerateContent")

    @staticmethod
    def error(status, message):
        return {"error": {"code": status, "message": message, "status": {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED"}.get(status, "NOT_FOUND")}}

    @staticmethod
    def read(headers, body):
        if not headers.get("x-goog-api-key"):
            raise Refused("Method doesn't allow unregistered callers", 401)
        functions = [function for tool in body.get("tools", []) for function in tool.get("functionDeclarations", [])]
        found = Conversation(tools=offered(functions, Gemini.schema, Gemini.rule))
        for content in body["contents"]:
            for part in content["parts"]:
                if call := part.get("functionCall"):
                    found.called.add(call["name"])
                elif response := part.get("functionResponse"):
                    found.took(response["name"], json.dumps(response["response"], ensure_ascii=False), "function response without a call: {}")
                elif content.get("role", "user") == "user":
                    found.prompt += part.get("text") or ""
        return found

    @staticmethod
    def message(body, turn):
        part = {"functionCall": {"name": turn.name, "args": turn.arguments}} if isinstance(turn, Call) else {"text": turn}
        return {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}, "modelVersion": "stub", "responseId": "stub",
        }  # fmt: skip

    @classmethod
    def stream(cls, body, turn):
        """Arguments of a call come whole, a text in pieces."""
        for piece in [turn] if isinstance(turn, Call) else pieces(turn):
            yield cls.message(body, piece)


ROUTES = (
    (re.compile(r"/v1/messages"), Anthropic),
    (re.compile(r"/v1/chat/completions"), OpenAIChat),
    (re.compile(r"/v1/responses"), OpenAIResponses),
    (re.compile(r"/v1(beta)?/models/[^/:]+:(streamG|g)enerateContent"), Gemini),
)


# --- HTTP ---


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        raw, path = self.rfile.read(int(self.headers.get("Content-Length", 0))), self.path.partition("?")[0]
        service = next((service for pattern, service in ROUTES if pattern.fullmatch(path)), None)
        if not service:
            return self.reply(404, {"error": {"message": f"the stub has no {self.path}"}})
        try:
            body = json.loads(raw)
            found = service.read(self.headers, body)
            turn = next_turn(found)
        except Refused as refused:
            self.server.refused.append(f"{service.name}: {refused}")
            return self.reply(refused.status, service.error(refused.status, str(refused)))
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            self.server.refused.append(f"{service.name}: {wrong!r}")
            return self.reply(400, service.error(400, f"the request is malformed: {wrong!r}"))
        streamed = service.is_streamed(path, body)
        self.server.answered.append((service.name, streamed, found.strict))
        if streamed:
            self.reply_in_pieces(service, body, turn)
        else:
            self.reply(200, service.message(body, turn))

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def reply_in_pieces(self, service, body, turn):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in service.stream(body, turn):
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if service is OpenAIChat:
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


class ModelStub(http.server.ThreadingHTTPServer):
    """`answered`: (service, whether as a stream, whether with strict tools) of each turn; `refused`: why a request was."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answered, self.refused = [], []
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()
