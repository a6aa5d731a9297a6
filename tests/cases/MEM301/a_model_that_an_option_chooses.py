import argparse

import torch
from torch import nn
from transformers import AutoModelForCausalLM


class Plain(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(args.name)  # expect: MEM301

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids).loss


class Scaled(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(args.name)  # expect: MEM301

    def forward(self, ids):
        return 0.5 * self.model(input_ids=ids, labels=ids).loss


class Tutor:
    def __init__(self, args):
        if args.kind == "plain":
            self.model = Plain(args)
        elif args.kind == "scaled":
            self.model = Scaled(args)
        self.model.cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def train(self, batches):
        for ids in batches:
            self.model(ids.cuda()).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=["plain", "scaled"], default="plain")
parser.add_argument("--name", default="Qwen/Qwen3-0.6B")
Tutor(parser.parse_args()).train(batches)
