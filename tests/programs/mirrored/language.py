"""Embed, classify and generate texts with sentence-transformers and optimum-intel, as a program written for openvino.

Called as `language.py FOLDER` with what `prepare_language.py` has made there. Prints numbers of three decimals.
"""

import sys
from pathlib import Path

import numpy as np
from optimum.intel import OVModelForCausalLM, OVModelForSeq2SeqLM, OVModelForSequenceClassification
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer, pipeline

FOLDER = Path(sys.argv[1])
F32 = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
TEXTS = ["A man is eating food.", "Someone has a meal on a terrace.", "A server answers many callers at once."]


def show(what, numbers):
    print(what, np.round(np.asarray(numbers, np.float64), 3).tolist())


def embed():
    model = SentenceTransformer(str(FOLDER / "embedder"), backend="openvino", model_kwargs={"ov_config": F32})
    embeddings = model.encode(TEXTS * 4, batch_size=5)
    show("embeddings", embeddings[:3, :8])
    show("similarities", model.similarity(embeddings[:3], embeddings[:3]))


def classify():
    model = OVModelForSequenceClassification.from_pretrained(FOLDER / "classifier", ov_config=F32)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / "classifier")
    show("padded", model(**tokenizer(TEXTS, return_tensors="pt", padding=True)).logits)
    found = pipeline("text-classification", model=model, tokenizer=tokenizer)(TEXTS, batch_size=2)
    print("pipeline", [each["label"] for each in found])
    model.reshape(1, 16)
    model.compile()
    fixed = tokenizer(TEXTS[0], return_tensors="pt", padding="max_length", max_length=16)
    show("of a fixed shape", model(**fixed).logits)


def write():
    model = OVModelForCausalLM.from_pretrained(FOLDER / "writer", ov_config=F32)
    print("stateful", model.stateful)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / "writer", padding_side="left")
    one, all_of_them = (
        tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False) for texts in (TEXTS[:1], TEXTS)
    )
    for what, inputs, settings in (
        ("greedy", one, {}),
        ("again", one, {}),
        ("padded", all_of_them, {}),
        ("beams", one, {"num_beams": 4}),
        ("padded beams", all_of_them, {"num_beams": 3, "num_return_sequences": 2}),
    ):
        print(what, model.generate(**inputs, max_new_tokens=10, do_sample=False, **settings).tolist())
    model(**one)
    print("states", sorted((state.name, list(state.state.shape)) for state in model.request.query_state()))
    model.request.reset_state()
    print("fresh", {state.state.shape[2] for state in model.request.query_state()})


def translate():
    model = OVModelForSeq2SeqLM.from_pretrained(FOLDER / "translator", ov_config=F32)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER / "translator")
    inputs = tokenizer(TEXTS, return_tensors="pt", padding=True, return_token_type_ids=False)
    print("translated", model.generate(**inputs, max_new_tokens=8, do_sample=False).tolist())
    print("by beams", model.generate(**inputs, max_new_tokens=8, num_beams=3, do_sample=False).tolist())


if __name__ == "__main__":
    embed()
    classify()
    write()
    translate()
