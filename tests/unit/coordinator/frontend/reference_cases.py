#!/usr/bin/env python3
"""Random cases and what the reference in tests/reference makes of them.

    reference_cases.py KIND COUNT SEED MODEL_DIR

Prints one JSON document: a list of cases. KIND: tokenizer, chat, utf8, json.
"""
import json
import math
import os
import random
import sys
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../reference"))
import k3_chat  # noqa: E402
import k3_tokenizer  # noqa: E402

SEEDS = (
    "the cat's don't we'LL I'M it'\u017f 'S 'rE 'vE x'y'd",
    " \t\r\n\u00a0\u2028\u3000\x1c\x1d\u0085\x0b",
    "中文漢字々〇〡⺀⼀𠀀𰀀ｶカ한국",
    "0123456789²½Ⅷ٣५",
    "ABCabc\u01c5\u02b0ÀéßΑβЖжǅ\u0301\u0308\u200d\u093f\u0903",
    "!?.,;:-_()[]{}<>|/\\\"'`~@#$%^&*+=",
    "🙂🚀👩‍💻\ufe0f\ue000\x00\x7f\x01",
    "<|open|><|close|><|sep|><|end_of_msg|>[BOS][EOS]<|reserved_token_",
)


def random_char(rng):
    """Any character that Unicode 14 and later versions class alike."""
    pick = rng.random()
    if pick < 0.75:
        return rng.choice(rng.choice(SEEDS))
    while True:
        top = 0x250 if pick < 0.85 else 0x3000 if pick < 0.95 else 0x110000
        c = chr(rng.randrange(top))
        if unicodedata.category(c) not in ("Cn", "Cs"):
            return c


def random_text(rng, longest=40):
    out = []
    for _ in range(rng.randrange(longest)):
        out.append(random_char(rng) * (rng.randrange(1, 5) if rng.random() < 0.2 else 1))
    return "".join(out)


def tokenizer_case(rng, tokenizer):
    text = random_text(rng)
    return {"text": text, "pieces": k3_tokenizer.pre_tokenize(text),
            "ids": tokenizer.encode(text), "control_ids": tokenizer.encode(text, True)}


def utf8_case(rng, tokenizer):
    data = bytearray(random_text(rng, 12).encode())
    for _ in range(rng.randrange(6)):
        at = rng.randrange(len(data) + 1)
        data[at:at + rng.randrange(2)] = bytes(
            rng.choice((0x7f, 0x80, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe2, 0xed, 0xef,
                        0xf0, 0xf1, 0xf4, 0xf5, 0xff)) for _ in range(rng.randrange(3)))
    return {"ids": [tokenizer.rank[bytes([b])] for b in data],
            "text": bytes(data).decode("utf-8", "replace")}


def random_value(rng, depth=0):
    pick = rng.randrange(9 if depth < 3 else 6)
    if pick == 0:
        return rng.choice((None, True, False))
    if pick == 1:
        return rng.choice((0, -1, 7, rng.getrandbits(90), -rng.getrandbits(64)))
    if pick in (2, 3):
        value = rng.choice((0.0, -0.0, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 1.5, 5e-324,
                            1.7976931348623157e308, math.inf, -math.inf,
                            rng.uniform(-1, 1) * 10 ** rng.randrange(-20, 25)))
        return value
    if pick in (4, 5):
        return random_text(rng, 8)
    if pick == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {random_text(rng, 4): random_value(rng, depth + 1) for _ in range(rng.randrange(5))}


def random_json(rng):
    value = random_value(rng)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5,
                      indent=rng.choice((None, None, 1)))
    if rng.random() < 0.4:  # damage
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(("", ",", "}", "]", '"', "\\", "0", "e5", "NaN", "-", ".",
                                       " ", "\t")) + text[at + rng.randrange(2):]
    return text


def json_case(rng, _):
    text = random_json(rng)
    try:
        value = json.loads(text)
        spaced = json.dumps(value, ensure_ascii=False)
        spaced.encode()
    except UnicodeEncodeError:
        return {"text": text, "lone_surrogate": True}
    except ValueError:
        return {"text": text}
    return {"text": text, "spaced": spaced, "sorted": k3_chat.compact(value)}


def random_call(rng, n):
    args = rng.choice((random_json(rng), json.dumps(random_value(rng)), "", " \n",
                       json.dumps({"q": random_value(rng)}), "{}"))
    call = {"name": rng.choice(("get", "a\"b&c", "f g")), "arguments": args}
    out = {"function": call}
    if rng.random() < 0.8:
        out["id"] = "c%d" % rng.randrange(n + 1)
    return out


def random_message(rng):
    role = rng.choice(("user", "user", "system", "assistant", "assistant", "tool", "tool"))
    m = {"role": role, "content": random_text(rng, 10)}
    if rng.random() < 0.2:
        m["content"] = [{"type": "text", "text": random_text(rng, 5)} for _ in range(3)]
    if rng.random() < 0.3:
        m["name"] = random_text(rng, 5) or "n"
    if role == "assistant":
        if rng.random() < 0.5:
            m["reasoning_content"] = rng.choice((random_text(rng, 5), " \x1c ", ""))
        if rng.random() < 0.6:
            m["tool_calls"] = [random_call(rng, 4) for _ in range(rng.randrange(4))]
    if role == "tool" and rng.random() < 0.8:
        m["tool_call_id"] = "c%d" % rng.randrange(4)
    if role == "tool" and rng.random() < 0.3:
        m["tool"] = "given"
    if role == "system" and rng.random() < 0.3:
        m["tools"] = rng.choice(([], [random_value(rng)]))
    return m


def chat_case(rng, tokenizer):
    thinking = rng.random() < 0.7
    args = {
        "messages": [random_message(rng) for _ in range(rng.randrange(6))],
        "thinking": thinking,
        "effort": rng.choice(("low", "high", "max", None)) if thinking else None,
        "tools": rng.choice((None, [], [random_value(rng), random_value(rng)])),
        "tool_choice": rng.choice((None, "auto", "required", "none")),
        "response_format": rng.choice((
            None, {"type": "text"}, {"type": "json_object"},
            {"type": "json_schema", "json_schema": {"schema": {"z": random_value(rng), "a": 1}}})),
        "generation_prompt": rng.random() < 0.7,
    }
    try:
        segments = k3_chat.render(**args)
        ids = tokenizer.encode_segments(segments)
    except (ValueError, UnicodeEncodeError):
        return {"input": args, "refused": True}
    return {"input": args, "segments": [[s, int(c)] for s, c in segments], "ids": ids}


def main():
    kind, count, seed, model = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    make = {"tokenizer": tokenizer_case, "utf8": utf8_case, "json": json_case,
            "chat": chat_case}[kind]
    tokenizer = k3_tokenizer.Tokenizer(model)
    rng = random.Random(kind + seed)
    cases = [make(rng, tokenizer) for _ in range(count)]
    # Infinity is no JSON for the reader: numbers of chats travel as text.
    for case in cases:
        if kind == "chat":
            case["input"] = json.dumps(case["input"])
    json.dump(cases, sys.stdout)


main()
