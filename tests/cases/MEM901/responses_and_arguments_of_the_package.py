import transformers
import trl
from trl import DataCollatorForCompletionOnlyLM  # expect: MEM901
from trl import SftScriptArguments  # expect: MEM901

script = trl.DpoScriptArguments(dataset_name="a")  # expect: MEM901
options = SftScriptArguments(dataset_name="b")
transformers.deepspeed.deepspeed_init(options, num_training_steps=3)  # expect: MEM901
available = transformers.is_torch_tpu_available()  # expect: MEM901
collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)
