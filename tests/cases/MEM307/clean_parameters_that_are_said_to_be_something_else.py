# about: The annotation is of a classifier, of any model, or of another parameter.
import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedModel


def judge(judge: AutoModelForSequenceClassification, optimizer, batches):
    for ids, targets in batches:
        logits = judge(input_ids=ids).logits
        torch.nn.functional.cross_entropy(logits, targets).backward()
        optimizer.step()
        optimizer.zero_grad()


def any_of_them(net: PreTrainedModel, teacher: AutoModelForCausalLM, optimizer, batches):
    for ids, targets in batches:
        logits = net(input_ids=ids).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
