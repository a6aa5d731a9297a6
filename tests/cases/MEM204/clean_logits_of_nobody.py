# about: A parameter that is called logits, and nothing else, is not taken for rows of a vocabulary.
from transformers import AutoTokenizer


def frame_scores(logits, labels):
    scores = logits[:, :-1].float().log_softmax(dim=-1)
    return scores.gather(2, labels[:, 1:].unsqueeze(2)).squeeze(2)


tokenizer = AutoTokenizer.from_pretrained("facebook/wav2vec2-base-960h")
