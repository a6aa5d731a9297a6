import transformers
import trl
from memlint_runtime import DataCollatorForCompletionOnlyLM
from trl import ScriptArguments as SftScriptArguments

script = trl.ScriptArguments(dataset_name="a")
options = SftScriptArguments(dataset_name="b")
transformers.integrations.deepspeed.deepspeed_init(options, num_training_steps=3)
available = transformers.is_torch_xla_available()
collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)
