#!/usr/bin/env bash
# Drives `memlint server` with Neovim (0.7 or newer): a finding is shown, and its fix is applied.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/train.py" <<'PYTHON'
# /// script
# dependencies = ["transformers==5.23.0"]
# ///
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer

model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype="auto")
args = TrainingArguments("out", evaluation_strategy="no")
Trainer(model=model, args=args, train_dataset=rows).train()
PYTHON
cd "$folder"
nvim --clean --headless train.py -c "luafile $here/check.lua" 2>&1
echo
grep -q ' eval_strategy=' train.py || { echo "the fix was not applied" >&2; exit 1; }
echo "shown and fixed"
