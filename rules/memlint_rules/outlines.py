"""The trigger words of every rule, which are known without importing it.

Written by ``python -m memlint.rule.outlines``; do not edit.
"""

# A file must hold a word of each set of a rule.
_SETS = """
from transformers|from trl|from peft|from accelerate|from memlint_runtime|import transformers|
import trl|import peft|import accelerate|import memlint_runtime|, transformers|, trl|, peft|
, accelerate|, memlint_runtime|tokenizer(
.backward(|Config|Trainer|tokenizer(
max_length
from transformers|from trl|from peft|from accelerate|from memlint_runtime|import transformers|
import trl|import peft|import accelerate|import memlint_runtime|, transformers|, trl|, peft|
, accelerate|, memlint_runtime
SFTTrainer
DPOTrainer|DataCollator|RewardTrainer
Flattening|chain|packing|padding_free|sum(
packing|padding_free
DataCollatorForSeq2Seq
GRPOTrainer|RLOOTrainer
from transformers|from trl|from peft|from accelerate|from memlint_runtime|import transformers|
import trl|import peft|import accelerate|import memlint_runtime|, transformers|, trl|, peft|
, accelerate|, memlint_runtime|.backward(|.logits|.loss
Trainer|backward(|optim|from_pretrained|Arguments(|Config(
BCOTrainer|CPOTrainer|DPOTrainer|KTOTrainer|ORPOTrainer|TPOTrainer
A2POTrainer|GRPOTrainer|OnlineDPOTrainer|PPOTrainer|PPOv2Trainer|RLOOTrainer
logits
Categorical|CrossEntropyLoss|cross_entropy|log_softmax|logsumexp
.backward|KLDivLoss|Trainer|gather|kl_div|optim
compute_metrics
liger
offload|save_on_cpu
labels=
hidden_state|logits
backward(|optim
Arguments|Config|checkpoint|prepare_model_for_kbit_training
from transformers|from trl|from peft|from accelerate|from memlint_runtime|import transformers|
import trl|import peft|import accelerate|import memlint_runtime|, transformers|, trl|, peft|
, accelerate|, memlint_runtime|utils.checkpoint|utils import checkpoint
eager
max_completion_length|max_length|max_seq_length
output_attentions|output_hidden_states
backward|optim
fp16
Trainer
Lora|peft
load_in_4bit|prepare_model_for_kbit_training
from_pretrained
backward|train
import load|torch.load
load_state_dict|set_peft_model_state_dict
Trainer|backward
modules_to_save
Trainer|optim
batch_size|per_device_train_batch_size
set_to_none
InBackward|in_backward|in_bwd|layerwise|lomo|offload_gradients|register_post_accumulate_grad_hook
DistributedDataParallel
GRPOTrainer|RLOOTrainer|generate(
Config|DeepSpeedPlugin|deepspeed
use_vllm|vllm
DPOTrainer
past_key_values
inference_mode|no_grad
checkpointing
 + |+=
.backward(|.eval()|_step(|backward_pass(|forward_backward(|import backward|manual_backward(|model(
.append(
.backward(|.eval()|_step(|backward_pass(|forward_backward(|import backward|inference_mode|
manual_backward(|model(|no_grad
.backward(|.eval()|.train(False)|backward_pass(|forward_backward(|import backward|manual_backward(
.eval()|.train(False)|parameters(
retain_graph=True
empty_cache|gc.collect|torch_empty_cache_steps
Trainer|backward|train
_record_memory_history|detect_anomaly|profile(
DataLoader|dataloader_pin_memory
Config|DataLoader|TrainingArguments
DataCollator|per_device_train_batch_size
max_steps|num_train_epochs
Config|Trainer|TrainingArguments
TrainingArguments
activation_checkpointing|activation_offloading|bf16|gradient_accumulation_steps|
gradient_checkpointing|group_by_length|max_length|max_seq_length|packing|padding_free|use_4bit|
use_liger_kernel
Arguments|Config
"""

SETS = tuple(tuple(row.split("|")) for row in _SETS.replace("|\n", "|").split("\n")[1:-1])

# Whether a rule is asked on request only, of runs, of recipes; its sets.
RULES: dict[str, tuple[bool, bool, bool, tuple[int, ...]]] = {
    "MEM101": (False, True, True, (0, 1)),
    "MEM102": (False, False, False, (0, 2)),
    "MEM103": (False, True, True, (3, 4)),
    "MEM104": (False, False, False, (3, 5)),
    "MEM105": (False, False, False, (3, 6)),
    "MEM106": (False, False, False, (3, 7)),
    "MEM107": (False, False, False, (3, 8)),
    "MEM108": (False, False, False, (3, 9)),
    "MEM201": (False, True, True, (10, 11)),
    "MEM202": (False, False, False, (3, 12)),
    "MEM203": (False, False, False, (3, 13)),
    "MEM204": (False, False, False, (14, 15, 16)),
    "MEM205": (False, False, False, (3, 17)),
    "MEM206": (False, False, False, (18, 19)),
    "MEM207": (False, False, False, (3, 11)),
    "MEM208": (False, False, False, (10, 20, 21)),
    "MEM209": (False, False, False, (10, 14)),
    "MEM301": (False, True, True, (10, 11)),
    "MEM302": (False, False, False, (10, 22)),
    "MEM303": (False, True, True, (23, 24)),
    "MEM304": (False, True, True, (3, 25)),
    "MEM305": (False, True, True, (3, 26)),
    "MEM306": (False, False, False, (10, 27)),
    "MEM307": (False, False, False, (10, 28)),
    "MEM308": (False, False, False, (10, 28)),
    "MEM401": (False, True, True, (3, 11)),
    "MEM402": (False, True, True, (3, 11)),
    "MEM403": (True, False, False, (3, 29)),
    "MEM404": (True, False, False, (3, 30)),
    "MEM405": (False, False, False, (3, 11)),
    "MEM406": (True, True, True, (3, 11)),
    "MEM407": (True, True, True, (3, 31)),
    "MEM408": (False, False, False, (3, 32)),
    "MEM409": (False, False, False, (3, 33, 34)),
    "MEM410": (False, True, True, (35, 36, 37)),
    "MEM411": (True, True, True, (3, 38)),
    "MEM412": (True, False, False, (3, 31)),
    "MEM501": (False, True, True, (3, 39)),
    "MEM502": (True, True, True, (3, 40)),
    "MEM503": (False, False, False, (41,)),
    "MEM504": (False, True, True, (3, 39)),
    "MEM505": (False, True, True, (42,)),
    "MEM506": (False, False, False, (43, 37)),
    "MEM601": (False, False, False, (3, 44)),
    "MEM602": (False, False, False, (3, 45)),
    "MEM603": (False, True, True, (3, 46)),
    "MEM604": (False, True, True, (3, 46)),
    "MEM605": (False, False, False, (3, 47)),
    "MEM606": (False, False, False, (3, 48, 49)),
    "MEM607": (False, False, False, (3, 48, 50)),
    "MEM701": (False, False, False, (51, 52)),
    "MEM702": (False, False, False, (53, 54)),
    "MEM703": (False, False, False, (55, 56)),
    "MEM704": (False, False, False, (57,)),
    "MEM705": (False, False, False, (58, 59)),
    "MEM706": (False, False, False, (60,)),
    "MEM801": (True, True, True, (61,)),
    "MEM802": (True, False, False, (62,)),
    "MEM803": (True, False, False, (3, 63)),
    "MEM804": (True, True, True, (3, 64)),
    "MEM901": (False, False, True, (3,)),
    "MEM902": (False, False, True, (3,)),
    "MEM903": (False, False, True, (3, 65)),
    "MEM904": (False, False, True, (3,)),
    "MEM905": (False, False, False, (3, 66)),
    "MEM906": (False, False, False, (3, 67, 68)),
}
